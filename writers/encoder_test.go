package writers

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
)

func float32Bits(v float32) int64 { return int64(math.Float32bits(v)) }
func float64Bits(v float64) int64 { return int64(math.Float64bits(v)) }

// encodeRandomly appends batches in pieces of random rows and returns the file
// and what must be in it.
func encodeRandomly(t testing.TB, r *rand.Rand, e *Encoder, batches int, density float64) (*File, *Batch) {
	t.Helper()
	want := NewBatch(e.layout)
	for range batches {
		b := randomBatch(r, e.layout, 1+r.IntN(300), density)
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
