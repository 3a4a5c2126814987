package router

import (
	"context"
	"time"

	"go.uber.org/zap"
)

const (
	watchEvery     = 2 * time.Second
	holdEvery      = time.Minute      // how far behind the position the hold may be
	topicsEvery    = 30 * time.Second // how long an added partition of a topic may stay unseen
	holdTroubleMax = 10 * time.Minute // how often a hold that doesn't come about is told
)

// watch looks after what nobody else is waiting for, until ctx ends: marks that
// others have written, the hold on the table's snapshots, and the topics.
func (p *publish) watch(ctx context.Context) error {
	var holdLooked, topicsLooked, troubled time.Time
	for {
		if err := p.lookAtMarks(ctx); err != nil && ctx.Err() == nil {
			p.log.Warn("look at positions", zap.Error(err))
		}
		if p.cfg.HoldSnapshots && time.Since(holdLooked) > holdEvery && p.crew.has(0) {
			holdLooked = time.Now()
			if err := p.hold(ctx); err != nil && ctx.Err() == nil && time.Since(troubled) > holdTroubleMax {
				troubled = time.Now()
				p.log.Warn("the snapshots that are still to be published are not held: an expiry may remove them; allow this login to tag the table, or set hold_snapshots = false", zap.Error(err))
			}
		}
		if time.Since(topicsLooked) > topicsEvery {
			topicsLooked = time.Now()
			if err := p.topics.refresh(ctx); err != nil && ctx.Err() == nil {
				p.log.Warn("look at topics", zap.Error(err))
			}
		}
		if sleep(ctx, watchEvery) != nil {
			return nil
		}
	}
}

// lookAtMarks finds out whether another instance has written the mark of a shard
// that is ours: it has changed the layout, and the shard must be taken anew. A
// shard with nothing to publish would not notice.
func (p *publish) lookAtMarks(ctx context.Context) error {
	before := p.crew.quiet()
	if len(before) == 0 {
		return nil
	}
	ends, err := p.marks.ends(ctx)
	if err != nil {
		return err
	}
	for number, q := range before {
		if number < len(ends) && ends[number] > q.expect {
			p.crew.moved(q)
		}
	}
	return nil
}

// hold keeps the snapshot of the slowest shard, and with it all that follow, from
// being expired. It looks each time: another engine may have removed the tag
// with the snapshot.
func (p *publish) hold(ctx context.Context) error {
	all, err := p.allMarks(ctx)
	if err != nil || len(all) == 0 {
		return err
	}
	slowest := all[0].At
	for _, m := range all {
		if m.At.compare(slowest) < 0 {
			slowest = m.At
		}
	}
	view, err := p.table.Follow(ctx)
	if err != nil {
		return err
	}
	at := slowest.Snapshot
	if _, kept := view.Snapshot(at); !kept { // expired, but what follows is there: that is what is needed
		line, err := view.After(slowest.snapshot())
		if err != nil {
			return err
		}
		if len(line) > 0 { // none: the table has no snapshot yet
			at = line[0].ID
		}
	}
	if err := p.table.Hold(ctx, p.cfg.Name, at); err != nil {
		return err
	}
	if _, first := view.Held(p.cfg.Name + firstHold); first {
		return p.table.Release(ctx, p.cfg.Name+firstHold)
	}
	return nil
}

// lastHold is hold at the end of a run, so that the next one finds what it needs.
func (p *publish) lastHold(work context.Context) {
	if !p.cfg.HoldSnapshots {
		return
	}
	ctx, cancel := context.WithTimeout(work, lastHoldMax)
	defer cancel()
	if err := p.hold(ctx); err != nil {
		p.log.Warn("hold the snapshots that are still to be published", zap.Error(err))
	}
}

// lastHoldMax is how long a stop may wait for it.
const lastHoldMax = 5 * time.Second
