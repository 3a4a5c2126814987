//go:build real

package real_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/BurntSushi/toml"
	icebergio "github.com/apache/iceberg-go/io"
	"go.uber.org/zap"

	"icerouter/catalog"
	"icerouter/writers"
)

// follower follows a table as a publish does, without Kafka.
type follower struct {
	t      *testing.T
	l      lake
	name   string
	stores *writers.Stores
	table  *catalog.Table
	at     catalog.Snapshot
	passed []string // operations of snapshots that are no appends
}

func newFollower(t *testing.T, l lake, name string) *follower {
	t.Helper()
	var c struct{ Catalog catalog.Config }
	if _, err := toml.Decode(l.config, &c); err != nil {
		t.Fatal(err)
	}
	stores := writers.NewStores(zap.NewNop())
	t.Cleanup(func() { stores.Close() })
	cat, err := catalog.Open(t.Context(), c.Catalog, func(ctx context.Context, location string, p map[string]string) (icebergio.IO, error) {
		return stores.Open(ctx, location, p)
	}, zap.NewNop())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cat.Close() })
	table, err := cat.Look(t.Context(), name, catalog.TableOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return &follower{t: t, l: l, name: name, stores: stores, table: table}
}

func (f *follower) view() *catalog.View {
	f.t.Helper()
	v, err := f.table.Follow(f.t.Context())
	if err == nil {
		err = v.History()
	}
	if err != nil {
		f.t.Fatal(err)
	}
	return v
}

// appended returns the rows that were appended since it was called last.
func (f *follower) appended() (lines []string) {
	f.t.Helper()
	v := f.view()
	line, err := v.After(f.at)
	if err != nil {
		f.t.Fatal(err)
	}
	for _, s := range line {
		f.at = s
		if s.Operation != "append" {
			f.passed = append(f.passed, s.Operation)
			continue
		}
		list, err := v.Added(f.t.Context(), s.ID)
		if err != nil {
			f.t.Fatal(err)
		}
		lines = append(lines, f.rows(v, list)...)
	}
	return lines
}

// rows reads data files, less what was deleted from them.
func (f *follower) rows(v *catalog.View, list []catalog.DataFile) (lines []string) {
	f.t.Helper()
	mapping, err := v.NameMapping()
	if err != nil {
		f.t.Fatal(err)
	}
	scan, err := writers.NewScan(v.Schema(), writers.ScanOptions{NameMapping: mapping})
	if err != nil {
		f.t.Fatal(err)
	}
	for _, d := range list {
		if bucket := fmt.Sprintf("seq_bucket=%d", d.Slot); d.Tuple != bucket && !strings.HasPrefix(d.Tuple, bucket+"/") {
			f.t.Errorf("%s is in slot %d, of the partition %s", d.Path, d.Slot, d.Tuple)
		}
		store, err := f.stores.Open(f.t.Context(), d.Path, v.StoreProperties())
		if err != nil {
			f.t.Fatal(err)
		}
		input := func(location string, size int64) writers.ScanInput {
			return writers.ScanInput{Name: location, Object: store.Object(f.t.Context(), location, size), Size: size}
		}
		var deletes []writers.DeleteInput
		for _, x := range d.Deletes {
			content := 1
			if x.Equality != nil {
				content = 2
			}
			deletes = append(deletes, writers.DeleteInput{ScanInput: input(x.Path, x.Size), Content: content, Format: string(x.Format)})
		}
		in := input(d.Path, d.Size)
		in.Constants = d.Constants
		if in.Deleted, err = writers.DeletedRows(d.Path, deletes); err != nil {
			f.t.Fatal(err)
		}
		lines = append(lines, f.scan(scan, in)...)
	}
	return lines
}

func (f *follower) scan(scan *writers.Scan, in writers.ScanInput) (lines []string) {
	f.t.Helper()
	file, err := scan.Open(in)
	if err != nil {
		f.t.Fatal(err)
	}
	defer file.Close()
	var rows writers.Rows
	for {
		err := file.Next(&rows)
		if errors.Is(err, io.EOF) {
			return lines
		}
		for i := range rows.Len() {
			if err != nil {
				break
			}
			var row []byte
			if row, err = rows.AppendJSON(nil, i); err == nil {
				lines = append(lines, canonical(f.t, string(row)))
			}
		}
		if err != nil {
			f.t.Fatal(err)
		}
	}
}

// TestFollowForeignWriters follows a table that Spark and PyIceberg append to,
// rewrite and change in between: the rows that are followed are those that
// were appended, each once, in the shape that the table has when they are read.
func TestFollowForeignWriters(t *testing.T) {
	t.Parallel()
	l := apache(t)
	namespace := unique("follow")
	table := namespace + ".rows"
	l.spark(t, "CREATE NAMESPACE "+namespace,
		"CREATE TABLE "+table+" (seq BIGINT, text STRING, n INT) USING iceberg PARTITIONED BY (bucket(4, seq)) TBLPROPERTIES "+
			// Appends then merge manifests, so that theirs hold older entries too.
			"('commit.manifest.min-count-to-merge' = '2', 'write.delete.mode' = 'merge-on-read')")
	f := newFollower(t, l, table)
	if start := f.view().StartCurrent(); start.State || start.At.ID != 0 {
		t.Fatalf("an empty table begins with %+v", start)
	}
	arrow := openAppender(t, l, table)
	const count = 20
	shape := `{"n":%s,"seq":%d,"text":%q}` // as canonical lines are: keys in order
	spark := func(name string) (want []string) {
		t.Helper()
		columns := strings.Repeat(", NULL", strings.Count(shape, "null"))
		l.spark(t, fmt.Sprintf("INSERT INTO %s SELECT id, '%s', CAST(id AS INT)%s FROM range(%d)", table, name, columns, count))
		for i := range count {
			want = append(want, fmt.Sprintf(shape, fmt.Sprint(i), i, name))
		}
		return want
	}
	python := func(name string) (want []string) {
		t.Helper()
		if err := arrow.append(name, -count, count); err != nil {
			t.Fatal(err)
		}
		for i := range count {
			want = append(want, fmt.Sprintf(shape, "null", -i-1, name))
		}
		return want
	}
	check := func(what string, want ...[]string) {
		t.Helper()
		got, all := f.appended(), slices.Concat(want...)
		slices.Sort(got)
		slices.Sort(all)
		sameLines(t, what, got, all)
	}
	check("two appends", spark("spark-1"), python("python-1"))
	more := spark("spark-2")
	l.spark(t, "CALL system.rewrite_data_files(table => '"+table+"', options => map('min-input-files', '2', 'rewrite-all', 'true'))")
	check("a compaction behind an append", more)
	l.spark(t, "ALTER TABLE "+table+" ADD COLUMN extra STRING")
	shape = `{"extra":null,` + shape[1:]
	check("a new column", python("python-2"), spark("spark-3"))
	l.spark(t, "ALTER TABLE "+table+" ALTER COLUMN n TYPE BIGINT", "ALTER TABLE "+table+" ADD PARTITION FIELD text")
	more = append(spark("spark-4"), python("python-3")...)
	l.spark(t, "CALL system.rewrite_manifests('"+table+"')")
	check("a wider column, another partition field, other manifests", more, python("python-4"))
	l.spark(t, "DELETE FROM "+table+" WHERE seq = 3")
	check("a delete before an append", spark("spark-5"))
	if got, want := strings.Join(f.passed, " "), "replace replace delete"; got != want {
		t.Errorf("passed over: %s, want %s", got, want)
	}
	v := f.view()
	live, err := v.Live(t.Context(), f.at.ID)
	if err != nil {
		t.Fatal(err)
	}
	state := f.rows(v, live)
	slices.Sort(state)
	for _, reader := range []string{"duckdb", "spark"} {
		sameLines(t, "the whole state as "+reader+" reads it", state, l.read(t, reader, question{table: table}))
	}
	f.expiry(python)
}

// expiry lets Spark expire all snapshots but the last: a held one stays, what
// lies behind it is a gap, and a position right behind the last is none.
func (f *follower) expiry(python func(name string) []string) {
	t := f.t
	t.Helper()
	held := f.at
	if err := f.table.Hold(t.Context(), "mirror", held.ID); err != nil {
		t.Fatal(err)
	}
	expire := func() {
		t.Helper()
		f.l.spark(t, "CALL system.expire_snapshots(table => '"+f.name+"', older_than => TIMESTAMP '2100-01-01 00:00:00', retain_last => 1)")
	}
	python("python-5")
	python("python-6")
	f.appended()
	last := f.at
	expire()
	v := f.view()
	if _, there := v.Snapshot(held.ID); !there {
		t.Error("the held snapshot was expired")
	}
	var gap *catalog.GapError
	if _, err := v.After(held); !errors.As(err, &gap) || len(gap.Kept) != 1 || gap.Kept[0].ID != last.ID || gap.MissingMax() != 1 {
		t.Errorf("after the held snapshot: %v", err)
	}
	if err := f.table.Release(t.Context(), "mirror"); err != nil {
		t.Error(err)
	}
	want := python("python-7")
	expire()
	if _, there := f.view().Snapshot(last.ID); there {
		t.Error("the position's snapshot was not expired")
	}
	got := f.appended()
	slices.Sort(got)
	slices.Sort(want)
	sameLines(t, "an append to an idle table whose position was expired", got, want)
}
