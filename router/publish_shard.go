package router

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"
)

// shard is one part of a publish, owned by this instance. It is made anew each
// time the shard is taken.
type shard struct {
	p      *publish
	number int
	shift  *shift
	log    *zap.Logger

	out     *transactor
	mark    mark // as committed
	at      position
	lost    int64 // since the last commit
	skipped int64
	last    time.Time // of the last commit
}

// resting is what a shard tells about having nothing to do.
type resting struct{ caughtUp, halted bool }

// work takes the shard and publishes until ctx ends; then it ends the open
// transaction. It returns nil then, and when the layout has no such shard any
// more. An error is errMet when the shard is, or may be, another's.
//
//	take ─▶ read ─sheets─▶ write ─▶ {records, mark} committed ─┐
//	             ◀──────────────── sheets ─────────────────────┘
func (s *shard) work(ctx, work context.Context) error {
	if err := s.take(ctx); err != nil {
		return err
	}
	defer s.out.close()
	if s.number >= s.mark.Shards {
		s.log.Debug("the layout has no such shard", zap.Int("shards", s.mark.Shards))
		s.p.crew.note(s.number, resting{caughtUp: true})
		select {
		case <-s.shift.moved:
		case <-ctx.Done():
		}
		return nil
	}
	s.p.status.took(s.number, s.mark.At)
	n := s.p.sheetsPerShard(s.mark.Shards)
	sheets, free := make(chan *sheet, n), make(chan *sheet, n)
	for range n {
		free <- newSheet()
	}
	r := &reader{p: s.p, shard: s.number, mark: s.mark, at: s.mark.At, sheets: sheets, free: free}
	g, both := errgroup.WithContext(work)
	reading, stop := context.WithCancel(both)
	defer stop()
	defer context.AfterFunc(ctx, stop)()
	g.Go(func() error {
		err := r.read(reading)
		if reading.Err() != nil {
			return nil
		}
		return err
	})
	g.Go(func() error {
		defer stop()
		return s.write(ctx, both, sheets, free)
	})
	return g.Wait()
}

// take fences whoever had the shard, and reads its mark: from here on only we
// move it, or learn that we can't.
func (s *shard) take(ctx context.Context) (err error) {
	if s.out, err = newTransactor(ctx, s.p.cfg, s.p.kafka, s.number, s.log, s.p.transactorOptions()...); err != nil {
		return err
	}
	defer func() {
		if err != nil {
			s.out.close()
		}
	}()
	ends, err := s.p.marks.settledEnds(ctx, s.number)
	if err != nil {
		return err
	}
	found := false
	if s.mark, found, err = s.p.marks.last(ctx, s.number, ends[s.number]); err != nil {
		return err
	}
	s.shift.ends(ends[s.number])
	if !found {
		if s.number >= s.p.shards { // its partition was added for a layout that is still to come
			s.mark.Shards = s.number
			return nil
		}
		return haltf("position topic %s: there is no position of shard %d any more: records of the topic were deleted; set on_lost_position = \"restart\" and delete the topic to begin again where start says", s.p.cfg.Positions(), s.number)
	}
	if s.mark.Table != s.p.uuid {
		return fmt.Errorf("%w: the positions are of table %s now, this instance follows %s", errMet, s.mark.Table, s.p.uuid)
	}
	s.at, s.last = s.mark.At, time.Now()
	s.log.Info("took shard", zap.Int("of", s.mark.Shards), zap.Int64("generation", s.mark.Generation), zap.Stringer("position", s.mark.At))
	return nil
}

// positionEvery is how long a position may move over rows of other shards before
// it is written down: what holds the history is not to wait for an idle shard.
const positionEvery = 30 * time.Second

// write commits sheets in transactions until ctx ends.
func (s *shard) write(ctx, work context.Context, sheets <-chan *sheet, free chan<- *sheet) error {
	tick := time.NewTicker(positionEvery / 2)
	defer tick.Stop()
	for {
		select {
		case g := <-sheets:
			if err := s.transaction(ctx, work, g, sheets, free); err != nil {
				return err
			}
		case <-tick.C:
			if s.at != s.mark.At && time.Since(s.last) >= positionEvery {
				if err := s.commit(work, nil, false); err != nil {
					return err
				}
			}
		case <-s.shift.moved:
			s.log.Info("the layout of the shards has changed; taking the shard again")
			return nil
		case <-ctx.Done():
			return nil // nothing is open here
		case <-work.Done():
			return work.Err()
		}
	}
}

// transaction takes sheets from g on into one transaction, and commits it: when
// it is as old as transaction_interval, or full, or when there is nothing more
// to read and the last one is that long ago.
func (s *shard) transaction(ctx, work context.Context, g *sheet, sheets <-chan *sheet, free chan<- *sheet) error {
	began := time.Now()
	due := time.NewTimer(s.p.cfg.TransactionInterval)
	defer due.Stop()
	rest := time.NewTimer(max(0, time.Until(s.last.Add(s.p.cfg.TransactionInterval))))
	defer rest.Stop()
	var taken []*sheet
	open, rested, idle := false, false, false
	var bytes int
	var halt error
	for full := false; !full; {
		if g != nil {
			if !open && len(g.records) > 0 {
				if err := s.begin(); err != nil {
					return err
				}
				open = true
			}
			g.produceAll(s.out)
			taken, bytes = append(taken, g), bytes+len(g.bytes)
			idle, halt = g.idle, g.halt
			s.at, s.lost, s.skipped = g.end, s.lost+g.lost, s.skipped+g.skipped
			g = nil
		}
		if err := s.out.err(); err != nil {
			s.abort(work)
			return err
		}
		if full = halt != nil || idle && (rested || !open) || bytes >= s.p.transactionBytes || len(taken) >= cap(sheets)-sheetsSpare; full {
			break
		}
		select {
		case g = <-sheets:
		case <-rest.C:
			rested = true
		case <-due.C:
			full = true
		case <-ctx.Done():
			full = true
		case <-work.Done():
			return work.Err()
		}
	}
	final := idle && s.p.feed.isFrozen() || halt != nil
	if open || s.lost+s.skipped > 0 || final && s.at != s.mark.At {
		if err := s.commit(work, taken, open); err != nil {
			return err
		}
		s.p.status.committed(s.number, taken, s.mark.At, time.Since(began))
		s.p.progress()
	}
	if halt != nil {
		s.p.halt(s.number, halt)
	} else if idle {
		s.p.rest(s.number, final)
	}
	for _, g := range taken {
		free <- g
	}
	return nil
}

// sheetsSpare are the sheets that read may fill while a transaction ends.
const sheetsSpare = 3

// commit ends the transaction with the position that follows its records. A
// position alone makes a transaction of its own.
func (s *shard) commit(work context.Context, taken []*sheet, open bool) error {
	if !open {
		if err := s.begin(); err != nil {
			return err
		}
	}
	next := s.mark.moved(s.at)
	next.Lost, next.Skipped = next.Lost+s.lost, next.Skipped+s.skipped
	var offset int64
	s.out.produce(s.p.marks.record(s.number, next), func(r *kgo.Record) { offset = r.Offset })
	bounded, cancel := context.WithTimeoutCause(work, s.p.cfg.TransactionTimeout, fmt.Errorf("the transaction did not end within transaction_timeout = %s", s.p.cfg.TransactionTimeout))
	defer cancel()
	if err := s.out.commit(bounded); err != nil {
		if work.Err() == nil {
			s.abort(work)
		}
		return err
	}
	s.mark, s.last, s.lost, s.skipped = next, time.Now(), 0, 0
	s.shift.ends(offset + 2) // the mark, and the transaction's own marker
	return nil
}

func (s *shard) begin() error {
	s.shift.begins()
	return s.out.begin()
}

// abort gives up the open transaction. It only saves time: the next take aborts
// whatever is open.
func (s *shard) abort(work context.Context) {
	s.p.status.aborted()
	s.out.abort(work)
}

// Retaking of a shard whose transaction didn't end well.
const (
	retakeWait    = 200 * time.Millisecond
	retakeWaitMax = 10 * time.Second
	retakesMax    = 8 // without a commit in between; then the publish starts anew, which is said louder
)

// own works on a shard, again and again, until ctx ends. Whatever goes wrong
// with a transaction, the way on is the same: take the shard again and read
// where it is.
func (p *publish) own(ctx, work context.Context, number int, shift *shift) error {
	log := p.log.With(zap.Int("shard", number))
	fails := 0
	for {
		p.crew.note(number, resting{})
		s := &shard{p: p, number: number, shift: shift, log: log}
		before := p.status.commits(number)
		err := s.work(ctx, work)
		if p.status.commits(number) != before {
			fails = 0
		}
		switch {
		case ctx.Err() != nil && (err == nil || work.Err() == nil):
			return nil // given up in peace, or it will be fenced
		case err == nil:
			continue // the layout has changed
		case work.Err() != nil:
			return work.Err()
		case halts(err):
			p.halt(number, err)
			<-ctx.Done()
			return nil
		}
		wait := min(retakeWait<<fails, retakeWaitMax)
		switch {
		case fenced(err) || errors.Is(err, errMet):
			p.status.fenced()
			log.Info("fenced: another instance has taken the shard, or the transaction was too old; asking the group", zap.Error(err))
			wait = p.fencedWait() // the group tells within a heartbeat whether the shard is still ours
		case errors.Is(err, kerr.MessageTooLarge), errors.Is(err, kerr.InvalidTimestamp), errors.Is(err, kerr.InvalidRecord): // a topic was configured anew
			if e := p.topics.refresh(ctx); e != nil {
				log.Warn("look at topics", zap.Error(e))
			}
			fallthrough
		default:
			fails++
			p.status.failing(err)
			log.Warn("a transaction did not end well; taking the shard again", zap.Error(err), zap.Int("in_a_row", fails))
			if fails > retakesMax || !p.status.ran() {
				return fmt.Errorf("shard %d: %w", number, err)
			}
		}
		if sleep(ctx, jittered(wait)) != nil {
			return nil
		}
	}
}
