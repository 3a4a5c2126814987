//go:build synctests

package sim

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/apache/iceberg-go/table"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"

	"icerouter/router"
)

const (
	publishName = "w"
	outTopic    = "out"
)

// back is the way back of a world: every instance publishes the table that its
// ingest fills. It draws from a source of its own, so that worlds without it
// are what they were.
type back struct {
	w      *world
	rand   *rand.Rand
	audit  *returns
	out    *tail
	marks  *tail
	failed map[string]outage // by instance
	old    bool              // brokers that know no KIP-890
}

// outage is when a route of an instance was first seen to have failed.
type outage struct {
	restarts int
	since    time.Time
}

// publishes tells whether a scene has a way back.
func publishes(scene []string) bool {
	for _, line := range scene {
		if strings.HasPrefix(line, "publish ") {
			return true
		}
	}
	return false
}

func newBack(w *world) *back {
	b := &back{w: w, rand: rand.New(rand.NewPCG(w.seed, 5)), failed: map[string]outage{}}
	b.old = b.rand.IntN(3) == 0
	b.audit = newReturns(w.audit)
	return b
}

// brokers are options of the brokers. Until KIP-890 partitions are added to a
// transaction by a request, and its end leaves the epoch as it is.
func (b *back) brokers() []kfake.Opt {
	if b == nil || !b.old {
		return nil
	}
	return []kfake.Opt{kfake.MaxVersions(kversion.V3_9_0())}
}

// open makes the topic, and configures the instances.
func (b *back) open() error {
	w := b.w
	if err := w.broker.CreateTopic(outTopic, 1+b.rand.Int32N(4), nil); err != nil {
		return err
	}
	pick := func(choices ...int) int { return choices[b.rand.IntN(len(choices))] }
	p := router.DefaultPublish()
	p.Name, p.Table, p.Topic, p.Codec = publishName, "ns.t", outTopic, "snappy"
	p.Start = []string{"current", "earliest"}[b.rand.IntN(2)]
	p.Nulls = []string{"write", "omit"}[b.rand.IntN(2)]
	p.PollInterval = time.Duration(pick(100, 200, 500)) * time.Millisecond
	p.TransactionInterval = time.Duration(pick(10, 50, 200)) * time.Millisecond
	p.TransactionTimeout = time.Duration(pick(5, 5, 8)) * time.Second
	p.OriginHeaders = true
	w.cfg.Publish = []router.PublishConfig{p}
	w.cfg.OnFailure = []string{"stop_all", "stop_all", "stop_ingest"}[b.rand.IntN(3)]
	b.out, b.marks = newTail(w, outTopic), newTail(w, p.Positions())
	return nil
}

// change lets the instances that are started from now on have another setting.
func (b *back) change(set func(*router.PublishConfig)) {
	p := b.w.cfg.Publish[0]
	set(&p)
	b.w.cfg.Publish = []router.PublishConfig{p}
}

func (b *back) shards(n int) { b.change(func(p *router.PublishConfig) { p.Shards = n }) }

// policy is what the instances do where the table doesn't only grow.
func (b *back) policy(mend bool) {
	if b == nil {
		return
	}
	b.change(func(p *router.PublishConfig) {
		p.OnDelete, p.OnLostSnapshots = "halt", "halt"
		if mend {
			p.OnDelete, p.OnLostSnapshots = "skip", "skip"
		}
	})
}

func (b *back) group() string { return b.w.cfg.Publish[0].GroupID() }

// look reads what has been published, and compares.
func (b *back) look(when string) {
	if b == nil {
		return
	}
	if err := b.read(); err != nil {
		b.w.audit.violation("%s: %v", when, err)
	}
	b.audit.inspect(when)
}

// read takes in what was committed since. Marks come first: what they have
// passed must be there.
func (b *back) read() error {
	marks, err := b.marks.read()
	if err != nil {
		return err
	}
	for _, r := range marks {
		b.audit.mark(r)
	}
	records, err := b.out.read()
	if err != nil {
		return err
	}
	for _, r := range records {
		b.audit.record(r)
	}
	return nil
}

// waiting names rows that are still to be published, or nothing.
func (b *back) waiting() string {
	if b == nil {
		return ""
	}
	if err := b.read(); err != nil {
		return err.Error()
	}
	return b.audit.waiting()
}

// open transactions that are nobody's keep readers from what comes after them.
func (b *back) hanging() string {
	for _, topic := range []string{outTopic, b.marks.topic} {
		for _, p := range b.w.broker.PartitionInfos(topic) {
			if p.LastStableOffset < p.HighWatermark {
				return fmt.Sprintf("%s/%d: readers see %d of %d offsets, a transaction is open and nobody will end it", topic, p.Partition, p.LastStableOffset, p.HighWatermark)
			}
		}
	}
	return ""
}

// finish runs the way back to the table's head, once no ingest moves it any more.
func (b *back) finish() {
	if b == nil {
		return
	}
	violation := b.w.audit.violation
	b.w.cfg.Ingest = nil
	if err := b.w.once(); err != nil {
		violation("at the end: publish to the head: %v", err)
	}
	if waiting := b.waiting(); waiting != "" {
		violation("at the end: %s", waiting)
	}
	if hanging := b.hanging(); hanging != "" {
		violation("at the end: %s", hanging)
	}
}

// failedMax is longer than an instance waits before it starts a route again.
const failedMax = 70 * time.Second

// stuck tells whether a route of an instance has failed for good beside another
// that goes on. A person would see that it is not ready, and start it again.
func (b *back) stuck(i *instance) bool {
	if b == nil {
		return false
	}
	restarts, failed := 0, false
	status := i.router.Status()
	for _, s := range status.Ingests {
		restarts, failed = restarts+s.Restarts, failed || s.State == router.StateFailed
	}
	for _, s := range status.Publishes {
		restarts, failed = restarts+s.Restarts, failed || s.State == router.StateFailed
	}
	seen, known := b.failed[i.name]
	switch {
	case !failed:
		delete(b.failed, i.name)
	case !known || seen.restarts != restarts:
		b.failed[i.name] = outage{restarts, time.Now()}
	default:
		return time.Since(seen.since) > failedMax
	}
	return false
}

// publishCalls are the Kafka requests of a publish that refuse speaks of.
var publishCalls = map[string]kmsg.Key{
	"take": kmsg.InitProducerID, "partitions": kmsg.AddPartitionsToTxn, "endtxn": kmsg.EndTxn, "publish": kmsg.Produce,
	"marks": kmsg.Fetch, "ends": kmsg.ListOffsets, "places": kmsg.FindCoordinator,
}

// refuse lets the brokers answer the next requests of a publish with an error.
// It returns false where the call is none of those.
func (b *back) refuse(call string, code, n int) bool {
	key, ours := publishCalls[call]
	if b == nil || !ours {
		return false
	}
	f := kfake.Fault{Keys: []kmsg.Key{key}, Err: kerr.TypedErrorForCode(int16(code)), Count: n}
	switch call {
	case "take", "partitions", "endtxn", "places":
		p := b.w.cfg.Publish[0]
		f.TxnID = p.TransactionalID(b.rand.IntN(p.Shards))
	case "publish":
		f.Topic = []string{outTopic, b.marks.topic}[b.rand.IntN(2)]
	case "marks":
		f.Topic = b.marks.topic
		f.When = func(r kmsg.Request) bool { return r.(*kmsg.FetchRequest).MaxBytes != tailBytesMax } // not the world's own
	case "ends":
		f.Topic = b.marks.topic
	}
	b.w.faults = append(b.w.faults, b.w.broker.Fault(f))
	return true
}

// topics are those whose leaders move.
func (b *back) topics() []string {
	if b == nil {
		return topics
	}
	return append([]string{outTopic, b.marks.topic}, topics...)
}

// grown notes that a topic has more partitions: rows go to others than before.
func (b *back) grown(topic string) {
	if b != nil && topic == outTopic {
		b.audit.mu.Lock()
		defer b.audit.mu.Unlock()
		b.audit.grown = true
	}
}

// keeps tells whether another writer's expiry leaves a snapshot alone: where
// lost snapshots are halted for, it keeps what has a name and what is still to
// be published. Elsewhere it respects nothing.
func (b *back) keeps(meta table.Metadata, s table.Snapshot) bool {
	if b == nil || b.w.policy == "mend" {
		return false
	}
	for _, ref := range meta.Refs() {
		if ref.SnapshotID == s.SnapshotID {
			return true
		}
	}
	return b.audit.needs(s)
}

// kept returns the manifests of the snapshots that stay when others are expired,
// and notes what is lost.
func (w *world) kept(meta table.Metadata, expired []int64) (manifests []string) {
	for _, s := range meta.Snapshots() {
		switch {
		case !slices.Contains(expired, s.SnapshotID):
			w.audit.mu.Lock()
			manifests = append(manifests, w.audit.lists[s.ManifestList]...)
			w.audit.mu.Unlock()
		case w.back != nil:
			w.back.audit.lose(s)
		}
	}
	return manifests
}

// show tells what has become of the rows.
func (b *back) show() string {
	if b == nil {
		return ""
	}
	if err := b.read(); err != nil {
		return err.Error() + "\n"
	}
	return b.audit.show()
}
