//go:build synctests

package sim

import (
	"fmt"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/apache/iceberg-go"
	"github.com/apache/iceberg-go/table"
)

// What other writers do to the table, through iceberg-go. A conflict with an
// instance is their bad luck and no fault.

// foreignAppend adds n rows of nobody's topic.
func (w *world) foreignAppend(n int) error {
	t, err := w.lake.LoadTable(w.ctx, ident)
	if err != nil {
		return err
	}
	ids := w.truth.addForeign(n)
	fields := []arrow.Field{{Name: "id", Type: arrow.PrimitiveTypes.Int64}, {Name: "text", Type: arrow.BinaryTypes.String, Nullable: true}}
	schema := arrow.NewSchema(fields, nil)
	b := array.NewRecordBuilder(memory.DefaultAllocator, schema)
	defer b.Release()
	for _, id := range ids {
		b.Field(0).(*array.Int64Builder).Append(id)
		b.Field(1).(*array.StringBuilder).Append("a stranger's")
	}
	batch := b.NewRecordBatch()
	defer batch.Release()
	rows := array.NewTableFromRecords(schema, []arrow.RecordBatch{batch})
	defer rows.Release()
	if _, err := t.AppendTable(w.ctx, rows, int64(n), nil); err != nil {
		return err
	}
	w.truth.committed(ids)
	return nil
}

// foreignProperty sets a property, which moves the metadata and not the head.
func (w *world) foreignProperty() error {
	_, _, err := w.lake.commit(foreigner, nil, []table.Update{table.NewSetPropertiesUpdate(iceberg.Properties{"someone": fmt.Sprint(w.audit.commits)})})
	return err
}

// foreignColumn adds a column.
func (w *world) foreignColumn() error {
	t, err := w.lake.LoadTable(w.ctx, ident)
	if err != nil {
		return err
	}
	tx := t.NewTransaction()
	w.columns++
	if err := tx.UpdateSchema(true, false).AddColumn([]string{fmt.Sprintf("extra_%d", w.columns)}, iceberg.PrimitiveTypes.String, "", false, nil).Commit(); err != nil {
		return err
	}
	_, err = tx.Commit(w.ctx)
	return err
}

// foreignExpire removes every snapshot but the head, and the files that nothing
// names any more.
func (w *world) foreignExpire() error {
	meta := w.lake.current()
	if meta == nil || meta.CurrentSnapshot() == nil || w.audit.rolledBack() {
		return nil
	}
	head := *meta.CurrentSnapshot()
	var ids []int64
	gone := map[string]bool{}
	w.audit.mu.Lock()
	for _, s := range meta.Snapshots() {
		if s.SnapshotID == head.SnapshotID || w.back == nil && named(meta, s.SnapshotID) || w.back.keeps(meta, s) {
			continue
		}
		ids = append(ids, s.SnapshotID)
		gone[s.ManifestList] = true
		for _, m := range w.audit.lists[s.ManifestList] {
			gone[m] = true
		}
	}
	for _, s := range meta.Snapshots() {
		if s.SnapshotID == head.SnapshotID || named(meta, s.SnapshotID) {
			for _, m := range w.audit.lists[s.ManifestList] {
				delete(gone, m)
			}
		}
	}
	w.audit.mu.Unlock()
	if len(ids) == 0 {
		return nil
	}
	for _, m := range w.kept(meta, ids) {
		delete(gone, m)
	}
	requires := []table.Requirement{table.AssertRefSnapshotID(table.MainBranch, &head.SnapshotID)}
	if _, _, err := w.lake.commit(foreigner, requires, []table.Update{table.NewRemoveSnapshotsUpdate(ids, false)}); err != nil {
		return err
	}
	for name := range gone {
		w.objects.remove(foreigner, name)
	}
	return nil
}

// foreignRewrite replaces data files by copies of them, as a compaction would.
func (w *world) foreignRewrite() error {
	t, err := w.lake.LoadTable(w.ctx, ident)
	if err != nil {
		return err
	}
	tasks, err := t.Scan().PlanFiles(w.ctx)
	if err != nil {
		return err
	}
	var old, fresh []iceberg.DataFile
	spec := t.Spec()
	for _, task := range tasks {
		f := task.File
		if len(old) == 5 {
			break
		}
		if int(f.SpecID()) != spec.ID() {
			continue
		}
		name := strings.TrimSuffix(f.FilePath(), ".parquet") + fmt.Sprintf("-again%d.parquet", w.audit.commits)
		body, _ := w.objects.read(f.FilePath())
		if !w.objects.create(name, body) {
			continue
		}
		b, err := iceberg.NewDataFileBuilder(spec, iceberg.EntryContentData, name, iceberg.ParquetFile, f.Partition(), nil, nil, f.Count(), f.FileSizeBytes())
		if err != nil {
			return err
		}
		old, fresh = append(old, f), append(fresh, b.Build())
	}
	if len(old) == 0 {
		return nil
	}
	tx := t.NewTransaction()
	rewrite := tx.NewRewrite(nil)
	for i := range old {
		rewrite.DeleteFile(old[i]).AddDataFile(fresh[i])
	}
	if err := rewrite.Commit(w.ctx); err != nil {
		return err
	}
	_, err = tx.Commit(w.ctx)
	return err
}

// foreignDrop drops a column that another writer added.
func (w *world) foreignDrop() error {
	t, err := w.lake.LoadTable(w.ctx, ident)
	if err != nil {
		return err
	}
	for _, f := range t.Schema().Fields() {
		if strings.HasPrefix(f.Name, "extra_") {
			tx := t.NewTransaction()
			if err := tx.UpdateSchema(true, false).DeleteColumn([]string{f.Name}).Commit(); err != nil {
				return err
			}
			_, err = tx.Commit(w.ctx)
			return err
		}
	}
	return nil
}

// foreignSpec changes the partitioning: a field more, or the one that was added.
func (w *world) foreignSpec() error {
	t, err := w.lake.LoadTable(w.ctx, ident)
	if err != nil {
		return err
	}
	const field = "text_start"
	tx := t.NewTransaction()
	there := false
	spec := t.Spec()
	for _, f := range spec.Fields() {
		there = there || f.Name == field
	}
	change := tx.UpdateSpec(true)
	if there {
		change = change.RemoveField(field)
	} else {
		change = change.AddField("text", iceberg.TruncateTransform{Width: 1}, field)
	}
	if err := change.Commit(); err != nil {
		return err
	}
	_, err = tx.Commit(w.ctx)
	return err
}

// foreignDelete deletes the rows of a data file.
func (w *world) foreignDelete() error {
	t, err := w.lake.LoadTable(w.ctx, ident)
	if err != nil {
		return err
	}
	tasks, err := t.Scan().PlanFiles(w.ctx)
	if err != nil || len(tasks) == 0 {
		return err
	}
	f := tasks[w.rand.IntN(len(tasks))].File
	gone := map[int64]bool{}
	w.audit.mu.Lock()
	for _, r := range w.audit.files[f.FilePath()] {
		gone[r.id] = true
	}
	w.audit.mu.Unlock()
	w.truth.loosen(func(r *record) bool {
		r.deleted = r.deleted || gone[r.id]
		return gone[r.id]
	})
	w.truth.loosenForeign(func(id int64) bool { return gone[id] })
	tx := t.NewTransaction()
	if err := tx.ReplaceDataFilesWithDataFiles(w.ctx, []iceberg.DataFile{f}, nil, nil); err != nil {
		return err
	}
	_, err = tx.Commit(w.ctx)
	return err
}

// foreignRollback makes an older snapshot the head. It goes only where a
// snapshot of an instance is left to tell: beyond that nobody can see it.
func (w *world) foreignRollback() error {
	w.lake.mu.Lock()
	defer w.lake.mu.Unlock()
	meta := w.lake.meta
	var chain []table.Snapshot // the head and before
	for s := meta.CurrentSnapshot(); s != nil; {
		chain = append(chain, *s)
		if s.ParentSnapshotID == nil {
			break
		}
		s = meta.SnapshotByID(*s.ParentSnapshotID)
	}
	last := 0 // the oldest of an instance
	for i, s := range chain {
		if _, ours := s.Summary.Properties["router."+ingestName+".seq"]; ours {
			last = i
		}
	}
	if last == 0 {
		return nil
	}
	target := chain[1+w.rand.IntN(last)].SnapshotID
	w.audit.rollBack()
	w.truth.loosenForeign(func(int64) bool { return true })
	starts := map[origin]int64{}
	for _, topic := range topics {
		for _, p := range w.broker.PartitionInfos(topic) {
			starts[origin{topic, p.Partition, 0}] = p.LogStartOffset
		}
	}
	w.truth.loosen(func(r *record) bool { // what can't be read again
		return r.origin.offset < starts[origin{r.origin.topic, r.origin.partition, 0}]
	})
	_, _, err := w.lake.apply(foreigner, nil, []table.Update{table.NewSetSnapshotRefUpdate(table.MainBranch, target, table.BranchRef, 0, 0, 0)})
	return err
}

// named tells whether a branch or a tag names a snapshot.
func named(meta table.Metadata, id int64) bool {
	for _, ref := range meta.Refs() {
		if ref.SnapshotID == id {
			return true
		}
	}
	return false
}

// foreignTag names a snapshot that the table has, so that nobody may expire it.
func (w *world) foreignTag() error {
	meta := w.lake.current()
	all := meta.Snapshots()
	id := all[w.rand.IntN(len(all))].SnapshotID
	name := fmt.Sprintf("tag_%d", w.rand.IntN(3))
	_, _, err := w.lake.commit(foreigner, nil, []table.Update{table.NewSetSnapshotRefUpdate(name, id, table.TagRef, 0, 0, 0)})
	return err
}

// foreignUntag takes a snapshot's name away.
func (w *world) foreignUntag() error {
	for name := range w.lake.current().Refs() {
		if strings.HasPrefix(name, "tag_") {
			_, _, err := w.lake.commit(foreigner, nil, []table.Update{table.NewRemoveSnapshotRefUpdate(name)})
			return err
		}
	}
	return nil
}
