package router

import (
	"bytes"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/apache/iceberg-go"
	sqlcatalog "github.com/apache/iceberg-go/catalog/sql"
	"github.com/apache/iceberg-go/table"
	"github.com/twmb/franz-go/pkg/kgo"

	"icerouter/catalog"
	"icerouter/writers"
)

// prove runs an audit of the stage's tables and returns its report.
func (w *stage) prove(o AuditOptions) (report string, err error) {
	w.t.Helper()
	var out bytes.Buffer
	err = Audit(w.t.Context(), w.cfg, o, &out)
	return out.String(), err
}

// proven fails unless the audit proves everything and says these words.
func (w *stage) proven(o AuditOptions, words ...string) {
	w.t.Helper()
	report, err := w.prove(o)
	if err != nil {
		w.t.Errorf("%v\n%s", err, report)
	}
	contains(w.t, report, words...)
}

// unproven fails unless the audit doesn't and says these words.
func (w *stage) unproven(o AuditOptions, words ...string) (report string) {
	w.t.Helper()
	report, err := w.prove(o)
	if !errors.Is(err, ErrNotProven) {
		w.t.Errorf("%v\n%s", err, report)
	}
	contains(w.t, report, append(words, "NOT PROVEN")...)
	return report
}

// foreign changes a table as another program would, through Iceberg's own library.
func (w *stage) foreign(name string, change func(*table.Table, *table.Transaction) error) {
	w.t.Helper()
	db, err := sql.Open("sqlite", "file:"+strings.TrimPrefix(w.cfg.Catalog.URI, "sqlite:")+"?_pragma=busy_timeout(5000)")
	if err != nil {
		w.t.Fatal(err)
	}
	defer db.Close()
	cat, err := sqlcatalog.NewCatalog("router", db, sqlcatalog.SQLite, iceberg.Properties{"warehouse": w.cfg.Catalog.Warehouse})
	if err != nil {
		w.t.Fatal(err)
	}
	tbl, err := cat.LoadTable(w.t.Context(), table.Identifier{"ns", name})
	if err != nil {
		w.t.Fatal(err)
	}
	tx := tbl.NewTransaction()
	if err := change(tbl, tx); err != nil {
		w.t.Fatal(err)
	}
	if _, err := tx.Commit(w.t.Context()); err != nil {
		w.t.Fatal(err)
	}
}

// tasks lists the data files of a table.
func (w *stage) tasks(tbl *table.Table) []table.FileScanTask {
	w.t.Helper()
	tasks, err := tbl.Scan().PlanFiles(w.t.Context())
	if err != nil || len(tasks) == 0 {
		w.t.Fatalf("%d files, %v", len(tasks), err)
	}
	return tasks
}

// compact rewrites all data files into larger ones, as any engine may.
func (w *stage) compact(name string) {
	w.t.Helper()
	w.foreign(name, func(tbl *table.Table, tx *table.Transaction) error {
		groups := map[string][]table.FileScanTask{}
		for _, task := range w.tasks(tbl) {
			key := fmt.Sprint(task.File.Partition())
			groups[key] = append(groups[key], task)
		}
		var all []table.CompactionTaskGroup
		for key, tasks := range groups {
			all = append(all, table.CompactionTaskGroup{PartitionKey: key, Tasks: tasks})
		}
		_, err := tx.RewriteDataFiles(w.t.Context(), all, table.RewriteDataFilesOptions{})
		return err
	})
}

// orders is a table of two topics with everything in the log that is no row.
func (w *stage) orders(columns bool) {
	w.t.Helper()
	w.ingest("t", func(c *IngestConfig) {
		c.OnBadRecord, c.OnNull = policySkip, policySkip
		if !columns {
			c.Create.Schema = c.Create.Schema[:2]
		}
	}, "a", "b")
	w.more()
	w.more()
}

// more produces and commits.
func (w *stage) more() {
	w.t.Helper()
	w.produce("a", 3, 200)
	w.send(&kgo.Record{Topic: "a", Partition: 1, Value: []byte("no JSON")}, &kgo.Record{Topic: "a", Partition: 2})
	client, err := kgo.NewClient(kgo.SeedBrokers(w.broker.ListenAddrs()...), kgo.TransactionalID("x"), kgo.DefaultProduceTopic("b"))
	if err != nil {
		w.t.Fatal(err)
	}
	defer client.Close()
	for _, end := range []kgo.TransactionEndTry{kgo.TryCommit, kgo.TryAbort} {
		if err := client.BeginTransaction(); err != nil {
			w.t.Fatal(err)
		}
		for range 10 {
			if err := client.ProduceSync(w.t.Context(), kgo.StringRecord(`{"id": 1}`)).FirstErr(); err != nil {
				w.t.Fatal(err)
			}
		}
		if err := client.EndTransaction(w.t.Context(), end); err != nil {
			w.t.Fatal(err)
		}
	}
	if err := w.once(); err != nil {
		w.t.Fatal(err)
	}
}

func auditStage(t *testing.T) *stage { return newStage(t, map[string]int32{"a": 3, "b": 1}) }

// A healthy table is proven, by rows and by footers alone, whatever the log
// has that is no row; and it still is when everybody else's upkeep went over it.
func TestAuditProves(t *testing.T) {
	w := auditStage(t)
	w.orders(true)
	w.proven(AuditOptions{}, "t → ns.t, append", "a/0  0..399  400 rows", "a/1  0..401  400 rows, 2 left out", "a/2  0..401  400 rows, 2 left out",
		"20 rows, 24 without a record", "proven by rows and footers", "proven: 4 partitions, 1220 rows, each record once")
	w.proven(AuditOptions{Footers: true}, "proven by footers", "1220 rows")
	w.compact("t")
	w.proven(AuditOptions{Ingests: []string{"t"}}, "proven by rows\n", "written by others")
	w.more()
	w.proven(AuditOptions{}, "proven by rows\n", "1830 rows")
	w.unproven(AuditOptions{Footers: true}, "a/0: 400 of its 600 rows are in no file of ours", "the book of this ingest 1830")

	// Snapshots that expire take nothing of the proof away.
	w.foreign("t", func(_ *table.Table, tx *table.Transaction) error {
		return tx.ExpireSnapshots(table.WithRetainLast(1), table.WithOlderThan(0))
	})
	w.proven(AuditOptions{}, "1830 rows")
}

// Without the columns the footers prove it, until somebody rewrites the files.
func TestAuditWithoutColumns(t *testing.T) {
	w := auditStage(t)
	w.orders(false)
	w.proven(AuditOptions{}, "proven by footers", "no columns _kafka_partition and _kafka_offset", "1220 rows")
	w.compact("t")
	w.unproven(AuditOptions{}, "a/0: 400 of its 400 rows are in no file of ours", "files have 1220 rows, the book of this ingest 1220")
}

// A data file that somebody removed from the table is a gap in every partition
// that it had rows of, found by rows and by footers.
func TestAuditFindsRemovedFile(t *testing.T) {
	for _, columns := range []bool{true, false} {
		w := auditStage(t)
		w.orders(columns)
		var rows int64
		w.foreign("t", func(tbl *table.Table, tx *table.Transaction) error {
			f := w.tasks(tbl)[0].File
			rows = f.Count()
			return tx.ReplaceDataFiles(t.Context(), []string{f.FilePath()}, nil, nil)
		})
		words := []string{"gap: ", " rows are gone", "committed with sequence number"}
		if columns {
			words = append(words, "offsets have no row")
		}
		w.unproven(AuditOptions{}, words...)
		w.unproven(AuditOptions{Footers: true}, "gap: ", " rows are gone")
		if rows == 0 {
			t.Error("removed nothing")
		}
	}
}

// An object that is gone is named, and what was in it.
func TestAuditFindsMissingObject(t *testing.T) {
	w := auditStage(t)
	w.orders(true)
	path := w.tasks(w.load("t"))[0].File.FilePath()
	if err := os.Remove(strings.TrimPrefix(path, "file://")); err != nil {
		t.Fatal(err)
	}
	w.unproven(AuditOptions{}, "data file "+path, "the table names it, and it is not there", "gap: ", "the rows can't be read")
}

// A file that is in the table twice, by its own name or by another, is found.
func TestAuditFindsDuplicates(t *testing.T) {
	for _, copied := range []bool{false, true} {
		w := auditStage(t)
		w.orders(true)
		var path, second string
		w.foreign("t", func(tbl *table.Table, tx *table.Transaction) error {
			f := w.tasks(tbl)[0].File
			path = f.FilePath()
			second = path
			if copied {
				second = strings.TrimSuffix(path, ".parquet") + "-copy.parquet"
				body, err := os.ReadFile(strings.TrimPrefix(path, "file://"))
				if err != nil {
					return err
				}
				if err := os.WriteFile(strings.TrimPrefix(second, "file://"), body, 0o600); err != nil {
					return err
				}
			}
			b, err := iceberg.NewDataFileBuilder(tbl.Spec(), iceberg.EntryContentData, second, iceberg.ParquetFile, f.Partition(), nil, nil, f.Count(), f.FileSizeBytes())
			if err != nil {
				return err
			}
			return tx.AddDataFiles(t.Context(), []iceberg.DataFile{b.Build()}, nil, table.WithoutDuplicateCheck())
		})
		words := []string{"data file " + path + " is in the table twice"}
		if copied {
			words = []string{"are copies of each other", path, second}
		}
		w.unproven(AuditOptions{Footers: true}, append(words, "were committed")...)
		w.unproven(AuditOptions{}, append(words, "rows too many, of the offsets")...)
	}
}

// A ledger that somebody moved, forward or back, or whose books somebody
// changed, doesn't pass.
func TestAuditFindsDoctoredLedger(t *testing.T) {
	doctor := func(from, to string, words ...string) {
		t.Helper()
		w := auditStage(t)
		w.orders(true)
		w.proven(AuditOptions{})
		w.foreign("t", func(tbl *table.Table, tx *table.Transaction) error {
			key := catalog.LedgerProperty("t")
			text := tbl.Properties()[key]
			changed := strings.Replace(text, from, to, 1)
			if changed == text {
				t.Fatalf("no %s in %s", from, text)
			}
			return tx.SetProperties(iceberg.Properties{key: changed})
		})
		w.unproven(AuditOptions{}, append(words, "somebody changed the property router.t.ledger")...)
	}
	doctor(`"next":{"0":400`, `"next":{"0":399`, "the ledger is at 399, snapshot", "committed it at 400", "rows up to offset 399, the ledger is at 399", "it was moved back")
	doctor(`"next":{"0":400`, `"next":{"0":450`, "its book accounts for 0 to 400", "gap: 50 offsets have no row: 400..449")
	doctor(`,400,0,0,0,0]`, `,390,10,0,0,0]`, "10 offsets never had a row by the book, and 10 of them have one", "twice: the files hold 400 rows, 390 were committed")
	doctor(`"topics":{"a":{"id":"`, `"topics":{"a":{"id":"x`, "topic a: the ledger is about topic id")
	doctor(`"cluster":"`, `"cluster":"x`, "from Kafka cluster \"x")
	doctor(`"next":{"0":400`, `"next":{"9":1,"0":400`, "a/9: the ledger is at 1, snapshot", "didn't commit it")
	doctor(`"1":402`, `"7":402`, "a/1: snapshot", "the ledger lacks it", "which the ledger doesn't have")
}

// A table that was rolled back is not what its ledger says.
func TestAuditFindsRollback(t *testing.T) {
	w := auditStage(t)
	w.orders(true)
	w.foreign("t", func(tbl *table.Table, tx *table.Transaction) error {
		return tx.RollbackToSnapshot(*tbl.CurrentSnapshot().ParentSnapshotID)
	})
	w.unproven(AuditOptions{}, "the table was rolled back", "gap: ")
}

// After a rollback that the ingest has mended the history lacks appends, and
// says why: each record is there once.
func TestAuditAfterReread(t *testing.T) {
	w := auditStage(t)
	w.orders(true)
	w.foreign("t", func(tbl *table.Table, tx *table.Transaction) error {
		return tx.RollbackToSnapshot(*tbl.CurrentSnapshot().ParentSnapshotID)
	})
	w.cfg.Ingest[0].OnRollback = "reread"
	if err := w.once(); err != nil {
		t.Fatal(err)
	}
	w.proven(AuditOptions{}, "rewound the ledger after a rollback", "proven by rows and footers")
}

// What a version wrote that kept no books: said, and proven as far as rows go.
func TestAuditOfOldTables(t *testing.T) {
	for _, gap := range []bool{false, true} {
		for _, columns := range []bool{true, false} {
			w := newStage(t, map[string]int32{"a": 1})
			w.ingest("t", func(c *IngestConfig) {
				c.Create.Partition = nil
				if !columns {
					c.Create.Schema = c.Create.Schema[:2]
				}
			}, "a")
			w.appendAsBefore(t, "t", 100, gap)
			if columns && !gap {
				w.proven(AuditOptions{}, "a/0  0..99  100 rows", "proven by rows\n", "1 data files with 100 rows were written by a version that didn't note their offsets")
			} else if columns {
				w.unproven(AuditOptions{}, "1 offsets have no row, and no book tells", ": 50")
			} else {
				w.unproven(AuditOptions{}, "no book accounts for its offsets")
			}
			// This version goes on where that one ended.
			w.sent = map[string]map[int32]int64{}
			w.produce("a", 1, 150)
			if err := w.once(); err != nil {
				t.Fatal(err)
			}
			if columns && !gap {
				w.proven(AuditOptions{}, "a/0  0..149  150 rows", "proven by rows\n")
			} else if columns {
				w.unproven(AuditOptions{}, "before its book, which begins at offset 100, 1 offsets have no row", ": 50")
			} else {
				w.unproven(AuditOptions{}, "its book begins at offset 100: before that a version wrote which kept none")
			}
		}
	}
}

// appendAsBefore commits n rows as versions without books did.
func (w *stage) appendAsBefore(t *testing.T, name string, n int, gap bool) {
	t.Helper()
	in := w.opened()
	if err := in.refreshSource(t.Context()); err != nil {
		t.Fatal(err)
	}
	p, err := in.newPlan()
	if err != nil {
		t.Fatal(err)
	}
	b := writers.NewBatch(p.layout)
	for i := range n {
		if gap && i == n/2 {
			continue
		}
		record := &kgo.Record{Topic: "a", Offset: int64(i), Value: fmt.Appendf(nil, `{"id":%d}`, i), Timestamp: time.Now()}
		if err := p.decoders[0].Decode(b, record); err != nil {
			t.Fatal(err)
		}
	}
	addresses := p.exchange.Addresses(b, nil)
	a := catalog.Append{ID: newID(), Source: *in.source.Load(), From: catalog.Offsets{}, To: catalog.Offsets{"a": {0: int64(n)}}, Schema: p.schema, Spec: p.spec}
	e, err := writers.NewEncoder(p.layout, p.encoder)
	if err != nil {
		t.Fatal(err)
	}
	var rows []int32
	for row := range b.Rows {
		rows = append(rows, int32(row))
	}
	e.Append(b, rows)
	file, err := e.Finish()
	if err != nil {
		t.Fatal(err)
	}
	location, err := in.store.PutNew(t.Context(), func(int) string { return in.table.DataLocation() + "/router-" + name + "-0123-0.parquet" }, file.Body)
	if err != nil {
		t.Fatal(err)
	}
	df, err := file.DataFile(location, p.iceSpec, p.exchange.Partition(addresses[0]))
	if err != nil {
		t.Fatal(err)
	}
	a.Files = append(a.Files, df)
	enter := catalog.Append{ID: newID(), Source: a.Source, From: catalog.Offsets{}, To: catalog.Offsets{"a": {0: 0}}, Schema: p.schema, Spec: p.spec}
	if _, err := in.table.Append(t.Context(), enter); err != nil {
		t.Fatal(err)
	}
	a.From = enter.To
	if _, err := in.table.Append(t.Context(), a); err != nil {
		t.Fatal(err)
	}
}

// A topic that was made again has its offsets twice, of other records: the
// footers tell them apart.
func TestAuditAfterNewTopic(t *testing.T) {
	w := newStage(t, map[string]int32{"a": 1})
	w.ingest("t", func(c *IngestConfig) { c.OnTopicReset = "restart" }, "a")
	w.produce("a", 1, 100)
	if err := w.once(); err != nil {
		t.Fatal(err)
	}
	if _, err := w.admin.DeleteTopics(t.Context(), "a"); err != nil {
		t.Fatal(err)
	}
	if _, err := w.admin.CreateTopic(t.Context(), 1, 1, nil, "a"); err != nil {
		t.Fatal(err)
	}
	w.sent = map[string]map[int32]int64{}
	w.produce("a", 1, 30)
	if err := w.once(); err != nil {
		t.Fatal(err)
	}
	w.proven(AuditOptions{}, "a/0  0..29", "proven by footers")
}

// The rows of a topic that was deleted are not ahead of the ledger of the new
// one, which may have fewer records, or none.
func TestAuditAfterEmptyNewTopic(t *testing.T) {
	for _, records := range []int{0, 1} {
		w := newStage(t, map[string]int32{"a": 1})
		w.ingest("t", func(c *IngestConfig) {
			c.OnTopicReset, c.OnNull = "restart", policySkip
		}, "a")
		w.produce("a", 1, 100)
		if err := w.once(); err != nil {
			t.Fatal(err)
		}
		if _, err := w.admin.DeleteTopics(t.Context(), "a"); err != nil {
			t.Fatal(err)
		}
		if _, err := w.admin.CreateTopic(t.Context(), 1, 1, nil, "a"); err != nil {
			t.Fatal(err)
		}
		w.sent = map[string]map[int32]int64{}
		if records > 0 {
			w.produce("a", 1, records)
		}
		if err := w.once(); err != nil {
			t.Fatal(err)
		}
		w.proven(AuditOptions{}, fmt.Sprintf("%d rows", records), "proven by footers")
	}
}

// Records that were lost to retention are accounted for as that.
func TestAuditCountsLoss(t *testing.T) {
	w := newStage(t, map[string]int32{"a": 1})
	w.ingest("t", func(c *IngestConfig) { c.OnLostRecords = "continue" }, "a")
	w.produce("a", 1, 100)
	if err := w.once(); err != nil {
		t.Fatal(err)
	}
	w.produce("a", 1, 100)
	if _, err := w.admin.DeleteRecords(t.Context(), deleteBefore("a", 0, 150)); err != nil {
		t.Fatal(err)
	}
	if err := w.once(); err != nil {
		t.Fatal(err)
	}
	w.proven(AuditOptions{}, "0..199  150 rows, 50 lost before they were read", "proven by rows and footers")
}

// Names that don't exist, and tables that don't.
func TestAuditRefuses(t *testing.T) {
	w := auditStage(t)
	w.ingest("t", nil, "a")
	var usage *UsageError
	if _, err := w.prove(AuditOptions{Ingests: []string{"orders"}}); !errors.As(err, &usage) || !strings.Contains(err.Error(), "there are t") {
		t.Errorf("%v", err)
	}
	if err := w.once(); err != nil {
		t.Fatal(err)
	}
	w.cfg.Ingest[0].Table = "ns.none"
	w.unproven(AuditOptions{}, "table ns.none does not exist")
	w.cfg.Ingest = nil
	if _, err := w.prove(AuditOptions{}); !errors.As(err, &usage) {
		t.Errorf("without an ingest: %v", err)
	}
}
