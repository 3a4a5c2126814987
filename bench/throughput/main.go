// Command throughput measures what `router --once` costs: it fills a topic of
// a real Kafka with a backlog, lets the router read it into a table with
// bucket(id, 64), and divides the bytes of the records by the CPU seconds of
// the whole process, start and commit included.
//
//	go run ./bench/throughput                       the reference records, 2 GB, snappy, files on disk
//	go run ./bench/throughput -store s3 -runs 3     over a real S3 server
//	go run ./bench/throughput -records event        25-field nested events
//
// It starts its own servers with the scripts in test/real and stops them.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"net"
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
		if err := once(ctx, s, o, i, bytes); err != nil {
			return err
		}
	}
	return nil
}

// once reads the whole backlog with a fresh table and group.
func once(ctx context.Context, s *servers, o options, number int, bytes int64) error {
	folder := filepath.Join(s.run, fmt.Sprint("lake", number))
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return err
	}
	path := filepath.Join(folder, "router.toml")
	if err := os.WriteFile(path, []byte(s.config(o, number, folder)), 0o600); err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, o.bin, "--config", path, "--once")
	var out strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &out
	began := time.Now()
	if err := cmd.Start(); err != nil {
		return err
	}
	var peak int64
	var watch errgroup.Group
	watch.Go(func() error { peak = peakMemory(cmd.Process.Pid); return nil })
	err := errors.Join(cmd.Wait(), watch.Wait())
	wall := time.Since(began)
	if err != nil {
		return fmt.Errorf("%s --once: %w\n%s", o.bin, err, &out)
	}
	usage := cmd.ProcessState.SysUsage().(*syscall.Rusage)
	user, system := time.Duration(usage.Utime.Nano()), time.Duration(usage.Stime.Nano())
	files, err := s.dataFiles(o, number, folder)
	if err != nil {
		return err
	}
	fmt.Printf("| %d | %.1f | %.1f | %.1f | %.1f | %.0f | %.0f | %d | %d |\n", number, (user + system).Seconds(), user.Seconds(), system.Seconds(), wall.Seconds(),
		float64(bytes)/1e6/(user+system).Seconds(), float64(bytes)/1e6/wall.Seconds(), peak>>20, files)
	return os.RemoveAll(folder)
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

// servers are the scripts of test/real with a folder and ports of their own.
type servers struct {
	run   string
	ports map[string]int
}

func newServers(run string) (*servers, error) {
	s := &servers{run: run, ports: map[string]int{}}
	for _, name := range []string{"KAFKA_PORT", "KAFKA_CONTROLLER_PORT", "S3_PORT"} {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		defer l.Close()
		s.ports[name] = l.Addr().(*net.TCPAddr).Port
	}
	return s, nil
}

func (s *servers) kafka() string { return fmt.Sprint("127.0.0.1:", s.ports["KAFKA_PORT"]) }

func (s *servers) script(ctx context.Context, name, verb string) error {
	cmd := exec.CommandContext(ctx, filepath.Join("test", "real", name), verb)
	cmd.Env = append(os.Environ(), "REAL_RUN="+s.run, "KAFKA_HEAP=1g")
	for key, port := range s.ports {
		cmd.Env = append(cmd.Env, fmt.Sprintf("%s=%d", key, port))
	}
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s %s: %w\n%s", name, verb, err, out)
	}
	return nil
}

func (s *servers) clean() error {
	ctx := context.Background() // also after an interrupt
	return errors.Join(s.script(ctx, "kafka", "clean"), s.script(ctx, "s3", "clean"))
}

// config is the router's for one run.
func (s *servers) config(o options, number int, folder string) string {
	warehouse, properties := "file://"+filepath.Join(folder, "warehouse"), ""
	if o.store == "s3" {
		warehouse = fmt.Sprint("s3://warehouse/run", number)
		properties = fmt.Sprintf("[catalog.properties]\n\"s3.endpoint\" = \"http://127.0.0.1:%d\"\n\"s3.region\" = \"us-east-1\"\n\"s3.access-key-id\" = \"admin\"\n\"s3.secret-access-key\" = \"password\"\n\"s3.path-style-access\" = \"true\"\n",
			s.ports["S3_PORT"])
	}
	return fmt.Sprintf(`memory_max = %q
[kafka]
brokers = [%q]
[catalog]
type = "sql"
uri = %q
warehouse = %q
%s
[http]
listen = ""
[[ingest]]
name = "bench%d"
topics = ["bench"]
table = "bench.records"
trigger = "1h"
trigger_bytes = "0"
codec = %q
target_file_size = %q
[ingest.create]
partition = [%q]
schema = [%s]
`, o.memoryMax, s.kafka(), "sqlite:"+filepath.Join(folder, "catalog.db"), warehouse, properties, number, o.codec, o.targetSize, partition(o.records), columns(o.records))
}

// dataFiles counts what the run wrote, and removes it where it isn't in folder.
func (s *servers) dataFiles(o options, number int, folder string) (int, error) {
	root := folder
	if o.store == "s3" {
		root = filepath.Join(s.run, "s3", "data", "warehouse", fmt.Sprint("run", number))
		defer os.RemoveAll(root)
	}
	files := 0
	err := filepath.WalkDir(root, func(path string, _ os.DirEntry, err error) error {
		if strings.HasSuffix(path, ".parquet") {
			files++
		}
		return err
	})
	return files, err
}

// processor names the CPU, as far as Linux tells.
func processor() string {
	text, _ := os.ReadFile("/proc/cpuinfo")
	for line := range strings.Lines(string(text)) {
		if _, name, ok := strings.Cut(line, ":"); ok && strings.HasPrefix(line, "model name") {
			return strings.TrimSpace(name)
		}
	}
	return runtime.GOARCH
}
