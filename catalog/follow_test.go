package catalog

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/apache/iceberg-go/table"
)

// follow opens the table as a publish does and loads it.
func (w *world) follow(c *Catalog) (*Table, *View) {
	w.t.Helper()
	t, err := c.Look(w.t.Context(), "shop.orders", TableOptions{})
	if err != nil {
		w.t.Fatal(err)
	}
	return t, mustFollow(w.t, t)
}

func mustFollow(tb testing.TB, t *Table) *View {
	tb.Helper()
	v, err := t.Follow(tb.Context())
	if err != nil {
		tb.Fatal(err)
	}
	return v
}

func ids(line []Snapshot) (out []int64) {
	for _, s := range line {
		out = append(out, s.ID)
	}
	return out
}

func paths(list []DataFile) (out []string) {
	for _, f := range list {
		out = append(out, f.Path)
	}
	return out
}

func pathsOf(a Append) (out []string) {
	for _, f := range a.Files {
		out = append(out, f.FilePath())
	}
	return out
}

// TestFollow reads the appends of an ingest back, through the merges of
// manifests that go on beside: each append's files, each once, in their order.
func TestFollow(t *testing.T) {
	for _, rest := range []bool{false, true} {
		t.Run(fmt.Sprintf("rest=%t", rest), func(t *testing.T) {
			w := newWorld(t)
			c := w.open()
			if rest {
				_, uri := w.serve()
				c = w.openREST(uri)
			}
			tbl := w.table(c, TableOptions{})
			reader, v := w.follow(c)
			begin := v.StartLatest()
			if begin.State || begin.At.Operation != "append" || begin.At.Sequence != 1 {
				t.Fatalf("start: %+v", begin)
			}
			var appends []Append
			var commits []Commit
			at := begin.At
			var got []int64
			for i := range int64(25) {
				a := next(t, tbl, i*10, 10, 1+int(i)%7)
				appends = append(appends, a)
				commits = append(commits, mustAppend(t, tbl, a))
				if i%3 != 0 {
					continue
				}
				v = mustFollow(t, reader)
				line, err := v.After(at)
				if err != nil {
					t.Fatal(err)
				}
				for _, s := range line {
					if s.Parent != at.ID || s.Sequence != at.Sequence+1 || s.Operation != "append" || s.Summary["added-records"] == "" {
						t.Errorf("after %d: %+v", at.ID, s)
					}
					list, err := v.Added(t.Context(), s.ID)
					if err != nil {
						t.Fatal(err)
					}
					n := len(got)
					got = append(got, s.ID)
					if s.ID != commits[n].Snapshot || !slices.Equal(paths(list), pathsOf(appends[n])) {
						t.Errorf("append %d: snapshot %d with %v, want %d with %v", n, s.ID, paths(list), commits[n].Snapshot, pathsOf(appends[n]))
					}
					for j, f := range list {
						if f.Rows != 1 || f.Size != appends[n].Files[j].FileSizeBytes() || f.Slot != uint16(j%64) || f.Sequence != s.Sequence || f.Snapshot != s.ID || f.Tuple != fmt.Sprintf("id_bucket=%d", j%64) {
							t.Errorf("append %d file %d: %+v", n, j, f)
						}
					}
					at = s
				}
			}
			if len(got) != len(appends) {
				t.Errorf("%d appends were followed, want %d", len(got), len(appends))
			}
			if line, err := v.After(at); err != nil || len(line) != 0 {
				t.Errorf("at the head: %v, %v", line, err)
			}
			live, err := v.Live(t.Context(), at.ID)
			var want []string
			for _, a := range appends {
				want = append(want, pathsOf(a)...)
			}
			if err != nil || !slices.Equal(paths(live), want) {
				t.Errorf("live files are not those of the appends in their order: %d, want %d; %v", len(live), len(want), err)
			}
			if list, err := v.Added(t.Context(), 12345); !errors.Is(err, ErrSnapshotGone) {
				t.Errorf("a snapshot that isn't there: %v, %v", list, err)
			}
		})
	}
}

// TestFollowAcrossExpiry: a position whose snapshot was expired is good as long
// as the one that follows is there, and one further back is a gap.
func TestFollowAcrossExpiry(t *testing.T) {
	w := newWorld(t)
	c := w.open()
	tbl := w.table(c, TableOptions{ExpireKeep: 4})
	reader, v := w.follow(c)
	first, _ := v.Head()
	line := []Snapshot{first}
	for i := range int64(9) {
		mustAppend(t, tbl, next(t, tbl, i*10, 10, 2))
		v = mustFollow(t, reader)
		head, _ := v.Head()
		line = append(line, head)
	}
	// Kept: the newest four of ten.
	for i, at := range line {
		for _, known := range []Snapshot{at, {ID: at.ID}} {
			after, err := v.After(known)
			if i >= 5 {
				if err != nil || !slices.Equal(ids(after), ids(line[i+1:])) {
					t.Errorf("after snapshot %d of 10: %v, %v; want %v", i+1, ids(after), err, ids(line[i+1:]))
				}
				continue
			}
			var gap *GapError
			if !errors.As(err, &gap) || !slices.Equal(ids(gap.Kept), ids(line[6:])) || gap.Position.ID != at.ID {
				t.Fatalf("after snapshot %d of 10: %v, %v", i+1, after, err)
			}
			want := int64(0)
			if known.Sequence != 0 {
				want = int64(6 - i - 1)
			}
			if gap.MissingMax() != want {
				t.Errorf("after snapshot %d of 10: at most %d are missing, want %d", i+1, gap.MissingMax(), want)
			}
			lost, lostErr := v.Lost(t.Context(), gap)
			if lostErr != nil || len(lost) != 2*int(want) || want > 0 && lost[0].Snapshot != line[i+1].ID {
				t.Errorf("after snapshot %d of 10: %d files were lost, want %d; %v", i+1, len(lost), 2*want, lostErr)
			}
			if !errorsContain(err, "shop.orders", fmt.Sprint(at.ID), fmt.Sprint(line[6].ID), fmt.Sprint(line[5].ID)) {
				t.Errorf("the gap isn't named: %v", err)
			}
		}
	}
	var gap *GapError
	if _, err := v.After(Snapshot{}); !errors.As(err, &gap) || gap.MissingMax() != 6 || !errorsContain(err, "beginning") {
		t.Errorf("from the beginning: %v", err)
	}
	if _, err := v.Added(t.Context(), line[2].ID); !errors.Is(err, ErrSnapshotGone) {
		t.Errorf("an expired snapshot's files: %v", err)
	}
}

// TestFollowBesideExpiry: a view outlives the snapshots in it.
func TestFollowBesideExpiry(t *testing.T) {
	w := newWorld(t)
	c := w.open()
	tbl := w.table(c, TableOptions{ExpireKeep: 2})
	mustAppend(t, tbl, next(t, tbl, 0, 10, 2))
	_, v := w.follow(c)
	head, _ := v.Head()
	for i := range int64(5) {
		mustAppend(t, tbl, next(t, tbl, 10+i*10, 10, 2))
	}
	tbl.Sweep(t.Context())
	if _, err := v.Added(t.Context(), head.ID); !errors.Is(err, ErrSnapshotGone) {
		t.Errorf("files of a snapshot that went meanwhile: %v", err)
	}
}

// TestFollowRolledBack: a position that the head's history left isn't gone on from.
func TestFollowRolledBack(t *testing.T) {
	w := newWorld(t)
	c := w.open()
	tbl := w.table(c, TableOptions{})
	reader, v := w.follow(c)
	var line []Snapshot
	for i := range int64(5) {
		mustAppend(t, tbl, next(t, tbl, i*10, 10, 2))
		v = mustFollow(t, reader)
		head, _ := v.Head()
		line = append(line, head)
	}
	other := w.table(c, TableOptions{Ingest: "other"})
	commit(t, c, table.NewSetSnapshotRefUpdate(table.MainBranch, line[2].ID, table.BranchRef, 0, 0, 0))
	v = mustFollow(t, reader)
	var left *NotAncestorError
	if _, err := v.After(line[4]); !errors.As(err, &left) || left.Fork != line[2].ID || left.Head != line[2].ID || !errorsContain(err, "shop.orders", fmt.Sprint(line[4].ID)) {
		t.Errorf("rolled back: %v", err)
	}
	if after, err := v.After(line[2]); err != nil || len(after) != 0 {
		t.Errorf("the snapshot that it was rolled back to: %v, %v", after, err)
	}
	mustAppend(t, other, next(t, other, 0, 10, 2))
	v = mustFollow(t, reader)
	if _, err := v.After(line[4]); !errors.As(err, &left) || left.Fork != line[2].ID {
		t.Errorf("rolled back and appended to: %v", err)
	}
	if after, err := v.After(line[2]); err != nil || len(after) != 1 {
		t.Errorf("the common ancestor: %v, %v", after, err)
	}
	// What was rolled back and the common beginning are expired: the sequence
	// number still tells that the position isn't behind.
	commit(t, c, table.NewRemoveSnapshotsUpdate([]int64{line[4].ID, line[3].ID, line[0].ID, line[0].Parent}, false))
	v = mustFollow(t, reader)
	if _, err := v.After(line[4]); !errors.As(err, &left) || left.Fork != 0 {
		t.Errorf("rolled back and expired: %v", err)
	}
	var gap *GapError
	if _, err := v.After(Snapshot{ID: line[4].ID}); !errors.As(err, &gap) {
		t.Errorf("without a sequence number nothing is proven: %v", err)
	}
	if _, err := v.StartAt(line[4].ID); !errors.Is(err, ErrSnapshotGone) {
		t.Errorf("start at an expired snapshot: %v", err)
	}
}

// TestFollowReplaced: another table under the name.
func TestFollowReplaced(t *testing.T) {
	w := newWorld(t)
	c := w.open()
	w.table(c, TableOptions{})
	reader, v := w.follow(c)
	if err := v.Same(v.UUID()); err != nil {
		t.Error(err)
	}
	ident, _ := identifier("shop.orders")
	if err := c.io.(interface {
		DropTable(context.Context, table.Identifier) error
	}).DropTable(t.Context(), ident); err != nil {
		t.Fatal(err)
	}
	w.table(c, TableOptions{})
	if _, err := reader.Follow(t.Context()); !errors.Is(err, ErrReplaced) {
		t.Errorf("an open table: %v", err)
	}
	_, fresh := w.follow(c)
	if err := fresh.Same(v.UUID()); !errors.Is(err, ErrReplaced) || !errorsContain(err, v.UUID(), fresh.UUID()) {
		t.Errorf("a position's table: %v", err)
	}
}

// TestFollowWithoutHistory: a catalog that shows the head alone is told, and so is a client that asks for it.
func TestFollowWithoutHistory(t *testing.T) {
	w := newWorld(t)
	server, uri := w.serve()
	server.headOnly = true
	c := w.openREST(uri)
	tbl := w.table(c, TableOptions{})
	reader, v := w.follow(c)
	var none *NoHistoryError
	if err := v.History(); !errors.As(err, &none) {
		t.Errorf("the first snapshot alone: %v", err)
	}
	head, _ := v.Head()
	mustAppend(t, tbl, next(t, tbl, 0, 10, 2))
	v = mustFollow(t, reader)
	if err := v.History(); !errors.As(err, &none) || !errorsContain(err, "shop.orders", "Nessie") {
		t.Errorf("the second: %v", err)
	}
	if line, err := v.After(head); !errors.As(err, &none) {
		t.Errorf("after the first: %v, %v", line, err)
	}
	if _, err := v.StartEarliest(); !errors.As(err, &none) {
		t.Errorf("earliest: %v", err)
	}
	now, _ := v.Head()
	if line, err := v.After(now); err != nil || len(line) != 0 {
		t.Errorf("nothing is asked of history at the head: %v, %v", line, err)
	}
	if list, err := v.Live(t.Context(), now.ID); err != nil || len(list) != 2 {
		t.Errorf("the state needs no history: %v, %v", list, err)
	}
	c.config.Properties = map[string]string{loadingModeKey: "refs"}
	server.headOnly = false
	if err := mustFollow(t, reader).History(); !errors.As(err, &none) || !errorsContain(err, loadingModeKey) {
		t.Errorf("snapshot-loading-mode=refs: %v", err)
	}
}

// TestFollowStarts: each way to begin, on a whole history and on one whose beginning was expired.
func TestFollowStarts(t *testing.T) {
	w := newWorld(t)
	c := w.open()
	tbl := w.table(c, TableOptions{})
	reader, v := w.follow(c)
	root, _ := v.Head()
	line := []Snapshot{root}
	for i := range int64(5) {
		mustAppend(t, tbl, next(t, tbl, i*10, 10, 2))
		v = mustFollow(t, reader)
		head, _ := v.Head()
		line = append(line, head)
	}
	if s := v.StartCurrent(); s.At.ID != line[5].ID || !s.State || !s.Whole {
		t.Errorf("current: %+v", s)
	}
	if s := v.StartLatest(); s.At.ID != line[5].ID || s.State || s.Whole {
		t.Errorf("latest: %+v", s)
	}
	if s, err := v.StartEarliest(); err != nil || s.At.ID != root.ID || !s.State || !s.Whole {
		t.Errorf("earliest: %+v, %v", s, err)
	}
	for i, at := range line {
		s, err := v.StartAt(at.ID)
		if err != nil || s.State || s.At.ID != at.Parent || s.Whole != (i == 0) {
			t.Errorf("at snapshot %d: %+v, %v", i, s, err)
		}
		after, err := v.After(s.At)
		if err != nil || !slices.Equal(ids(after), ids(line[i:])) {
			t.Errorf("at snapshot %d: %v, %v", i, ids(after), err)
		}
		for _, since := range []time.Time{at.Time, at.Time.Add(-time.Microsecond)} {
			if s, err := v.StartSince(since); err != nil || s.State || s.At.ID != at.Parent {
				t.Errorf("since snapshot %d: %+v, %v", i, s, err)
			}
		}
	}
	if s, err := v.StartSince(line[5].Time.Add(time.Microsecond)); err != nil || s.State || s.At.ID != line[5].ID {
		t.Errorf("since after the head: %+v, %v", s, err)
	}
	commit(t, c, table.NewRemoveSnapshotsUpdate(ids(line[:3]), false))
	v = mustFollow(t, reader)
	if s, err := v.StartEarliest(); err != nil || s.At.ID != line[3].ID || !s.State || !s.Whole {
		t.Errorf("earliest of what is kept: %+v, %v", s, err)
	}
	if list, err := v.Live(t.Context(), line[3].ID); err != nil || len(list) != 6 {
		t.Errorf("state of the oldest kept: %v, %v", paths(list), err)
	}
	if s, err := v.StartAt(line[3].ID); err != nil || s.At.ID != line[2].ID || s.Whole {
		t.Errorf("at the oldest kept: %+v, %v", s, err)
	} else if after, err := v.After(s.At); err != nil || !slices.Equal(ids(after), ids(line[3:])) {
		t.Errorf("after the parent of the oldest kept: %v, %v", ids(after), err)
	}
	var gap *GapError
	if _, err := v.StartSince(line[3].Time); !errors.As(err, &gap) || gap.Kept[0].ID != line[3].ID || !strings.Contains(err.Error(), line[3].Time.Format("15:04:05")) {
		t.Errorf("since the oldest kept, before which there may be others: %v", err)
	}
	if s, err := v.StartSince(line[4].Time); err != nil || s.At.ID != line[3].ID {
		t.Errorf("since a kept one: %+v, %v", s, err)
	}
}

// TestAncestorsAreCheap: walking the history costs the same for each snapshot, however many there are.
func TestAncestorsAreCheap(t *testing.T) {
	w := newWorld(t)
	c := w.open()
	w.table(c, TableOptions{})
	var updates []table.Update
	meta := metaOf(t, c, "shop.orders")
	head := meta.CurrentSnapshot()
	parent, list := head.SnapshotID, head.ManifestList
	const n = 300
	for i := range int64(n) {
		before := parent
		s := table.Snapshot{SnapshotID: 1000 + i, ParentSnapshotID: &before, SequenceNumber: head.SequenceNumber + i + 1, TimestampMs: meta.LastUpdatedMillis() + i + 1,
			ManifestList: list, Summary: &table.Summary{Operation: table.OpAppend}, SchemaID: head.SchemaID}
		updates = append(updates, table.NewAddSnapshotUpdate(&s))
		parent = s.SnapshotID
	}
	commit(t, c, append(updates, table.NewSetSnapshotRefUpdate(table.MainBranch, parent, table.BranchRef, 0, 0, 0))...)
	meta = metaOf(t, c, "shop.orders")
	walk := func() (seen int) {
		for range ancestors(meta, meta.CurrentSnapshot()) {
			seen++
		}
		return seen
	}
	if seen := walk(); seen != n+1 {
		t.Fatalf("%d ancestors, want %d", seen, n+1)
	}
	if allocations := testing.AllocsPerRun(5, func() { walk() }) / n; allocations > 40 {
		t.Errorf("%.0f allocations a snapshot", allocations)
	}
}
