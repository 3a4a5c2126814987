package router

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"icerouter/catalog"
)

// --once takes what is there, ends, and the next run goes on from the ledger:
// the consumer group is not asked.
func TestOnce(t *testing.T) {
	w := newStage(t, map[string]int32{"a": 3, "b": 1})
	w.ingest("t", nil, "a", "b")
	for range 3 {
		w.produce("a", 3, 500)
		w.produce("b", 1, 10)
		if err := w.once(); err != nil {
			t.Fatal(err)
		}
		w.audit("t", "a", "b")
		if _, err := w.admin.DeleteGroups(t.Context(), "router-t"); err != nil {
			t.Fatal(err)
		}
	}
	snapshots := len(w.load("t").Metadata().Snapshots())
	if err := w.once(); err != nil {
		t.Fatal(err)
	}
	if now := len(w.load("t").Metadata().Snapshots()); now != snapshots {
		t.Errorf("a run without new records made %d snapshots", now-snapshots)
	}
}

// Markers of transactions and aborted records at the end of a topic are passed.
func TestOnceTransactions(t *testing.T) {
	w := newStage(t, map[string]int32{"a": 1})
	w.ingest("t", nil, "a")
	client, err := kgo.NewClient(kgo.SeedBrokers(w.broker.ListenAddrs()...), kgo.TransactionalID("x"), kgo.DefaultProduceTopic("a"))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	for _, end := range []kgo.TransactionEndTry{kgo.TryCommit, kgo.TryAbort, kgo.TryCommit, kgo.TryAbort} {
		if err := client.BeginTransaction(); err != nil {
			t.Fatal(err)
		}
		for range 100 {
			if err := client.ProduceSync(t.Context(), kgo.StringRecord(`{"id": 1}`)).FirstErr(); err != nil {
				t.Fatal(err)
			}
		}
		if err := client.EndTransaction(t.Context(), end); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.once(); err != nil {
		t.Fatal(err)
	}
	if rows := w.rows("t"); len(rows) != 200 {
		t.Errorf("got %d rows, want the 200 of the committed transactions", len(rows))
	}
}

// Two instances share the partitions; one is killed with rows in its hands, a
// third comes, one leaves in peace: every record is in the table once.
func TestInstances(t *testing.T) {
	w := newStage(t, map[string]int32{"a": 6})
	w.ingest("t", nil, "a")
	first, second := w.daemon(), w.daemon()
	for round := range 12 {
		w.produce("a", 6, 200)
		switch round {
		case 3:
			first.kill() // with whatever it holds
			<-first.done
		case 5:
			first = w.daemon()
		case 8:
			second.stop()
			if err := <-second.done; err != nil {
				t.Errorf("a stop in peace: %v", err)
			}
			second = first
		}
		w.awaitRows(first, second, int64(6*200*(round+1)))
	}
	first.stop()
	<-first.done
	if err := w.once(); err != nil {
		t.Fatal(err)
	}
	w.audit("t", "a")
}

// A stop commits what is buffered, however long the trigger is.
func TestDrain(t *testing.T) {
	w := newStage(t, map[string]int32{"a": 2})
	w.ingest("t", func(c *IngestConfig) { c.Trigger = time.Hour }, "a")
	w.produce("a", 2, 1000)
	d := w.daemon()
	for d.router.Status().Ingests[0].BufferedRows < 2000 {
		select {
		case err := <-d.done:
			t.Fatalf("ended: %v", err)
		case <-time.After(10 * time.Millisecond):
		}
	}
	d.stop()
	if err := <-d.done; err != nil {
		t.Fatal(err)
	}
	w.audit("t", "a")
}

// A record that doesn't fit stops only its own ingest, and what came before it
// is in the table; with a dead-letter topic everything else goes on.
func TestBadRecord(t *testing.T) {
	w := newStage(t, map[string]int32{"a": 1, "b": 1, "dead": 1})
	w.ingest("t", nil, "a")
	w.ingest("u", nil, "b")
	w.produce("a", 1, 100)
	w.produce("b", 1, 100)
	w.send(&kgo.Record{Topic: "a", Key: []byte("k"), Value: []byte(`{"id": "no number"}`), Headers: []kgo.RecordHeader{{Key: "h", Value: []byte("v")}}})
	w.sent["a"][0]++
	w.produce("a", 1, 100)
	err := w.once()
	var bad *badRecordError
	if !errors.As(err, &bad) || !strings.Contains(err.Error(), "a/0 offset 100") {
		t.Fatalf("got %v, want a halt that names a/0 offset 100", err)
	}
	w.audit("u", "b")
	if rows := w.rows("t"); len(rows) != 100 {
		t.Errorf("got %d rows before the bad record, want 100", len(rows))
	}
	w.cfg.Ingest[0].OnBadRecord, w.cfg.Ingest[0].DeadLetterTopic = "dead_letter", "dead"
	if err := w.once(); err != nil {
		t.Fatal(err)
	}
	rows := w.rows("t")
	if len(rows) != 200 || rows[origin{"a", 0, 100}] != 0 || rows[origin{"a", 0, 200}] != 1 {
		t.Errorf("got %d rows, want 200 without offset 100", len(rows))
	}
	letter := w.consume("dead", 1)[0]
	got := map[string]string{}
	for _, h := range letter.Headers {
		got[h.Key] = string(h.Value)
	}
	if string(letter.Key) != "k" || string(letter.Value) != `{"id": "no number"}` || got["h"] != "v" || got[headerTopic] != "a" ||
		got[headerPartition] != "0" || got[headerOffset] != "100" || got[headerField] != "id" || got[headerReason] != "type" {
		t.Errorf("dead letter %q %q %v", letter.Key, letter.Value, got)
	}
}

// A topic that was deleted and made again, and offsets that are gone, stop the
// ingest with both numbers; by policy it goes on.
func TestLedgerAgainstTopic(t *testing.T) {
	w := newStage(t, map[string]int32{"a": 1})
	w.ingest("t", nil, "a")
	w.produce("a", 1, 100)
	if err := w.once(); err != nil {
		t.Fatal(err)
	}
	w.produce("a", 1, 100)
	if _, err := w.admin.DeleteRecords(t.Context(), deleteBefore("a", 0, 150)); err != nil {
		t.Fatal(err)
	}
	err := w.once()
	if err == nil || !strings.Contains(err.Error(), "a/0: the next offset to read is 100, the log begins at 150") {
		t.Fatalf("got %v, want the gap named", err)
	}
	w.cfg.Ingest[0].OnLostRecords = "continue"
	if err := w.once(); err != nil {
		t.Fatal(err)
	}
	if rows := w.rows("t"); len(rows) != 150 {
		t.Errorf("got %d rows, want 100 and the 50 that are left", len(rows))
	}
	if _, err := w.admin.DeleteTopics(t.Context(), "a"); err != nil {
		t.Fatal(err)
	}
	if _, err := w.admin.CreateTopic(t.Context(), 1, 1, nil, "a"); err != nil {
		t.Fatal(err)
	}
	w.sent["a"] = nil
	w.produce("a", 1, 30)
	if err := w.once(); err == nil || !strings.Contains(err.Error(), "deleted and made again") {
		t.Fatalf("got %v, want the new topic id seen", err)
	}
	w.cfg.Ingest[0].OnTopicReset = "restart"
	if err := w.once(); err != nil {
		t.Fatal(err)
	}
	total := 0
	for _, n := range w.rows("t") {
		total += n
	}
	if total != 180 {
		t.Errorf("got %d rows, want 150 and the 30 of the new topic", total)
	}
}

// on_topic_reset = "restart" reads the topic from its first offset, whatever start says.
func TestResetStartsAtFirstOffset(t *testing.T) {
	w := newStage(t, map[string]int32{"a": 2})
	w.ingest("t", func(c *IngestConfig) { c.Start, c.OnTopicReset = "latest", "restart" }, "a")
	if err := w.once(); err != nil {
		t.Fatal(err)
	}
	w.produce("a", 2, 10)
	if _, err := w.admin.DeleteTopics(t.Context(), "a"); err != nil {
		t.Fatal(err)
	}
	if _, err := w.admin.CreateTopic(t.Context(), 2, 1, nil, "a"); err != nil {
		t.Fatal(err)
	}
	w.sent["a"] = nil
	w.produce("a", 2, 30)
	if err := w.once(); err != nil {
		t.Fatal(err)
	}
	w.audit("t", "a")
}

// Whoever sees a topic first enters all of its partitions: else those of the
// next instance would begin at their first offset, though start says latest.
func TestTopicIsEnteredWhole(t *testing.T) {
	w := newStage(t, map[string]int32{"a": 3})
	w.ingest("t", func(c *IngestConfig) { c.Start = "latest" }, "a")
	w.produce("a", 3, 30)
	in := &ingest{cfg: w.cfg.Ingest[0], admin: w.admin}
	start, fresh, err := in.resolve(t.Context(), catalog.Ledger{}, map[string][]int32{"a": {1}})
	if err != nil {
		t.Fatal(err)
	}
	if len(start["a"]) != 1 || start["a"][1] == 0 {
		t.Errorf("partition 1 starts at %v", start)
	}
	if len(fresh["a"]) != 3 || fresh["a"][0] == 0 || fresh["a"][2] == 0 {
		t.Errorf("%v enters the ledger, want every partition at its end", fresh)
	}
}

// A partition that is added to a topic is read from its first offset.
func TestPartitionsAdded(t *testing.T) {
	w := newStage(t, map[string]int32{"a": 1})
	w.ingest("t", func(c *IngestConfig) { c.Start = "latest" }, "a")
	if err := w.once(); err != nil {
		t.Fatal(err)
	}
	w.produce("a", 1, 10)
	if _, err := w.admin.CreatePartitions(t.Context(), 1, "a"); err != nil {
		t.Fatal(err)
	}
	w.produce("a", 2, 10)
	if err := w.once(); err != nil {
		t.Fatal(err)
	}
	w.audit("t", "a")
}
