package router

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// What a broker would refuse, together with all of its batch, is a bad row of
// its own: told with its place, or sent to the dead letters.
func TestPublishRefusedByTopic(t *testing.T) {
	w := newStage(t, map[string]int32{"a": 1, "out": 1, "dead": 1})
	w.ingest("t", func(c *IngestConfig) { c.Create.Partition = nil }, "a")
	w.publish("p", "t", "out", func(c *PublishConfig) { c.Key = Names{"text"} })
	client, err := kgo.NewClient(kgo.SeedBrokers(w.broker.ListenAddrs()...))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	answer, err := kadm.NewClient(client).AlterTopicConfigs(context.Background(), []kadm.AlterConfig{{Op: kadm.SetConfig, Name: "cleanup.policy", Value: kadm.StringPtr("compact")}}, "out")
	if err != nil || answer[0].Err != nil {
		t.Fatal(err, answer)
	}
	for id := range 10 {
		value := fmt.Sprintf(`{"id": %d, "text": "t%d"}`, id, id)
		if id == 4 {
			value = `{"id": 4}`
		}
		if err := client.ProduceSync(t.Context(), &kgo.Record{Topic: "a", Value: []byte(value)}).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.only("ingest", w.once); err != nil {
		t.Fatal(err)
	}
	halted(t, w.only("publish", w.once), "row 4", "without a key", "compacted", "on_bad_row")
	w.cfg.Publish[0].OnBadRow, w.cfg.Publish[0].DeadLetterTopic = "dead_letter", "dead"
	if err := w.only("publish", w.once); err != nil {
		t.Fatal(err)
	}
	if out, letters := w.committed("out"), w.committed("dead"); len(out) != 9 || len(letters) != 1 || header(letters[0], headerReason) != "key" {
		t.Errorf("%d records and %d dead letters, want 9 and 1", len(out), len(letters))
	}
}

// A timestamp that the topic does not take is told before the broker is asked.
func TestTopicRefuses(t *testing.T) {
	now := time.Now()
	hour := topicEntry{before: time.Hour, after: time.Hour}
	for _, c := range []struct {
		what   string
		entry  topicEntry
		record kgo.Record
		reason string
	}{
		{"no timestamp", hour, kgo.Record{}, ""},
		{"within", hour, kgo.Record{Timestamp: now.Add(-50 * time.Minute)}, ""},
		{"too old", hour, kgo.Record{Timestamp: now.Add(-2 * time.Hour)}, "timestamp"},
		{"too far ahead", hour, kgo.Record{Timestamp: now.Add(2 * time.Hour)}, "timestamp"},
		{"no bounds", topicEntry{before: -1, after: -1}, kgo.Record{Timestamp: now.AddDate(-200, 0, 0)}, ""},
		{"no key", topicEntry{before: -1, after: -1, compacted: true}, kgo.Record{}, "key"},
		{"empty key", topicEntry{before: -1, after: -1, compacted: true}, kgo.Record{Key: []byte{}}, ""},
	} {
		var bad *badRow
		if err := c.entry.refuses(&c.record); (err != nil) != (c.reason != "") || errors.As(err, &bad) && bad.reason != c.reason {
			t.Errorf("%s: %v, want reason %q", c.what, err, c.reason)
		}
	}
	if got := millisecondsUpTo(9223372036854775807); got != -1 {
		t.Errorf("Kafka's word for no bound is %s", got)
	}
}
