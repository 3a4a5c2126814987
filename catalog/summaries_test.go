package catalog

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/apache/iceberg-go"
	"github.com/twmb/avro/ocf"
)

// The empty string is a bound like any other in the manifest list: in a new
// manifest, in one that is carried over by later commits, and in a merged one.
func TestEmptyBounds(t *testing.T) {
	for _, version := range []string{"2", "3"} {
		w := newWorld(t)
		c := w.open()
		create := Create{
			Schema: []Column{{Name: "id", Type: "long"}, {Name: "s", Type: "string"}}, Partition: []string{"s"},
			Properties: map[string]string{"format-version": version},
		}
		tbl := w.table(c, TableOptions{Create: &create})
		for i := range mergeFan + 3 {
			a := next(t, tbl, int64(i)*10, 10, 0)
			for j, value := range []any{"", "a=b"} {
				b, err := iceberg.NewDataFileBuilder(tbl.Spec(), iceberg.EntryContentData, fmt.Sprintf("%s/e%d-%d.parquet", tbl.DataLocation(), i, j), iceberg.ParquetFile, map[int]any{1000: value}, nil, nil, 1, 50)
				if err != nil {
					t.Fatal(err)
				}
				a.Files = append(a.Files, b.Build())
			}
			mustAppend(t, tbl, a)
			raw, err := w.disk.ReadFile(metaOf(t, c, "shop.orders").CurrentSnapshot().ManifestList)
			if err != nil {
				t.Fatal(err)
			}
			for at, bounds := range rawBounds(t, raw) {
				if bounds[0] == nil || len(bounds[0]) != 0 || string(bounds[1]) != "a=b" {
					t.Fatalf("version %s, commit %d, manifest %d: bounds %q to %q (nil %t), want the empty string and a=b", version, i, at, bounds[0], bounds[1], bounds[0] == nil)
				}
			}
		}
	}
}

// rawBounds reads the bounds of the first partition field of each manifest, as
// they stand in the Avro file: nil is null.
func rawBounds(t *testing.T, list []byte) (out [][2][]byte) {
	t.Helper()
	r, err := ocf.NewReader(bytes.NewReader(list))
	if err != nil {
		t.Fatal(err)
	}
	for {
		var m map[string]any
		if err := r.Decode(&m); err != nil {
			break
		}
		field := m["partitions"].([]any)[0].(map[string]any)
		var pair [2][]byte
		for i, name := range []string{"lower_bound", "upper_bound"} {
			if b, ok := field[name].([]byte); ok {
				pair[i] = append([]byte{}, b...)
			}
		}
		out = append(out, pair)
	}
	if len(out) == 0 {
		t.Fatal("the list holds no manifest")
	}
	return out
}
