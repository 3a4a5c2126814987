//go:build real

package real_test

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"
)

// A backlog of many times memory_max is read without holding more than that
// and what the program needs besides.
func TestMemoryIsBounded(t *testing.T) {
	const partitions, n = 8, 400_000
	const memoryMax, besides = 64 << 20, 224 << 20 // besides: the program, its fetches, Go's garbage
	c := client(t)
	topic := makeTopic(t, c, "backlog", partitions)
	columns := reference(4)
	sample := recordsOf(columns, 1000)
	for from := 0; from < n; from += 20_000 {
		records := make([]*kgo.Record, 20_000)
		for i := range records {
			records[i] = &kgo.Record{Topic: topic, Partition: int32(i % partitions), Value: []byte(sample[i%len(sample)])}
		}
		produceRecords(t, c, records...)
	}
	folder := t.TempDir()
	l := sqlite(t, folder)
	e := mustOnce(t, config{lake: l, extra: []string{`memory_max = "64MiB"`}, ingests: []ingest{{
		name: "backlog", topics: []string{topic}, table: "logs.backlog", columns: columns, partition: []string{"bucket(logStreamId, 64)"}, trigger: "1h",
		extra: []string{`codec = "snappy"`},
	}}}.write(t))
	peak := e.usage.Maxrss << 10
	t.Logf("%d MB of records in %.1f CPU seconds (%.0f MB a second), %s; at most %d MiB of memory",
		n/1000, cpuSeconds(e), float64(n)/1000/cpuSeconds(e), e.took, peak>>20)
	if peak > memoryMax+besides {
		t.Errorf("%d MiB of memory with memory_max = 64MiB", peak>>20)
	}
	if got := l.count(t, "logs.backlog"); got != n {
		t.Errorf("%d rows, want %d", got, n)
	}
	// Files are as few as the memory allows: what is closed early joins the same cut.
	files := filesBelow(t, filepath.Join(folder, "warehouse"), "", ".parquet")
	if strings.Contains(fmt.Sprint(files), ".tmp") {
		t.Errorf("temporary files are left: %v", files)
	}
	t.Logf("%d data files", len(files))
}
