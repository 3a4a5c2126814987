//go:build real

package real_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"golang.org/x/sync/errgroup"
)

// Below 192 MiB of memory_max the program itself, about 80 MiB, and the smallest heap that it works with, 112 MiB, may exceed it.
const memoryLeast = 192 << 20

// backlog fills a topic with n reference records of 1 KB.
func backlog(t *testing.T, c *kgo.Client, topic string, partitions, n int) {
	t.Helper()
	sample := recordsOf(reference(4), 1000)
	for from := 0; from < n; from += 20_000 {
		records := make([]*kgo.Record, min(20_000, n-from))
		for i := range records {
			records[i] = &kgo.Record{Topic: topic, Partition: int32(i % partitions), Value: []byte(sample[i%len(sample)])}
		}
		produceRecords(t, c, records...)
	}
}

// A backlog of several times memory_max is read with the whole process staying
// below it.
func TestMemoryIsBounded(t *testing.T) {
	const partitions, n = 8, 800_000
	c := client(t)
	topic := makeTopic(t, c, "backlog", partitions)
	backlog(t, c, topic, partitions, n)
	folder := t.TempDir()
	l := sqlite(t, folder)
	e := mustOnce(t, config{lake: l, extra: []string{`memory_max = "256MiB"`}, ingests: []ingest{{
		name: "backlog", topics: []string{topic}, table: "logs.backlog", columns: reference(4), partition: []string{"bucket(logStreamId, 64)"}, trigger: "1h",
		extra: []string{`codec = "snappy"`},
	}}}.write(t))
	e.within(t, n, 256<<20)
	if got := l.count(t, "logs.backlog"); got != n {
		t.Errorf("%d rows, want %d", got, n)
	}
	files := filesBelow(t, filepath.Join(folder, "warehouse"), "", "")
	for name := range files {
		if strings.Contains(name, ".tmp") {
			t.Errorf("a temporary file is left: %s", name)
		}
	}
}

// within checks the peak of memory of a router that read n records of 1 KB.
func (e exit) within(t *testing.T, n int, memoryMax int64) {
	t.Helper()
	t.Logf("%d MB of records in %.1f CPU seconds (%.0f MB a second), %s; at most %d MiB of memory",
		n/1000, cpuSeconds(e), float64(n)/1000/cpuSeconds(e), e.took, e.peak>>20)
	if e.peak == 0 || e.peak > max(memoryMax, memoryLeast) {
		t.Errorf("%d MiB of memory with memory_max = %d MiB", e.peak>>20, memoryMax>>20)
	}
}

// A store that is slower than Kafka costs time, not memory: files on their way count too.
func TestSlowStore(t *testing.T) {
	t.Parallel()
	need(t, "s3")
	const partitions, n = 4, 300_000
	c := client(t)
	topic := makeTopic(t, c, "slow", partitions)
	backlog(t, c, topic, partitions, n)
	slow := throttle(t, lab.address("S3_PORT"), 12<<20)
	l := sqlite(t, t.TempDir())
	l.config = strings.ReplaceAll(l.config[:strings.Index(l.config, "warehouse =")]+fmt.Sprintf("warehouse = \"s3://warehouse/%s\"\n", topic)+s3Properties(), lab.address("S3_PORT"), slow)
	l.reader = append(l.reader, s3Arguments()...)
	e := mustOnce(t, config{lake: l, extra: []string{`memory_max = "256MiB"`}, ingests: []ingest{{
		name: "slow", topics: []string{topic}, table: "logs.slow", columns: reference(4), trigger: "1h",
		extra: []string{`codec = "none"`, `target_file_size = "4MiB"`},
	}}}.write(t))
	e.within(t, n, 256<<20)
	if got := l.count(t, "logs.slow"); got != n {
		t.Errorf("%d rows, want %d", got, n)
	}
}

// throttle forwards connections to an address, no more than so many bytes a
// second to it in all. It returns its own address.
func throttle(t *testing.T, address string, bytesPerSecond int) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var g errgroup.Group
	tokens := make(chan struct{})
	const piece = 64 << 10
	g.Go(func() error {
		tick := time.NewTicker(time.Second * piece / time.Duration(bytesPerSecond))
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return nil
			case <-tick.C:
			}
			select {
			case <-ctx.Done():
				return nil
			case tokens <- struct{}{}:
			}
		}
	})
	g.Go(func() error {
		for {
			from, err := listener.Accept()
			if err != nil {
				return nil
			}
			to, err := net.Dial("tcp", address)
			if err != nil {
				from.Close()
				continue
			}
			context.AfterFunc(ctx, func() { from.Close(); to.Close() })
			g.Go(func() error {
				defer to.Close()
				for ctx.Err() == nil {
					select {
					case <-tokens:
					case <-ctx.Done():
					}
					if _, err := io.CopyN(to, from, piece); err != nil {
						return nil
					}
				}
				return nil
			})
			g.Go(func() error {
				defer from.Close()
				io.Copy(from, to)
				return nil
			})
		}
	})
	t.Cleanup(func() {
		cancel()
		listener.Close()
		g.Wait()
	})
	return listener.Addr().String()
}
