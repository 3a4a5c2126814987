package router

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/apache/iceberg-go/table"
)

// An ingest that was renamed reads everything again: its own rows are fine, and
// each record is in the table twice.
func TestAuditFindsRenamedIngest(t *testing.T) {
	for _, columns := range []bool{true, false} {
		w := auditStage(t)
		w.orders(columns)
		w.cfg.Ingest[0].Name = "new"
		if err := w.once(); err != nil {
			t.Fatal(err)
		}
		w.unproven(AuditOptions{}, "a/0: twice: ingest t wrote rows of the offsets 0..399 of this partition into the table, too")
		w.cfg.Ingest[0].Name = "t"
		w.unproven(AuditOptions{}, "a/0: twice: ingest new wrote rows of the offsets 0..399")
	}
}

// Rows that others append are no row of ours if the columns say so. Where there
// are no columns they could be anything, a copy of our rows too.
func TestAuditOfRowsOfOthers(t *testing.T) {
	for _, columns := range []bool{true, false} {
		w := newStage(t, map[string]int32{"a": 1})
		w.ingest("t", func(c *IngestConfig) {
			c.Create.Partition = nil
			if !columns {
				c.Create.Schema = c.Create.Schema[:2]
			}
		}, "a")
		w.produce("a", 1, 100)
		if err := w.once(); err != nil {
			t.Fatal(err)
		}
		w.foreign("t", func(tbl *table.Table, tx *table.Transaction) error {
			rows, _, err := array.RecordFromJSON(memory.DefaultAllocator, arrow.NewSchema([]arrow.Field{{Name: "id", Type: arrow.PrimitiveTypes.Int64}}, nil), strings.NewReader(`[{"id": 1}, {"id": 2}]`))
			if err != nil {
				return err
			}
			all := array.NewTableFromRecords(rows.Schema(), []arrow.RecordBatch{rows})
			return tx.AppendTable(t.Context(), all, 10, nil)
		})
		if columns {
			w.proven(AuditOptions{}, "a/0  0..99  100 rows", "2 rows don't say where they come from")
		} else {
			w.unproven(AuditOptions{}, "a/0: all its rows are there; but others wrote 1 files with 2 rows", "may repeat some")
		}
		w.unproven(AuditOptions{Footers: true}, "may repeat some")
	}
}

// An audit of a catalog that isn't there fails, and doesn't make it.
func TestAuditMakesNoCatalog(t *testing.T) {
	w := auditStage(t)
	w.ingest("t", nil, "a")
	path := filepath.Join(t.TempDir(), "folder", "none.db")
	w.cfg.Catalog.URI = "sqlite:" + path
	report, err := w.prove(AuditOptions{})
	if err == nil || !strings.Contains(err.Error(), path) || !strings.Contains(err.Error(), "check the path") {
		t.Errorf("%v\n%s", err, report)
	}
	if _, err := os.Stat(filepath.Dir(path)); err == nil {
		t.Error("the audit made the folder")
	}
}

// Rows of a topic that was deleted, rewritten by another engine, don't say that
// they are not of the topic that has the name now: no proof, and no duplicate.
func TestAuditOfRowsOfDeletedTopic(t *testing.T) {
	w := newStage(t, map[string]int32{"a": 1})
	w.ingest("t", func(c *IngestConfig) { c.OnTopicReset = policyRestart }, "a")
	w.produce("a", 1, 100)
	if err := w.once(); err != nil {
		t.Fatal(err)
	}
	w.remake(30)
	if err := w.once(); err != nil {
		t.Fatal(err)
	}
	w.proven(AuditOptions{}, "30 rows", "proven by footers")
	w.compact("t")
	if report := w.unproven(AuditOptions{}, "its topic was deleted and made again"); strings.Contains(report, "twice") || strings.Contains(report, "moved back") {
		t.Errorf("it names what isn't so:\n%s", report)
	}
}
