package writers

import (
	"bytes"
	"context"
	"math/big"
	"math/rand/v2"
	"reflect"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	arrowmemory "github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/apache/arrow-go/v18/parquet/file"
	"github.com/apache/arrow-go/v18/parquet/pqarrow"
)

// Rows come back whole from a reader that knows structs, lists and maps.
func TestEncoderRowsInArrow(t *testing.T) {
	for seed := range uint64(40) {
		r := rand.New(rand.NewPCG(seed, 3))
		layout, err := NewLayout(randomSchema(r, 1+r.IntN(5), r.IntN(5)))
		if err != nil {
			t.Fatal(err)
		}
		e, err := NewEncoder(layout, EncoderOptions{Codec: "zstd", PageBytes: []int{0, PageBytesMin, 1000}[r.IntN(3)]})
		if err != nil {
			t.Fatal(err)
		}
		f, want := encodeRandomly(t, r, e, 1+r.IntN(3), []float64{1, 0.6, 0.1}[r.IntN(3)])
		rows, got := assemble(t, want), arrowRows(t, layout, f.Body)
		if len(got) != len(rows) {
			t.Fatalf("seed %d: %d rows, want %d", seed, len(got), len(rows))
		}
		for i := range rows {
			if !sameValue(got[i], rows[i]) {
				t.Fatalf("seed %d: row %d:\n%v\nwant\n%v", seed, i, got[i], rows[i])
			}
		}
	}
}

// sameValue is reflect.DeepEqual, but NaN equals itself.
func sameValue(a, b any) bool {
	switch a := a.(type) {
	case float32:
		v, ok := b.(float32)
		return ok && float32Bits(a) == float32Bits(v)
	case float64:
		v, ok := b.(float64)
		return ok && float64Bits(a) == float64Bits(v)
	case map[string]any:
		v, ok := b.(map[string]any)
		if !ok || len(a) != len(v) {
			return false
		}
		for name := range a {
			if !sameValue(a[name], v[name]) {
				return false
			}
		}
		return true
	case []any:
		v, ok := b.([]any)
		if !ok || len(a) != len(v) {
			return false
		}
		for i := range a {
			if !sameValue(a[i], v[i]) {
				return false
			}
		}
		return true
	case []pair:
		v, ok := b.([]pair)
		if !ok || len(a) != len(v) {
			return false
		}
		for i := range a {
			if !sameValue(a[i].Key, v[i].Key) || !sameValue(a[i].Value, v[i].Value) {
				return false
			}
		}
		return true
	}
	return reflect.DeepEqual(a, b)
}

// arrowRows reads a file as an Arrow table and turns it into the values that
// assemble gives.
func arrowRows(t testing.TB, layout *Layout, body []byte) []map[string]any {
	t.Helper()
	reader, err := file.NewParquetReader(bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	fr, err := pqarrow.NewFileReader(reader, pqarrow.ArrowReadProperties{}, arrowmemory.DefaultAllocator)
	if err != nil {
		t.Fatal(err)
	}
	table, err := fr.ReadTable(context.Background())
	if err != nil {
		t.Fatalf("read %s: %v", layout.Schema, err)
	}
	defer table.Release()
	var rows []map[string]any
	tr := array.NewTableReader(table, 0)
	defer tr.Release()
	for tr.Next() {
		batch := tr.RecordBatch()
		for row := range int(batch.NumRows()) {
			v := map[string]any{}
			for i, n := range layout.Root.Children {
				v[n.Name] = arrowValue(t, n, batch.Column(i), row)
			}
			rows = append(rows, v)
		}
	}
	return rows
}

func arrowValue(t testing.TB, n *Node, a arrow.Array, i int) any {
	t.Helper()
	if a.IsNull(i) {
		return nil
	}
	switch a := a.(type) {
	case *array.Struct:
		v := map[string]any{}
		for k, child := range n.Children {
			v[child.Name] = arrowValue(t, child, a.Field(k), i)
		}
		return v
	case *array.Map:
		pairs := []pair{}
		from, to := a.ValueOffsets(i)
		for k := from; k < to; k++ {
			pairs = append(pairs, pair{arrowValue(t, n.Children[0], a.Keys(), int(k)), arrowValue(t, n.Children[1], a.Items(), int(k))})
		}
		return pairs
	case *array.List:
		elements := []any{}
		from, to := a.ValueOffsets(i)
		for k := from; k < to; k++ {
			elements = append(elements, arrowValue(t, n.Children[0], a.ListValues(), int(k)))
		}
		return elements
	case array.ExtensionArray:
		return arrowValue(t, n, a.Storage(), i)
	}
	return arrowLeaf(t, a, i)
}

func arrowLeaf(t testing.TB, a arrow.Array, i int) any {
	t.Helper()
	switch a := a.(type) {
	case *array.Boolean:
		return a.Value(i)
	case *array.Int32:
		return int64(a.Value(i))
	case *array.Int64:
		return a.Value(i)
	case *array.Float32:
		return a.Value(i)
	case *array.Float64:
		return a.Value(i)
	case *array.Date32:
		return int64(a.Value(i))
	case *array.Time64:
		if a.DataType().(*arrow.Time64Type).Unit != arrow.Microsecond {
			t.Fatalf("type %s", a.DataType())
		}
		return int64(a.Value(i))
	case *array.Timestamp:
		if a.DataType().(*arrow.TimestampType).Unit != arrow.Microsecond {
			t.Fatalf("type %s", a.DataType())
		}
		return int64(a.Value(i))
	case *array.String:
		return a.Value(i)
	case *array.Binary:
		return octets(a.Value(i))
	case *array.FixedSizeBinary:
		return octets(a.Value(i))
	case *array.Decimal128:
		return decimalNumeral(new(big.Int).Set(a.Value(i).BigInt()), int(a.DataType().(*arrow.Decimal128Type).Scale))
	}
	t.Fatalf("no value of type %s", a.DataType())
	return nil
}
