package catalog

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/apache/iceberg-go/table"
)

// inBetween lets others act after the next commit's check of the ledger, just
// before it reaches the catalog.
func inBetween(c *Catalog, others func()) {
	inner := c.io
	c.io = &faultyIO{catalogIO: inner, commit: func(ctx context.Context, apply func(context.Context) (table.Metadata, string, error)) (table.Metadata, string, error) {
		c.io = inner
		others()
		return apply(ctx)
	}}
}

// B045, B046: another instance commits the same offsets between our check of
// the ledger and our commit. Ours is fenced, and its files are nowhere.
func TestFencedInMidCommit(t *testing.T) {
	w := newWorld(t)
	ours, theirs := w.open(), w.open()
	a, b := w.table(ours, TableOptions{}), w.table(theirs, TableOptions{})
	first := next(t, a, 0, 10, 2)
	mustAppend(t, a, first)
	won := next(t, b, 10, 100, 3)
	inBetween(ours, func() { mustAppend(t, b, won) })
	if _, err := a.Append(t.Context(), next(t, a, 10, 100, 3)); !errors.Is(err, ErrFenced) {
		t.Errorf("got %v", err)
	}
	expectOnce(t, ours, first, won)
}

// B136: a commit to another branch takes our sequence number. That is a lost
// race like any other.
func TestOtherBranchInMidCommit(t *testing.T) {
	w := newWorld(t)
	c := w.open()
	tbl := w.table(c, TableOptions{})
	first := next(t, tbl, 0, 10, 2)
	mustAppend(t, tbl, first)
	inBetween(c, func() {
		s, err := tbl.reload(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		head := s.meta.CurrentSnapshot()
		side := table.Snapshot{SnapshotID: newSnapshotID(s.meta), ParentSnapshotID: &head.SnapshotID, SequenceNumber: nextSequence(s.meta), TimestampMs: s.meta.LastUpdatedMillis() + 1,
			ManifestList: head.ManifestList, Summary: &table.Summary{Operation: table.OpAppend}, SchemaID: head.SchemaID}
		commit(t, c, table.NewAddSnapshotUpdate(&side), table.NewSetSnapshotRefUpdate("side", side.SnapshotID, table.BranchRef, 0, 0, 0))
	})
	second := next(t, tbl, 10, 10, 2)
	if cm := mustAppend(t, tbl, second); cm.Attempts != 2 {
		t.Errorf("%d attempts, want 2", cm.Attempts)
	}
	expectOnce(t, c, first, second)
}

// B155: upkeep that an instance left undone is done by the next: each append
// here is a process of its own, and the metadata stays small.
func TestUpkeepAfterRestart(t *testing.T) {
	w := newWorld(t)
	var all []Append
	const commits = 60
	for i := range commits {
		c := w.open()
		tbl := w.table(c, TableOptions{ExpireKeep: 3})
		a := next(t, tbl, int64(i)*10, 10, 2)
		mustAppend(t, tbl, a)
		all = append(all, a)
		if err := c.Close(); err != nil {
			t.Fatal(err)
		}
	}
	c := w.open()
	expectOnce(t, c, all...)
	meta := metaOf(t, c, "shop.orders")
	manifests, err := meta.CurrentSnapshot().Manifests(w.disk)
	if err != nil {
		t.Fatal(err)
	}
	if len(manifests) >= 3*mergeFan || len(meta.Snapshots()) > 3 {
		t.Errorf("%d manifests and %d snapshots after %d processes", len(manifests), len(meta.Snapshots()), commits)
	}
}

// B185: slashes at the end of a location get into no name.
func TestSlashesInLocations(t *testing.T) {
	w := newWorld(t)
	c := w.open()
	create := ordersCreate
	create.Location = "file://" + w.dir + "/wh/elsewhere//"
	create.Properties = map[string]string{table.WriteMetadataPathKey: "file://" + w.dir + "/meta/", table.WriteDataPathKey: "file://" + w.dir + "/data//"}
	tbl := w.table(c, TableOptions{Create: &create})
	mustAppend(t, tbl, next(t, tbl, 0, 10, 2))
	head := metaOf(t, c, "shop.orders").CurrentSnapshot()
	manifests, err := head.Manifests(w.disk)
	if err != nil {
		t.Fatal(err)
	}
	names := []string{head.ManifestList, tbl.DataLocation()}
	for _, m := range manifests {
		names = append(names, m.FilePath())
	}
	for _, name := range names {
		if strings.Contains(strings.TrimPrefix(name, "file://"), "//") || strings.HasSuffix(name, "/") {
			t.Errorf("name %s", name)
		}
	}
	create.Properties = nil
	other, err := c.Table(t.Context(), "shop.others", TableOptions{Ingest: "others", Create: &create})
	if err != nil {
		t.Fatal(err)
	}
	if got, want := other.DataLocation(), "file://"+w.dir+"/wh/elsewhere/data"; got != want {
		t.Errorf("data goes to %s, want %s", got, want)
	}
}
