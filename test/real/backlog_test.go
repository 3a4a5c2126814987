//go:build real

package real_test

import (
	"context"
	"fmt"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// auditIngest is an ingest whose table tells which records it has.
func auditIngest(name, table string, topics ...string) ingest {
	return ingest{name: name, topics: topics, table: table, columns: auditColumns(), partition: []string{"bucket(seq, 4)"}}
}

// transaction produces records n of sequence in one transaction and ends it.
func transaction(t *testing.T, c *kgo.Client, topic string, partition int32, commit kgo.TransactionEndTry, values ...string) {
	t.Helper()
	if err := c.BeginTransaction(); err != nil {
		t.Fatal(err)
	}
	for _, v := range values {
		produceRecords(t, c, &kgo.Record{Topic: topic, Partition: partition, Value: []byte(v)})
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := c.EndTransaction(ctx, commit); err != nil {
		t.Fatalf("end the transaction: %v", err)
	}
}

// --once ends with every committed record though the last offsets of the
// partitions are control records, aborted records, and one partition is empty.
func TestOnceWithTransactions(t *testing.T) {
	t.Parallel()
	c := client(t)
	l := apache(t)
	topic := makeTopic(t, c, "transactions", 4)
	tx := client(t, kgo.TransactionalID(topic))
	transaction(t, tx, topic, 0, kgo.TryCommit, sequence(0, 10)...)
	transaction(t, tx, topic, 0, kgo.TryAbort, sequence(100, 110)...)
	transaction(t, tx, topic, 0, kgo.TryCommit, sequence(10, 20)...) // ends in a control record
	transaction(t, tx, topic, 1, kgo.TryCommit, sequence(20, 30)...)
	transaction(t, tx, topic, 1, kgo.TryAbort, sequence(110, 120)...) // an aborted tail
	transaction(t, tx, topic, 2, kgo.TryAbort, sequence(120, 130)...) // nothing but aborted
	table := unique("tx") + ".records"
	path := config{lake: l, ingests: []ingest{auditIngest("transactions", table, topic)}}.write(t)
	mustOnce(t, path)
	n := l.numbers(t, table, `SELECT count(*) AS "rows", count(DISTINCT seq) AS seqs, max(seq) AS high FROM {table}`)
	if n["rows"] != 30 || n["seqs"] != 30 || n["high"] != 29 {
		t.Errorf("the table has %v, want 30 rows up to 29", n)
	}

	// An open transaction holds the end back: what is behind it is not read, and not waited for.
	if err := tx.BeginTransaction(); err != nil {
		t.Fatal(err)
	}
	produceRecords(t, tx, &kgo.Record{Topic: topic, Partition: 0, Value: []byte(`{"seq":200}`)})
	produceRecords(t, c, &kgo.Record{Topic: topic, Partition: 0, Value: []byte(`{"seq":201}`)})
	mustOnce(t, path)
	if got := l.count(t, table); got != 30 {
		t.Errorf("%d rows while a transaction is open, want 30", got)
	}
	if err := tx.EndTransaction(t.Context(), kgo.TryCommit); err != nil {
		t.Fatal(err)
	}
	mustOnce(t, path)
	if got := l.count(t, table); got != 32 {
		t.Errorf("%d rows after the transaction, want 32", got)
	}
}

// Records that compaction removed leave gaps, also at the very end of what --once reads.
func TestOnceWithCompactedTopic(t *testing.T) {
	t.Parallel()
	c := client(t)
	l := apache(t)
	topic := makeTopic(t, c, "compacted", 1, "cleanup.policy", "compact", "segment.ms", "100", "min.cleanable.dirty.ratio", "0.01",
		"max.compaction.lag.ms", "200", "delete.retention.ms", "100")
	write := func(seq int) {
		produceRecords(t, c, &kgo.Record{Topic: topic, Key: []byte(strconv.Itoa(seq % 5)), Value: fmt.Appendf(nil, `{"seq":%d}`, seq)})
	}
	for i := range 40 {
		write(i)
	}
	produceRecords(t, c, &kgo.Record{Topic: topic, Key: []byte("4"), Value: nil}) // a tombstone
	// A new segment begins with a record after segment.ms; only closed ones are compacted.
	last := 40
	until(t, time.Minute, "topic compacted", func() bool {
		write(last)
		last++
		pause(t, 300*time.Millisecond)
		return len(consume(t, topic)) < last/2
	})
	table := unique("compact") + ".records"
	mustOnce(t, config{lake: l, ingests: []ingest{auditIngest("compacted", table, topic)}}.write(t))
	n := l.numbers(t, table, `SELECT count(*) AS "rows", count(DISTINCT _kafka_offset) AS places, max(seq) AS high, count(DISTINCT seq % 5) AS keys FROM {table}`)
	if n["high"] != last-1 || n["rows"] != n["places"] || n["keys"] < 4 || n["rows"] >= last {
		t.Errorf("the table has %v; the newest record is %d", n, last-1)
	}
}

// An empty topic, and a topic that was read to its end, are done at once.
func TestOnceWithNothingToDo(t *testing.T) {
	t.Parallel()
	c := client(t)
	l := apache(t)
	topic := makeTopic(t, c, "nothing", 3)
	table := unique("nothing") + ".records"
	path := config{lake: l, ingests: []ingest{auditIngest("nothing", table, topic)}}.write(t)
	mustOnce(t, path)
	produce(t, c, topic, 3, sequence(0, 30)...)
	mustOnce(t, path)
	e := mustOnce(t, path)
	if e.took > 20*time.Second {
		t.Errorf("a --once with nothing to read took %s", e.took)
	}
	audit(t, l, table, topic, 30)
}

// started makes a topic and a table with 20 records in them, and the config.
func started(t *testing.T, c *kgo.Client, l lake, extra ...string) (topic, table, path string) {
	t.Helper()
	topic = makeTopic(t, c, "lost", 2)
	table = unique("lost") + ".records"
	in := auditIngest("lost", table, topic)
	in.extra = extra
	path = config{lake: l, ingests: []ingest{in}}.write(t)
	produce(t, c, topic, 2, sequence(0, 20)...)
	mustOnce(t, path)
	return topic, table, path
}

// Records that are gone before they were read stop the ingest with partition,
// both offsets and the remedy; by policy it goes on after the gap.
func TestOffsetOutOfRange(t *testing.T) {
	t.Parallel()
	c := client(t)
	l := apache(t)
	topic, table, path := started(t, c, l)
	produce(t, c, topic, 2, sequence(20, 60)...)
	deleteBefore(t, c, topic, 1, 25) // the ledger is at 10
	e := once(t, path)
	if e.code != 1 {
		t.Errorf("exit code %d, want 1", e.code)
	}
	e.mentions(t, topic, "10", "25", "on_lost_records")
	if got := l.count(t, table); got > 40 {
		t.Errorf("%d rows, but partition 1 has a hole", got)
	}
	in := auditIngest("lost", table, topic)
	in.extra = []string{`on_lost_records = "continue"`}
	mustOnce(t, config{lake: l, ingests: []ingest{in}}.write(t))
	if got := l.count(t, table); got != 60-15 {
		t.Errorf("%d rows, want 45: all but the 15 that are lost", got)
	}
}

// A topic that was deleted and made again is another one: its offsets mean something else.
func TestTopicRecreated(t *testing.T) {
	t.Parallel()
	c := client(t)
	l := apache(t)
	topic, table, path := started(t, c, l)
	deleteTopic(t, c, topic)
	createTopic(t, c, topic, 2)
	produce(t, client(t), topic, 2, sequence(100, 140)...) // c knows the id of the first one
	e := once(t, path)
	if e.code != 1 {
		t.Errorf("exit code %d, want 1", e.code)
	}
	e.mentions(t, topic, "on_topic_reset")
	if got := l.count(t, table); got != 20 {
		t.Errorf("%d rows, want the 20 of the first topic", got)
	}
	in := auditIngest("lost", table, topic)
	in.extra = []string{`on_topic_reset = "restart"`}
	mustOnce(t, config{lake: l, ingests: []ingest{in}}.write(t))
	if got := l.count(t, table); got != 60 {
		t.Errorf("%d rows, want 60: both topics'", got)
	}
}

// The same topic name on another cluster is another topic.
func TestOtherCluster(t *testing.T) {
	t.Parallel()
	c := client(t)
	l := apache(t)
	topic, table, _ := started(t, c, l)
	port, controller := freePort(t), freePort(t)
	environment := []string{"REAL_RUN=" + filepath.Join(lab.run, "other"), fmt.Sprint("KAFKA_PORT=", port), fmt.Sprint("KAFKA_CONTROLLER_PORT=", controller), "KAFKA_SASL_PORT="}
	t.Cleanup(func() {
		if _, err := lab.script("kafka", []string{"clean"}, environment...); err != nil {
			t.Error(err)
		}
	})
	if _, err := lab.script("kafka", []string{"start"}, environment...); err != nil {
		t.Fatal(err)
	}
	broker := fmt.Sprint("127.0.0.1:", port)
	other := clientAt(t, broker)
	createTopic(t, other, topic, 2)
	produce(t, other, topic, 2, sequence(500, 560)...)
	e := once(t, config{kafka: fmt.Sprintf("[kafka]\nbrokers = [%q]\n", broker), lake: l, ingests: []ingest{auditIngest("lost", table, topic)}}.write(t))
	if e.code != 1 {
		t.Errorf("exit code %d, want 1", e.code)
	}
	e.mentions(t, "cluster", "on_topic_reset")
	if got := l.count(t, table); got != 20 {
		t.Errorf("%d rows, want the 20 of the first cluster", got)
	}
}
