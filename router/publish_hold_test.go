package router

import (
	"testing"

	"go.uber.org/zap/zaptest"

	"icerouter/catalog"
	"icerouter/writers"
)

// TestPublishHoldsFromTheStart: a publish whose process dies right after its
// first positions finds what they name when it comes back, though the ingest
// keeps a single snapshot.
func TestPublishHoldsFromTheStart(t *testing.T) {
	w := newStage(t, map[string]int32{"a": 2, "out": 1})
	w.ingest("t", func(c *IngestConfig) { c.KeepSnapshots, c.KeepSnapshotsFor = 1, 0 }, "a")
	w.publish("p", "t", "out", nil)
	fill := func() {
		w.produce("a", 2, 20)
		if err := w.only("ingest", w.once); err != nil {
			t.Fatal(err)
		}
	}
	fill()
	log := zaptest.NewLogger(t)
	r, err := New(w.cfg, log, Options{})
	if err != nil {
		t.Fatal(err)
	}
	stores := writers.NewStores(log)
	defer stores.Close()
	p := r.newPublish(0, stores, log, true)
	if err := p.connect(t.Context()); err != nil {
		t.Fatal(err)
	}
	p.disconnect()
	for range 4 {
		fill()
	}
	if err := w.only("publish", w.once); err != nil {
		t.Fatal(err)
	}
	if out := w.committed("out"); len(out) != 5*40 {
		t.Errorf("%d records, want %d", len(out), 5*40)
	}
	fill()
	view, err := r.newPublish(0, stores, log, true).openTable(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if held, was := view.Held("p" + firstHold); was {
		t.Errorf("snapshot %d is held for a first start that is over", held)
	}
}

// TestPublishHoldsAgain: somebody has removed the tag, and the position has not
// moved since.
func TestPublishHoldsAgain(t *testing.T) {
	w := newStage(t, map[string]int32{"a": 1, "out": 1})
	w.ingest("t", nil, "a")
	w.publish("p", "t", "out", nil)
	w.produce("a", 1, 5)
	if err := w.only("ingest", w.once); err != nil {
		t.Fatal(err)
	}
	log := zaptest.NewLogger(t)
	r, err := New(w.cfg, log, Options{})
	if err != nil {
		t.Fatal(err)
	}
	stores := writers.NewStores(log)
	defer stores.Close()
	p := r.newPublish(0, stores, log, true)
	if err := p.connect(t.Context()); err != nil {
		t.Fatal(err)
	}
	defer p.disconnect()
	for range 2 {
		if err := p.hold(t.Context()); err != nil {
			t.Fatal(err)
		}
		view, err := p.table.Follow(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if _, held := view.Held("p"); !held {
			t.Error("nothing is held")
		}
		if err := p.table.Release(t.Context(), "p"); err != nil {
			t.Fatal(err)
		}
	}
}

// TestPublishBeginsWhereItCan: the state that a first start wants to publish is
// expired before it is held.
func TestPublishBeginsWhereItCan(t *testing.T) {
	w := newStage(t, map[string]int32{"a": 2, "out": 1})
	w.ingest("t", func(c *IngestConfig) { c.KeepSnapshots, c.KeepSnapshotsFor = 1, 0 }, "a")
	w.publish("p", "t", "out", nil)
	fill := func() {
		w.produce("a", 2, 20)
		if err := w.only("ingest", w.once); err != nil {
			t.Fatal(err)
		}
	}
	fill()
	log := zaptest.NewLogger(t)
	r, err := New(w.cfg, log, Options{})
	if err != nil {
		t.Fatal(err)
	}
	stores := writers.NewStores(log)
	defer stores.Close()
	p := r.newPublish(0, stores, log, true)
	view, err := p.openTable(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	fill()
	marks, err := p.begin(t.Context(), view, func(v *catalog.View) ([]mark, error) {
		at, err := p.start(v)
		return firstLayout(1, 1, p.uuid, at), err
	})
	if err != nil {
		t.Fatal(err)
	}
	if view, err = p.table.Follow(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, kept := view.Snapshot(marks[0].At.Snapshot); !kept {
		t.Errorf("begins at %s, which is not there any more", marks[0].At)
	}
}
