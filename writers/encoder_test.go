package writers

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/apache/iceberg-go"
	pq "github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/format"
)

func float32Bits(v float32) int64 { return int64(math.Float32bits(v)) }
func float64Bits(v float64) int64 { return int64(math.Float64bits(v)) }

// encodeRandomly appends batches in pieces of random rows and returns the file
// and what must be in it.
func encodeRandomly(t testing.TB, r *rand.Rand, e *Encoder, batches int, density float64) (*File, *Batch) {
	t.Helper()
	want := NewBatch(e.layout)
	for range batches {
		b := randomBatch(r, e.layout, 1+r.IntN(300), density, []int{0, 1, 9, 300}[r.IntN(4)])
		for range 1 + r.IntN(3) {
			rows := randomRows(r, b.Rows)
			e.Append(b, rows)
			gather(b, rows, want)
		}
	}
	if e.Rows() != int64(want.Rows) {
		t.Fatalf("encoder has %d rows, want %d", e.Rows(), want.Rows)
	}
	f, err := e.Finish()
	if err != nil {
		t.Fatal(err)
	}
	if f.Rows != int64(want.Rows) || e.Rows() != 0 || e.Size() != 0 {
		t.Fatalf("file of %d rows, want %d; encoder keeps %d rows, %d bytes", f.Rows, want.Rows, e.Rows(), e.Size())
	}
	return f, want
}

// randomRows chooses rows: all, some in order, or any in any order.
func randomRows(r *rand.Rand, n int) []int32 {
	var rows []int32
	switch r.IntN(3) {
	case 0:
		for i := range n {
			rows = append(rows, int32(i))
		}
	case 1:
		for i := range n {
			if r.IntN(4) == 0 {
				rows = append(rows, int32(i))
			}
		}
	default:
		for range r.IntN(n + 1) {
			rows = append(rows, int32(r.IntN(n)))
		}
	}
	return rows
}

// Whatever the schema, two readers that we did not write find the levels and
// values that were appended.
func TestEncoderRoundTrip(t *testing.T) {
	codecs := []string{"none", "snappy", "gzip", "zstd"}
	for seed := range uint64(120) {
		r := rand.New(rand.NewPCG(seed, 0))
		layout, err := NewLayout(randomSchema(r, 1+r.IntN(6), r.IntN(5)))
		if err != nil {
			t.Fatal(err)
		}
		o := EncoderOptions{Codec: codecs[r.IntN(len(codecs))], PageBytes: []int{0, PageBytesMin, 1000, 20000}[r.IntN(4)]}
		t.Run(fmt.Sprintf("seed=%d/codec=%s/page=%d", seed, o.Codec, o.PageBytes), func(t *testing.T) {
			e, err := NewEncoder(layout, o)
			if err != nil {
				t.Fatal(err)
			}
			for range 2 { // the second file reuses the encoder
				f, want := encodeRandomly(t, r, e, 1+r.IntN(6), []float64{1, 0.7, 0.05}[r.IntN(3)])
				sameColumns(t, "parquet-go", layout, want.Columns, readParquetGo(t, layout, f.Body))
				sameColumns(t, "arrow-go", layout, want.Columns, readArrow(t, layout, f.Body))
			}
		})
	}
}

// A column of few values gets a dictionary, and gives it up in the middle of a
// file when the values become many.
func TestEncoderDictionary(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 4))
	for _, typ := range primitives {
		layout, err := NewLayout(iceberg.NewSchema(0, iceberg.NestedField{ID: 3, Name: "v", Type: typ}))
		if err != nil {
			t.Fatal(err)
		}
		e, err := NewEncoder(layout, EncoderOptions{Codec: "snappy", PageBytes: 4096})
		if err != nil {
			t.Fatal(err)
		}
		for _, test := range []struct {
			distinct []int // of the batches
			want     [2]bool
		}{
			{[]int{8, 8, 8}, [2]bool{false, true}},
			{[]int{8, 8, 1e9, 1e9, 8}, [2]bool{true, true}},
			{[]int{1e9, 8, 8}, [2]bool{true, false}},
		} {
			want := NewBatch(layout)
			for _, distinct := range test.distinct {
				b := randomBatch(r, layout, BatchRowsMax, 1, distinct)
				rows := make([]int32, b.Rows)
				for i := range rows {
					rows[i] = int32(i)
				}
				for range 5 {
					e.Append(b, rows)
					gather(b, rows, want)
				}
			}
			f, err := e.Finish()
			if err != nil {
				t.Fatal(err)
			}
			sameColumns(t, "parquet-go", layout, want.Columns, readParquetGo(t, layout, f.Body))
			sameColumns(t, "arrow-go", layout, want.Columns, readArrow(t, layout, f.Body))
			checkMetrics(t, f, want)
			checkFooter(t, want, f.Body)
			if layout.Leaves[0].Kind == Bool {
				continue
			}
			if got := sortsOfPages(t, f.Body); got != test.want {
				t.Errorf("%s: %v values: plain and dictionary pages: %v, want %v", typ, test.distinct, got, test.want)
			}
		}
	}
}

// sortsOfPages reports whether the first column has PLAIN and dictionary pages.
func sortsOfPages(t testing.TB, body []byte) (sorts [2]bool) {
	t.Helper()
	f, err := pq.OpenFile(bytes.NewReader(body), int64(len(body)))
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range f.Metadata().RowGroups[0].Columns[0].MetaData.EncodingStats {
		if s.PageType == format.DataPage {
			sorts[min(s.Encoding, 1)] = s.Count > 0
		}
	}
	return sorts
}
