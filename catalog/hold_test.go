package catalog

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/apache/iceberg-go/table"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
	"golang.org/x/sync/errgroup"
)

// TestHold: while a publish holds a snapshot, neither it nor any that follows
// is expired, by whichever ingest; moved, the hold lets go of what is behind it.
func TestHold(t *testing.T) {
	w := newWorld(t)
	c := w.open()
	tbl, other := w.table(c, TableOptions{ExpireKeep: 3}), w.table(w.open(), TableOptions{Ingest: "other", ExpireKeep: 3})
	reader, v := w.follow(c)
	at, _ := v.Head()
	if err := reader.Hold(t.Context(), "mirror", at.ID); err != nil {
		t.Fatal(err)
	}
	line := []Snapshot{at}
	for i := range int64(12) {
		ingest := tbl
		if i%3 == 2 {
			ingest = other
		}
		mustAppend(t, ingest, next(t, ingest, offsetOf(t, ingest), 10, 2))
		v = mustFollow(t, reader)
		after, err := v.After(at)
		if err != nil || len(after) != int(i)+1 {
			t.Fatalf("after %d appends: %d snapshots, %v", i+1, len(after), err)
		}
		line = append([]Snapshot{at}, after...)
	}
	for _, s := range line[1:] {
		if list, err := v.Added(t.Context(), s.ID); err != nil || len(list) != 2 {
			t.Errorf("snapshot %d: %d files, %v", s.ID, len(list), err)
		}
	}
	// A second, further one changes nothing; the first moves on.
	if err := reader.Hold(t.Context(), "second", line[8].ID); err != nil {
		t.Fatal(err)
	}
	if err := reader.Hold(t.Context(), "mirror", line[5].ID); err != nil {
		t.Fatal(err)
	}
	kept := func(want int) {
		t.Helper()
		mustAppend(t, tbl, next(t, tbl, offsetOf(t, tbl), 10, 2))
		v = mustFollow(t, reader)
		if line, err := v.line(); err != nil || len(line) != want {
			t.Errorf("%d snapshots are kept, want %d; %v", len(line), want, err)
		}
	}
	kept(13 - 5 + 1)
	if _, err := v.After(line[5]); err != nil {
		t.Errorf("from the held snapshot: %v", err)
	}
	if err := reader.Release(t.Context(), "mirror"); err != nil {
		t.Fatal(err)
	}
	kept(13 - 8 + 2)
	if err := reader.Release(t.Context(), "second"); err != nil {
		t.Fatal(err)
	}
	kept(3)
	for name := range metaOf(t, c, "shop.orders").Refs() {
		if name != "main" {
			t.Errorf("tag %s is left", name)
		}
	}
	var held *HoldError
	if err := reader.Hold(t.Context(), "mirror", line[2].ID); !errors.As(err, &held) || !errors.Is(err, ErrSnapshotGone) || held.Publish != "mirror" {
		t.Errorf("hold of an expired snapshot: %v", err)
	}
}

func offsetOf(tb testing.TB, t *Table) int64 {
	tb.Helper()
	l, err := t.Ledger(tb.Context())
	if err != nil {
		tb.Fatal(err)
	}
	return l.Topics["orders"].Next[0]
}

// TestHoldAcrossForeignExpiry: another engine keeps the snapshot with the tag,
// and expires those that follow it. What is left may still be to be read.
func TestHoldAcrossForeignExpiry(t *testing.T) {
	w := newWorld(t)
	c := w.open()
	tbl := w.table(c, TableOptions{ExpireKeep: 2})
	reader, v := w.follow(c)
	at, _ := v.Head()
	if err := reader.Hold(t.Context(), "mirror", at.ID); err != nil {
		t.Fatal(err)
	}
	grow := func(n int) []Snapshot {
		for range n {
			mustAppend(t, tbl, next(t, tbl, offsetOf(t, tbl), 10, 2))
		}
		line, err := mustFollow(t, reader).line()
		if err != nil {
			t.Fatal(err)
		}
		return line
	}
	line := grow(5)
	if _, _, err := c.io.CommitTable(t.Context(), tbl.ident, nil, []table.Update{table.NewRemoveSnapshotsUpdate(ids(line[1:3]), false)}); err != nil {
		t.Fatal(err)
	}
	if got, want := ids(grow(5)), ids(line[3:]); !slices.Equal(got[:len(want)], want) || len(got) != len(want)+5 {
		t.Errorf("%v are left, want %v and 5 more", got, want)
	}
	if err := reader.Release(t.Context(), "mirror"); err != nil {
		t.Fatal(err)
	}
	if got := grow(1); len(got) != 2 {
		t.Errorf("%d snapshots are left without a hold, want 2", len(got))
	}
}

// TestHoldOfNothing: while a table has no snapshot there is none to name; what
// comes is held all the same, until a tag takes the place of the property.
func TestHoldOfNothing(t *testing.T) {
	w := newWorld(t)
	c := w.open()
	schema, _, err := ordersCreate.Compile()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.io.CreateNamespace(t.Context(), table.Identifier{"shop"}, nil); err != nil {
		t.Fatal(err)
	}
	if _, err := c.io.CreateTable(t.Context(), table.Identifier{"shop", "orders"}, schema); err != nil {
		t.Fatal(err)
	}
	reader, _ := w.follow(c)
	for range 2 {
		if err := reader.Hold(t.Context(), "mirror", 0); err != nil {
			t.Fatal(err)
		}
	}
	tbl := w.table(c, TableOptions{ExpireKeep: 2, ExpireAlways: true})
	for range 6 {
		mustAppend(t, tbl, next(t, tbl, offsetOf(t, tbl), 10, 2))
	}
	after, err := mustFollow(t, reader).After(Snapshot{})
	if err != nil || len(after) < 6 {
		t.Fatalf("from the beginning: %d snapshots, %v", len(after), err)
	}
	if err := reader.Hold(t.Context(), "mirror", after[3].ID); err != nil {
		t.Fatal(err)
	}
	mustAppend(t, tbl, next(t, tbl, offsetOf(t, tbl), 10, 2))
	v := mustFollow(t, reader)
	if line, err := v.line(); err != nil || len(line) != len(after)-3+1 {
		t.Errorf("%d snapshots from the tag on, want %d, %v", len(line), len(after)-3+1, err)
	}
	for name := range v.Properties() {
		if strings.HasPrefix(name, holdProperty) {
			t.Errorf("property %s is left", name)
		}
	}
}

// TestHoldCostsNothing: a hold that is there already is no commit.
func TestHoldCostsNothing(t *testing.T) {
	w := newWorld(t)
	server, uri := w.serve()
	c := w.openREST(uri)
	tbl := w.table(c, TableOptions{})
	mustAppend(t, tbl, next(t, tbl, 0, 10, 2))
	commits := 0
	server.setCommit(func(http.ResponseWriter, *http.Request, func() (int, []byte)) bool { commits++; return false })
	reader, v := w.follow(c)
	head, _ := v.Head()
	for range 3 {
		if err := reader.Hold(t.Context(), "mirror", head.ID); err != nil {
			t.Fatal(err)
		}
	}
	if commits != 1 {
		t.Errorf("%d commits, want 1", commits)
	}
	for range 3 {
		if err := reader.Release(t.Context(), "mirror"); err != nil {
			t.Fatal(err)
		}
	}
	if commits != 2 {
		t.Errorf("%d commits, want 2", commits)
	}
}

// TestHoldByHand: somebody removes the tag of a publish that isn't there any
// more. Expiry goes on, and nothing of the hold is left.
func TestHoldByHand(t *testing.T) {
	for _, rest := range []bool{false, true} {
		t.Run(fmt.Sprintf("rest=%t", rest), func(t *testing.T) {
			w := newWorld(t)
			c := w.open()
			if rest {
				_, uri := w.serve()
				c = w.openREST(uri)
			}
			core, logs := observer.New(zap.WarnLevel)
			tbl := w.table(c, TableOptions{ExpireKeep: 3})
			tbl.log = zap.New(core)
			reader, v := w.follow(c)
			at, _ := v.Head()
			if err := reader.Hold(t.Context(), "mirror", at.ID); err != nil {
				t.Fatal(err)
			}
			for i := range int64(6) {
				mustAppend(t, tbl, next(t, tbl, i*10, 10, 1))
			}
			if n := len(metaOf(t, c, "shop.orders").Snapshots()); n != 7 {
				t.Errorf("%d snapshots, want all 7", n)
			}
			commit(t, c, table.NewRemoveSnapshotRefUpdate(holdPrefix+"mirror"))
			mustAppend(t, tbl, next(t, tbl, 60, 10, 1))
			meta := metaOf(t, c, "shop.orders")
			if n := len(meta.Snapshots()); n != 3 || len(holds(meta)) != 0 {
				t.Errorf("%d snapshots, want 3; holds %v", n, holds(meta))
			}
			tbl.tellHeld(heldManyMin, map[string]int64{"router_publish_mirror": 1})
			tbl.tellHeld(heldManyMin+1, nil)
			tbl.tellHeld(2*heldManyMin, nil)
			if logs.Len() != 2 || !strings.Contains(fmt.Sprint(logs.All()[0].ContextMap()), "router_publish_mirror") {
				t.Errorf("%d warnings: %v", logs.Len(), logs.All())
			}
		})
	}
}

// TestHoldOfWhatFollows: a position whose snapshot is gone, or that is before the first.
func TestHoldOfWhatFollows(t *testing.T) {
	w := newWorld(t)
	c := w.open()
	tbl := w.table(c, TableOptions{ExpireKeep: 3})
	reader, v := w.follow(c)
	root, _ := v.Head()
	if err := reader.Hold(t.Context(), "mirror", 0); err != nil {
		t.Fatal(err)
	}
	if held := holds(metaOf(t, c, "shop.orders")); held[holdPrefix+"mirror"] != root.ID {
		t.Errorf("from the beginning: %v, want %d", held, root.ID)
	}
	if err := reader.Release(t.Context(), "mirror"); err != nil {
		t.Fatal(err)
	}
	for i := range int64(6) {
		mustAppend(t, tbl, next(t, tbl, i*10, 10, 1))
	}
	line, err := mustFollow(t, reader).line()
	if err != nil || len(line) != 3 {
		t.Fatal(line, err)
	}
	if err := reader.Hold(t.Context(), "mirror", line[0].Parent); err != nil {
		t.Fatal(err)
	}
	for i := range int64(6) {
		mustAppend(t, tbl, next(t, tbl, 60+i*10, 10, 1))
	}
	if after, err := mustFollow(t, reader).After(Snapshot{ID: line[0].Parent}); err != nil || len(after) != 9 {
		t.Errorf("after the parent of the oldest kept: %v, %v", after, err)
	}
}

// TestHoldMeetsExpiry lets a hold come between the moment an ingest chose what
// to expire and its commit: the ingest must see it, and append all the same.
func TestHoldMeetsExpiry(t *testing.T) {
	for _, rest := range []bool{false, true} {
		t.Run(fmt.Sprintf("rest=%t", rest), func(t *testing.T) {
			w := newWorld(t)
			c := w.open()
			back := (&world{t: t, dir: w.dir, disk: newDisk()}).open() // its disk is not held up by the fault
			if rest {
				_, uri := w.serve()
				c = w.openREST(uri)
			}
			var outcomes []string
			tbl := w.table(c, TableOptions{ExpireKeep: 3, OnAttempt: func(a CommitAttempt) { outcomes = append(outcomes, a.Outcome) }})
			for i := range int64(3) {
				mustAppend(t, tbl, next(t, tbl, i*10, 10, 2))
			}
			reader, v := w.follow(back)
			line, err := v.line()
			if err != nil || len(line) != 3 {
				t.Fatalf("%d snapshots, %v", len(line), err)
			}
			outcomes = nil
			a := next(t, tbl, 30, 10, 2)
			held := false
			w.disk.setFault(func(operation, name string) error {
				// The manifest list is written after the choice.
				if operation == "write" && isOurList(name) && !held {
					held = true
					return reader.Hold(t.Context(), "mirror", line[0].ID)
				}
				return nil
			})
			mustAppend(t, tbl, a)
			w.disk.setFault(nil)
			v = mustFollow(t, reader)
			after, err := v.After(line[0])
			if _, there := v.Snapshot(line[0].ID); err != nil || len(after) != 3 || !there || !held {
				t.Errorf("after the held snapshot: %v, %v; it is there: %t", ids(after), err, there)
			}
			if !slices.Equal(outcomes, []string{"refused", "landed"}) {
				t.Errorf("outcomes %v", outcomes)
			}
		})
	}
}

// TestHoldBesideAppends lets two publishes hold, move and release while three
// ingests append: every append lands once, and no publish ever finds a gap.
func TestHoldBesideAppends(t *testing.T) {
	w := newWorld(t)
	w.table(w.open(), TableOptions{})
	const appends = 10
	var ingests, publishes errgroup.Group
	for i := range 3 {
		tbl := w.table(w.open(), TableOptions{Ingest: fmt.Sprintf("own%d", i), ExpireKeep: 2})
		ingests.Go(func() error {
			for n := range int64(appends) {
				if _, err := tbl.Append(t.Context(), next(t, tbl, n*10, 10, 2)); err != nil {
					return err
				}
			}
			return nil
		})
	}
	for i := range 2 {
		c := w.open()
		publishes.Go(func() error {
			reader, err := c.Look(t.Context(), "shop.orders", TableOptions{})
			if err != nil {
				return err
			}
			name := fmt.Sprintf("p%d", i)
			v, err := reader.Follow(t.Context())
			if err != nil {
				return err
			}
			at, _ := v.Head()
			if err := reader.Hold(t.Context(), name, at.ID); errors.Is(err, ErrSnapshotGone) {
				return nil // too late: nothing was promised
			} else if err != nil {
				return err
			}
			for {
				if v, err = reader.Follow(t.Context()); err != nil {
					return err
				}
				line, err := v.After(at)
				if err != nil {
					return fmt.Errorf("publish %s: %w", name, err)
				}
				if len(line) == 0 {
					if at.Sequence >= appends*3+1 {
						break
					}
					continue
				}
				at = line[0] // one by one: it falls behind
				if list, err := v.Added(t.Context(), at.ID); err != nil || len(list) != 2 {
					return fmt.Errorf("publish %s: snapshot %d: %d files, %w", name, at.ID, len(list), err)
				}
				if err := reader.Hold(t.Context(), name, at.ID); err != nil {
					return err
				}
			}
			return reader.Release(t.Context(), name)
		})
	}
	if err := errors.Join(ingests.Wait(), publishes.Wait()); err != nil {
		t.Fatal(err)
	}
	if got := contents(t, w.open(), "shop.orders"); len(got) != appends*3*2 {
		t.Errorf("%d files in the table, want %d", len(got), appends*3*2)
	}
}

// TestHoldRefused: credentials that may only read. One try, and a typed error.
func TestHoldRefused(t *testing.T) {
	w := newWorld(t)
	server, uri := w.serve()
	c := w.openREST(uri)
	tbl := w.table(c, TableOptions{})
	mustAppend(t, tbl, next(t, tbl, 0, 10, 2))
	commits := 0
	server.setCommit(func(rw http.ResponseWriter, _ *http.Request, _ func() (int, []byte)) bool {
		commits++
		server.fail(rw, 403, "ForbiddenException", "you may only read")
		return true
	})
	reader, v := w.follow(c)
	head, _ := v.Head()
	err := reader.Hold(t.Context(), "mirror", head.ID)
	var held *HoldError
	if !errors.As(err, &held) || held.Snapshot != head.ID || commits != 1 || !strings.Contains(err.Error(), "403") {
		t.Errorf("%d commits, %v", commits, err)
	}
}

// TestHoldAnswerLost: the commit is applied, the answer isn't heard.
func TestHoldAnswerLost(t *testing.T) {
	w := newWorld(t)
	server, uri := w.serve()
	c := w.openREST(uri)
	tbl := w.table(c, TableOptions{})
	mustAppend(t, tbl, next(t, tbl, 0, 10, 2))
	commits := 0
	server.setCommit(func(rw http.ResponseWriter, _ *http.Request, apply func() (int, []byte)) bool {
		commits++
		apply()
		reset(rw)
		return true
	})
	reader, v := w.follow(c)
	head, _ := v.Head()
	if err := reader.Hold(t.Context(), "mirror", head.ID); err != nil || commits != 1 {
		t.Errorf("%d commits, %v", commits, err)
	}
	if held := holds(metaOf(t, w.open(), "shop.orders")); held[holdPrefix+"mirror"] != head.ID || held[horizonTag] != head.ID {
		t.Errorf("holds %v", held)
	}
}

// An ingest may have any name, and its properties must not look like a hold.
func TestIngestIsNoHold(t *testing.T) {
	for _, name := range []string{"hold", "publish", "hold.all"} {
		k := keysOf(name)
		for _, property := range []string{k.ledger, k.seq, k.append, k.rewound} {
			if strings.HasPrefix(property, holdProperty) {
				t.Errorf("%s is taken for a hold", property)
			}
		}
	}
}
