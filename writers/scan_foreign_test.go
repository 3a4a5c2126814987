package writers

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	arrowmemory "github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/apache/arrow-go/v18/parquet"
	"github.com/apache/arrow-go/v18/parquet/compress"
	"github.com/apache/arrow-go/v18/parquet/file"
	"github.com/apache/arrow-go/v18/parquet/pqarrow"
	"github.com/apache/iceberg-go"
	pq "github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/encoding"
)

// Files that parquet-go writes, in every encoding, codec and page version that
// it has, give the rows that went in.
func TestScanParquetGo(t *testing.T) {
	codecs := []struct {
		name  string
		codec pq.WriterOption
	}{
		{"none", pq.Compression(&pq.Uncompressed)}, {"snappy", pq.Compression(&pq.Snappy)}, {"gzip", pq.Compression(&pq.Gzip)},
		{"zstd", pq.Compression(&pq.Zstd)}, {"brotli", pq.Compression(&pq.Brotli)}, {"lz4raw", pq.Compression(&pq.Lz4Raw)},
	}
	for seed := range uint64(160) {
		r := rand.New(rand.NewPCG(seed, 5))
		codec, version := codecs[seed%uint64(len(codecs))], 1+r.IntN(2)
		t.Run(fmt.Sprintf("seed=%d/codec=%s/v%d", seed, codec.name, version), func(t *testing.T) {
			layout, err := NewLayout(randomSchema(r, 1+r.IntN(5), r.IntN(4)))
			if err != nil {
				t.Fatal(err)
			}
			root := pq.Group{}
			for _, n := range layout.Root.Children {
				root[n.Name] = parquetGoNode(r, layout, n)
			}
			var out bytes.Buffer
			w := pq.NewGenericWriter[any](&out, pq.NewSchema("table", root), codec.codec, pq.DataPageVersion(version), pq.PageBufferSize([]int{100, 1000, 1 << 20}[r.IntN(3)]))
			want := NewBatch(layout)
			for range 1 + r.IntN(3) {
				b := randomBatch(r, layout, 1+r.IntN(2000), []float64{1, 0.6, 0.1}[r.IntN(3)], []int{0, 3, 200}[r.IntN(3)])
				tame(b)
				group := NewBatch(layout)
				gather(b, decodable(t, layout, b), group)
				gather(group, allRows(group.Rows), want)
				for i := range layout.Leaves {
					if _, err := w.ColumnWriters()[i].WriteRowValues(parquetGoValues(&layout.Leaves[i], &group.Columns[i])); err != nil {
						t.Fatal(err)
					}
				}
				if err := w.Flush(); err != nil {
					t.Fatal(err)
				}
			}
			if err := w.Close(); err != nil {
				t.Fatal(err)
			}
			scanSame(t, layout, want, out.Bytes())
		})
	}
}

// scanSame scans a file and holds its rows against a batch.
func scanSame(t *testing.T, layout *Layout, want *Batch, body []byte) {
	t.Helper()
	got := decodeScan(t, layout, scanJSON(t, layout.Schema, ScanOptions{}, ScanInput{Name: "x", Object: bytes.NewReader(body), Size: int64(len(body))}))
	if got.Rows != want.Rows {
		t.Fatalf("%d rows, want %d", got.Rows, want.Rows)
	}
	sameColumns(t, "scan", layout, want.Columns, got.Columns)
}

func parquetGoNode(r *rand.Rand, l *Layout, n *Node) pq.Node {
	var node pq.Node
	switch n.Kind {
	case Primitive:
		node = parquetGoLeaf(r, &l.Leaves[n.Leaf])
	case Struct:
		group := pq.Group{}
		for _, c := range n.Children {
			group[c.Name] = parquetGoNode(r, l, c)
		}
		node = group
	case List:
		node = pq.List(parquetGoNode(r, l, n.Children[0]))
	case Map:
		node = pq.Map(parquetGoNode(r, l, n.Children[0]), parquetGoNode(r, l, n.Children[1]))
	}
	if !n.Required {
		node = pq.Optional(node)
	}
	return pq.FieldID(node, n.ID)
}

func parquetGoLeaf(r *rand.Rand, l *Leaf) pq.Node {
	var node pq.Node
	encodings := []encoding.Encoding{&pq.Plain, &pq.RLEDictionary}
	switch l.Kind {
	case Bool:
		node, encodings = pq.Leaf(pq.BooleanType), []encoding.Encoding{&pq.Plain, &pq.RLE}
	case Int32:
		node, encodings = pq.Leaf(pq.Int32Type), append(encodings, &pq.DeltaBinaryPacked, &pq.ByteStreamSplit)
	case Int64:
		node, encodings = pq.Leaf(pq.Int64Type), append(encodings, &pq.DeltaBinaryPacked, &pq.ByteStreamSplit)
	case Float:
		node, encodings = pq.Leaf(pq.FloatType), append(encodings, &pq.ByteStreamSplit)
	case Double:
		node, encodings = pq.Leaf(pq.DoubleType), append(encodings, &pq.ByteStreamSplit)
	case Bytes:
		node, encodings = pq.Leaf(pq.ByteArrayType), append(encodings, &pq.DeltaLengthByteArray, &pq.DeltaByteArray)
	case Fixed:
		node, encodings = pq.Leaf(pq.FixedLenByteArrayType(l.Width)), append(encodings, &pq.DeltaByteArray)
	}
	switch t := l.Type.(type) {
	case iceberg.StringType:
		node = pq.String()
	case iceberg.UUIDType:
		node = pq.UUID()
	case iceberg.DateType:
		node = pq.Date()
	case iceberg.TimeType:
		node = pq.Time(pq.Microsecond)
	case iceberg.TimestampType:
		node = pq.TimestampAdjusted(pq.Microsecond, false)
	case iceberg.TimestampTzType:
		node = pq.Timestamp(pq.Microsecond)
	case iceberg.DecimalType:
		node = pq.Decimal(t.Scale(), t.Precision(), node.Type())
	}
	return pq.Encoded(node, encodings[r.IntN(len(encodings))])
}

func parquetGoValues(l *Leaf, c *Column) []pq.Value {
	entries := max(len(c.Def), len(c.Rep))
	if l.MaxDef == 0 {
		entries = c.Values(l.Kind)
	}
	values, at := make([]pq.Value, entries), 0
	for i := range values {
		def, rep := uint8(0), uint8(0)
		if l.MaxDef > 0 {
			def = c.Def[i]
		}
		if l.MaxRep > 0 {
			rep = c.Rep[i]
		}
		v := pq.NullValue()
		if def == l.MaxDef {
			switch l.Kind {
			case Bool:
				v = pq.BooleanValue(c.Fixed[at] != 0)
			case Int32:
				v = pq.Int32Value(int32(c.Fixed[at]))
			case Int64:
				v = pq.Int64Value(c.Fixed[at])
			case Float:
				v = pq.FloatValue(float32FromBits(c.Fixed[at]))
			case Double:
				v = pq.DoubleValue(float64FromBits(c.Fixed[at]))
			case Bytes:
				v = pq.ByteArrayValue(c.Bytes(at))
			case Fixed:
				v = pq.FixedLenByteArrayValue(c.Bytes(at))
			}
			at++
		}
		values[i] = v.Level(int(rep), int(def), l.Index)
	}
	return values
}

// Files that arrow-go writes from the same rows: it breaks pages within rows,
// has decimals as bytes or as numbers, and timestamps as INT96 if asked.
func TestScanArrow(t *testing.T) {
	for seed := range uint64(120) {
		r := rand.New(rand.NewPCG(seed, 6))
		codec := []compress.Compression{compress.Codecs.Uncompressed, compress.Codecs.Snappy, compress.Codecs.Gzip, compress.Codecs.Zstd, compress.Codecs.Brotli, compress.Codecs.Lz4Raw}[r.IntN(6)]
		version := parquet.DataPageVersion(r.IntN(2))
		t.Run(fmt.Sprintf("seed=%d/codec=%s/v%d", seed, codec, version+1), func(t *testing.T) {
			layout, err := NewLayout(randomSchema(r, 1+r.IntN(5), r.IntN(4)))
			if err != nil {
				t.Fatal(err)
			}
			e, err := NewEncoder(layout, EncoderOptions{Codec: "none"})
			if err != nil {
				t.Fatal(err)
			}
			b := randomBatch(r, layout, 1+r.IntN(2500), []float64{1, 0.6, 0.1}[r.IntN(3)], []int{0, 3, 200}[r.IntN(3)])
			tame(b)
			stamps := r.IntN(2) == 0
			if stamps {
				recent(b)
			}
			rows, want := decodable(t, layout, b), NewBatch(layout)
			gather(b, rows, want)
			e.Append(b, rows)
			f, err := e.Finish()
			if err != nil {
				t.Fatal(err)
			}
			if want.Rows == 0 {
				return
			}
			table := arrowTable(t, f.Body)
			defer table.Release()
			var out bytes.Buffer
			err = pqarrow.WriteTable(table, &out, int64(1+r.IntN(want.Rows)), parquet.NewWriterProperties(
				parquet.WithCompression(codec), parquet.WithDataPageVersion(version), parquet.WithDictionaryDefault(r.IntN(2) == 0),
				parquet.WithDataPageSize([]int64{64, 1000, 1 << 20}[r.IntN(3)]), parquet.WithBatchSize([]int64{10, 1024}[r.IntN(2)]),
				parquet.WithDictionaryPageSizeLimit([]int64{64, 1 << 20}[r.IntN(2)]),
				parquet.WithStoreDecimalAsInteger(r.IntN(2) == 0)),
				pqarrow.NewArrowWriterProperties(pqarrow.WithDeprecatedInt96Timestamps(stamps)))
			if err != nil {
				t.Fatal(err)
			}
			scanSame(t, layout, want, out.Bytes())
		})
	}
}

// recent moves timestamps to where INT96 in nanoseconds has them.
func recent(b *Batch) {
	for i, l := range b.Layout.Leaves {
		switch l.Type.(type) {
		case iceberg.TimestampType, iceberg.TimestampTzType:
			for k, v := range b.Columns[i].Fixed {
				b.Columns[i].Fixed[k] = v % (200 * 365 * microsPerDay)
			}
		}
	}
}

func arrowTable(t testing.TB, body []byte) arrow.Table {
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
		t.Fatal(err)
	}
	return table
}
