//go:build real

package real_test

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// truth is which records a topic was given: the seq of each, by partition and
// offset. It is safe for concurrent use.
type truth struct {
	mu   sync.Mutex
	seqs map[int32]map[int64]int64
}

func newTruth() *truth { return &truth{seqs: map[int32]map[int64]int64{}} }

func (h *truth) add(partition int32, offset, seq int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.seqs[partition] == nil {
		h.seqs[partition] = map[int64]int64{}
	}
	h.seqs[partition][offset] = seq
}

// addRecord adds a record of auditColumns; one without a value is no row.
func (h *truth) addRecord(r *kgo.Record) error {
	if r.Value == nil {
		return nil
	}
	var row struct{ Seq int64 }
	if err := json.Unmarshal(r.Value, &row); err != nil {
		return fmt.Errorf("%s/%d offset %d: %w", r.Topic, r.Partition, r.Offset, err)
	}
	h.add(r.Partition, r.Offset, row.Seq)
	return nil
}

// without returns a copy that lacks the records of a partition from one offset up to before another.
func (h *truth) without(partition int32, from, to int64) *truth {
	h.mu.Lock()
	defer h.mu.Unlock()
	rest := newTruth()
	for p, seqs := range h.seqs {
		rest.seqs[p] = maps.Clone(seqs)
	}
	maps.DeleteFunc(rest.seqs[partition], func(offset, _ int64) bool { return offset >= from && offset < to })
	return rest
}

func (h *truth) count() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	n := 0
	for _, seqs := range h.seqs {
		n += len(seqs)
	}
	return n
}

// inTopic returns the records that can be read of a topic now.
func inTopic(t *testing.T, topic string) *truth {
	t.Helper()
	h := newTruth()
	for _, r := range consume(t, topic) {
		if err := h.addRecord(r); err != nil {
			t.Fatal(err)
		}
	}
	return h
}

// stretch is consecutive offsets of a partition whose rows are in a table.
type stretch struct {
	Partition int32
	Low, High int64
	Sum       int64 // of the rows' seq
}

// stretches asks DuckDB for the records that have rows in the table. An offset
// that is there twice is in two of them.
func (l lake) stretches(t *testing.T, table, where string) (found []stretch) {
	t.Helper()
	lines := l.read(t, "duckdb", question{table: table, query: `SELECT "partition", min(o) AS low, max(o) AS high, sum(seq)::BIGINT AS sum FROM (
		SELECT _kafka_partition AS "partition", _kafka_offset AS o, seq,
			_kafka_offset - row_number() OVER (PARTITION BY _kafka_partition ORDER BY _kafka_offset) AS island
		FROM {table} WHERE _kafka_offset IS NOT NULL AND ` + where + `) GROUP BY "partition", island`})
	for _, line := range lines {
		var s stretch
		if err := json.Unmarshal([]byte(line), &s); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		found = append(found, s)
	}
	return found
}

// rowsAre checks that the table, where a condition holds, has a row for each
// record of must, for none but those of may, and for none twice. It returns the
// offsets of may that have no row.
func (l lake) rowsAre(t *testing.T, table, where string, must, may *truth) (absent map[int32][]int64) {
	t.Helper()
	problems, absent := compareRows(l.stretches(t, table, where), must, may)
	for _, p := range problems {
		t.Errorf("%s: %s", table, p)
	}
	return absent
}

// compareRows is rowsAre without a table.
func compareRows(found []stretch, must, may *truth) (problems []string, absent map[int32][]int64) {
	seen := map[int32]map[int64]bool{}
	for p := range may.seqs {
		seen[p] = map[int64]bool{}
	}
	var lost, twice, strange, wrong []string
	for _, s := range found {
		var sum int64
		for o := s.Low; o <= s.High; o++ {
			place := fmt.Sprintf("%d/%d", s.Partition, o)
			seq, produced := may.seqs[s.Partition][o]
			switch {
			case !produced:
				strange = append(strange, place)
			case seen[s.Partition][o]:
				twice = append(twice, place)
			default:
				seen[s.Partition][o] = true
			}
			sum += seq
		}
		if sum != s.Sum {
			wrong = append(wrong, fmt.Sprintf("%d/%d to %d", s.Partition, s.Low, s.High))
		}
	}
	absent = map[int32][]int64{}
	for _, p := range slices.Sorted(maps.Keys(may.seqs)) {
		for _, o := range slices.Sorted(maps.Keys(may.seqs[p])) {
			if seen[p][o] {
				continue
			}
			absent[p] = append(absent[p], o)
			if _, needed := must.seqs[p][o]; needed {
				lost = append(lost, fmt.Sprintf("%d/%d", p, o))
			}
		}
	}
	say := func(what string, places []string) {
		if len(places) > 0 {
			problems = append(problems, fmt.Sprintf("%s %d: %s", what, len(places), tail(strings.Join(places, " "), 400)))
		}
	}
	say("rows missing", lost)
	say("rows twice", twice)
	say("rows never produced", strange)
	say("stretches of rows with another seq", wrong)
	return problems, absent
}

// audit checks that a topic's records, n of them, are in the table, each once.
func audit(t *testing.T, l lake, table, topic string, n int) {
	t.Helper()
	h := inTopic(t, topic)
	if got := h.count(); got != n {
		t.Errorf("topic %s has %d records, want %d", topic, got, n)
	}
	l.rowsAre(t, table, "true", h, h)
	if got := l.count(t, table); got != n {
		t.Errorf("%d rows in %s, want %d", got, table, n)
	}
}

// nothingMissing checks that every file that the table's metadata names is
// there, in the folder where the S3 server keeps the bucket, and returns their names there.
func nothingMissing(t *testing.T, l lake, table, bucket string) map[string]bool {
	t.Helper()
	named := map[string]bool{}
	lines := l.read(t, "pyiceberg", question{table: table, references: true})
	if len(lines) < 3 {
		t.Errorf("%s names only %d files", table, len(lines))
	}
	for _, line := range lines {
		var reference struct{ Path string }
		if err := json.Unmarshal([]byte(line), &reference); err != nil {
			t.Fatal(err)
		}
		name, ok := strings.CutPrefix(reference.Path, "s3://warehouse/")
		if !ok {
			t.Errorf("%s is not in the bucket", reference.Path)
			continue
		}
		named[name] = true
		if _, err := os.Stat(filepath.Join(bucket, name)); err != nil {
			t.Errorf("the table names a file that is missing: %v", err)
		}
	}
	return named
}

// load produces records with a growing number in them until it is stopped.
type load struct {
	cancel     context.CancelFunc
	done       chan error
	truth      *truth
	sent       atomic.Int64
	partitions atomic.Int32
}

func startLoad(t *testing.T, c *kgo.Client, topic string, partitions int32) *load {
	return startLoadBy(t, partitions, func(ctx context.Context, l *load) error { return l.run(ctx, c, topic) })
}

// startLoadBy is startLoad with another way to produce.
func startLoadBy(t *testing.T, partitions int32, run func(context.Context, *load) error) *load {
	ctx, cancel := context.WithCancel(t.Context())
	l := &load{cancel: cancel, done: make(chan error, 1), truth: newTruth()}
	l.partitions.Store(partitions)
	go func() { l.done <- run(ctx, l) }()
	t.Cleanup(cancel)
	return l
}

func (l *load) run(ctx context.Context, c *kgo.Client, topic string) error {
	return every(ctx, 20*time.Millisecond, func() error {
		records := l.next(topic, 20)
		// Not ctx: what was begun is finished, so that the count is exact.
		ctx := context.WithoutCancel(ctx)
		for left := records; len(left) > 0; {
			var again []*kgo.Record
			for _, r := range c.ProduceSync(ctx, left...) {
				switch {
				case r.Err == nil:
				case strings.Contains(r.Err.Error(), "invalid record partitioning choice"): // of a partition that was added a moment ago
					again = append(again, r.Record)
				default:
					return r.Err
				}
			}
			if left = again; len(left) > 0 {
				c.ForceMetadataRefresh()
				<-time.After(100 * time.Millisecond)
			}
		}
		return l.produced(records)
	})
}

// next makes the next n records, round robin over the partitions.
func (l *load) next(topic string, n int) []*kgo.Record {
	text := strings.Repeat("x", 100)
	records := make([]*kgo.Record, n)
	for i := range records {
		seq := l.sent.Load() + int64(i)
		records[i] = &kgo.Record{Topic: topic, Partition: int32(seq % int64(l.partitions.Load())), Value: fmt.Appendf(nil, `{"seq":%d,"text":%q}`, seq, text)}
	}
	return records
}

// produced notes records that are in Kafka for good.
func (l *load) produced(records []*kgo.Record) error {
	for _, r := range records {
		if err := l.truth.addRecord(r); err != nil {
			return err
		}
	}
	l.sent.Add(int64(len(records)))
	return nil
}

// stop returns how many records there are.
func (l *load) stop(t *testing.T) int {
	t.Helper()
	l.cancel()
	if err := <-l.done; err != nil {
		t.Fatalf("produce: %v", err)
	}
	return int(l.sent.Load())
}

// every calls do at an interval until ctx ends or it fails.
func every(ctx context.Context, interval time.Duration, do func() error) error {
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		if err := do(); err != nil {
			return err
		}
	}
}
