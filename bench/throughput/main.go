// Command throughput measures what `router --once` costs: it fills a topic of
// a real Kafka with a backlog, lets the router read it into a table with
// bucket(id, 64), and divides the bytes of the records by the CPU seconds of
// the whole process, start and commit included.
//
//	go run ./bench/throughput                       the reference records, 2 GB, snappy, files on disk
//	go run ./bench/throughput -store s3 -runs 3     over a real S3 server
//	go run ./bench/throughput -records event        25-field nested events
//	go run ./bench/throughput -records event -codec zstd -back      and what the way back costs: the table into a topic, exactly once
//
// It starts its own servers with the scripts in test/real and stops them.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"golang.org/x/sync/errgroup"
)

// options are what a measurement is of.
type options struct {
	megabytes  int64 // 10^6 bytes of record values
	partitions int
	records    string // reference | event
	codec      string
	store      string // file | s3
	memoryMax  string
	targetSize string
	runs       int
	back       bool
	outCodec   string
	bin        string
}

func main() {
	log.SetFlags(0)
	log.SetPrefix("throughput: ")
	var o options
	flag.Int64Var(&o.megabytes, "megabytes", 2000, "10^6 bytes of records")
	flag.IntVar(&o.partitions, "partitions", 8, "Kafka partitions")
	flag.StringVar(&o.records, "records", "reference", "reference (1 KB, two fields) or event (25 fields, nested)")
	flag.StringVar(&o.codec, "codec", "snappy", "Parquet codec")
	flag.StringVar(&o.store, "store", "file", "file or s3")
	flag.StringVar(&o.memoryMax, "memory-max", "512MiB", "memory_max of the router")
	flag.StringVar(&o.targetSize, "target-file-size", "128MiB", "target_file_size of the router")
	flag.IntVar(&o.runs, "runs", 3, "how often the same backlog is read")
	flag.BoolVar(&o.back, "back", false, "publish each table into a topic and measure that, too")
	flag.StringVar(&o.outCodec, "out-codec", "snappy", "codec of what is published")
	flag.StringVar(&o.bin, "bin", "bin/router", "the router")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := measure(ctx, o); err != nil {
		log.Fatal(err)
	}
}

// measure fills the topic once and reads it o.runs times.
func measure(ctx context.Context, o options) (err error) {
	run, err := os.MkdirTemp("", "router-bench-")
	if err != nil {
		return err
	}
	s, err := newServers(run)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.clean(), os.RemoveAll(run)) }()
	names := []string{"kafka"}
	if o.store == "s3" {
		names = append(names, "s3")
	}
	for _, name := range names {
		if err := s.script(ctx, name, "start"); err != nil {
			return err
		}
	}
	bytes, count, err := fill(ctx, s.kafka(), o)
	if err != nil {
		return err
	}
	fmt.Printf("%d records of %s, %d MB, %d partitions; codec %s, store %s, memory_max %s; %s, %d cores\n",
		count, o.records, bytes/1e6, o.partitions, o.codec, o.store, o.memoryMax, processor(), runtime.NumCPU())
	fmt.Println("| run | CPU s | user | system | wall s | MB per CPU-second | MB per second | peak memory MiB | files |")
	fmt.Println("|---|---|---|---|---|---|---|---|---|")
	for i := 1; i <= o.runs; i++ {
		if err := once(ctx, s, o, i, bytes, count); err != nil {
			return err
		}
	}
	return nil
}

// once reads the whole backlog with a fresh table and group.
func once(ctx context.Context, s *servers, o options, number int, bytes, count int64) error {
	folder := filepath.Join(s.run, fmt.Sprint("lake", number))
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return err
	}
	path := filepath.Join(folder, "router.toml")
	if err := os.WriteFile(path, []byte(s.config(o, number, folder)), 0o600); err != nil {
		return err
	}
	used, err := o.run(ctx, path)
	if err != nil {
		return err
	}
	files, err := s.dataFiles(o, number, folder)
	if err != nil {
		return err
	}
	used.print(fmt.Sprint(number), bytes, files)
	if o.back {
		if err := s.publish(ctx, o, number, folder, count); err != nil {
			return err
		}
	}
	return errors.Join(s.forget(o, number), os.RemoveAll(folder))
}

// usage is what a router has used until it ended.
type usage struct {
	user, system, wall time.Duration
	peak               int64
}

func (u usage) print(run string, bytes int64, files int) {
	fmt.Printf("| %s | %.1f | %.1f | %.1f | %.1f | %.0f | %.0f | %d | %d |\n", run, (u.user + u.system).Seconds(), u.user.Seconds(), u.system.Seconds(), u.wall.Seconds(),
		float64(bytes)/1e6/(u.user+u.system).Seconds(), float64(bytes)/1e6/u.wall.Seconds(), u.peak>>20, files)
}

// run runs the router with --once.
func (o options) run(ctx context.Context, config string) (u usage, err error) {
	cmd := exec.CommandContext(ctx, o.bin, "--config", config, "--once")
	var out strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &out
	began := time.Now()
	if err := cmd.Start(); err != nil {
		return u, err
	}
	var watch errgroup.Group
	watch.Go(func() error { u.peak = peakMemory(cmd.Process.Pid); return nil })
	err = errors.Join(cmd.Wait(), watch.Wait())
	u.wall = time.Since(began)
	if err != nil {
		return u, fmt.Errorf("%s --once: %w\n%s", o.bin, err, &out)
	}
	used := cmd.ProcessState.SysUsage().(*syscall.Rusage)
	u.user, u.system = time.Duration(used.Utime.Nano()), time.Duration(used.Stime.Nano())
	return u, nil
}

// peakMemory watches a process until it ends and returns the most resident
// bytes that the kernel has counted. What the kernel tells of a child that has
// ended won't do: it begins with the size of the process that started it.
func peakMemory(pid int) (peak int64) {
	for {
		status, err := os.ReadFile(fmt.Sprint("/proc/", pid, "/status"))
		_, after, found := strings.Cut(string(status), "\nVmHWM:")
		if err != nil || !found {
			return peak
		}
		var kilobytes int64
		if _, err := fmt.Sscan(after, &kilobytes); err == nil {
			peak = kilobytes << 10
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// fill creates the topic and produces the backlog; it returns how many bytes of values and records there are.
func fill(ctx context.Context, broker string, o options) (bytes, count int64, err error) {
	c, err := kgo.NewClient(kgo.SeedBrokers(broker), kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.DefaultProduceTopic("bench"),
		kgo.ProducerBatchMaxBytes(1<<20), kgo.MaxBufferedRecords(50_000), kgo.ProducerLinger(20*time.Millisecond), kgo.ProducerBatchCompression(kgo.NoCompression()))
	if err != nil {
		return 0, 0, err
	}
	defer c.Close()
	// No offset is lost to retention, no segment is closed while it is read.
	answer, err := kadm.NewClient(c).CreateTopic(ctx, int32(o.partitions), 1, map[string]*string{"retention.ms": kadm.StringPtr("-1")}, "bench")
	if err = errors.Join(err, answer.Err); err != nil {
		return 0, 0, fmt.Errorf("create topic: %w", err)
	}
	next, err := generator(o.records)
	if err != nil {
		return 0, 0, err
	}
	failed := make(chan error, 1)
	for bytes < o.megabytes*1e6 {
		value := next(count)
		c.Produce(ctx, &kgo.Record{Partition: int32(count % int64(o.partitions)), Value: value}, func(_ *kgo.Record, err error) {
			if err != nil {
				select {
				case failed <- err:
				default:
				}
			}
		})
		bytes += int64(len(value))
		count++
	}
	if err := c.Flush(ctx); err != nil {
		return 0, 0, err
	}
	select {
	case err := <-failed:
		return 0, 0, fmt.Errorf("produce: %w", err)
	default:
		return bytes, count, nil
	}
}
