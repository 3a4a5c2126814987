package router

import (
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// Offsets without records at the end of a partition get into the ledger when
// the ingest stops. Retention may then delete them: they are not lost records.
func TestTailWithoutRecords(t *testing.T) {
	w := newStage(t, map[string]int32{"a": 1})
	w.ingest("t", nil, "a")
	client, err := kgo.NewClient(kgo.SeedBrokers(w.broker.ListenAddrs()...), kgo.TransactionalID("x"), kgo.DefaultProduceTopic("a"))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	if err := client.BeginTransaction(); err != nil {
		t.Fatal(err)
	}
	if err := client.ProduceSync(t.Context(), kgo.StringRecord(`{"id": 1}`), kgo.StringRecord(`{"id": 2}`)).FirstErr(); err != nil {
		t.Fatal(err)
	}
	if err := client.EndTransaction(t.Context(), kgo.TryAbort); err != nil {
		t.Fatal(err)
	}
	d := w.daemon()
	state, deadline := d.router.states[0], time.After(40*time.Second)
	for reading := int64(0); reading < 3; { // two records and the marker
		state.mu.Lock()
		reading = state.reading[topicPartition{"a", 0}]
		state.mu.Unlock()
		select {
		case <-deadline:
			t.Fatalf("reading at %d after 40 s", reading)
		case <-time.After(20 * time.Millisecond):
		}
	}
	d.stop()
	if err := <-d.done; err != nil {
		t.Fatal(err)
	}
	if _, err := w.admin.DeleteRecords(t.Context(), deleteBefore("a", 0, 3)); err != nil {
		t.Fatal(err)
	}
	if err := w.once(); err != nil {
		t.Error(err)
	}
}
