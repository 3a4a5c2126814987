package router

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/apache/iceberg-go"
	"github.com/twmb/franz-go/pkg/kgo"
)

// publish adds a publish of table ns.table into topic.
func (w *stage) publish(name, table, topic string, change func(*PublishConfig)) {
	c := DefaultPublish()
	c.Name, c.Table, c.Topic, c.PollInterval, c.TransactionInterval = name, "ns."+table, topic, 50*time.Millisecond, 20*time.Millisecond
	if change != nil {
		change(&c)
	}
	w.cfg.Publish = append(w.cfg.Publish, c)
}

// only leaves the ingests or the publishes out while do runs.
func (w *stage) only(what string, do func() error) error {
	w.t.Helper()
	cfg := w.cfg
	defer func() { w.cfg = cfg }()
	if what == "ingest" {
		w.cfg.Publish = nil
	} else {
		w.cfg.Ingest = nil
	}
	return do()
}

// committed returns every record that a read_committed reader of topic sees, in
// the order of each partition.
func (w *stage) committed(topic string) (out []*kgo.Record) {
	w.t.Helper()
	ends, err := w.admin.ListCommittedOffsets(w.t.Context(), topic)
	if err != nil || ends.Error() != nil {
		w.t.Fatal(err, ends.Error())
	}
	left := map[int32]int64{}
	for p, o := range ends[topic] {
		if o.Offset > 0 {
			left[p] = o.Offset
		}
	}
	client, err := kgo.NewClient(kgo.SeedBrokers(w.broker.ListenAddrs()...), kgo.ConsumeTopics(topic), kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.KeepControlRecords(), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	if err != nil {
		w.t.Fatal(err)
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(w.t.Context(), time.Minute)
	defer cancel()
	for len(left) > 0 {
		f := client.PollFetches(ctx)
		if ctx.Err() != nil {
			w.t.Fatalf("topic %s: partitions %v were not read to their ends", topic, left)
		}
		f.EachRecord(func(r *kgo.Record) {
			if !r.Attrs.IsControl() {
				out = append(out, r)
			}
			if r.Offset >= left[r.Partition]-1 {
				delete(left, r.Partition)
			}
		})
	}
	return out
}

// auditOut fails unless topic has each of the records that were produced to the
// sources exactly once. The rows must be as produce makes them.
func (w *stage) auditOut(topic string, sources ...string) {
	w.t.Helper()
	seen := map[string]int{}
	for _, r := range w.committed(topic) {
		seen[string(r.Value)]++
	}
	want := 0
	for _, source := range sources {
		for p, n := range w.sent[source] {
			want += int(n)
			for id := range n {
				value := fmt.Sprintf(`{"id":%d,"text":"record %d of %d"}`, id*7, id, p)
				if seen[value] != 1 {
					w.t.Fatalf("%s: %d times in %s, want once (%d distinct values there)", value, seen[value], topic, len(seen))
				}
			}
		}
	}
	if len(seen) != want {
		w.t.Fatalf("topic %s has %d distinct values, want %d", topic, len(seen), want)
	}
}

// auditOrder fails unless the records of each of 16 buckets are in the order in
// which they were produced.
func (w *stage) auditOrder(topic string) {
	w.t.Helper()
	bucket := iceberg.BucketTransform{NumBuckets: 16}.Transformer(iceberg.PrimitiveTypes.Int64)
	last := map[string]int64{}
	for _, r := range w.committed(topic) {
		var row struct{ Text string }
		if err := json.Unmarshal(r.Value, &row); err != nil {
			w.t.Fatal(err)
		}
		var n, source int64
		if _, err := fmt.Sscanf(row.Text, "record %d of %d", &n, &source); err != nil {
			w.t.Fatal(err)
		}
		of := fmt.Sprintf("%d/%d", source, bucket(int64(n*7)).Val)
		if before, ok := last[of]; ok && n <= before {
			w.t.Fatalf("bucket %s: record %d after %d", of, n, before)
		}
		last[of] = n
	}
}

func header(r *kgo.Record, name string) string {
	i := slices.IndexFunc(r.Headers, func(h kgo.RecordHeader) bool { return h.Key == name })
	if i < 0 {
		return ""
	}
	return string(r.Headers[i].Value)
}

// --once publishes what is there, ends, and the next run goes on where the
// position is; a run without news publishes nothing.
func TestPublishOnce(t *testing.T) {
	w := newStage(t, map[string]int32{"a": 2, "out": 3})
	w.ingest("t", nil, "a")
	w.publish("p", "t", "out", func(c *PublishConfig) { c.Key = Names{"id"} })
	for range 3 {
		w.produce("a", 2, 300)
		if err := w.only("ingest", w.once); err != nil {
			t.Fatal(err)
		}
		if err := w.only("publish", w.once); err != nil {
			t.Fatal(err)
		}
		w.auditOut("out", "a")
	}
	if err := w.only("publish", w.once); err != nil {
		t.Fatal(err)
	}
	w.auditOut("out", "a")
	for _, r := range w.committed("out") {
		var row struct{ ID json.Number }
		if err := json.Unmarshal(r.Value, &row); err != nil || string(r.Key) != row.ID.String() {
			t.Fatalf("key %q of value %s", r.Key, r.Value)
		}
	}
}

// records sums what a publish has to publish.
func (w *stage) records(topics ...string) (n int) {
	for _, topic := range topics {
		for _, sent := range w.sent[topic] {
			n += int(sent)
		}
	}
	return n
}

// awaitOut waits until topic has n committed records, whoever published them.
func (w *stage) awaitOut(topic string, n int, daemons ...*daemon) {
	w.t.Helper()
	deadline := time.Now().Add(2 * time.Minute)
	for {
		got := len(w.committed(topic))
		if got >= n {
			return
		}
		for _, d := range daemons {
			select {
			case err := <-d.done:
				d.done <- err
				w.t.Fatalf("a router ended with %d of %d records published: %v", got, n, err)
			default:
			}
		}
		if time.Now().After(deadline) {
			w.t.Fatalf("%d of %d records published after 2 min", got, n)
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// Both directions in one process, killed again and again with whatever it holds,
// with two instances and another number of shards at each start: each record comes
// out once, in order.
func TestPublishKilled(t *testing.T) {
	w := newStage(t, map[string]int32{"a": 4, "out": 5})
	w.ingest("t", func(c *IngestConfig) { c.Create.Partition = []string{"bucket(id, 16)"} }, "a")
	w.publish("p", "t", "out", nil)
	var other *daemon
	for round, shards := range []int{4, 2, 8, 3, 1, 6} {
		w.cfg.Publish[0].Shards = shards
		d := w.daemon()
		for range 3 {
			w.produce("a", 4, 150)
			time.Sleep(time.Duration(100+round*40) * time.Millisecond)
		}
		if round%2 == 1 {
			w.awaitOut("out", w.records("a")/2, d)
		}
		if other != nil {
			other.kill()
			<-other.done
		}
		other = d
		if round%3 == 2 {
			d.kill()
			<-d.done
			other = nil
		}
	}
	if other == nil {
		other = w.daemon()
	}
	w.awaitOut("out", w.records("a"), other)
	other.stop()
	if err := <-other.done; err != nil {
		t.Error(err)
	}
	w.auditOut("out", "a")
	w.auditOrder("out")
}
