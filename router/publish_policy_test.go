package router

import (
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/apache/iceberg-go"
	"github.com/apache/iceberg-go/table"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// both brings n more records of each partition of a into the table, and publishes.
func (w *stage) both(parts int32, n int) error {
	w.t.Helper()
	w.produce("a", parts, n)
	if err := w.only("ingest", w.once); err != nil {
		w.t.Fatal(err)
	}
	return w.only("publish", w.once)
}

// halted fails the test unless err halts and says each of the words.
func halted(t *testing.T, err error, words ...string) {
	t.Helper()
	if err == nil || !halts(err) {
		t.Fatalf("got %v, want a halt", err)
	}
	contains(t, err.Error(), words...)
}

// Another engine compacts the table and adds a column: nothing comes twice. It
// deletes rows: the publish stops there and names the snapshot; by policy it
// goes on, and counts.
func TestPublishForeign(t *testing.T) {
	w := newStage(t, map[string]int32{"a": 2, "out": 3})
	w.ingest("t", nil, "a")
	w.publish("p", "t", "out", nil)
	if err := w.both(2, 200); err != nil {
		t.Fatal(err)
	}
	w.compact("t")
	if err := w.both(2, 200); err != nil {
		t.Fatal(err)
	}
	w.auditOut("out", "a")
	w.foreign("t", func(_ *table.Table, tx *table.Transaction) error {
		return tx.UpdateSchema(true, false).AddColumn([]string{"note"}, iceberg.PrimitiveTypes.String, "", false, nil).Commit()
	})
	w.cfg.Publish[0].Nulls = "omit" // the new column is null
	if err := w.both(2, 50); err != nil {
		t.Fatal(err)
	}
	w.auditOut("out", "a")

	w.produce("a", 2, 30)
	if err := w.only("ingest", w.once); err != nil {
		t.Fatal(err)
	}
	w.foreign("t", func(_ *table.Table, tx *table.Transaction) error {
		return tx.Delete(t.Context(), iceberg.EqualTo(iceberg.Reference("id"), int64(14)), nil)
	})
	deleted := w.load("t").CurrentSnapshot().SnapshotID
	for range 2 {
		halted(t, w.only("publish", w.once), fmt.Sprint("snapshot ", deleted), "on_delete")
		w.auditOut("out", "a") // everything before it is out
	}
	w.cfg.Publish[0].OnDelete = "skip"
	if err := w.both(2, 50); err != nil {
		t.Fatal(err)
	}
	w.auditOut("out", "a")
}

// Snapshots that were expired before they were published stop the publish with
// both ends named; by policy it goes on. An expired snapshot that was published
// is not missed.
func TestPublishGap(t *testing.T) {
	w := newStage(t, map[string]int32{"a": 2, "out": 2})
	w.ingest("t", func(c *IngestConfig) { c.ExpireSnapshots = "off" }, "a")
	w.publish("p", "t", "out", func(c *PublishConfig) { c.HoldSnapshots = false })
	expire := func(keep int) {
		w.foreign("t", func(_ *table.Table, tx *table.Transaction) error {
			return tx.ExpireSnapshots(table.WithOlderThan(0), table.WithRetainLast(keep), table.WithPostCommit(false))
		})
	}
	if err := w.both(2, 100); err != nil {
		t.Fatal(err)
	}
	was := w.load("t").CurrentSnapshot().SnapshotID
	w.produce("a", 2, 100)
	if err := w.only("ingest", w.once); err != nil {
		t.Fatal(err)
	}
	expire(1) // the position's own snapshot goes, what follows it stays
	if err := w.only("publish", w.once); err != nil {
		t.Fatal(err)
	}
	w.auditOut("out", "a")
	was = w.load("t").CurrentSnapshot().SnapshotID

	before := w.records("a")
	for range 3 {
		w.produce("a", 2, 20)
		if err := w.only("ingest", w.once); err != nil {
			t.Fatal(err)
		}
	}
	expire(1)
	halted(t, w.only("publish", w.once), fmt.Sprint("snapshots after snapshot ", was), fmt.Sprint(w.load("t").CurrentSnapshot().SnapshotID), "on_lost_snapshots")
	w.cfg.Publish[0].OnLostSnapshots = "skip"
	if err := w.only("publish", w.once); err != nil {
		t.Fatal(err)
	}
	if got := len(w.committed("out")); got != before+40 {
		t.Errorf("%d records, want %d and the 40 of the last snapshot", got, before)
	}
	if m := w.marks("p"); m[0].Lost != 2 {
		t.Errorf("%d lost snapshots are counted, want 2", m[0].Lost)
	}
}

// marks reads the marks of a publish.
func (w *stage) marks(name string) []mark {
	w.t.Helper()
	i := slices.IndexFunc(w.cfg.Publish, func(p PublishConfig) bool { return p.Name == name })
	m := newMarks(w.cfg.Publish[i], w.client, nopLog)
	if err := m.look(w.t.Context()); err != nil {
		w.t.Fatal(err)
	}
	ends, err := m.ends(w.t.Context())
	if err != nil {
		w.t.Fatal(err)
	}
	all, _, err := m.all(w.t.Context(), ends)
	if err != nil {
		w.t.Fatal(err)
	}
	return all
}

// A row that the topic doesn't take stops the publish with its place, what came
// before it is out; with a dead-letter topic all others go on.
func TestPublishBadRow(t *testing.T) {
	w := newStage(t, map[string]int32{"a": 1, "out": 1, "dead": 1})
	w.ingest("t", func(c *IngestConfig) { c.Create.Partition = nil }, "a")
	w.publish("p", "t", "out", func(c *PublishConfig) { c.Key, c.OriginHeaders = Names{"id"}, true })
	for id := range 10 {
		text := "small"
		if id == 5 {
			text = strings.Repeat("x", 1_500_000)
		}
		client, err := kgo.NewClient(kgo.SeedBrokers(w.broker.ListenAddrs()...), kgo.ProducerBatchMaxBytes(4<<20), kgo.ProducerBatchCompression(kgo.GzipCompression()))
		if err != nil {
			t.Fatal(err)
		}
		if err := client.ProduceSync(t.Context(), &kgo.Record{Topic: "a", Value: fmt.Appendf(nil, `{"id": %d, "text": %q}`, id, text)}).FirstErr(); err != nil {
			t.Fatal(err)
		}
		client.Close()
	}
	if err := w.only("ingest", w.once); err != nil {
		t.Fatal(err)
	}
	snapshot := fmt.Sprint(w.load("t").CurrentSnapshot().SnapshotID)
	halted(t, w.only("publish", w.once), "snapshot "+snapshot, ".parquet", "row 5", "on_bad_row")
	if got := len(w.committed("out")); got != 5 {
		t.Errorf("%d records before the bad row, want 5", got)
	}
	w.cfg.Publish[0].OnBadRow, w.cfg.Publish[0].DeadLetterTopic = "dead_letter", "dead"
	if err := w.only("publish", w.once); err != nil {
		t.Fatal(err)
	}
	out := w.committed("out")
	if len(out) != 9 || string(out[4].Key) != "4" || string(out[5].Key) != "6" || header(out[5], headerRow) != "6" || header(out[5], headerSnapshot) != snapshot {
		t.Errorf("%d records, want the 9 others in order, with their places", len(out))
	}
	letters := w.committed("dead")
	if len(letters) != 1 {
		t.Fatalf("%d dead letters, want 1", len(letters))
	}
	if l := letters[0]; string(l.Key) != "5" || header(l, headerSnapshot) != snapshot || header(l, headerRow) != "5" || !strings.HasSuffix(header(l, headerFile), ".parquet") ||
		header(l, headerReason) != "size" || header(l, headerPublish) != "p" || header(l, headerTable) != "ns.t" {
		t.Errorf("the dead letter is %+v", l)
	}
}

// Key, value, headers, timestamp and partition come back as they were where the
// table kept them.
func TestPublishRoundTrip(t *testing.T) {
	w := newStage(t, map[string]int32{"a": 3, "out": 3})
	w.ingest("t", func(c *IngestConfig) {
		c.Create.Schema = append(c.Create.Schema, ColumnConfig{Name: "_kafka_key", Type: "binary"}, ColumnConfig{Name: "_kafka_timestamp", Type: "timestamptz"},
			ColumnConfig{Name: "_kafka_headers", Type: "list<struct<key: string, value: binary>>"})
	}, "a")
	w.publish("p", "t", "out", nil)
	base := time.UnixMilli(1_700_000_000_123)
	var sent []*kgo.Record
	for i := range 600 {
		r := &kgo.Record{Topic: "a", Partition: int32(i % 3), Value: fmt.Appendf(nil, `{"id":%d,"text":"\u00e9 \\ %d"}`, i, i), Timestamp: base.Add(time.Duration(i) * time.Millisecond)}
		switch i % 3 {
		case 0:
			r.Key = []byte{0, 0xff, byte(i)}
		case 1:
			r.Key = []byte{}
		}
		for range i % 4 {
			r.Headers = append(r.Headers, kgo.RecordHeader{Key: "h", Value: []byte{byte(i)}}, kgo.RecordHeader{Key: "null"}, kgo.RecordHeader{Key: "", Value: []byte{}})
		}
		sent = append(sent, r)
	}
	w.send(sent...)
	if err := w.only("ingest", w.once); err != nil {
		t.Fatal(err)
	}
	if err := w.only("publish", w.once); err != nil {
		t.Fatal(err)
	}
	for _, r := range sent {
		r.Value = []byte(strings.ReplaceAll(string(r.Value), `\u00e9`, "é"))
	}
	got, want := spelledOut(w.committed("out")), spelledOut(sent)
	if !slices.Equal(got, want) {
		for i := range want {
			if i >= len(got) || got[i] != want[i] {
				t.Fatalf("%d records, want %d; the first that differs is\n%s, want\n%s", len(got), len(want), got[min(i, len(got)-1)], want[i])
			}
		}
	}
}

// spelledOut is all that records are, sorted.
func spelledOut(records []*kgo.Record) (out []string) {
	for _, r := range records {
		text := fmt.Sprintf("%s partition %d key %q (nil %t) at %d", r.Value, r.Partition, r.Key, r.Key == nil, r.Timestamp.UnixMilli())
		for _, h := range r.Headers {
			text += fmt.Sprintf(" %q=%q (nil %t)", h.Key, h.Value, h.Value == nil)
		}
		out = append(out, text)
	}
	slices.Sort(out)
	return out
}

// A position that is gone is no first start.
func TestPublishPositionLost(t *testing.T) {
	w := newStage(t, map[string]int32{"a": 1, "out": 1})
	w.ingest("t", nil, "a")
	w.publish("p", "t", "out", nil)
	if err := w.both(1, 50); err != nil {
		t.Fatal(err)
	}
	if _, err := w.admin.DeleteTopics(t.Context(), "router-positions-p"); err != nil {
		t.Fatal(err)
	}
	halted(t, w.both(1, 50), "position topic router-positions-p is empty", "router_publish_p", "on_lost_position")
	w.cfg.Publish[0].OnLostPosition, w.cfg.Publish[0].Start = "restart", "latest"
	if err := w.only("publish", w.once); err != nil {
		t.Fatal(err)
	}
	if got := len(w.committed("out")); got != 50 {
		t.Errorf("%d records, want the 50 of before", got)
	}
	if err := w.both(1, 10); err != nil {
		t.Fatal(err)
	}
	if got := len(w.committed("out")); got != 60 {
		t.Errorf("%d records, want 10 more", got)
	}
}

// Another table under the same name has other snapshots: the position means
// nothing in it.
func TestPublishTableReplaced(t *testing.T) {
	w := newStage(t, map[string]int32{"a": 1, "out": 1})
	w.ingest("t", nil, "a")
	w.publish("p", "t", "out", func(c *PublishConfig) { c.Shards = 5 })
	if err := w.both(1, 50); err != nil {
		t.Fatal(err)
	}
	w.drop("t")
	w.cfg.Publish[0].Shards = 3
	halted(t, w.both(1, 10), "uuid", "on_table_replaced")
	w.cfg.Publish[0].OnTableReplaced = "restart"
	if err := w.only("publish", w.once); err != nil {
		t.Fatal(err)
	}
	// The new table was filled from the topic's beginning.
	if got := len(w.committed("out")); got != 50+60 {
		t.Errorf("%d records, want 50 of the first table and 60 of the second", got)
	}
	if m := w.marks("p"); len(m) != 5 || m[0].Shards != 3 || m[0].Generation != 2 || m[4].Generation != 2 {
		t.Errorf("marks %+v", m)
	}
}

// Topics by a column, partitions by a column, headers from columns.
func TestPublishAddresses(t *testing.T) {
	w := newStage(t, map[string]int32{"a": 1, "out-x": 4, "out-y": 4, "dead": 1})
	w.ingest("t", nil, "a")
	w.publish("p", "t", "out-{text}", func(c *PublishConfig) {
		c.Key, c.Partition, c.Headers = Names{"id", "text"}, "id", map[string]string{"name": "text"}
		c.OnBadRow, c.DeadLetterTopic, c.Columns = "dead_letter", "dead", Names{"id"}
	})
	var records []*kgo.Record
	for i, text := range []string{"x", "y", "x", "z", "x"} {
		records = append(records, &kgo.Record{Topic: "a", Value: fmt.Appendf(nil, `{"id": %d, "text": %q}`, i, text)})
	}
	w.send(append(records, &kgo.Record{Topic: "a", Value: []byte(`{"id": 1}`)})...)
	if err := w.only("ingest", w.once); err != nil {
		t.Fatal(err)
	}
	if err := w.only("publish", w.once); err != nil {
		t.Fatal(err)
	}
	x, y := w.committed("out-x"), w.committed("out-y")
	if len(x) != 2 || len(y) != 1 || y[0].Partition != 1 || string(y[0].Key) != `[1,"y"]` || string(y[0].Value) != `{"id":1}` || header(y[0], "name") != "y" {
		t.Errorf("got %d and %d records, %+v", len(x), len(y), y)
	}
	var reasons []string
	for _, l := range w.committed("dead") {
		reasons = append(reasons, string(l.Key)+" "+header(l, headerReason))
	}
	slices.Sort(reasons)
	if want := []string{`[1,null] topic`, `[3,"z"] topic`, `[4,"x"] partition`}; !slices.Equal(reasons, want) {
		t.Errorf("dead letters %q, want %q", reasons, want)
	}
}

// A publish that is killed while it reads leaves no goroutine behind.
func TestPublishLeaks(t *testing.T) {
	w := newStage(t, map[string]int32{"a": 2, "out": 2})
	w.ingest("t", nil, "a")
	w.publish("p", "t", "out", nil)
	for range 4 {
		w.produce("a", 2, 100)
		if err := w.only("ingest", w.once); err != nil {
			t.Fatal(err)
		}
	}
	w.cfg.Ingest = nil
	base := 0
	for round := range 5 {
		d := w.daemon()
		time.Sleep(time.Duration(round*60) * time.Millisecond)
		d.kill()
		<-d.done
		if round == 0 {
			base = runtime.NumGoroutine()
		}
	}
	deadline := time.Now().Add(30 * time.Second)
	for runtime.NumGoroutine() > base+5 {
		if time.Now().After(deadline) {
			buf := make([]byte, 1<<20)
			t.Fatalf("%d goroutines, %d after the first run:\n%s", runtime.NumGoroutine(), base, buf[:runtime.Stack(buf, true)])
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// Letting a topic have more partitions than its key's hash expects is for the
// brokers; a config that names none is refused with the column meant.
func TestPublishColumns(t *testing.T) {
	w := newStage(t, map[string]int32{"a": 1, "out": 1})
	w.ingest("t", nil, "a")
	w.publish("p", "t", "out", func(c *PublishConfig) {
		c.Key, c.Timestamp, c.Partition, c.HeadersFrom = Names{"idd"}, "text", "text", "id"
	})
	halted(t, w.both(1, 1), `key: the table has no column "idd" (did you mean "id"?)`, `timestamp: column "text" is string`, `partition: column "text"`, `headers_from: column "id"`)
	w.cfg.Publish[0] = DefaultPublish()
	w.cfg.Publish[0].Name, w.cfg.Publish[0].Table, w.cfg.Publish[0].Topic = "p", "ns.t", "nowhere"
	if err := w.only("publish", w.once); err == nil || !strings.Contains(err.Error(), "topic nowhere does not exist") || strings.Count(err.Error(), "publish ") != 1 {
		t.Errorf("got %v", err)
	}
	if _, err := w.admin.CreateTopic(t.Context(), 1, 1, map[string]*string{"max.message.bytes": kadm.StringPtr("2000")}, "nowhere"); err != nil {
		t.Fatal(err)
	}
	if err := w.only("publish", w.once); err != nil {
		t.Fatal(err)
	}
}

// check tells what a start would stumble over, each with its key.
func TestPublishCheck(t *testing.T) {
	w := newStage(t, map[string]int32{"a": 1, "out": 3})
	w.ingest("t", nil, "a")
	w.publish("p", "t", "out", nil)
	look := func() string {
		t.Helper()
		var report strings.Builder
		err := Check(t.Context(), w.cfg, &report)
		if (err != nil) != strings.Contains(report.String(), "problem ") {
			t.Errorf("%v with %s", err, report.String())
		}
		return report.String()
	}
	contains(t, look(), "publish p: topic out, 3 partitions", "table ns.t is not there yet, an ingest will create it", "all is well")
	if err := w.both(1, 10); err != nil {
		t.Fatal(err)
	}
	w.produce("a", 1, 10)
	if err := w.only("ingest", w.once); err != nil {
		t.Fatal(err)
	}
	contains(t, look(), "4 shards, 1 snapshots behind", "all is well")
	right := w.cfg.Publish[0]
	w.cfg.Publish[0].Key, w.cfg.Publish[0].Topic, w.cfg.Publish[0].TransactionTimeout = Names{"idd"}, "outt", time.Hour
	contains(t, look(), "publish[0].key", `did you mean "id"?`, "publish[0].topic", `did you mean "out"?`, "publish[0].transaction_timeout", `"15m0s"`)
	w.cfg.Publish[0] = right
	w.drop("t")
	w.cfg.Ingest = nil
	contains(t, look(), "publish[0].table", "does not exist")
}
