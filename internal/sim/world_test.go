//go:build synctests

package sim

import (
	"bytes"
	"context"
	"encoding/base64"
	"fmt"
	"log"
	"math/rand/v2"
	"net"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/apache/iceberg-go/table"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"icerouter/router"
)

// world is everything that outlives an instance: the broker, the catalog, the
// store, the truth about what was produced, and the auditor.
type world struct {
	ctx     context.Context
	seed    uint64
	rand    *rand.Rand
	network *network
	cfg     router.Config
	broker  *kfake.Cluster
	client  *kgo.Client
	admin   *kadm.Client
	letters *kgo.Client
	truth   *truth
	objects *objects
	lake    *lake
	audit   *auditor
	audited audited // by router audit
	log     *logbook
	back    *back // nil: the scene has none
	close   []func()

	mu        sync.Mutex
	gates     map[string]*gate
	instances map[int]*instance
	dead      map[origin]int // dead letters by origin
	read      map[int32]int64
	txn       *transaction
	ended     sync.WaitGroup // runs of instances
	columns   int
	policy    string // "halt" or "mend": what the instances do where records are lost
	faults    []*kfake.FaultHandle
	shown     map[int]string // by step, from 0
	halting   map[int]bool   // the instances that the scene wants to halt
}

const (
	ingestName = "t"
	deadTopic  = "dead"
	brokers    = 3
)

var topics = []string{"a", "b"}

// logbook keeps what everybody said, for the day a seed fails.
type logbook struct {
	began time.Time
	mu    sync.Mutex
	buf   bytes.Buffer
}

func (l *logbook) printf(format string, arguments ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	fmt.Fprintf(&l.buf, "%8.3f  %s\n", time.Since(l.began).Seconds(), fmt.Sprintf(format, arguments...))
}

func (l *logbook) Write(b []byte) (int, error) {
	l.printf("%s", bytes.TrimRight(b, "\n"))
	return len(b), nil
}

func (l *logbook) text() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.String()
}

// zap is a logger of an instance.
func (l *logbook) zap(name string) *zap.Logger {
	encoder := zapcore.NewConsoleEncoder(zapcore.EncoderConfig{MessageKey: "m", LevelKey: "l", NameKey: "n", EncodeLevel: zapcore.CapitalLevelEncoder, EncodeDuration: zapcore.StringDurationEncoder})
	level := zap.InfoLevel
	if *loud {
		level = zap.DebugLevel
	}
	return zap.New(zapcore.NewCore(encoder, zapcore.AddSync(l), level)).Named(name)
}

// newWorld makes the world of a scene that follows from its seed.
func newWorld(ctx context.Context, seed uint64, scene []string) (w *world, err error) {
	w = &world{
		ctx: ctx, seed: seed, rand: rand.New(rand.NewPCG(seed, 1)), network: newNetwork(seed), truth: newTruth(), objects: newObjects(),
		log: &logbook{began: time.Now()}, gates: map[string]*gate{}, instances: map[int]*instance{}, dead: map[origin]int{}, read: map[int32]int64{},
		shown: map[int]string{}, halting: map[int]bool{},
	}
	w.audit = newAuditor(w.truth, w.objects, ingestName, w.log.printf)
	w.objects.gates = w.gate
	w.objects.deleted = func(by, name string) { w.audit.deleting(w.lake.current(), by, name) }
	w.lake = &lake{gates: w.gate, objects: w.objects, applied: w.applied}
	if publishes(scene) {
		w.back = newBack(w)
	}
	if err := w.openBroker(); err != nil {
		w.end()
		return nil, err
	}
	w.audited = audited{w.serve(w.lake), w.objects}
	w.configure(w.serve(w.objects), w.audited.uri)
	w.gates[auditName] = newGate(auditName)
	if w.back != nil {
		err = w.back.open()
	}
	return w, err
}

// applied is told of each new state of the table.
func (w *world) applied(by string, before, after table.Metadata) {
	w.audit.applied(by, before, after)
	if w.back != nil {
		w.back.audit.applied(before, after)
	}
}

// serve starts an HTTP server and returns its URL.
func (w *world) serve(h http.Handler) string {
	l, err := w.network.Listen("", "")
	if err != nil {
		panic(err) // a new port is always free
	}
	s := &http.Server{Handler: h, ErrorLog: log.New(w.log, "http: ", 0)}
	w.ended.Go(func() { _ = s.Serve(l) })
	w.close = append(w.close, func() { _ = s.Close() })
	return address(l)
}

// dial makes a client of Kafka that is not an instance's.
func (w *world) dial(opts ...kgo.Opt) (*kgo.Client, error) {
	return kgo.NewClient(append(opts, kgo.SeedBrokers(w.broker.ListenAddrs()...), kgo.Dialer(w.network.DialContext))...)
}

func (w *world) openBroker() (err error) {
	w.broker, err = kfake.NewCluster(append(w.back.brokers(), kfake.NumBrokers(brokers), kfake.GroupMinSessionTimeout(500*time.Millisecond),
		kfake.ListenFn(func(network, address string) (net.Listener, error) {
			l, err := w.network.Listen(network, address)
			return listener{l, w.gate}, err
		}))...)
	if err != nil {
		return err
	}
	w.close = append(w.close, w.broker.Close)
	if w.client, err = w.dial(); err != nil {
		return err
	}
	w.close = append(w.close, w.client.Close)
	w.admin = kadm.NewClient(w.client)
	for _, topic := range topics {
		if err := w.create(topic, 1+w.rand.Int32N(5)); err != nil {
			return err
		}
	}
	// One partition, and its leader stays: a client's senders share a lock while
	// one of them asks for a producer id, and who waits for a lock stops the clock.
	if err := w.broker.CreateTopic(deadTopic, 1, nil); err != nil {
		return err
	}
	w.letters, err = w.dial(kgo.ConsumeTopics(deadTopic), kgo.FetchMaxWait(100*time.Millisecond))
	w.close = append(w.close, func() { w.letters.Close() })
	return err
}

// create makes a topic.
func (w *world) create(topic string, partitions int32) error {
	if err := w.broker.CreateTopic(topic, partitions, nil); err != nil {
		return err
	}
	id := w.broker.TopicInfo(topic).TopicID
	w.truth.made(topic, base64.StdEncoding.EncodeToString(id[:]))
	return nil
}

// configure chooses the limits of the instances.
func (w *world) configure(store, rest string) {
	pick := func(choices ...int) int { return choices[w.rand.IntN(len(choices))] }
	cfg := router.Default()
	cfg.HTTP.Listen = ""
	cfg.StopTimeout = 10 * time.Second
	cfg.Kafka.Brokers = w.broker.ListenAddrs()
	cfg.Kafka.SessionTimeout = time.Duration(pick(1000, 1000, 2000, 4000)) * time.Millisecond
	cfg.Catalog = router.CatalogConfig{Name: "lake", Type: "rest", URI: rest, Properties: map[string]string{
		"s3.endpoint": store, "s3.region": "us-east-1", "s3.path-style-access": "true", "s3.secret-access-key": "secret",
	}}
	in := router.DefaultIngest()
	in.Name, in.Topics, in.Table = ingestName, topics, "ns.t"
	in.Trigger = time.Duration(pick(100, 100, 200, 400, 1500)) * time.Millisecond
	in.TriggerRows = int64(pick(0, 0, 20, 100))
	in.TargetFileSize = router.Bytes(pick(64<<10, 1<<20))
	in.CutsInFlightMax = pick(1, 2, 3)
	in.Codec = "snappy" // a zstd encoder keeps channels, is used again, and would meet another bubble
	in.KeepSnapshots, in.KeepSnapshotsFor = pick(1, 2, 5, 50), 0
	in.OnBadRecord, in.DeadLetterTopic = "dead_letter", deadTopic
	in.Create = &router.CreateConfig{Schema: []router.ColumnConfig{
		{Name: "id", Type: "long", Required: true}, {Name: "text", Type: "string"},
		{Name: "_kafka_topic", Type: "string"}, {Name: "_kafka_partition", Type: "int"}, {Name: "_kafka_offset", Type: "long"},
	}}
	in.Create.Properties = map[string]string{"write.parquet.compression-codec": "snappy"} // of other writers
	in.Create.Partition = [][]string{nil, {"bucket(id, 4)"}, {"_kafka_topic"}}[w.rand.IntN(3)]
	w.audit.keep = in.KeepSnapshots
	cfg.Ingest = []router.IngestConfig{in}
	w.cfg = cfg
}

// end lets go of everything.
func (w *world) end() {
	for _, i := range w.instances {
		i.die()
	}
	w.mu.Lock()
	for _, g := range w.gates {
		g.close()
	}
	w.mu.Unlock()
	if w.txn != nil {
		w.txn.client.Close()
	}
	w.lake.late.Wait()
	w.objects.late.Wait()
	for i := len(w.close) - 1; i >= 0; i-- {
		w.close[i]()
	}
	w.network.end()
	w.ended.Wait()
}

func (w *world) gate(name string) *gate {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.gates[name]
}

// instance is one run of a router.
type instance struct {
	name       string
	group      string
	gate       *gate
	router     *router.Router
	stop, kill context.CancelFunc
	done       chan error
	ends       map[origin]int64 // where a run to the ends began to end; nil: it is none
}

// die ends the instance as kill -9 does. It does not wait for the end.
func (i *instance) die() {
	i.gate.close()
	i.kill()
	i.stop()
}

// start starts instance n in a group, or with once a run to the ends.
func (w *world) start(n int, group string, once bool) (*instance, error) {
	w.mu.Lock()
	name := "i" + strconv.Itoa(n) + "-" + strconv.Itoa(len(w.gates))
	i := &instance{name: name, group: group, gate: newGate(name), done: make(chan error, 1)}
	i.gate.die = i.die
	i.gate.evict = func() { w.evict(name) }
	w.gates[name] = i.gate
	w.mu.Unlock()
	cfg := w.cfg
	cfg.Kafka.ClientID = name
	cfg.Ingest = slices.Clone(cfg.Ingest)
	for i := range cfg.Ingest {
		cfg.Ingest[i].Group = group
	}
	cfg.Catalog.Properties = map[string]string{"token": name, "s3.access-key-id": name}
	for key, value := range w.cfg.Catalog.Properties {
		cfg.Catalog.Properties[key] = value
	}
	if w.lake.sql != nil {
		cfg.Catalog.URI = w.lake.sql.uri(name)
	}
	var err error
	if i.router, err = router.New(cfg, w.log.zap(name), router.Options{Once: once, Dial: w.network.DialContext}); err != nil {
		return nil, err
	}
	var ctx, hard context.Context
	ctx, i.stop = context.WithCancel(w.ctx)
	hard, i.kill = context.WithCancel(w.ctx)
	w.ended.Go(func() {
		err := i.router.Run(ctx, hard)
		w.log.printf("%s has ended: %v", name, err)
		i.done <- err
	})
	return i, nil
}

// ledger is the table's, empty while there is none.
func (w *world) ledger() ledger {
	meta := w.lake.current()
	if meta == nil {
		return ledger{}
	}
	l, err := ledgerOf(meta, ingestName)
	if err != nil {
		w.audit.violation("ledger: %v", err)
	}
	return l
}

// behind names a partition whose ledger is not at its last stable offset, or nothing.
func (w *world) behind() string {
	l := w.ledger()
	for _, topic := range topics {
		for _, p := range w.broker.PartitionInfos(topic) {
			if next, _ := l.next(topic, w.truth.logs[topic], p.Partition); next < p.LastStableOffset {
				return fmt.Sprintf("%s/%d: the ledger is at %d of %d", topic, p.Partition, next, p.LastStableOffset)
			}
		}
	}
	return ""
}

// waiting names a record that the ledger has not passed, or nothing. An idle
// instance does not commit a tail without records.
func (w *world) waiting() string {
	l := w.ledger()
	w.truth.mu.Lock()
	defer w.truth.mu.Unlock()
	stable := map[origin]int64{}
	for _, r := range w.truth.records {
		o := r.origin
		if r.kind == pending || r.kind == aborted || r.loose || o.offset < l.of(r) {
			continue
		}
		at := origin{o.topic, o.partition, 0}
		if _, known := stable[at]; !known {
			stable[at] = w.broker.PartitionInfo(o.topic, o.partition).LastStableOffset
		}
		if o.offset < stable[at] {
			return fmt.Sprintf("%s record %d of %v: the ledger is at %d", r.kind, r.id, o, l.of(r))
		}
	}
	return ""
}

// inspect is the audit after a step: the table, and the dead letters that the
// ledger has passed.
func (w *world) inspect(when string) {
	w.lake.mu.Lock()
	meta := w.lake.meta
	var l ledger
	if meta != nil && meta.CurrentSnapshot() != nil {
		l, _ = ledgerOf(meta, ingestName)
		w.audit.mu.Lock()
		w.audit.inspect(when, meta, l)
		w.audit.mu.Unlock()
	}
	w.lake.mu.Unlock()
	for topic, t := range l {
		if t.ID != w.truth.logs[topic] {
			continue
		}
		for p, next := range t.Next {
			if i := w.broker.PartitionInfo(topic, p); i == nil || next > i.LastStableOffset {
				w.audit.violation("%s: the ledger of %s/%d is at %d, beyond the log's %+v", when, topic, p, next, i)
			}
		}
	}
	w.readLetters()
	w.checkGroup(when)
	var wrong []string
	w.truth.mu.Lock()
	bads := map[origin]bool{}
	for _, r := range w.truth.records {
		if r.kind != bad || r.origin.offset < 0 || w.cfg.Ingest[0].OnBadRecord == "skip" {
			continue
		}
		bads[r.origin] = true
		if w.dead[r.origin] == 0 && !r.loose && r.origin.offset < l.of(r) {
			wrong = append(wrong, fmt.Sprintf("the ledger has passed the bad record %v (at %d), and there is no dead letter", r.origin, l.of(r)))
		}
	}
	w.truth.mu.Unlock() // the auditor's lock comes first
	for o := range w.dead {
		if !bads[o] {
			wrong = append(wrong, fmt.Sprintf("dead letter of %v, which is not a bad record", o))
		}
	}
	for _, text := range wrong {
		w.audit.violation("%s: %s", when, text)
	}
}

// readLetters reads the dead-letter topic to its present end.
func (w *world) readLetters() {
	ctx, cancel := context.WithTimeout(w.ctx, 30*time.Second)
	defer cancel()
	for _, p := range w.broker.PartitionInfos(deadTopic) {
		for w.read[p.Partition] < p.HighWatermark {
			fetches := w.letters.PollFetches(ctx)
			if ctx.Err() != nil {
				w.audit.violation("read dead letters: %v of %+v", w.read, p)
				return
			}
			fetches.EachRecord(func(r *kgo.Record) {
				w.read[r.Partition] = r.Offset + 1
				w.dead[originOf(r)]++
				w.checkLetter(r)
			})
		}
	}
}

// originOf is where a dead letter says it came from.
func originOf(r *kgo.Record) (o origin) {
	for _, h := range r.Headers {
		n, _ := strconv.ParseInt(string(h.Value), 10, 64)
		switch h.Key {
		case "router.topic":
			o.topic = string(h.Value)
		case "router.partition":
			o.partition = int32(n)
		case "router.offset":
			o.offset = n
		}
	}
	return o
}

var (
	_ http.Handler    = (*lake)(nil)
	_ http.Handler    = (*objects)(nil)
	_ table.CatalogIO = (*lake)(nil)
)
