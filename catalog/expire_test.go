package catalog

import (
	"testing"
	"time"
)

// TestYoungSnapshotsStay: other engines check what they commit against the
// history since they began, so age counts beside number, up to a bound.
func TestYoungSnapshotsStay(t *testing.T) {
	const keep = 2
	w := newWorld(t)
	c := w.open()
	tbl := w.table(c, TableOptions{ExpireKeep: keep, ExpireAfter: time.Hour})
	first := headID(metaOf(t, c, "shop.orders"))
	offset := int64(0)
	appendTo := func(tbl *Table, times int) (snapshots int) {
		t.Helper()
		for range times {
			mustAppend(t, tbl, next(t, tbl, offset, 1, 1))
			offset++
		}
		return len(metaOf(t, c, "shop.orders").Snapshots())
	}
	began := time.Now()
	if n := appendTo(tbl, expireYoungFrom*keep-1); n != expireYoungFrom*keep || metaOf(t, c, "shop.orders").SnapshotByID(first) == nil {
		t.Errorf("%d snapshots after %s, want all %d", n, time.Since(began), expireYoungFrom*keep)
	}
	if n := appendTo(tbl, 3); n != expireYoungFrom*keep {
		t.Errorf("%d young snapshots, want no more than %d", n, expireYoungFrom*keep)
	}
	old := w.table(w.open(), TableOptions{ExpireKeep: keep, ExpireAfter: time.Millisecond})
	if n := appendTo(old, 1); n > keep+1 { // the one before may be of the same millisecond
		t.Errorf("%d snapshots when all are old, want %d", n, keep)
	}
}
