package router

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"
)

// crew is the shards that this instance works on. Instances share the shards
// as members of a consumer group share the partitions of the position topic;
// the group's offsets are not used, and nothing is fetched through it.
type crew struct {
	mu     sync.Mutex
	shifts map[int]*shift
	closed bool
	g      *errgroup.Group
}

// shift is one shard from its assignment to its revocation.
type shift struct {
	stop  context.CancelFunc
	done  chan struct{}
	moved chan struct{} // one may wait: another instance has written the shard's mark
	rest  resting

	mu     sync.Mutex
	open   bool  // a transaction is
	expect int64 // the end of the shard's partition, as far as we have moved it
}

// quietShift is what a shift expects while no transaction of it is open.
type quietShift struct {
	shift  *shift
	expect int64
}

// begins notes that a transaction is open.
func (s *shift) begins() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.open = true
}

// ends notes where the shard's partition ends now that no transaction is open.
func (s *shift) ends(expect int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.open, s.expect = false, expect
}

// quiet returns what the shifts without an open transaction expect.
func (c *crew) quiet() map[int]quietShift {
	c.mu.Lock()
	defer c.mu.Unlock()
	out := map[int]quietShift{}
	for number, s := range c.shifts {
		s.mu.Lock()
		if !s.open && s.expect > 0 {
			out[number] = quietShift{s, s.expect}
		}
		s.mu.Unlock()
	}
	return out
}

// moved tells a shift that its mark was written by another, if it hasn't moved
// itself since q.
func (*crew) moved(q quietShift) {
	q.shift.mu.Lock()
	defer q.shift.mu.Unlock()
	if q.shift.open || q.shift.expect != q.expect {
		return
	}
	select {
	case q.shift.moved <- struct{}{}:
	default:
	}
}

// has reports whether the shard is ours.
func (c *crew) has(number int) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.shifts[number] != nil
}

// giveUpMax bounds how long a rebalance waits for the open transactions of
// shards that move away. Past it they are fenced by their next owner.
const giveUpMax = 10 * time.Second

// share joins the group, and works on the shards that it gives until ctx ends;
// then it gives them up and leaves.
func (p *publish) share(ctx, work context.Context) error {
	g, inner := errgroup.WithContext(work)
	p.crew.g = g
	opts, _, err := kafkaOptions(p.kafka, p.log)
	if err != nil {
		return err
	}
	group, letGo := context.WithCancel(context.Background())
	defer letGo()
	begin := func(_ context.Context, _ *kgo.Client, parts map[string][]int32) { p.crew.begin(p, ctx, inner, parts) }
	client, err := kgo.NewClient(append(opts,
		kgo.WithContext(group),
		kgo.ConsumerGroup(p.cfg.GroupID()),
		kgo.ConsumeTopics(p.cfg.Positions()),
		kgo.Balancers(kgo.CooperativeStickyBalancer()),
		kgo.SessionTimeout(p.kafka.SessionTimeout),
		kgo.HeartbeatInterval(p.heartbeat()),
		kgo.RebalanceTimeout(giveUpMax+5*time.Second),
		kgo.DisableAutoCommit(),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtEnd()),
		kgo.OnPartitionsAssigned(begin),
		kgo.OnPartitionsRevoked(func(ctx context.Context, _ *kgo.Client, parts map[string][]int32) { p.crew.end(ctx, p, parts, true) }),
		kgo.OnPartitionsLost(func(ctx context.Context, _ *kgo.Client, parts map[string][]int32) { p.crew.end(ctx, p, parts, false) }),
	)...)
	if err != nil {
		return fmt.Errorf("join group %s: %w", p.cfg.GroupID(), err)
	}
	client.PauseFetchTopics(p.cfg.Positions())
	g.Go(func() error { return p.listen(ctx, inner, client) })
	select {
	case <-ctx.Done():
	case <-inner.Done():
	}
	p.crew.close()
	err = g.Wait()
	leave, cancel := context.WithTimeout(work, leaveWaitMax)
	defer cancel()
	if e := client.LeaveGroupContext(leave); e != nil && work.Err() == nil {
		p.log.Warn("left the group without its answer; its shards stand still until the session has expired", zap.Error(e), zap.Duration("session_timeout", p.kafka.SessionTimeout))
	}
	letGo()
	client.Close()
	return err
}

// listen hears what the group says besides assignments, until ctx ends or a
// shard fails.
func (p *publish) listen(ctx, inner context.Context, client *kgo.Client) error {
	both, stop := context.WithCancel(inner)
	defer stop()
	defer context.AfterFunc(ctx, stop)()
	for {
		fetches := client.PollFetches(both)
		if both.Err() != nil {
			return inner.Err()
		}
		for _, e := range fetches.Errors() {
			switch {
			case putOut(e.Err):
				p.log.Warn("put out of the group; joining it again", zap.Error(e.Err))
			case e.Topic == "" && !errors.Is(e.Err, context.Canceled):
				return fmt.Errorf("group %s: %w", p.cfg.GroupID(), e.Err)
			}
		}
	}
}

// begin starts work on shards that are ours now.
func (c *crew) begin(p *publish, ctx, work context.Context, parts map[string][]int32) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, tp := range listPartitions(parts) {
		number := int(tp.partition)
		if c.closed || c.shifts[number] != nil {
			continue
		}
		shiftCtx, stop := context.WithCancel(ctx)
		s := &shift{stop: stop, done: make(chan struct{}), moved: make(chan struct{}, 1)}
		c.shifts[number] = s
		c.g.Go(func() error {
			defer close(s.done)
			defer stop()
			return p.own(shiftCtx, work, number, s)
		})
	}
	p.status.owns(len(c.shifts))
}

// end stops work on shards that move away, and waits for their transactions to
// end. With kept false they are gone already, and nothing is waited for.
func (c *crew) end(ctx context.Context, p *publish, parts map[string][]int32, kept bool) {
	c.mu.Lock()
	var ended []*shift
	for _, tp := range listPartitions(parts) {
		number := int(tp.partition)
		if s := c.shifts[number]; s != nil {
			s.stop()
			ended = append(ended, s)
			delete(c.shifts, number)
			p.status.gave(number)
		}
	}
	p.status.owns(len(c.shifts))
	c.mu.Unlock()
	if !kept && len(ended) > 0 {
		p.log.Warn("shards lost: the group session ended", zap.Int("shards", len(ended)))
	}
	late := time.NewTimer(giveUpMax)
	defer late.Stop()
	for _, s := range ended {
		select {
		case <-s.done:
		case <-ctx.Done():
		case <-late.C:
			p.log.Warn("shards move away before their transaction has ended; their next owner aborts it")
			return
		}
	}
}

// close stops all work, and takes no more.
func (c *crew) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	for _, number := range slices.Collect(maps.Keys(c.shifts)) {
		c.shifts[number].stop()
	}
}

// note keeps whether a shard has nothing to do.
func (c *crew) note(number int, r resting) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if s := c.shifts[number]; s != nil {
		s.rest = r
	}
}

// allRest reports whether every shard has read the frozen view to its end, or
// halted.
func (c *crew) allRest() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, s := range c.shifts {
		if !s.rest.caughtUp && !s.rest.halted {
			return false
		}
	}
	return true
}

func (p *publish) heartbeat() time.Duration { return min(p.kafka.SessionTimeout/4, 3*time.Second) }

// fencedWait is how long the group may take to tell a zombie that it is one.
func (p *publish) fencedWait() time.Duration { return p.heartbeat() + 200*time.Millisecond }
