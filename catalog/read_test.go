package catalog

import (
	"database/sql"
	"errors"
	"maps"
	"path/filepath"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/apache/iceberg-go"
	icecatalog "github.com/apache/iceberg-go/catalog"
	sqlcatalog "github.com/apache/iceberg-go/catalog/sql"
	"github.com/apache/iceberg-go/table"
	_ "modernc.org/sqlite"
)

func TestReadRows(t *testing.T) {
	tbl := libraryTable(t, `[
		{"n": 1, "id": 10, "text": "a"}, {"n": 2, "id": null, "text": "b"},
		{"n": 3, "id": 9007199254740993, "text": null}]`, `[{"n": 4, "id": -1, "text": "d"}]`)
	type row struct {
		id     int64
		text   string
		absent string
	}
	got := map[int64]row{}
	err := readRows(t.Context(), tbl, []string{"text", "n", "id"}, func(rows int, c []Values) error {
		for i := range rows {
			var r row
			if c[0].Null(i) {
				r.absent += "text "
			} else {
				r.text = strings.Clone(c[0].Text(i))
			}
			if c[2].Null(i) {
				r.absent += "id "
			} else {
				r.id = c[2].Int(i)
			}
			got[c[1].Int(i)] = r
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	want := map[int64]row{1: {id: 10, text: "a"}, 2: {text: "b", absent: "id "}, 3: {id: 1<<53 + 1, absent: "text "}, 4: {id: -1, text: "d"}}
	if !maps.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestReadRowsEnds(t *testing.T) {
	tbl := libraryTable(t, `[{"n": 1, "id": 10, "text": "a"}]`, `[{"n": 4, "id": -1, "text": "d"}]`)
	enough := errors.New("enough")
	calls := 0
	err := readRows(t.Context(), tbl, []string{"n"}, func(int, []Values) error { calls++; return enough })
	if !errors.Is(err, enough) || calls != 1 {
		t.Errorf("%d calls and error %v, want one call and its error", calls, err)
	}
	err = readRows(t.Context(), tbl, []string{"n", "flag"}, func(int, []Values) error { return nil })
	if err == nil || !strings.Contains(err.Error(), `column "flag": int, long and string`) {
		t.Errorf("a boolean column: %v", err)
	}
	if err = readRows(t.Context(), tbl, []string{"none"}, func(int, []Values) error { return nil }); err == nil {
		t.Error("a column that is not there was read")
	}
}

// libraryTable makes a table and appends rows to it with the Iceberg library
// alone, a snapshot for each text of JSON.
func libraryTable(t *testing.T, appends ...string) *table.Table {
	t.Helper()
	dir := t.TempDir()
	db, err := sql.Open("sqlite", filepath.Join(dir, "catalog.db"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	cat, err := sqlcatalog.NewCatalog("test", db, sqlcatalog.SQLite, iceberg.Properties{"warehouse": "file://" + dir})
	if err != nil {
		t.Fatal(err)
	}
	if err := cat.CreateNamespace(t.Context(), table.Identifier{"ns"}, nil); err != nil {
		t.Fatal(err)
	}
	schema := iceberg.NewSchema(0,
		iceberg.NestedField{ID: 1, Name: "n", Type: iceberg.PrimitiveTypes.Int32, Required: true},
		iceberg.NestedField{ID: 2, Name: "id", Type: iceberg.PrimitiveTypes.Int64},
		iceberg.NestedField{ID: 3, Name: "text", Type: iceberg.PrimitiveTypes.String},
		iceberg.NestedField{ID: 4, Name: "flag", Type: iceberg.PrimitiveTypes.Bool})
	tbl, err := cat.CreateTable(t.Context(), table.Identifier{"ns", "rows"}, schema, icecatalog.WithLocation("file://"+dir+"/rows"))
	if err != nil {
		t.Fatal(err)
	}
	rowSchema := arrow.NewSchema([]arrow.Field{
		{Name: "n", Type: arrow.PrimitiveTypes.Int32}, {Name: "id", Type: arrow.PrimitiveTypes.Int64, Nullable: true},
		{Name: "text", Type: arrow.BinaryTypes.String, Nullable: true}, {Name: "flag", Type: arrow.FixedWidthTypes.Boolean, Nullable: true}}, nil)
	for _, text := range appends {
		rows, err := array.TableFromJSON(memory.DefaultAllocator, rowSchema, []string{text})
		if err != nil {
			t.Fatal(err)
		}
		if tbl, err = tbl.AppendTable(t.Context(), rows, 10, nil); err != nil {
			t.Fatal(err)
		}
		rows.Release()
	}
	return tbl
}
