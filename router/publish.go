package router

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/apache/iceberg-go/io"
	"github.com/twmb/franz-go/pkg/kgo"
	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"

	"icerouter/catalog"
	"icerouter/writers"
)

// publish moves the rows that are appended to one table into topics.
type publish struct {
	cfg           PublishConfig
	kafka         KafkaConfig
	catalogConfig catalog.Config
	options       Options
	log           *zap.Logger
	status        *publishState
	memory        int64 // bytes its sheets may hold, all shards together
	awaits        bool  // an ingest of this process makes the table
	lays          bool  // this run may change the layout of the shards to what is configured

	stores  *writers.Stores
	catalog *catalog.Catalog
	table   *catalog.Table
	uuid    string // of the table
	asker   *kgo.Client
	marks   *marks
	topics  *topicBook
	feed    *feed
	crew    *crew
	shards  int // in the layout, as of the start

	transactionBytes int // of records in a transaction, at most

	mu     sync.Mutex
	halted error // why shards wait for a person; the first reason
	target catalog.Snapshot
}

// run publishes what is appended until ctx ends or, with --once, until the
// snapshot that is the head at start is published.
//
//	table ─▶ view ─▶ files of my slots ─▶ rows ─▶ sheets ─▶ one transaction {records, position}
//	└─ follow ─┘     └────────────── read ────────────┘    └──────────── write ────────────┘
//
// Follow and watch are there once, read and write once for each shard that the
// group gives to this instance (share). The position is where the records are:
// in Kafka, in the same transaction. So whatever happens, the way on is the
// same: take the shard, which fences whoever had it, read its position, go on
// there. When ctx ends open transactions are ended; work ends earlier only when
// something fails or the stop deadline is over.
func (p *publish) run(ctx, work context.Context) error {
	connecting, connected := context.WithCancel(ctx)
	defer context.AfterFunc(work, connected)()
	if err := p.connect(connecting); err != nil {
		if ctx.Err() != nil && work.Err() == nil {
			return nil // stopped before anything was taken
		}
		return err
	}
	defer p.disconnect()
	defer connected()
	p.status.running()
	defer context.AfterFunc(ctx, func() { p.status.become(StateDraining, nil) })()

	g, inner := errgroup.WithContext(work)
	ctx, finished := context.WithCancel(ctx)
	defer finished()
	beside, end := context.WithCancel(inner)
	defer end()
	g.Go(func() error { return p.follow(beside) })
	g.Go(func() error { return p.watch(beside) })
	g.Go(func() error { return p.finish(ctx, finished) })
	g.Go(func() error { defer end(); defer finished(); return p.share(ctx, inner) })
	if err := g.Wait(); err != nil {
		return err
	}
	p.lastHold(work)
	return p.haltedError()
}

// connect opens everything a publish needs: the catalog and the table, Kafka
// and the topics, and the positions, which decide where it goes on.
func (p *publish) connect(ctx context.Context) (err error) {
	defer func() {
		if err != nil {
			p.disconnect()
		}
	}()
	bounded, cancel := context.WithTimeoutCause(ctx, startPatience, fmt.Errorf("no success within %s", startPatience))
	defer cancel()
	view, err := p.openTable(bounded)
	if err != nil {
		return err
	}
	if p.asker, err = connectKafka(ctx, p.kafka, p.log); err != nil {
		return err
	}
	p.openKafka()
	if err := p.lookAtTopics(); err != nil {
		return err
	}
	if err := p.marks.open(ctx); err != nil {
		return err
	}
	if err := p.settleLayout(bounded, view); err != nil {
		return err
	}
	if p.options.Once {
		p.target, _ = view.Head()
		p.feed.freeze()
		p.log.Info("running once", zap.Int64("head", p.target.ID))
	}
	return nil
}

// openTable loads the table, and sees that it can be followed and that its rows
// make records.
func (p *publish) openTable(ctx context.Context) (*catalog.View, error) {
	var err error
	if p.catalog, err = catalog.Open(ctx, p.catalogConfig, openStores(p.stores), p.log); err != nil {
		return nil, err
	}
	for {
		p.table, err = p.catalog.Look(ctx, p.cfg.Table, catalog.TableOptions{})
		if !errors.Is(err, catalog.ErrNoTable) || !p.awaits || sleep(ctx, tableLookEvery) != nil {
			break
		}
	}
	if errors.Is(err, catalog.ErrNoTable) {
		return nil, fmt.Errorf("%w: create it, or correct table = %q", err, p.cfg.Table)
	}
	if err != nil {
		return nil, err
	}
	view, err := p.table.Follow(ctx)
	if err != nil {
		return nil, err
	}
	if err := view.History(); err != nil {
		return nil, haltf("%v", err)
	}
	p.uuid = view.UUID()
	return view, p.show(view)
}

// tableLookEvery is how often a table is looked for that is still to be made.
const tableLookEvery = 200 * time.Millisecond

// openKafka makes what asks the brokers. It asks nothing yet.
func (p *publish) openKafka() {
	p.marks = newMarks(p.cfg, p.asker, p.log)
	p.topics = &topicBook{admin: p.marks.admin, sizeMax: int(p.cfg.RecordSizeMax)}
	p.crew = &crew{shifts: map[int]*shift{}}
}

// lookAtTopics sees that the topic is there, where it is the same for all rows,
// and the one for dead letters.
func (p *publish) lookAtTopics() error {
	_, plan, _ := p.feed.now()
	named := []string{p.cfg.DeadLetterTopic}
	if topic, fixed := plan.fixedTopic(); fixed {
		named = append(named, topic)
	}
	for _, topic := range named {
		if topic == "" {
			continue
		}
		e, err := p.topics.find(topic)
		if err != nil {
			return err
		}
		if topic == p.cfg.DeadLetterTopic && e.compacted {
			return haltf("dead_letter_topic = %q is compacted and takes no record without a key: choose a topic that isn't", topic)
		}
	}
	return nil
}

// settleLayout makes the first layout, or adapts the one that is there to the
// configured number of shards: once in the life of the process, so that an
// instance that still has an older configuration adopts what others decided.
func (p *publish) settleLayout(ctx context.Context, view *catalog.View) error {
	layout, err := p.marks.change(ctx, p.kafka, func(old []mark, found int) ([]mark, error) {
		switch {
		case found == 0:
			return p.begin(ctx, view, p.firstMarks)
		case newestOf(old).Table != p.uuid:
			return p.begin(ctx, view, func(v *catalog.View) ([]mark, error) { return p.newTable(v, old) })
		case p.lays && newestOf(old).Shards != p.cfg.Shards:
			return relayout(old, p.cfg.Shards), nil
		}
		return nil, nil
	})
	if err != nil {
		return err
	}
	now := newestOf(layout)
	p.shards = now.Shards
	p.transactionBytes = (p.sheetsPerShard(p.shards) - sheetsSpare) * sheetBytesMax
	p.log.Info("positions", zap.Int64("generation", now.Generation), zap.Int("shards", p.shards), zap.String("topic", p.cfg.Positions()))
	return nil
}

// begin plans the first marks in a table, and holds the snapshot where they are
// before they say so: an ingest that keeps few snapshots would be faster. The tag
// is not yet the publish's own, which would say that there are positions.
func (p *publish) begin(ctx context.Context, view *catalog.View, plan func(*catalog.View) ([]mark, error)) ([]mark, error) {
	for {
		marks, err := plan(view)
		if err != nil || !p.cfg.HoldSnapshots {
			return marks, err
		}
		err = p.table.Hold(ctx, p.cfg.Name+firstHold, marks[0].At.Snapshot)
		if err == nil && marks[0].At.State { // then what follows the snapshot is not enough
			if view, err = p.table.Follow(ctx); err != nil {
				return nil, err
			}
			if _, kept := view.Snapshot(marks[0].At.Snapshot); !kept {
				err = catalog.ErrSnapshotGone
			}
		}
		if !errors.Is(err, catalog.ErrSnapshotGone) {
			if err != nil {
				p.log.Warn("the snapshots that are still to be published are not held", zap.Error(err))
			}
			return marks, nil
		}
		if view, err = p.table.Follow(ctx); err != nil { // it was expired meanwhile
			return nil, err
		}
		if err = p.show(view); err != nil {
			return nil, err
		}
	}
}

// firstHold, behind the name, makes the hold of a publish that has no positions
// yet. No publish can have such a name.
const firstHold = "+first"

// firstMarks begins where start says, unless the table shows that there was a
// position before.
func (p *publish) firstMarks(view *catalog.View) ([]mark, error) {
	if held, was := view.Held(p.cfg.Name); was {
		if p.cfg.OnLostPosition != policyRestart {
			return nil, haltf("position topic %s is empty, but table %s has the tag router_publish_%s at snapshot %d: the positions were deleted; set on_lost_position = \"restart\" to begin again where start = %q says, which may publish rows again or leave some out (start = \"%d\" begins with the rows of that snapshot), or remove the tag",
				p.cfg.Positions(), p.cfg.Table, p.cfg.Name, held, p.cfg.Start, held)
		}
		p.log.Warn("the positions were deleted: beginning again where start says", zap.Int64("was_at_least_at", held), zap.String("start", p.cfg.Start))
	}
	at, err := p.start(view)
	if err != nil {
		return nil, err
	}
	p.log.Info("first start", zap.String("start", p.cfg.Start), zap.Stringer("position", at))
	return firstLayout(1, p.cfg.Shards, p.uuid, at), nil
}

// newTable begins in a table that took the name of the one that was followed.
func (p *publish) newTable(view *catalog.View, old []mark) ([]mark, error) {
	was := newestOf(old)
	if p.cfg.OnTableReplaced != policyRestart {
		return nil, p.replaced(fmt.Errorf("table %s: its uuid is %s now, the positions are of %s", p.cfg.Table, p.uuid, was.Table))
	}
	at, err := p.start(view)
	if err != nil {
		return nil, err
	}
	p.log.Warn("another table has the name now: beginning in it where start says", zap.String("was", was.Table), zap.String("is", p.uuid), zap.Stringer("position", at))
	marks := firstLayout(was.Generation+1, p.cfg.Shards, p.uuid, at)
	for len(marks) < was.Shards {
		marks = append(marks, mark{Generation: was.Generation + 1, Shards: p.cfg.Shards, Table: p.uuid})
	}
	return marks, nil
}

// start is where the configuration says that a new publish begins.
func (p *publish) start(view *catalog.View) (position, error) {
	start, err := catalog.Start{}, error(nil)
	id, isID := p.cfg.StartSnapshot()
	at, isTime := p.cfg.StartTime()
	switch {
	case p.cfg.Start == "current":
		start = view.StartCurrent()
	case p.cfg.Start == "latest":
		start = view.StartLatest()
	case p.cfg.Start == "earliest":
		start, err = view.StartEarliest()
	case isID:
		start, err = view.StartAt(id)
	case isTime:
		start, err = view.StartSince(at)
	}
	var gap *catalog.GapError
	if errors.As(err, &gap) && p.cfg.OnLostSnapshots == policySkip {
		p.log.Warn("snapshots of start are gone; beginning at the oldest that is left", zap.Error(err))
		return after(position{}, catalog.Snapshot{ID: gap.Kept[0].Parent}).finished(), nil
	}
	if err != nil {
		return position{}, haltf("start = %q: %v", p.cfg.Start, err)
	}
	return startPosition(start), nil
}

// sheetsPerShard is how many sheets each shard may have, within the memory.
func (p *publish) sheetsPerShard(shards int) int {
	const sheetHolds = 3 * sheetBytesMax // its bytes, its records, and what the client makes of them
	return int(min(max(p.memory/int64(shards)/sheetHolds, sheetsSpare+2), sheetsMax))
}

// sheetsMax bounds a transaction to about 8 MiB: more saves nothing.
const sheetsMax = 8<<20/sheetBytesMax + sheetsSpare

func (p *publish) transactorOptions() []kgo.Opt {
	return []kgo.Opt{kgo.ProducerBatchMaxBytes(p.topics.batchMax())}
}

// openStores lets the catalog open the stores of its metadata.
func openStores(stores *writers.Stores) catalog.OpenStore {
	return func(ctx context.Context, location string, properties map[string]string) (io.IO, error) {
		return stores.Open(ctx, location, properties)
	}
}

// halt notes that a shard waits for a person. The other shards go on to the end
// of what is there; then the publish ends.
func (p *publish) halt(number int, why error) {
	p.mu.Lock()
	first := p.halted == nil
	if first {
		p.halted = why
	}
	p.mu.Unlock()
	if first {
		p.log.Error("a shard waits for a person; the others go on to the end of what is there", zap.Int("shard", number), zap.Error(why))
		p.status.failing(why)
		p.feed.freeze()
	}
	p.crew.note(number, resting{halted: true})
}

func (p *publish) haltedError() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.halted
}

// rest notes that a shard has read the view to its end. It is caught up if there
// will be no newer one.
func (p *publish) rest(number int, caughtUp bool) {
	p.status.behind(number, nil)
	p.crew.note(number, resting{caughtUp: caughtUp})
}

func (p *publish) progress() {
	if p.options.Progress != nil {
		p.options.Progress()
	}
}

// finishEvery is how often finish looks.
const finishEvery = 100 * time.Millisecond

// finish ends the run when every shard of this instance has nothing more to do
// and there is a reason to end: a shard has halted or, with --once, all shards
// have passed the head as of start, those of other instances too. If one of them
// dies its shards come to us.
func (p *publish) finish(ctx context.Context, finished func()) error {
	for {
		if err := sleep(ctx, finishEvery); err != nil {
			return nil
		}
		if !p.feed.isFrozen() || !p.crew.allRest() {
			continue
		}
		if p.haltedError() == nil {
			if done, err := p.allPassed(ctx); err != nil || !done {
				if err != nil && ctx.Err() == nil {
					p.log.Warn("look whether all shards are done", zap.Error(err))
				}
				_ = sleep(ctx, ledgerLookEvery/2)
				continue
			}
		}
		finished()
		return nil
	}
}

// allPassed reports whether the marks of all shards have passed the target.
func (p *publish) allPassed(ctx context.Context) (bool, error) {
	all, err := p.allMarks(ctx)
	if err != nil || len(all) == 0 {
		return false, err
	}
	view, err := p.table.Follow(ctx)
	if err != nil {
		return false, err
	}
	for _, m := range all {
		if !m.At.Done || len(m.Ahead) > 0 {
			return false, nil
		}
		if m.At.Snapshot == p.target.ID {
			continue
		}
		line, err := view.After(m.At.snapshot())
		if err != nil {
			return false, err
		}
		for _, s := range line {
			if s.ID == p.target.ID {
				return false, nil
			}
		}
	}
	return true, nil
}

// allMarks reads the marks of all shards of the layout; none while it changes.
func (p *publish) allMarks(ctx context.Context) ([]mark, error) {
	own := *p.marks // it notes what it sees
	all, err := own.committed(ctx)
	if err != nil || all == nil {
		return nil, err
	}
	return all[:newestOf(all).Shards], nil
}

// disconnect closes what connect opened, in reverse.
func (p *publish) disconnect() {
	if p.asker != nil {
		p.asker.Close()
	}
	if p.catalog != nil {
		_ = p.catalog.Close()
	}
}
