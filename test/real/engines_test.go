//go:build real

package real_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// A table that Spark made and changed is written as it is: its field ids, its
// partitions, also those of a spec that came later, its required columns.
func TestTableOfAnotherEngine(t *testing.T) {
	t.Parallel()
	const partitions, n = 3, 200
	c := client(t)
	l := apache(t)
	namespace := unique("spark")
	table := namespace + ".orders"
	l.spark(t, "CREATE NAMESPACE "+namespace,
		"CREATE TABLE "+table+" (gone INT, id BIGINT NOT NULL, name STRING, old STRING) USING iceberg PARTITIONED BY (bucket(4, id))",
		"ALTER TABLE "+table+" DROP COLUMN gone",
		"ALTER TABLE "+table+" ADD COLUMN moment TIMESTAMP",
		"ALTER TABLE "+table+" RENAME COLUMN old TO yes_was",
		"ALTER TABLE "+table+" DROP COLUMN yes_was")
	columns := keyColumns()
	topic := makeTopic(t, c, "orders", partitions)
	in := ingest{name: "orders", topics: []string{topic}, table: table} // no [ingest.create]: the table is there
	path := config{lake: l, ingests: []ingest{in}}.write(t)
	produce(t, c, topic, partitions, recordsOf(columns, n)[:n/2]...)
	mustOnce(t, path)
	// Both a column and a partition field come, and the router goes on with them.
	l.spark(t, "ALTER TABLE "+table+" ADD COLUMN yes BOOLEAN", "ALTER TABLE "+table+" ADD PARTITION FIELD day(moment)")
	columns = append(columns, everyColumn()[3])
	produce(t, c, topic, partitions, recordsOf(columns, n)[n/2:]...)
	mustOnce(t, path)
	want := rows(t, columns, n, func(i int) bool { return i >= n/2 })
	first := append(keyColumns(), column{"yes", "boolean", false, func(int) (string, string) { return "", "null" }})
	want = append(want, rows(t, first, n, func(i int) bool { return i < n/2 })...)
	slices.Sort(want)
	for _, reader := range allReaders {
		sameLines(t, reader, l.read(t, reader, question{table: table}), want)
	}
}

// What other engines do to a table between our commits does not lose the
// ledger: compaction, deletes, expiry.
func TestOtherEnginesBetweenCommits(t *testing.T) {
	t.Parallel()
	c := client(t)
	l := apache(t)
	topic, table, path := started(t, c, l)
	for round, statement := range []string{
		"CALL system.rewrite_data_files(table => '" + table + "', options => map('min-input-files', '2'))",
		"DELETE FROM " + table + " WHERE seq = 3",
		"INSERT INTO " + table + " VALUES (-1, 'spark', null, null)",
		"CALL system.rewrite_manifests('" + table + "')",
		"CALL system.expire_snapshots(table => '" + table + "', older_than => TIMESTAMP '2100-01-01 00:00:00', retain_last => 1)",
	} {
		l.spark(t, statement)
		produce(t, c, topic, 2, sequence(20+10*round, 30+10*round)...)
		mustOnce(t, path)
		n := l.numbers(t, table, `SELECT count(*) AS "rows", count(DISTINCT seq) AS seqs, max(seq) AS high FROM {table}`)
		want := 30 + 10*round
		if round == 1 {
			want-- // deleted one; the next statement adds one
		}
		if n["rows"] != want || n["seqs"] != want || n["high"] != 29+10*round {
			t.Errorf("after %s: %v, want %d rows", statement, n, want)
		}
	}
	nothingMissing(t, l, table, lab.bucketFolder())
}

// A table that was rolled back has lost rows that the ledger counts: that is
// told, and by policy they are read again.
func TestRollback(t *testing.T) {
	t.Parallel()
	c := client(t)
	l := apache(t)
	topic, table, path := started(t, c, l)
	before := l.read(t, "spark", question{table: table + ".refs", choose: []string{"snapshot_id"}})[0]
	produce(t, c, topic, 2, sequence(20, 40)...)
	mustOnce(t, path)
	id := strings.Trim(strings.TrimPrefix(before, `{"snapshot_id":`), "}")
	l.spark(t, fmt.Sprintf("CALL system.rollback_to_snapshot('%s', %s)", table, id))
	produce(t, c, topic, 2, sequence(40, 60)...)
	e := once(t, path)
	if e.code != 1 {
		t.Errorf("exit code %d, want 1", e.code)
	}
	e.mentions(t, table, "rolled back", "on_rollback")
	if got := l.count(t, table); got != 20 {
		t.Errorf("%d rows, want the 20 that the rollback left", got)
	}
	in := auditIngest("lost", table, topic)
	in.extra = []string{`on_rollback = "reread"`}
	mustOnce(t, config{lake: l, ingests: []ingest{in}}.write(t))
	audit(t, l, table, topic, 60)
}
