package router

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"

	"icerouter/catalog"
	"icerouter/writers"
)

// Limits of an ingest that nobody should turn.
const (
	pollRecordsMax    = 10_000                 // records a round: enough to feed every worker, little enough to keep the trigger sharp
	pollWaitMax       = 500 * time.Millisecond // how long a poll may sleep through a trigger or a stop
	uploadsMax        = 16                     // files of one cut on their way at once
	appendsWaitingMax = 8                      // cuts written and not yet committed; only file metadata waits here
	gapProbeAfter     = 1 * time.Second        // silence after which a partition short of its end is probed for gaps
	gapWaitMax        = time.Minute            // how long the ledger may stand before gaps that were passed: retention must not find it there
)

// ingest moves the records of some topics into one table.
type ingest struct {
	cfg           IngestConfig
	kafka         KafkaConfig
	catalogConfig catalog.Config
	options       Options
	log           *zap.Logger
	metrics       *ingestMetrics
	status        *ingestState
	workers       int
	memory        budget // its part of memory_max
	nudge         func() // tells who waits for news of the table
	inflation     inflation

	catalog *catalog.Catalog
	stores  *writers.Stores
	table   *catalog.Table
	store   *writers.Store
	client  *kgo.Client
	asker   *kgo.Client // for questions
	admin   *kadm.Client
	dead    *deadLetters
	letGo   context.CancelFunc             // ends the client at once
	hints   chan catalog.Offsets           // what the group is to be told; at most one waits
	source  atomic.Pointer[catalog.Source] // cluster and topic ids, as of the last assignment
	topics  map[string][16]byte

	// Owned by fill.
	partitions map[topicPartition]*owned
	open       *cut
	counts     [][]int32 // scratch of rowBatch.sort, one a worker
	ends       map[topicPartition]int64
	lastRecord time.Time
	gapSince   time.Time // since when there is nothing but passed gaps to commit
	looked     time.Time // when --once last looked at the ledger

	slots  chan struct{} // a token for each cut in flight
	filled chan struct{} // closed when fill takes no more rebalance events
	inbox  inbox         // what the client's callbacks and commit tell fill
	spare  spares

	halted error // why fill stopped although nobody asked it to
}

// run moves records from the topics into the table until ctx ends or, with
// --once, until the ends noted at start are in the table.
//
//	poll → decode → exchange → encode ─trigger→ cut → files → append → group offsets
//	└────────────── fill ───────────────────┘ └─ flush ──┘ └────── commit ──────┘
//
// Three stages meet at two channels. A slow store or catalog leaves its cut in
// the channel, no slot becomes free, and fill stops polling: memory stays
// bounded. When ctx ends fill hands over its last cut and the other two
// finish; work ends earlier only when a stage fails or the stop deadline is
// over.
func (in *ingest) run(ctx, work context.Context) error {
	if err := in.connect(ctx); err != nil {
		if ctx.Err() != nil && work.Err() == nil {
			return nil // stopped before anything was taken
		}
		return err
	}
	defer in.disconnect(work)
	in.status.running()
	defer context.AfterFunc(ctx, func() { in.status.become(StateDraining, nil) })()

	cuts := make(chan *cut, 1)
	appends := make(chan *cut, appendsWaitingMax)
	whole := work
	g, work := errgroup.WithContext(work)
	watch, filled := context.WithCancel(work)
	defer filled()
	g.Go(func() error { return in.watch(watch) })
	g.Go(func() error { defer filled(); defer close(cuts); return in.fill(ctx, work, cuts) })
	g.Go(func() error { defer close(appends); return in.flush(work, cuts, appends) })
	g.Go(func() error { defer close(in.hints); return in.commit(work, appends) })
	g.Go(func() error { return in.tellGroup(work) })
	if err := g.Wait(); err != nil {
		return err
	}
	if in.options.Once {
		in.table.Sweep(whole) // nobody comes after us who knows what expired just now
	}
	return in.halted
}

// fill polls records into the open cut and hands the cut over when it is due.
// It is the only stage that knows which partitions are ours.
func (in *ingest) fill(ctx, work context.Context, cuts chan<- *cut) error {
	defer close(in.filled)
	first, err := in.newPlan()
	if err != nil {
		return err
	}
	in.open = newCut(work, first, in.source.Load())
	for {
		if err := work.Err(); err != nil { // another stage failed, or the deadline of a stop is over
			return err
		}
		if err := in.events(work, cuts); err != nil {
			return err
		}
		if err := in.resync(ctx, work, cuts); err != nil {
			if ctx.Err() != nil && work.Err() == nil {
				return nil // stopped, and all that was open is thrown away
			}
			return err
		}
		stop := ctx.Err() != nil || in.halted != nil
		if !stop && in.options.Once {
			finished, err := in.finished(ctx, work, cuts)
			if err != nil && (ctx.Err() == nil || work.Err() != nil) {
				return err
			}
			stop = finished || ctx.Err() != nil
		}
		if stop || in.due(time.Now()) {
			if err := in.cut(work, cuts, stop); err != nil {
				return err
			}
		}
		if stop {
			return nil
		}
		if err := in.poll(ctx, work, cuts); err != nil {
			return err
		}
	}
}

// poll waits for records, takes them into the open cut, and returns after at
// most pollWaitMax, or when an event wants to be seen.
func (in *ingest) poll(ctx, work context.Context, cuts chan<- *cut) error {
	wait := pollWaitMax
	if !in.open.since.IsZero() {
		wait = min(wait, max(time.Until(in.open.since.Add(in.cfg.Trigger)), time.Millisecond))
	}
	pollCtx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	in.inbox.wakes(cancel)
	fetches := in.client.PollRecords(pollCtx, pollRecordsMax)
	in.inbox.wakes(nil)

	if err := in.events(work, cuts); err != nil { // a new partition's offset comes before its records
		return err
	}
	for _, e := range fetches.Errors() {
		if errors.Is(e.Err, context.DeadlineExceeded) || errors.Is(e.Err, context.Canceled) {
			continue
		}
		if putOut(e.Err) {
			in.log.Warn("put out of the group; joining it again", zap.Error(e.Err))
			continue // onLost has asked for a resync
		}
		if e.Topic == "" { // the client reports a broken group session in this form
			return fmt.Errorf("group %s: %w", in.cfg.GroupID(), e.Err)
		}
		return fmt.Errorf("fetch %s/%d: %w", e.Topic, e.Partition, e.Err)
	}
	if err := in.sameTopics(fetches); err != nil {
		return err
	}
	var chunks []*chunk
	fetches.EachPartition(func(f kgo.FetchTopicPartition) {
		p := in.partitions[topicPartition{f.Topic, f.Partition}]
		if p == nil || len(f.Records) == 0 {
			return // given up: the next owner reads it from the ledger
		}
		chunks = append(chunks, split(p, f.Records)...)
	})
	if len(chunks) == 0 {
		return in.probe(ctx)
	}
	in.lastRecord = time.Now()
	in.bound()
	for _, round := range rounds(chunks, in.memory.round) {
		err := in.take(work, round)
		if halt := (*badRecordError)(nil); errors.As(err, &halt) {
			in.halted = halt
			return nil // what follows in other partitions is read again
		}
		if err := errors.Join(err, in.sealLarge()); err != nil {
			return err
		}
		if in.due(time.Now()) {
			if err := in.cut(work, cuts, false); err != nil {
				return err
			}
		}
	}
	return nil
}

// sameTopics sees that records are of the topics that the ledger was compared
// with. Group and ledger ask the brokers at different times, and a topic may be
// made again in between: its offsets would be taken for those of the old one.
func (in *ingest) sameTopics(fetches kgo.Fetches) (err error) {
	ids := in.source.Load().TopicIDs
	fetches.EachTopic(func(t kgo.FetchTopic) {
		if known := ids[t.Topic]; t.TopicID != [16]byte{} && known != "" && known != topicID(t.TopicID) {
			err = fmt.Errorf("topic %s was made again while it was being assigned: its id was %s, records come from %s", t.Topic, known, topicID(t.TopicID))
		}
	})
	return err
}

// due reports whether the open cut should be handed over now. While all slots
// are taken a due cut goes on filling up to its share of the memory.
func (in *ingest) due(now time.Time) bool {
	files := in.open.measure()
	in.status.filling(in.open, files, len(in.slots), in.cfg.Trigger)
	full := in.open.bytes >= in.memory.rows/int64(in.cfg.CutsInFlightMax+1) || files >= in.cfg.OpenFilesMax
	if in.open.records == 0 {
		return in.gapDue(now)
	}
	t := trigger{age: in.cfg.Trigger, bytes: int64(in.cfg.TriggerBytes), rows: in.cfg.TriggerRows}
	return full || in.open.due(now, t) && len(in.slots) < cap(in.slots)
}

// cut hands the open cut over and opens the next. It waits for a slot, which
// is the backpressure on the poll. A cut without a record is not worth a
// commit, unless --once must show that it has passed the end, or the ingest
// stops, or nothing else has come for a while; its partitions then keep their
// place for the next cut.
func (in *ingest) cut(work context.Context, cuts chan<- *cut, last bool) error {
	c := in.open
	worth := c.records > 0 || in.moved() && (in.options.Once || last || in.gapDue(time.Now()))
	if !worth && len(c.done) == 0 {
		return nil
	}
	if worth {
		c.close(in.partitions)
		select {
		case in.slots <- struct{}{}:
			c.slot = true
		case <-work.Done():
			return work.Err()
		}
	}
	select {
	case cuts <- c:
	case <-work.Done():
		return work.Err()
	}
	if last {
		in.open = nil
		return nil
	}
	next := c.plan
	if in.table.Schema().ID != next.schema || in.specID() != next.spec {
		var err error
		if next, err = in.newPlan(); err != nil {
			return err
		}
		in.log.Info("table changed", zap.Int("schema", next.schema), zap.Int("spec", next.spec))
	}
	in.open = newCut(work, next, in.source.Load())
	return nil
}

// flush closes the files of each cut and writes them to the store.
func (in *ingest) flush(work context.Context, cuts <-chan *cut, appends chan<- *cut) error {
	for c := range cuts {
		start := time.Now()
		for _, f := range c.files {
			if f != nil {
				c.uploads.Go(func() error { return in.write(c, f) })
			}
		}
		if err := c.uploads.Wait(); err != nil {
			return err
		}
		if err := c.whole(); err != nil {
			return fmt.Errorf("%s: %w", in.cfg.Table, err)
		}
		if err := in.dead.flush(work); err != nil {
			return err
		}
		if len(c.written) > 0 {
			in.metrics.uploadSeconds.Observe(time.Since(start).Seconds())
		}
		select {
		case appends <- c:
		case <-work.Done():
			return work.Err()
		}
	}
	return nil
}

// commit appends finished cuts to the table. Whatever waits when the last
// commit has returned goes into the next one, so under load the commit rate
// adapts to the catalog.
func (in *ingest) commit(work context.Context, appends <-chan *cut) error {
	for c := range appends {
		waiting := []*cut{c}
		for more := true; more; {
			select {
			case c, more = <-appends:
				if more {
					waiting = append(waiting, c)
				}
			default:
				more = false
			}
		}
		for len(waiting) > 0 {
			n, err := in.append(work, waiting)
			if err != nil {
				return err
			}
			waiting = waiting[n:]
		}
	}
	return nil
}

// append commits as many of the cuts as fit into one append and returns how
// many those were.
func (in *ingest) append(work context.Context, cuts []*cut) (int, error) {
	a, n := cuts[0].append(), 1
	for n < len(cuts) && cuts[n].follows(a) && cuts[n].source.Equal(*cuts[0].source) {
		a = a.Merge(cuts[n].append())
		n++
	}
	if len(a.To) > 0 {
		start := time.Now()
		done, err := in.table.Append(work, a)
		switch {
		case errors.Is(err, catalog.ErrFenced):
			in.log.Warn("fenced: another instance moved the ledger; reading it again", zap.Error(err), zap.Int("files", len(a.Files)))
			in.metrics.fenced.Inc()
			in.inbox.askResync()
		case err != nil:
			return n, fmt.Errorf("commit: %w", err)
		default:
			in.committed(cuts[:n], a, done, time.Since(start))
		}
	}
	for _, c := range cuts[:n] {
		c.finish()
		if c.slot {
			<-in.slots
		}
	}
	in.inbox.nudge()
	return n, nil
}

// committed books a landed append and tells Kafka's lag tools.
func (in *ingest) committed(cuts []*cut, a catalog.Append, done catalog.Commit, took time.Duration) {
	now := time.Now()
	for _, c := range cuts {
		for _, age := range c.ages {
			in.observe(now, age)
		}
	}
	in.status.landed(done, a.To, took, now)
	in.log.Info("committed", zap.Int64("snapshot", done.Snapshot), zap.Int64("seq", done.Seq), zap.Int64("rows", done.Rows),
		zap.Int64("files", done.Files), zap.Int64("bytes", done.Bytes), zap.Int("cuts", len(cuts)), zap.Duration("took", took))
	if in.options.Progress != nil {
		in.options.Progress()
	}
	in.hint(a.To)
	in.nudge()
}

// observe books how old committed rows are: half of them at each end of the
// batch's time span.
func (in *ingest) observe(now time.Time, a age) {
	in.status.observe(now.Sub(a.last), a.n-a.n/2)
	in.status.observe(now.Sub(a.first), a.n/2)
}
