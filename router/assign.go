package router

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"go.uber.org/zap"

	"icerouter/catalog"
)

// revokeWaitMax bounds how long a rebalance waits for the cut of partitions
// that move away. Past it they move without: the cut is fenced then, and the
// next owner reads the rows again.
const revokeWaitMax = 45 * time.Second

// rebalanceTimeout is how long the group waits for a member in a rebalance; it
// leaves room for the cut above.
const rebalanceTimeout = revokeWaitMax + 30*time.Second

// event is what a callback of the Kafka client tells fill.
type event struct {
	assigned map[topicPartition]int64 // partitions that are ours now, and where they start
	revoked  []topicPartition         // partitions that move away
	lost     bool                     // they are gone already: what is open of them may be another's
	done     chan struct{}            // closed when everything taken of the revoked ones is committed
}

// inbox carries events from the client's goroutines, and from commit, to fill.
type inbox struct {
	mu     sync.Mutex
	queue  []event
	resync bool
	failed error
	wake   context.CancelFunc // of the poll under way
}

func (b *inbox) tell(e event) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.queue = append(b.queue, e)
	b.ring()
}

// askResync makes fill throw the open cut away and read the ledger again.
func (b *inbox) askResync() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.resync = true
	b.ring()
}

// fail ends fill with err.
func (b *inbox) fail(err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.failed == nil {
		b.failed = err
	}
	b.ring()
}

// nudge ends the poll under way: something that fill waits for has changed.
func (b *inbox) nudge() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.ring()
}

// ring ends the poll under way. REQUIRES: b.mu is held.
func (b *inbox) ring() {
	if b.wake != nil {
		b.wake()
	}
}

// wakes names the poll that the next event ends. If one came before, it ends
// at once.
func (b *inbox) wakes(cancel context.CancelFunc) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.wake = cancel
	if cancel != nil && (len(b.queue) > 0 || b.resync || b.failed != nil) {
		cancel()
	}
}

func (b *inbox) take() ([]event, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	q := b.queue
	b.queue = nil
	return q, b.failed
}

// events applies what the callbacks told since the last call, in order.
func (in *ingest) events(work context.Context, cuts chan<- *cut) error {
	queue, err := in.inbox.take()
	gone := map[topicPartition]bool{}
	for _, e := range queue {
		for p, next := range e.assigned {
			if gone[p] {
				// Given up and taken back between two polls: records of the old
				// assignment may be in our hands, and nothing tells them apart.
				in.inbox.askResync()
			}
			in.partitions[p] = &owned{topicPartition: p, from: next, next: next}
		}
		if e.lost {
			in.inbox.askResync()
		} else if e.done != nil {
			in.open.done = append(in.open.done, e.done)
			if err := in.cut(work, cuts, false); err != nil {
				return err
			}
		}
		for _, p := range e.revoked {
			delete(in.partitions, p)
			gone[p] = true
		}
	}
	in.status.owns(in.partitions)
	return err
}

// resync throws the open cut away, waits for the cuts in flight, and starts
// every partition again from the ledger. It follows a fenced append and lost
// partitions: then what we hold may be in the table already.
func (in *ingest) resync(ctx, work context.Context, cuts chan<- *cut) error {
	in.inbox.mu.Lock()
	asked := in.inbox.resync
	in.inbox.resync = false
	in.inbox.mu.Unlock()
	if !asked {
		return nil
	}
	plan := in.open.plan
	in.discard(in.open)
	marker := newCut(work, plan, in.source.Load())
	marker.done = in.open.done
	in.open = newCut(work, plan, in.source.Load())
	settled := make(chan struct{})
	marker.done = append(marker.done, settled)
	select {
	case cuts <- marker:
	case <-work.Done():
		return work.Err()
	}
	select {
	case <-settled:
	case <-work.Done():
		return work.Err()
	}
	ledger, err := in.table.Ledger(ctx)
	if err != nil {
		return fmt.Errorf("read ledger again: %w", err)
	}
	seek := map[string]map[int32]kgo.EpochOffset{}
	for _, p := range in.partitions {
		next, ok := ledger.Topics[p.topic].Next[p.partition]
		if !ok {
			return fmt.Errorf("ledger of %s no longer has %s", in.cfg.Table, p)
		}
		p.from, p.next = next, next
		if seek[p.topic] == nil {
			seek[p.topic] = map[int32]kgo.EpochOffset{}
		}
		seek[p.topic][p.partition] = kgo.EpochOffset{Epoch: -1, Offset: next}
	}
	in.client.SetOffsets(seek)
	in.log.Info("started again from the ledger", zap.Int64("seq", ledger.Seq), zap.Int("partitions", len(in.partitions)))
	return nil
}

// onRevoked holds the rebalance until everything taken of the partitions is in
// the table, so that their next owner finds it in the ledger.
func (in *ingest) onRevoked(ctx context.Context, _ *kgo.Client, parts map[string][]int32) {
	e := event{revoked: listPartitions(parts), done: make(chan struct{})}
	if len(e.revoked) == 0 {
		return
	}
	in.inbox.tell(e)
	timeout := time.NewTimer(revokeWaitMax)
	defer timeout.Stop()
	select {
	case <-e.done:
	case <-in.filled:
	case <-ctx.Done():
	case <-timeout.C:
		in.log.Warn("partitions move away before their cut is committed; their next owner reads the rows again", zap.Int("partitions", len(e.revoked)))
	}
}

// onLost hears that the partitions belong to others already.
func (in *ingest) onLost(_ context.Context, _ *kgo.Client, parts map[string][]int32) {
	if e := (event{revoked: listPartitions(parts), lost: true}); len(e.revoked) > 0 {
		in.log.Warn("partitions lost: the group session ended", zap.Int("partitions", len(e.revoked)))
		in.inbox.tell(e)
	}
}

// onAssigned replaces the group's offsets by the ledger's before anything is
// fetched. A partition that the ledger doesn't have is entered first, so that
// a restart begins where this one does.
func (in *ingest) onAssigned(ctx context.Context, parts map[string]map[int32]kgo.Offset) (map[string]map[int32]kgo.Offset, error) {
	want := map[string][]int32{}
	for topic, offsets := range parts {
		for p := range offsets {
			want[topic] = append(want[topic], p)
		}
	}
	start, err := in.startOffsets(ctx, want)
	if err != nil {
		if ctx.Err() == nil { // else the group is balancing again and assigns anew
			if !halts(err) { // what a person must settle reads the same whenever it is found
				err = fmt.Errorf("start partitions: %w", err)
			}
			in.inbox.fail(err)
		}
		return nil, err
	}
	e := event{assigned: map[topicPartition]int64{}}
	for topic, offsets := range parts {
		for p := range offsets {
			e.assigned[topicPartition{topic, p}] = start[topic][p]
			offsets[p] = kgo.NewOffset().At(start[topic][p])
		}
	}
	in.inbox.tell(e)
	return parts, nil
}

// startOffsets reads the ledger, checks it against the cluster, and enters
// the partitions it lacks.
func (in *ingest) startOffsets(ctx context.Context, want map[string][]int32) (catalog.Offsets, error) {
	for attempt := 1; ; attempt++ {
		ledger, err := in.checkedLedger(ctx, want)
		if err != nil {
			return nil, err
		}
		start, fresh, err := in.resolve(ctx, ledger, want)
		if err != nil || len(fresh) == 0 {
			return start, err
		}
		_, err = in.table.Append(ctx, catalog.Append{ID: newID(), Source: *in.source.Load(), From: catalog.Offsets{}, To: fresh,
			Schema: in.table.Schema().ID, Spec: in.specID()})
		switch {
		case err == nil:
			return start, nil
		case !errors.Is(err, catalog.ErrFenced) || attempt == startAttemptsMax:
			return nil, fmt.Errorf("enter %d partitions into the ledger: %w", countOffsets(fresh), err)
		}
		// Another instance entered some of them: look again.
	}
}

// startAttemptsMax bounds how often two instances may meet while they enter
// partitions into the ledger.
const startAttemptsMax = 10

func listPartitions(parts map[string][]int32) (out []topicPartition) {
	for topic, ps := range parts {
		for _, p := range ps {
			out = append(out, topicPartition{topic, p})
		}
	}
	return out
}

func countOffsets(o catalog.Offsets) (n int) {
	for _, parts := range o {
		n += len(parts)
	}
	return n
}
