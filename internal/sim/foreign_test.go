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
	_, _, err := w.lake.commit("foreign", nil, []table.Update{table.NewSetPropertiesUpdate(iceberg.Properties{"someone": fmt.Sprint(w.audit.commits)})})
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
	if meta == nil || meta.CurrentSnapshot() == nil {
		return nil
	}
	head := *meta.CurrentSnapshot()
	var ids []int64
	gone := map[string]bool{}
	w.audit.mu.Lock()
	for _, s := range meta.Snapshots() {
		if s.SnapshotID == head.SnapshotID {
			continue
		}
		ids = append(ids, s.SnapshotID)
		gone[s.ManifestList] = true
		for _, m := range w.audit.lists[s.ManifestList] {
			gone[m] = true
		}
	}
	for _, m := range w.audit.lists[head.ManifestList] {
		delete(gone, m)
	}
	w.audit.mu.Unlock()
	if len(ids) == 0 {
		return nil
	}
	requires := []table.Requirement{table.AssertRefSnapshotID(table.MainBranch, &head.SnapshotID)}
	if _, _, err := w.lake.commit("foreign", requires, []table.Update{table.NewRemoveSnapshotsUpdate(ids, false)}); err != nil {
		return err
	}
	for name := range gone {
		w.objects.remove("foreign", name)
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
	if err := tx.ReplaceDataFilesWithDataFiles(w.ctx, old, fresh, nil); err != nil {
		return err
	}
	_, err = tx.Commit(w.ctx)
	return err
}
