package router

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"time"

	"go.uber.org/zap"

	"icerouter/catalog"
)

// feed is what the shards of a publish share of the table: the newest view,
// how its rows become records, and the files of snapshots. It is safe for
// concurrent use.
type feed struct {
	mu      sync.Mutex
	view    *catalog.View
	plan    *publishPlan
	changed chan struct{} // closed when there is a newer view
	frozen  bool
	lists   map[listKey]*fileList
	nudged  chan struct{} // one may wait
}

func newFeed() *feed {
	return &feed{changed: make(chan struct{}), nudged: make(chan struct{}, 1), lists: map[listKey]*fileList{}}
}

// restart forgets what a run before has seen.
func (f *feed) restart() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.view, f.plan, f.frozen = nil, nil, false
	f.lists = map[listKey]*fileList{}
}

// nudge says that the table has just been committed to.
func (f *feed) nudge() {
	select {
	case f.nudged <- struct{}{}:
	default:
	}
}

// now returns the newest view, the plan for it, and what is closed when there
// is a newer one.
func (f *feed) now() (*catalog.View, *publishPlan, <-chan struct{}) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.view, f.plan, f.changed
}

// show makes v the newest view.
func (f *feed) show(v *catalog.View, plan *publishPlan) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.frozen && f.view != nil {
		return
	}
	f.view, f.plan = v, plan
	close(f.changed)
	f.changed = make(chan struct{})
}

// freeze leaves the view as it is from now on: who has read it to its end is done.
func (f *feed) freeze() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.frozen = true
	close(f.changed) // who waits for a newer view looks again, and learns that there will be none
	f.changed = make(chan struct{})
}

func (f *feed) isFrozen() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.frozen
}

// listKey names the files that a snapshot added, or the table's state at it.
type listKey struct {
	snapshot int64
	state    bool
}

type fileList struct {
	loaded chan struct{} // closed when files and err are there
	files  []catalog.DataFile
	err    error
	used   time.Time
}

// listsMax is how many snapshots' files are kept: shards that are about as far
// read them once.
const listsMax = 16

// files returns what a snapshot added, or the table's state at it. It is shared:
// the first shard that asks loads it, and the others wait for it as long as ctx
// lasts.
func (f *feed) files(ctx context.Context, v *catalog.View, key listKey) ([]catalog.DataFile, error) {
	for {
		l, first := f.list(key)
		if first {
			if key.state {
				l.files, l.err = v.Live(ctx, key.snapshot)
			} else {
				l.files, l.err = v.Added(ctx, key.snapshot)
			}
			if l.err != nil {
				f.drop(key, l) // another try may do better
			}
			close(l.loaded)
			return l.files, l.err
		}
		select {
		case <-l.loaded:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		if !errors.Is(l.err, context.Canceled) {
			return l.files, l.err
		}
		// It was the other shard's context that ended.
	}
}

// list returns the list of key. First says that the caller is to load it.
func (f *feed) list(key listKey) (l *fileList, first bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if l = f.lists[key]; l == nil {
		if len(f.lists) >= listsMax {
			f.forgetOldest()
		}
		l, first = &fileList{loaded: make(chan struct{})}, true
		f.lists[key] = l
	}
	l.used = time.Now()
	return l, first
}

func (f *feed) drop(key listKey, l *fileList) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.lists[key] == l {
		delete(f.lists, key)
	}
}

// forgetOldest drops the list that was not used for longest. REQUIRES: f.mu is held.
func (f *feed) forgetOldest() {
	var oldest listKey
	first := time.Unix(0, math.MaxInt64)
	for key, l := range f.lists {
		if l.used.Before(first) {
			oldest, first = key, l.used
		}
	}
	delete(f.lists, oldest)
}

// follow loads the table again and again until ctx ends, and shows what is new
// to the shards. A catalog that doesn't answer is waited for.
func (p *publish) follow(ctx context.Context) error {
	last := int64(0)
	if view, _, _ := p.feed.now(); view != nil {
		head, _ := view.Head()
		last = head.ID
	}
	tick := time.NewTicker(p.cfg.PollInterval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-p.feed.nudged:
		case <-tick.C:
		}
		if p.feed.isFrozen() {
			continue
		}
		view, err := p.table.Follow(ctx)
		switch {
		case ctx.Err() != nil:
			return nil
		case errors.Is(err, catalog.ErrReplaced):
			return p.replaced(err)
		case err != nil:
			p.status.failing(fmt.Errorf("look at table %s: %w", p.cfg.Table, err))
			p.log.Warn("look at table", zap.Error(err))
			continue
		}
		p.status.looked()
		head, ok := view.Head()
		if !ok || head.ID == last {
			continue
		}
		if shown, _, _ := p.feed.now(); shown != nil && view.Sequence() < shown.Sequence() {
			p.log.Warn("the catalog has answered with an older state of the table than before; looking again", zap.Int64("head", head.ID), zap.Int64("before", last))
			continue
		}
		if err := p.show(view); err != nil {
			return err
		}
		last = head.ID
	}
}

// show compiles what the view's schema needs, and shows the view to the shards.
func (p *publish) show(view *catalog.View) error {
	_, plan, _ := p.feed.now()
	if plan == nil || plan.schema != view.Schema().ID {
		var err error
		if plan, err = p.planOf(view); err != nil {
			return err
		}
	}
	p.feed.show(view, plan)
	if head, ok := view.Head(); ok {
		p.status.head(head)
	}
	return nil
}

// replaced says what to do about a table that is another one now.
func (p *publish) replaced(err error) error {
	if p.cfg.OnTableReplaced == policyRestart {
		return fmt.Errorf("starting again in the new table: %w", errors.New(err.Error())) // not the error itself, which halts
	}
	return haltf("%v; set on_table_replaced = \"restart\" to begin in the new table where start says, or bring the former table back", err)
}
