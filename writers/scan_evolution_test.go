package writers

import (
	"bytes"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/apache/iceberg-go"
	"github.com/twmb/franz-go/pkg/kgo"
)

// encodeJSON makes a file of a schema's rows, given as JSON.
func encodeJSON(t testing.TB, schema *iceberg.Schema, rows ...string) ScanInput {
	t.Helper()
	layout, err := NewLayout(schema)
	if err != nil {
		t.Fatal(err)
	}
	d, err := NewJSON(layout, JSONOptions{})
	if err != nil {
		t.Fatal(err)
	}
	e, err := NewEncoder(layout, EncoderOptions{Codec: "zstd"})
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range rows {
		b := NewBatch(layout)
		if err := d.Decode(b, &kgo.Record{Value: []byte(row)}); err != nil {
			t.Fatal(err)
		}
		e.Append(b, allRows(1))
	}
	f, err := e.Finish()
	if err != nil {
		t.Fatal(err)
	}
	return ScanInput{Name: "s3://b/f.parquet", Object: bytes.NewReader(f.Body), Size: int64(len(f.Body))}
}

type fields = []iceberg.NestedField

// A file from before the table's schema changed in every way that it may.
func TestScanEvolution(t *testing.T) {
	p := iceberg.PrimitiveTypes
	structOf := func(f ...iceberg.NestedField) iceberg.Type { return &iceberg.StructType{FieldList: f} }
	before := iceberg.NewSchema(0, fields{
		{ID: 1, Name: "id", Type: p.Int32, Required: true}, {ID: 2, Name: "old", Type: p.String}, {ID: 3, Name: "ratio", Type: p.Float32},
		{ID: 4, Name: "price", Type: iceberg.DecimalTypeOf(9, 2)}, {ID: 5, Name: "gone", Type: p.String},
		{ID: 6, Name: "s", Type: structOf(iceberg.NestedField{ID: 7, Name: "a", Type: p.Int32}, iceberg.NestedField{ID: 8, Name: "b", Type: p.String})},
		{ID: 9, Name: "l", Type: &iceberg.ListType{ElementID: 10, Element: structOf(iceberg.NestedField{ID: 11, Name: "x", Type: p.Int32})}},
		{ID: 12, Name: "m", Type: &iceberg.MapType{KeyID: 13, KeyType: p.String, ValueID: 14, ValueType: structOf(iceberg.NestedField{ID: 15, Name: "n", Type: p.Int32})}},
		{ID: 16, Name: "t", Type: structOf(iceberg.NestedField{ID: 17, Name: "all gone", Type: p.Int32})},
	}...)
	in := encodeJSON(t, before,
		`{"id":1,"old":"x","ratio":0.1,"price":1.5,"gone":"g","s":{"a":1,"b":"b"},"l":[{"x":1},null],"m":{"k":{"n":1}},"t":{}}`,
		`{"id":2,"s":null,"l":[],"m":{"k":null},"t":null}`)
	after := iceberg.NewSchema(1, fields{
		{ID: 12, Name: "m", Type: &iceberg.MapType{KeyID: 13, KeyType: p.String, ValueID: 14, ValueType: structOf(
			iceberg.NestedField{ID: 27, Name: "new", Type: p.Bool}, iceberg.NestedField{ID: 15, Name: "n", Type: p.Int64})}},
		{ID: 20, Name: "added", Type: p.Int64},
		{ID: 1, Name: "id", Type: p.Int64, Required: true}, {ID: 2, Name: "ne\"w", Type: p.String}, {ID: 3, Name: "ratio", Type: p.Float64},
		{ID: 4, Name: "price", Type: iceberg.DecimalTypeOf(30, 2)},
		{ID: 6, Name: "s", Type: structOf(iceberg.NestedField{ID: 8, Name: "c", Type: p.String}, iceberg.NestedField{ID: 21, Name: "fresh", Type: p.String, InitialDefault: "f"})},
		{ID: 9, Name: "l", Type: &iceberg.ListType{ElementID: 10, Element: structOf(iceberg.NestedField{ID: 11, Name: "x", Type: p.Int64}, iceberg.NestedField{ID: 22, Name: "y", Type: p.Int32})}},
		{ID: 16, Name: "t", Type: structOf(iceberg.NestedField{ID: 23, Name: "only", Type: p.Int32})},
		{ID: 24, Name: "day", Type: p.Date, Required: true}, {ID: 25, Name: "defaulted", Type: iceberg.DecimalTypeOf(9, 2), Required: true, InitialDefault: "14.20"},
		{ID: 26, Name: "struct", Type: structOf(iceberg.NestedField{ID: 28, Name: "k", Type: p.Bool, InitialDefault: true}), InitialDefault: map[string]any{}},
	}...)
	in.Constants = map[int]any{24: iceberg.Date(20_000)}
	wantRows(t, after, ScanOptions{}, in,
		`{"m":{"k":{"new":null,"n":1}},"added":null,"id":1,"ne\"w":"x","ratio":0.10000000149011612,"price":1.50,"s":{"c":"b","fresh":"f"},`+
			`"l":[{"x":1,"y":null},null],"t":{"only":null},"day":"2024-10-04","defaulted":14.20,"struct":{"k":true}}`,
		`{"m":{"k":null},"added":null,"id":2,"ne\"w":null,"ratio":null,"price":null,"s":null,"l":[],"t":null,"day":"2024-10-04","defaulted":14.20,"struct":{"k":true}}`)
	wantRows(t, after, ScanOptions{Nulls: "omit", Columns: []string{"id", "t", "m", "added"}, Hidden: []string{"m"}}, in, `{"id":1,"t":{}}`, `{"id":2}`)
	in.Constants = nil
	wantRefusal(t, after, ScanOptions{}, in, `column "day"`, "required")
	wantRefusal(t, iceberg.NewSchema(0, fields{{ID: 6, Name: "s", Type: p.String}}...), ScanOptions{}, in, `column "s"`, "a group", "string")
}

// Constants of partitions in all types that they have.
func TestScanConstants(t *testing.T) {
	in := encodeJSON(t, iceberg.NewSchema(0, fields{{ID: 100, Name: "x", Type: iceberg.PrimitiveTypes.Int32}}...), `{"x":1}`)
	for i, c := range []struct {
		t    iceberg.Type
		v    any
		want string
	}{
		{iceberg.PrimitiveTypes.Bool, true, "true"}, {iceberg.PrimitiveTypes.Int32, int32(-5), "-5"}, {iceberg.PrimitiveTypes.Int64, int64(1) << 62, "4611686018427387904"},
		{iceberg.PrimitiveTypes.Float32, float32(0.1), "0.1"}, {iceberg.PrimitiveTypes.Float64, 1e300, "1e+300"}, {iceberg.PrimitiveTypes.String, "a\"b", `"a\"b"`},
		{iceberg.PrimitiveTypes.Binary, []byte{1, 2}, `"AQI="`}, {iceberg.PrimitiveTypes.Date, "2024-02-29", `"2024-02-29"`},
		{iceberg.PrimitiveTypes.Time, iceberg.Time(1), `"00:00:00.000001"`}, {iceberg.PrimitiveTypes.TimestampTz, iceberg.Timestamp(-1), `"1969-12-31T23:59:59.999999Z"`},
		{iceberg.PrimitiveTypes.TimestampTz, "2020-01-01T00:00:00+00:00", `"2020-01-01T00:00:00Z"`},
		{iceberg.PrimitiveTypes.UUID, "f79c3e09-677c-4bbd-a479-3f349cb785e7", `"f79c3e09-677c-4bbd-a479-3f349cb785e7"`},
		{iceberg.PrimitiveTypes.Int64, nil, "null"}, {iceberg.FixedTypeOf(2), "0aff", `"Cv8="`},
		{iceberg.DecimalTypeOf(38, 0), "-99999999999999999999999999999999999999", "-99999999999999999999999999999999999999"},
	} {
		in.Constants = map[int]any{1 + i: c.v}
		wantRows(t, iceberg.NewSchema(0, fields{{ID: 1 + i, Name: "c", Type: c.t, Required: true}}...), ScanOptions{}, in, `{"c":`+c.want+`}`)
	}
	in.Constants = map[int]any{1: "x"}
	wantRefusal(t, iceberg.NewSchema(0, fields{{ID: 1, Name: "c", Type: iceberg.PrimitiveTypes.Int32}}...), ScanOptions{}, in, `column "c"`, `"x"`)
}

// Extra columns, deleted rows and seeking, against a plain scan.
func TestScanRowsAndExtras(t *testing.T) {
	schema := eventLayout().Schema
	r := rand.New(rand.NewPCG(1, 1))
	layout, err := NewLayout(schema)
	if err != nil {
		t.Fatal(err)
	}
	e, err := NewEncoder(layout, EncoderOptions{Codec: "zstd", PageBytes: 1000})
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		b := NewBatch(layout)
		fillEvents(r, b)
		e.Append(b, allRows(b.Rows))
	}
	file, err := e.Finish()
	if err != nil {
		t.Fatal(err)
	}
	in := ScanInput{Name: "x", Object: bytes.NewReader(file.Body), Size: int64(len(file.Body))}
	all := scanJSON(t, schema, ScanOptions{}, in)
	s, err := NewScan(schema, ScanOptions{Extra: []string{"user_id", "device.model", "labels", "at", "event_id", "note", "device", "device.width"}})
	if err != nil {
		t.Fatal(err)
	}
	for i := range all {
		if r.IntN(3) == 0 || i > 1000 && i < 2100 {
			in.Deleted = append(in.Deleted, int64(i))
		}
	}
	deleted := map[int64]bool{}
	for _, row := range in.Deleted {
		deleted[row] = true
	}
	for _, from := range []int64{0, 1, 999, 1500, 3000, int64(len(all))} {
		f, err := s.Open(in)
		if err != nil {
			t.Fatal(err)
		}
		if f.Rows() != int64(len(all)) {
			t.Fatalf("%d rows, want %d", f.Rows(), len(all))
		}
		if err := f.SeekRow(from); err != nil {
			t.Fatal(err)
		}
		next := from
		var rows Rows
		for f.Next(&rows) == nil {
			for i := range rows.Len() {
				for deleted[next] {
					next++
				}
				checkRow(t, &rows, i, next, string(all[next]))
				next++
			}
		}
		for deleted[next] {
			next++
		}
		if next != int64(len(all)) {
			t.Errorf("from row %d: ended at %d of %d", from, next, len(all))
		}
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	}
}

// checkRow holds a row and its extras against the row's JSON.
func checkRow(t *testing.T, rows *Rows, i int, number int64, want string) {
	t.Helper()
	got, err := rows.AppendJSON([]byte("|"), i)
	if err != nil || string(got) != "|"+want || rows.RowNumber(i) != number {
		t.Fatalf("row %d: %d, %v\n%s\nwant\n%s", number, rows.RowNumber(i), err, got, want)
	}
	labels := "{"
	if err := rows.Pairs(2, i, func(key, value []byte) {
		text := "null"
		if value != nil {
			text = `"` + string(value) + `"`
		}
		labels += `"` + string(key) + `":` + text + ","
	}); err != nil {
		t.Fatal(err)
	}
	labels = string(shut([]byte(labels), '{', '}'))
	if rows.Null(2, i) {
		labels = "null"
	}
	if !strings.Contains(want, `"labels":`+labels) {
		t.Fatalf("row %d: labels %s in %s", number, labels, want)
	}
	for k, name := range []string{`"user_id":`, `"model":`, "", `"at":"`, `"event_id":"`, `"note":`, `"device":`} {
		text, err := rows.AppendText(nil, k, i)
		if err != nil {
			t.Fatal(err)
		}
		switch {
		case name == "":
			continue
		case rows.Null(k, i):
			if k == 1 && rows.Null(6, i) {
				continue
			}
			text = []byte("null")
		case k == 1 || k == 5:
			text = []byte(`"` + string(text) + `"`)
		}
		if !strings.Contains(want, name+string(text)) {
			t.Fatalf("row %d: %s%s in %s", number, name, text, want)
		}
	}
	if w := rows.Int(7, i); w != 0 && !strings.Contains(want, `"width":`+string(appendInteger(nil, w))) {
		t.Fatalf("row %d: width %d in %s", number, w, want)
	}
}

// Headers come back as they went in, whatever the order of their two parts, and
// also from files that lack one of them.
func TestScanPairs(t *testing.T) {
	p := iceberg.PrimitiveTypes
	headers := func(parts ...iceberg.NestedField) *iceberg.Schema {
		return iceberg.NewSchema(0, iceberg.NestedField{ID: 1, Name: "h", Type: &iceberg.ListType{ElementID: 2, Element: &iceberg.StructType{FieldList: parts}}})
	}
	key, value := iceberg.NestedField{ID: 3, Name: "key", Type: p.String}, iceberg.NestedField{ID: 4, Name: "value", Type: p.Binary}
	for _, c := range []struct {
		file []iceberg.NestedField
		want string
	}{
		{fields{key, value}, `a="x" a=nil ="" |nil |empty |`}, {fields{value, key}, `a="x" a=nil ="" |nil |empty |`}, {fields{key}, `a=nil a=nil =nil |nil |empty |`},
	} {
		layout := `{"h":[{"key":"a","value":"eA=="},{"key":"a","value":null},{"key":"","value":""}]}`
		in := encodeJSON(t, headers(c.file...), layout, `{"h":null}`, `{"h":[]}`)
		for _, schema := range []*iceberg.Schema{headers(key, value), headers(value, key)} {
			if !PairsOf(schema.Field(0).Type) {
				t.Fatal("no pairs")
			}
			s, err := NewScan(schema, ScanOptions{Extra: []string{"h"}})
			if err != nil {
				t.Fatal(err)
			}
			f, err := s.Open(in)
			if err != nil {
				t.Fatal(err)
			}
			var rows Rows
			if err := f.Next(&rows); err != nil {
				t.Fatal(err)
			}
			got := ""
			for i := range rows.Len() {
				if rows.Null(0, i) {
					got += "nil "
				} else if text, err := rows.AppendText(nil, 0, i); err != nil || string(text) == "[]" {
					got += "empty "
				}
				err := rows.Pairs(0, i, func(key, value []byte) {
					text := "nil"
					if value != nil {
						text = `"` + string(value) + `"`
					}
					got += string(key) + "=" + text + " "
				})
				if err != nil {
					t.Fatal(err)
				}
				got += "|"
			}
			if got != c.want {
				t.Errorf("%v: %s, want %s", c.file, got, c.want)
			}
			if err := f.Close(); err != nil {
				t.Fatal(err)
			}
		}
	}
}
