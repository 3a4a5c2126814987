package catalog

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/apache/iceberg-go"
	"github.com/apache/iceberg-go/table"
)

func TestLedgerRoundTrip(t *testing.T) {
	l := Ledger{Seq: 7, Cluster: "c", Append: "a", Topics: map[string]TopicLedger{"t": {ID: "i", Next: map[int32]int64{0: 1, 12: 1 << 60}}, "empty": {Next: map[int32]int64{}}}}
	text := l.encode(true)
	if want := `{"seq":7,"cluster":"c","append":"a","topics":{"empty":{"next":{}},"t":{"id":"i","next":{"0":1,"12":1152921504606846976}}}}`; text != want {
		t.Errorf("encoded as %s", text)
	}
	got, err := decodeLedger(text)
	if err != nil || !got.equal(l) || got.Append != "a" {
		t.Errorf("decoded as %+v, %v", got, err)
	}
	for _, bad := range []string{"", "{}", `{"seq":0,"topics":{}}`, `{"seq":1,"topics":{"t":{"next":{"-1":3}}}}`, `{"seq":1,"topics":{"t":{"next":{"0":-3}}}}`, `[1]`} {
		if _, err := decodeLedger(bad); err == nil {
			t.Errorf("%q decodes", bad)
		}
	}
}

func TestAdmits(t *testing.T) {
	l := Ledger{Seq: 3, Cluster: "c", Topics: map[string]TopicLedger{"t": {ID: "i", Next: map[int32]int64{0: 10, 1: 20}}}}
	source := Source{Cluster: "c", TopicIDs: map[string]string{"t": "i"}}
	for name, test := range map[string]struct {
		a    Append
		want string
	}{
		"exact":             {Append{Source: source, From: Offsets{"t": {0: 10}}, To: Offsets{"t": {0: 15}}}, ""},
		"unknown source":    {Append{From: Offsets{"t": {0: 10}}, To: Offsets{"t": {0: 15}}}, ""},
		"new partition":     {Append{Source: source, From: Offsets{"t": {0: 10}}, To: Offsets{"t": {0: 15, 2: 5}}}, ""},
		"new topic":         {Append{Source: source, From: Offsets{}, To: Offsets{"u": {0: 15}}}, ""},
		"behind":            {Append{Source: source, From: Offsets{"t": {0: 9}}, To: Offsets{"t": {0: 15}}}, "partition 0 is at 10, the append starts at 9"},
		"ahead":             {Append{Source: source, From: Offsets{"t": {0: 11}}, To: Offsets{"t": {0: 15}}}, "is at 10, the append starts at 11"},
		"already there":     {Append{Source: source, From: Offsets{}, To: Offsets{"t": {0: 15}}}, "is at 10, the append starts it"},
		"not there":         {Append{Source: source, From: Offsets{"t": {7: 1}}, To: Offsets{"t": {7: 15}}}, "partition 7 is not in it"},
		"other cluster":     {Append{Source: Source{Cluster: "d"}, From: Offsets{"t": {0: 10}}, To: Offsets{"t": {0: 15}}}, "Kafka cluster c"},
		"other topic":       {Append{Source: Source{Cluster: "c", TopicIDs: map[string]string{"t": "j"}}, From: Offsets{"t": {0: 10}}, To: Offsets{"t": {0: 15}}}, "has the id i"},
		"one of two behind": {Append{Source: source, From: Offsets{"t": {0: 10, 1: 19}}, To: Offsets{"t": {0: 15, 1: 25}}}, "partition 1 is at 20"},
	} {
		err := l.admits(test.a)
		if test.want == "" && err != nil || test.want != "" && (!errors.Is(err, ErrFenced) || !strings.Contains(err.Error(), test.want)) {
			t.Errorf("%s: %v, want %q", name, err, test.want)
		}
	}
}

func TestMergeAppends(t *testing.T) {
	a := Append{ID: "a", Source: Source{Cluster: "c", TopicIDs: map[string]string{"t": "i"}}, From: Offsets{"t": {0: 1}}, To: Offsets{"t": {0: 5, 1: 7}}}
	b := Append{ID: "b", Source: Source{Cluster: "c", TopicIDs: map[string]string{"u": "j"}}, From: Offsets{"t": {0: 5}, "u": {3: 2}}, To: Offsets{"t": {0: 9}, "u": {3: 4, 4: 1}}}
	m := a.Merge(b)
	if fmt.Sprint(m.From, m.To) != fmt.Sprint(Offsets{"t": {0: 1}, "u": {3: 2}}, Offsets{"t": {0: 9, 1: 7}, "u": {3: 4, 4: 1}}) {
		t.Errorf("from %v to %v", m.From, m.To)
	}
	if m.ID == a.ID || m.ID == b.ID || len(m.Source.TopicIDs) != 2 || fmt.Sprint(a.To) != fmt.Sprint(Offsets{"t": {0: 5, 1: 7}}) {
		t.Errorf("merged %+v", m)
	}
	for name, b := range map[string]Append{
		"gap":       {From: Offsets{"t": {0: 6}}, To: Offsets{"t": {0: 9}}},
		"new again": {From: Offsets{}, To: Offsets{"t": {1: 9}}},
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s: no panic", name)
				}
			}()
			a.Merge(b)
		}()
	}
	long := a
	for i := range 50 {
		long = long.Merge(Append{ID: fmt.Sprintf("next-append-%d", i), To: Offsets{}})
	}
	if len(long.ID) > mergedIDBytesMax {
		t.Errorf("id %s", long.ID)
	}
}

// strange commits an empty snapshot as another engine would.
func strange(t *testing.T, c *Catalog) int64 {
	t.Helper()
	ident, _ := identifier("shop.orders")
	s, err := c.load(t.Context(), ident)
	if err != nil {
		t.Fatal(err)
	}
	head := s.meta.CurrentSnapshot()
	snap := table.Snapshot{SnapshotID: newSnapshotID(s.meta), ParentSnapshotID: &head.SnapshotID, SequenceNumber: nextSequence(s.meta), TimestampMs: s.meta.LastUpdatedMillis() + 1,
		ManifestList: head.ManifestList, Summary: &table.Summary{Operation: table.OpReplace, Properties: iceberg.Properties{"engine-name": "spark"}}, SchemaID: head.SchemaID}
	commit(t, c, table.NewAddSnapshotUpdate(&snap), table.NewSetSnapshotRefUpdate(table.MainBranch, snap.SnapshotID, table.BranchRef, 0, 0, 0))
	return snap.SnapshotID
}

func commit(t *testing.T, c *Catalog, ups ...table.Update) {
	t.Helper()
	ident, _ := identifier("shop.orders")
	if _, _, err := c.io.CommitTable(t.Context(), ident, nil, ups); err != nil {
		t.Fatal(err)
	}
}

// rollback sets main to a snapshot.
func rollback(t *testing.T, c *Catalog, id int64) {
	t.Helper()
	commit(t, c, table.NewSetSnapshotRefUpdate(table.MainBranch, id, table.BranchRef, 0, 0, 0))
}

func TestRollbackIsSeen(t *testing.T) {
	w := newWorld(t)
	c := w.open()
	tbl := w.table(c, TableOptions{})
	first := mustAppend(t, tbl, next(t, tbl, 0, 10, 2))
	mustAppend(t, tbl, next(t, tbl, 10, 10, 2))
	strange(t, c)
	if _, err := tbl.Ledger(t.Context()); err != nil {
		t.Fatalf("a stranger's snapshot on top: %v", err)
	}
	rollback(t, c, first.Snapshot)
	_, err := tbl.Ledger(t.Context())
	var rb *RollbackError
	if !errors.As(err, &rb) || rb.Property.Seq != 2 || rb.History != 1 || rb.Ancestor == nil || rb.Ancestor.Topics["orders"].Next[0] != 10 {
		t.Fatalf("after the rollback: %v, %+v", err, rb)
	}
	if _, err := tbl.Append(t.Context(), next(t, tbl, 20, 10, 1)); !errors.As(err, &rb) {
		t.Errorf("append after the rollback: %v", err)
	}
	if err := tbl.Rewind(t.Context(), rb.Property, rb.Property); !errors.As(err, &rb) {
		t.Errorf("rewind over the rollback: %v", err)
	}
	if err := tbl.Reread(t.Context(), rb); err != nil {
		t.Fatal(err)
	}
	if err := tbl.Reread(t.Context(), rb); !errors.Is(err, ErrFenced) {
		t.Errorf("settle the rollback again: %v", err)
	}
	l, err := tbl.Ledger(t.Context())
	if err != nil || l.Seq != 3 || l.Topics["orders"].Next[0] != 10 {
		t.Errorf("after the rewind: %+v, %v", l, err)
	}
	mustAppend(t, tbl, next(t, tbl, 10, 10, 2))
	if err := tbl.Rewind(t.Context(), l, l); !errors.Is(err, ErrFenced) {
		t.Errorf("rewind from an old ledger: %v", err)
	}
	if n := len(contents(t, c, "shop.orders")); n != 4 {
		t.Errorf("%d files", n)
	}
}

// A rollback that has changed since it was seen is not settled: the ledger of the
// place where the table was then would leave rows out, or repeat them.
func TestRollbackOverRollback(t *testing.T) {
	w := newWorld(t)
	c := w.open()
	tbl := w.table(c, TableOptions{})
	first := mustAppend(t, tbl, next(t, tbl, 0, 10, 2))
	second := mustAppend(t, tbl, next(t, tbl, 10, 10, 2))
	third := mustAppend(t, tbl, next(t, tbl, 20, 10, 2))
	rollback(t, c, second.Snapshot)
	_, err := tbl.Ledger(t.Context())
	var rb *RollbackError
	if !errors.As(err, &rb) {
		t.Fatalf("after the rollback: %v", err)
	}
	for _, now := range []int64{first.Snapshot, third.Snapshot} {
		rollback(t, c, now)
		if err := tbl.Reread(t.Context(), rb); !errors.Is(err, ErrFenced) {
			t.Errorf("the table stands elsewhere now: %v", err)
		}
	}
	if l, err := tbl.Ledger(t.Context()); err != nil || l.Topics["orders"].Next[0] != 30 {
		t.Errorf("rolled forward: %+v, %v", l, err)
	}
}

func TestExpiredHistoryIsNoRollback(t *testing.T) {
	w := newWorld(t)
	c := w.open()
	tbl := w.table(c, TableOptions{})
	mustAppend(t, tbl, next(t, tbl, 0, 10, 2))
	keep := strange(t, c)
	strange(t, c)
	var gone []int64
	for _, s := range metaOf(t, c, "shop.orders").Snapshots() {
		if s.SnapshotID != keep && s.Summary.Properties["engine-name"] == "" {
			gone = append(gone, s.SnapshotID)
		}
	}
	commit(t, c, table.NewRemoveSnapshotsUpdate(gone, false))
	l, err := tbl.Ledger(t.Context())
	if err != nil || l.Seq != 1 {
		t.Errorf("ledger %+v, %v", l, err)
	}
	mustAppend(t, tbl, next(t, tbl, 10, 10, 2))
}

func TestReplacedTableIsSeen(t *testing.T) {
	w := newWorld(t)
	c := w.open()
	tbl := w.table(c, TableOptions{})
	mustAppend(t, tbl, next(t, tbl, 0, 10, 2))
	ident, _ := identifier("shop.orders")
	if err := c.io.(dropper).DropTable(t.Context(), ident); err != nil {
		t.Fatal(err)
	}
	a := next(t, tbl, 10, 10, 2)
	if _, err := tbl.Append(t.Context(), a); !errors.Is(err, ErrReplaced) {
		t.Errorf("append to a dropped table: %v", err)
	}
	other := w.table(c, TableOptions{})
	if _, err := tbl.Append(t.Context(), a); !errors.Is(err, ErrReplaced) {
		t.Errorf("append to another table of the name: %v", err)
	}
	if _, err := tbl.Ledger(t.Context()); !errors.Is(err, ErrReplaced) {
		t.Errorf("ledger of another table of the name: %v", err)
	}
	if l, err := other.Ledger(t.Context()); err != nil || l.Seq != 0 {
		t.Errorf("the new table's ledger: %+v, %v", l, err)
	}
}

// A proxy whose catalog is away answers 404 for as long as that takes: the
// append waits, as the table may be there. Only a catalog's own word counts.
func TestProxyWithoutCatalog(t *testing.T) {
	w := newWorld(t)
	server, uri := w.serve()
	c := w.openREST(uri)
	tbl := w.table(c, TableOptions{})
	mustAppend(t, tbl, next(t, tbl, 0, 10, 2))
	asked, body := 0, ""
	server.mu.Lock()
	server.load = func(w http.ResponseWriter) bool {
		if asked++; asked > missingLoadsMax {
			return false
		}
		w.WriteHeader(http.StatusNotFound)
		fmt.Fprint(w, body)
		return true
	}
	server.mu.Unlock()
	for _, body = range []string{"", "default backend - 404", "<html>404 page not found</html>"} {
		asked = 0
		if _, err := c.Look(t.Context(), tbl.name, TableOptions{}); err == nil || errors.Is(err, ErrNoTable) || !strings.Contains(err.Error(), "look at [catalog] uri") {
			t.Errorf("%q: look: %v", body, err)
		}
	}
	asked = 0
	if _, err := tbl.Append(t.Context(), next(t, tbl, 10, 10, 2)); err != nil || asked <= missingLoadsMax {
		t.Errorf("asked %d times: %v", asked, err)
	}
}

// TestHeadOnlyCatalog: a catalog that shows the current snapshot alone.
func TestHeadOnlyCatalog(t *testing.T) {
	w := newWorld(t)
	server, uri := w.serve()
	server.headOnly = true
	c := w.openREST(uri)
	tbl := w.table(c, TableOptions{ExpireKeep: 2, ExpireAlways: true})
	var appended []Append
	for i := range 12 {
		a := next(t, tbl, int64(i)*10, 10, 2)
		mustAppend(t, tbl, a)
		appended = append(appended, a)
		if l, err := tbl.Ledger(t.Context()); err != nil || l.Seq != int64(i)+1 {
			t.Fatalf("ledger %+v, %v", l, err)
		}
	}
	expectOnce(t, c, appended...)
	strange(t, server.back)
	if l, err := tbl.Ledger(t.Context()); err != nil || l.Seq != 12 {
		t.Errorf("under a stranger's head: %+v, %v", l, err)
	}
	a := next(t, tbl, 120, 10, 2)
	mustAppend(t, tbl, a)
	expectOnce(t, c, append(appended, a)...)
	// The head's own seq is all there is to tell a rollback by.
	rollback(t, server.back, server.back.mustSnapshot(t, "5"))
	var rb *RollbackError
	if _, err := tbl.Ledger(t.Context()); !errors.As(err, &rb) || rb.History != 5 {
		t.Errorf("after a rollback: %v", err)
	}
	if len(w.disk.removed) > 0 {
		t.Errorf("removed %v", w.disk.removed)
	}
}

type dropper interface {
	DropTable(ctx context.Context, ident table.Identifier) error
}

func (c *Catalog) mustSnapshot(t *testing.T, seq string) int64 {
	t.Helper()
	for _, s := range metaOf(t, c, "shop.orders").Snapshots() {
		if s.Summary.Properties["router.orders.seq"] == seq {
			return s.SnapshotID
		}
	}
	t.Fatalf("no snapshot of seq %s", seq)
	return 0
}

// TestTwoIngestsOneTable: each has a ledger of its own.
func TestTwoIngestsOneTable(t *testing.T) {
	w := newWorld(t)
	c := w.open()
	a, b := w.table(c, TableOptions{Ingest: "one"}), w.table(c, TableOptions{Ingest: "two"})
	fa, fb := next(t, a, 0, 10, 2), next(t, b, 0, 7, 2)
	mustAppend(t, a, fa)
	mustAppend(t, b, fb)
	fa2 := next(t, a, 10, 10, 1)
	mustAppend(t, a, fa2)
	expectOnce(t, c, fa, fb, fa2)
	la, _ := a.Ledger(t.Context())
	lb, _ := b.Ledger(t.Context())
	if la.Seq != 2 || lb.Seq != 1 || maps.Equal(la.Topics["orders"].Next, lb.Topics["orders"].Next) {
		t.Errorf("ledgers %+v and %+v", la, lb)
	}
}

// TestClockBehindTheTable: another writer's clock was an hour ahead.
func TestClockBehindTheTable(t *testing.T) {
	w := newWorld(t)
	c := w.open()
	tbl := w.table(c, TableOptions{})
	ident, _ := identifier("shop.orders")
	s, err := c.load(t.Context(), ident)
	if err != nil {
		t.Fatal(err)
	}
	head := s.meta.CurrentSnapshot()
	future := *head
	future.SnapshotID, future.ParentSnapshotID, future.SequenceNumber = newSnapshotID(s.meta), &head.SnapshotID, nextSequence(s.meta)
	future.TimestampMs += 3600_000
	commit(t, c, table.NewAddSnapshotUpdate(&future), table.NewSetSnapshotRefUpdate(table.MainBranch, future.SnapshotID, table.BranchRef, 0, 0, 0))
	a := next(t, tbl, 0, 10, 1)
	if cm := mustAppend(t, tbl, a); cm.Attempts != 1 {
		t.Errorf("%d attempts", cm.Attempts)
	}
	if got := metaOf(t, c, "shop.orders").CurrentSnapshot().TimestampMs; got != future.TimestampMs+1 {
		t.Errorf("the snapshot is of %d, the last update of %d", got, future.TimestampMs)
	}
	expectOnce(t, c, a)
}

// The ids that a name had before go with the ledger wherever it goes.
func TestLedgerKeepsRetiredIDs(t *testing.T) {
	l := Ledger{Seq: 1, Cluster: "c", Topics: map[string]TopicLedger{"t": {ID: "id0", Next: map[int32]int64{0: 5}}, "gone": {ID: "x", Next: map[int32]int64{}}}}
	for n := 1; n <= retiredMax+2; n++ {
		l.Renew("t", fmt.Sprint("id", n))
	}
	is := l.Topics["t"]
	if is.ID != "id10" || len(is.Next) != 0 || len(is.Retired) != retiredMax || is.Retired[0] != "id2" || is.Retired[retiredMax-1] != "id9" {
		t.Fatalf("got %+v", is)
	}
	read, err := decodeLedger(l.encode(true))
	if err != nil || !read.equal(l) || !l.Clone().Equal(l) || !l.dated(7).equal(l) {
		t.Errorf("got %+v, %v", read, err)
	}
	a := Append{ID: "a", Source: Source{TopicIDs: map[string]string{"t": "id10"}}, From: Offsets{}, To: Offsets{"t": {0: 3}}}
	if moved := l.moved(a, 1); !slices.Equal(moved.Topics["t"].Retired, is.Retired) {
		t.Errorf("moved: %+v", moved)
	}
	other := l.Clone()
	other.Topics["t"] = TopicLedger{ID: is.ID, Next: is.Next}
	if other.equal(l) {
		t.Error("a ledger without them is the same")
	}
	l.Renew("t", "id9") // a cluster that was left and is back
	if r := l.Topics["t"].Retired; slices.Contains(r, "id9") {
		t.Errorf("its own id is retired: %v", r)
	}
	l.Move(Source{Cluster: "d", TopicIDs: map[string]string{"t": "id20"}})
	if _, there := l.Topics["gone"]; there || l.Cluster != "d" || l.Topics["t"].ID != "id20" {
		t.Errorf("moved to another cluster: %+v", l)
	}
}
