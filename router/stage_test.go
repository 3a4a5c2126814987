package router

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow/array"
	icebergio "github.com/apache/iceberg-go/io"
	"github.com/apache/iceberg-go/table"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest"

	"icerouter/catalog"
	"icerouter/writers"
)

// stage is what an ingest lives in: a broker, a catalog and a warehouse, all
// in this process and all real but for the broker.
type stage struct {
	t      *testing.T
	broker *kfake.Cluster
	client *kgo.Client
	admin  *kadm.Client
	dir    string
	cfg    Config
	sent   map[string]map[int32]int64 // records produced, by topic and partition
}

func newStage(t *testing.T, topics map[string]int32) *stage {
	t.Helper()
	broker, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.GroupMinSessionTimeout(500*time.Millisecond))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(broker.Close)
	w := &stage{t: t, broker: broker, dir: t.TempDir(), sent: map[string]map[int32]int64{}}
	w.client, err = kgo.NewClient(kgo.SeedBrokers(broker.ListenAddrs()...))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.client.Close)
	w.admin = kadm.NewClient(w.client)
	for topic, parts := range topics {
		if _, err := w.admin.CreateTopic(t.Context(), parts, 1, nil, topic); err != nil {
			t.Fatal(err)
		}
	}
	w.cfg = Default()
	w.cfg.HTTP.Listen = ""
	w.cfg.Kafka.Brokers = broker.ListenAddrs()
	w.cfg.Kafka.SessionTimeout = 2 * time.Second
	w.cfg.Catalog = CatalogConfig{Name: "router", Type: "sql", URI: "sqlite:" + filepath.Join(w.dir, "catalog.db"), Warehouse: "file://" + filepath.Join(w.dir, "warehouse")}
	return w
}

// ingest adds an ingest of topics into ns.name, made on first use.
func (w *stage) ingest(name string, change func(*IngestConfig), topics ...string) {
	c := DefaultIngest()
	c.Name, c.Topics, c.Table, c.Trigger = name, topics, "ns."+name, 200*time.Millisecond
	c.Create = &CreateConfig{
		Schema: []ColumnConfig{
			{Name: "id", Type: "long", Required: true}, {Name: "text", Type: "string"},
			{Name: "_kafka_topic", Type: "string"}, {Name: "_kafka_partition", Type: "int"}, {Name: "_kafka_offset", Type: "long"},
		},
		Partition: []string{"bucket(id, 8)"},
	}
	if change != nil {
		change(&c)
	}
	w.cfg.Ingest = append(w.cfg.Ingest, c)
}

// produce sends n records to each partition of topic.
func (w *stage) produce(topic string, parts int32, n int) {
	w.t.Helper()
	if w.sent[topic] == nil {
		w.sent[topic] = map[int32]int64{}
	}
	var records []*kgo.Record
	for p := range parts {
		for range n {
			id := w.sent[topic][p]
			w.sent[topic][p]++
			records = append(records, &kgo.Record{Topic: topic, Partition: p, Value: fmt.Appendf(nil, `{"id": %d, "text": "record %d of %d"}`, id*7, id, p)})
		}
	}
	w.send(records...)
}

// send produces with a client of its own, which knows the topics as they are now.
func (w *stage) send(records ...*kgo.Record) {
	w.t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(w.broker.ListenAddrs()...), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if err != nil {
		w.t.Fatal(err)
	}
	defer client.Close()
	if err := client.ProduceSync(w.t.Context(), records...).FirstErr(); err != nil {
		w.t.Fatal(err)
	}
}

// once runs a router to the ends of the topics.
func (w *stage) once() error {
	w.t.Helper()
	r, err := New(w.cfg, zaptest.NewLogger(w.t, zaptest.Level(zap.InfoLevel)), Options{Once: true})
	if err != nil {
		w.t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(w.t.Context(), time.Minute)
	defer cancel()
	err = r.Run(ctx, ctx)
	if ctx.Err() != nil {
		w.t.Fatalf("did not end by itself: %v", err)
	}
	return err
}

// daemon runs a router beside the test until its stop (drain) or kill is called.
type daemon struct {
	router     *Router
	stop, kill context.CancelFunc
	done       chan error
	commits    chan struct{}
}

func (w *stage) daemon() *daemon {
	w.t.Helper()
	d := &daemon{done: make(chan error, 1), commits: make(chan struct{}, 1000)}
	r, err := New(w.cfg, zaptest.NewLogger(w.t, zaptest.Level(zap.InfoLevel)), Options{Progress: func() {
		select {
		case d.commits <- struct{}{}:
		default:
		}
	}})
	if err != nil {
		w.t.Fatal(err)
	}
	d.router = r
	var ctx, hard context.Context
	ctx, d.stop = context.WithCancel(w.t.Context())
	hard, d.kill = context.WithCancel(w.t.Context())
	go func() { d.done <- r.Run(ctx, hard) }()
	w.t.Cleanup(func() { d.kill(); d.stop() })
	return d
}

// awaitRows waits until the ledger has passed n records in all, however many
// instances worked on it.
func (w *stage) awaitRows(a, b *daemon, n int64) {
	w.t.Helper()
	deadline := time.After(2 * time.Minute) // the fake broker may wait a whole rebalance timeout for a killed member
	for w.passed() < n {
		select {
		case <-a.commits:
		case <-b.commits:
		case <-time.After(100 * time.Millisecond):
		case <-deadline:
			w.t.Fatalf("%d of %d records after 2 min", w.passed(), n)
		}
	}
}

// passed sums the offsets of every ledger in the table of the first ingest.
func (w *stage) passed() (n int64) {
	var ledger struct {
		Topics map[string]struct{ Next map[int32]int64 }
	}
	text := ""
	if tbl := w.find(w.cfg.Ingest[0].Name); tbl != nil {
		text = tbl.Properties()[catalog.LedgerProperty(w.cfg.Ingest[0].Name)]
	}
	if text == "" {
		return 0
	}
	if err := json.Unmarshal([]byte(text), &ledger); err != nil {
		w.t.Fatal(err)
	}
	for _, topic := range ledger.Topics {
		for _, next := range topic.Next {
			n += next
		}
	}
	return n
}

// origin is where a row of the table came from.
type origin struct {
	topic     string
	partition int32
	offset    int64
}

// rows reads the table with Iceberg's own scan and counts the rows by origin.
func (w *stage) rows(name string) map[origin]int {
	w.t.Helper()
	tbl := w.load(name)
	_, records, err := tbl.Scan(table.WithSelectedFields("_kafka_topic", "_kafka_partition", "_kafka_offset")).ToArrowRecords(w.t.Context())
	if err != nil {
		w.t.Fatal(err)
	}
	out := map[origin]int{}
	for rec, err := range records {
		if err != nil {
			w.t.Fatal(err)
		}
		column := func(name string) any {
			return rec.Column(rec.Schema().FieldIndices(name)[0])
		}
		topics := column("_kafka_topic").(interface{ Value(int) string })
		parts, offsets := column("_kafka_partition").(*array.Int32), column("_kafka_offset").(*array.Int64)
		for i := range int(rec.NumRows()) {
			out[origin{topics.Value(i), parts.Value(i), offsets.Value(i)}]++
		}
		rec.Release()
	}
	return out
}

// load reads the table's metadata as any client of the catalog's database would.
func (w *stage) load(name string) *table.Table {
	w.t.Helper()
	tbl := w.find(name)
	if tbl == nil {
		w.t.Fatalf("no table %s", name)
	}
	return tbl
}

// find is load for a table that may not be there yet.
func (w *stage) find(name string) *table.Table {
	w.t.Helper()
	db, err := sql.Open("sqlite", "file:"+strings.TrimPrefix(w.cfg.Catalog.URI, "sqlite:")+"?_pragma=busy_timeout(5000)")
	if err != nil {
		w.t.Fatal(err)
	}
	defer db.Close()
	var location string
	if err := db.QueryRow("SELECT metadata_location FROM iceberg_tables WHERE table_name = ?", name).Scan(&location); err != nil {
		return nil
	}
	disk := func(context.Context) (icebergio.IO, error) { return icebergio.LocalFS{}, nil }
	tbl, err := table.NewFromLocation(w.t.Context(), table.Identifier{"ns", name}, location, disk, nil)
	if err != nil {
		w.t.Fatal(err)
	}
	return tbl
}

// audit fails unless the table holds every record that was produced to the
// topics exactly once.
func (w *stage) audit(name string, topics ...string) {
	w.t.Helper()
	rows := w.rows(name)
	want := 0
	for _, topic := range topics {
		for p, n := range w.sent[topic] {
			want += int(n)
			for offset := range n {
				if got := rows[origin{topic, p, offset}]; got != 1 {
					w.t.Fatalf("%s/%d offset %d: %d times in the table, want once", topic, p, offset, got)
				}
			}
		}
	}
	if len(rows) != want {
		w.t.Fatalf("got %d rows, want %d", len(rows), want)
	}
}

// consume reads the first n records of topic.
func (w *stage) consume(topic string, n int) []*kgo.Record {
	w.t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(w.broker.ListenAddrs()...), kgo.ConsumeTopics(topic))
	if err != nil {
		w.t.Fatal(err)
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(w.t.Context(), 20*time.Second)
	defer cancel()
	var out []*kgo.Record
	for len(out) < n {
		f := client.PollFetches(ctx)
		if err := ctx.Err(); err != nil {
			w.t.Fatalf("topic %s: got %d records, want %d", topic, len(out), n)
		}
		out = append(out, f.Records()...)
	}
	return out
}

func deleteBefore(topic string, partition int32, offset int64) kadm.Offsets {
	o := kadm.Offsets{}
	o.Add(kadm.Offset{Topic: topic, Partition: partition, At: offset, LeaderEpoch: -1})
	return o
}

// drop removes a table from the catalog; its files stay.
func (w *stage) drop(name string) {
	w.t.Helper()
	db, err := sql.Open("sqlite", "file:"+strings.TrimPrefix(w.cfg.Catalog.URI, "sqlite:")+"?_pragma=busy_timeout(5000)")
	if err != nil {
		w.t.Fatal(err)
	}
	defer db.Close()
	if _, err := db.Exec("DELETE FROM iceberg_tables WHERE table_name = ?", name); err != nil {
		w.t.Fatal(err)
	}
}

var nopLog = zap.NewNop()

// storeOpener opens stores for a catalog, as an ingest does.
func storeOpener(stores *writers.Stores) catalog.OpenStore {
	return func(ctx context.Context, location string, properties map[string]string) (icebergio.IO, error) {
		return stores.Open(ctx, location, properties)
	}
}
