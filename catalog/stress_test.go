package catalog

import (
	"fmt"
	"sync"
	"testing"

	"github.com/apache/iceberg-go"
	"github.com/apache/iceberg-go/table"
	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"
)

// TestManyInstances lets eight instances, each with a catalog of its own,
// append 20 times each: half of them share an ingest (and own a partition each),
// half have an ingest of their own. No file is lost, none is there twice, and
// what one removes the others don't need.
func TestManyInstances(t *testing.T) {
	w := newWorld(t)
	const instances, appends = 8, 20
	var mu sync.Mutex
	var all []Append
	attempts := 0
	w.table(w.open(), TableOptions{}) // made before: the race for the first snapshot has its own test
	var g errgroup.Group
	for i := range instances {
		c := w.open()
		ingest, partition := "shared", int32(i)
		if i >= instances/2 {
			ingest = fmt.Sprintf("own%d", i)
		}
		tbl := w.table(c, TableOptions{Ingest: ingest, ExpireKeep: 10})
		g.Go(func() error {
			for n := range appends {
				a := Append{ID: newID(), Source: Source{Cluster: "kafka"}, Files: files(t, tbl, 4), To: Offsets{"orders": {partition: int64(n+1) * 10}}, From: Offsets{}}
				if n > 0 {
					a.From = Offsets{"orders": {partition: int64(n) * 10}}
				}
				cm, err := tbl.Append(t.Context(), a)
				if err != nil {
					return fmt.Errorf("instance %d append %d: %w", i, n, err)
				}
				mu.Lock()
				all = append(all, a)
				attempts += cm.Attempts
				mu.Unlock()
			}
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		t.Fatal(err)
	}
	c := w.open()
	expectOnce(t, c, all...)
	l, err := w.table(c, TableOptions{Ingest: "shared"}).Ledger(t.Context())
	if err != nil || l.Seq != instances/2*appends || len(l.Topics["orders"].Next) != instances/2 || l.Topics["orders"].Next[3] != appends*10 {
		t.Errorf("ledger %+v, %v", l, err)
	}
	for _, s := range metaOf(t, c, "shop.orders").Snapshots() {
		manifests, err := s.Manifests(w.disk)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range manifests {
			if _, err := m.FetchEntries(w.disk, true); err != nil {
				t.Errorf("snapshot %d: %v", s.SnapshotID, err)
			}
		}
	}
	t.Logf("%d appends took %d commits", instances*appends, attempts)
}

// TestManyInstancesMakeTheTable: all start at once, on nothing.
func TestManyInstancesMakeTheTable(t *testing.T) {
	for _, headOnly := range []bool{false, true} {
		t.Run(fmt.Sprintf("headOnly=%t", headOnly), func(t *testing.T) {
			w := newWorld(t)
			server, uri := w.serve()
			server.headOnly = headOnly
			var mu sync.Mutex
			var all []Append
			var g errgroup.Group
			for i := range 6 {
				c := w.openREST(uri)
				g.Go(func() error {
					create := ordersCreate
					tbl, err := c.Table(t.Context(), "shop.orders", TableOptions{Ingest: fmt.Sprintf("own%d", i), Create: &create})
					if err != nil {
						return err
					}
					a := Append{ID: newID(), Files: files(t, tbl, 2), To: Offsets{"orders": {0: 10}}}
					_, err = tbl.Append(t.Context(), a)
					mu.Lock()
					defer mu.Unlock()
					all = append(all, a)
					return err
				})
			}
			if err := g.Wait(); err != nil {
				t.Fatal(err)
			}
			expectOnce(t, w.open(), all...)
		})
	}
}

// TestTableChangesBetweenAppends: schema and spec move on while files of the old ones are on their way.
func TestTableChangesBetweenAppends(t *testing.T) {
	w := newWorld(t)
	c := w.open()
	tbl := w.table(c, TableOptions{})
	old := next(t, tbl, 0, 10, 3)
	ident, _ := identifier("shop.orders")
	loaded, err := c.io.LoadTable(t.Context(), ident)
	if err != nil {
		t.Fatal(err)
	}
	tx := loaded.NewTransaction()
	if err := tx.UpdateSchema(true, false).AddColumn([]string{"added"}, iceberg.PrimitiveTypes.Int64, "", false, nil).Commit(); err != nil {
		t.Fatal(err)
	}
	if err := tx.UpdateSpec(true).AddField("message", iceberg.TruncateTransform{Width: 4}, "m").Commit(); err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	cm := mustAppend(t, tbl, old)
	if !cm.SchemaChanged {
		t.Error("the change isn't told")
	}
	if _, ok := tbl.Schema().FindFieldByName("added"); !ok {
		t.Error("the new schema isn't shown")
	}
	both := next(t, tbl, 10, 10, 0)
	spec := tbl.Spec()
	b, err := iceberg.NewDataFileBuilder(spec, iceberg.EntryContentData, tbl.DataLocation()+"/new.parquet", iceberg.ParquetFile, map[int]any{1000: int32(1), 1001: "abcd"}, nil, nil, 5, 50)
	if err != nil {
		t.Fatal(err)
	}
	both.Files = append(old.Files[:0:0], b.Build())
	if cm := mustAppend(t, tbl, both); cm.SchemaChanged {
		t.Error("a change is told that isn't")
	}
	expectOnce(t, c, old, both)
	manifests, err := metaOf(t, c, "shop.orders").CurrentSnapshot().Manifests(w.disk)
	if err != nil || len(manifests) != 2 || manifests[0].PartitionSpecID() != 1 || manifests[1].PartitionSpecID() != 0 || len(manifests[0].Partitions()) != 2 {
		t.Errorf("manifests %v, %v", manifests, err)
	}
}

// TestOldFormat appends to a v1 table.
func TestOldFormat(t *testing.T) {
	w := newWorld(t)
	c := w.open()
	create := ordersCreate
	create.Properties = map[string]string{"format-version": "1"}
	tbl := w.table(c, TableOptions{Create: &create, ExpireKeep: 3})
	var appended []Append
	for i := range 12 {
		a := next(t, tbl, int64(i)*10, 10, 2)
		mustAppend(t, tbl, a)
		appended = append(appended, a)
	}
	if v := metaOf(t, c, "shop.orders").Version(); v != 1 {
		t.Fatalf("format version %d", v)
	}
	expectOnce(t, c, appended...)
}

// TestDamagedTable: the current manifest list is gone. Nothing is committed over it.
func TestDamagedTable(t *testing.T) {
	w := newWorld(t)
	c := w.open()
	tbl := w.table(c, TableOptions{})
	mustAppend(t, tbl, next(t, tbl, 0, 10, 2))
	head := metaOf(t, c, "shop.orders").CurrentSnapshot()
	if err := w.disk.Remove(head.ManifestList); err != nil {
		t.Fatal(err)
	}
	fresh := w.table(w.open(), TableOptions{}) // remembers nothing
	_, err := fresh.Append(t.Context(), next(t, fresh, 10, 10, 2))
	if err == nil || !errorsContain(err, "is damaged", head.ManifestList) {
		t.Errorf("append: %v", err)
	}
	if now := headID(metaOf(t, c, "shop.orders")); now != head.SnapshotID {
		t.Error("something was committed")
	}
}

// TestForeignRefsAndRules: branches, tags and retention rules of others survive.
func TestForeignRefsAndRules(t *testing.T) {
	w := newWorld(t)
	c := w.open()
	tbl := w.table(c, TableOptions{ExpireKeep: 2})
	first := mustAppend(t, tbl, next(t, tbl, 0, 10, 2))
	commit(t, c, table.NewSetSnapshotRefUpdate("keep", first.Snapshot, table.TagRef, 0, 0, 0),
		table.NewSetSnapshotRefUpdate(table.MainBranch, first.Snapshot, table.BranchRef, 0, 5000, 7))
	for i := range 20 {
		mustAppend(t, tbl, next(t, tbl, int64(i+1)*10, 10, 1))
	}
	tbl.Sweep(t.Context())
	meta := metaOf(t, c, "shop.orders")
	tagged := meta.SnapshotByName("keep")
	if tagged == nil || tagged.SnapshotID != first.Snapshot {
		t.Fatalf("the tag names %v", tagged)
	}
	if manifests, err := tagged.Manifests(w.disk); err != nil {
		t.Error(err)
	} else if _, err := manifests[0].FetchEntries(w.disk, true); err != nil {
		t.Errorf("the tagged snapshot's manifest: %v", err)
	}
	if n := len(meta.Snapshots()); n != 3 {
		t.Errorf("%d snapshots, want two and the tagged one", n)
	}
	if ref := meta.Ref(); deref(ref.MinSnapshotsToKeep) != 7 || deref(ref.MaxSnapshotAgeMs) != 5000 {
		t.Errorf("main's rules are %+v", ref)
	}
}

// TestStoreFaults: manifests that can't be stored are tried again under new names.
func TestStoreFaults(t *testing.T) {
	w := newWorld(t)
	c := w.open()
	var outcomes []string
	tbl := w.table(c, TableOptions{OnAttempt: func(a CommitAttempt) { outcomes = append(outcomes, a.Outcome) }})
	failures := 0
	w.disk.setFault(func(operation, name string) error {
		if _, ours := levelOf(name); ours && operation == "write" && failures < 2 {
			failures++
			return fmt.Errorf("503 slow down")
		}
		return nil
	})
	a := next(t, tbl, 0, 10, 2)
	mustAppend(t, tbl, a)
	expectOnce(t, c, a)
	if fmt.Sprint(outcomes) != "[refused refused landed]" {
		t.Errorf("outcomes %v", outcomes)
	}
	if len(w.disk.removed) > 0 {
		t.Errorf("removed %v", w.disk.removed)
	}
}

// TestOwnHeadIsNotReadAgain: a commit on top of our own last one reads neither list nor manifests.
func TestOwnHeadIsNotReadAgain(t *testing.T) {
	w := newWorld(t)
	c := w.open()
	tbl := w.table(c, TableOptions{ExpireKeep: 5})
	for i := range mergeFan*mergeFan + mergeFan {
		mustAppend(t, tbl, next(t, tbl, int64(i)*10, 10, 2))
	}
	for name := range w.disk.read {
		if _, ours := levelOf(name); ours || isOurList(name) && w.disk.read[name] > 1 {
			t.Errorf("%s was read %d times", name, w.disk.read[name])
		}
	}
}

// TestPartitionNamesOfOthers: Spark names fields of nested columns "a.b_bucket", which Avro refuses.
func TestPartitionNamesOfOthers(t *testing.T) {
	w := newWorld(t)
	c := w.open()
	create := Create{Schema: []Column{{Name: "id", Type: "long"}, {Name: "a", Type: "struct<b: string>"}}, Partition: []string{"a.b_bucket = bucket(a.b, 64)", "9 größe = truncate(id, 10)"}}
	tbl := w.table(c, TableOptions{Create: &create})
	var appended []Append
	for i := range mergeFan + 2 {
		a := next(t, tbl, int64(i)*10, 10, 0)
		spec := tbl.Spec()
		b, err := iceberg.NewDataFileBuilder(spec, iceberg.EntryContentData, fmt.Sprintf("%s/odd%d.parquet", tbl.DataLocation(), i), iceberg.ParquetFile, map[int]any{1000: int32(i), 1001: int64(10 * i)}, nil, nil, 1, 50)
		if err != nil {
			t.Fatal(err)
		}
		a.Files = []iceberg.DataFile{b.Build()}
		mustAppend(t, tbl, a)
		appended = append(appended, a)
	}
	expectOnce(t, c, appended...)
	manifests, err := metaOf(t, c, "shop.orders").CurrentSnapshot().Manifests(w.disk)
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range manifests {
		entries, err := m.FetchEntries(w.disk, true)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			if p := e.DataFile().Partition(); p[1000] == nil || p[1001] == nil {
				t.Errorf("partition %v", p)
			}
		}
	}
	if got := avroName("a.b 9ü_"); got != "a_x2Eb_x209_xFC_" {
		t.Errorf("avroName: %s", got)
	}
	if got := avroName("9x"); got != "_9x" {
		t.Errorf("avroName: %s", got)
	}
}

// TestManyInstancesOpenAtOnce: the database is new to all of them.
func TestManyInstancesOpenAtOnce(t *testing.T) {
	w := newWorld(t)
	var g errgroup.Group
	for range 12 {
		g.Go(func() error {
			c, err := Open(t.Context(), w.config(), w.disk.open, zap.NewNop())
			if err != nil {
				return err
			}
			return c.Close()
		})
	}
	if err := g.Wait(); err != nil {
		t.Fatal(err)
	}
}
