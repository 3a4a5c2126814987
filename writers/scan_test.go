package writers

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/apache/iceberg-go"
	"github.com/twmb/franz-go/pkg/kgo"
)

// Rows that are encoded, scanned and decoded again are the same, for random
// schemas, pages so small that most lie across batches, and several codecs.
func TestScanRoundTrip(t *testing.T) {
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 11))
		schema := randomSchema(r, 1+r.IntN(6), r.IntN(5))
		layout, err := NewLayout(schema)
		if err != nil {
			t.Fatal(err)
		}
		e, err := NewEncoder(layout, EncoderOptions{Codec: []string{"none", "zstd", "snappy", "gzip"}[r.IntN(4)], PageBytes: []int{0, PageBytesMin, 1000}[r.IntN(3)]})
		if err != nil {
			t.Fatal(err)
		}
		want := NewBatch(layout)
		for range 1 + r.IntN(3) {
			b := randomBatch(r, layout, 1+r.IntN(900), []float64{1, 0.6, 0.1}[r.IntN(3)], []int{0, 3, 200}[r.IntN(3)])
			tame(b)
			rows := decodable(t, layout, b)
			e.Append(b, rows)
			gather(b, rows, want)
		}
		if want.Rows == 0 {
			continue
		}
		file, err := e.Finish()
		if err != nil {
			t.Fatal(err)
		}
		options := ScanOptions{Nulls: []string{"write", "omit"}[r.IntN(2)]}
		got := decodeScan(t, layout, scanJSON(t, schema, options, ScanInput{Name: "x", Object: bytes.NewReader(file.Body), Size: int64(len(file.Body))}))
		if got.Rows != want.Rows {
			t.Fatalf("seed %d: %d rows, want %d", seed, got.Rows, want.Rows)
		}
		t.Run(fmt.Sprint(seed), func(t *testing.T) { sameColumns(t, "scan", layout, want.Columns, got.Columns) })
	}
}

// tame makes random values such as JSON can say and the ingest takes.
func tame(b *Batch) {
	for i, l := range b.Layout.Leaves {
		c := &b.Columns[i]
		for k, v := range c.Fixed {
			switch t := l.Type.(type) {
			case iceberg.DateType:
				c.Fixed[k] = daysMin + int64(uint64(v)%uint64(daysMax-daysMin))
			case iceberg.TimeType:
				c.Fixed[k] = int64(uint64(v) % microsPerDay)
			case iceberg.TimestampType, iceberg.TimestampTzType:
				c.Fixed[k] = microsMin + int64(uint64(v)%uint64(microsMax-microsMin))
			case iceberg.DecimalType:
				c.Fixed[k] = v % int64(pow10[t.Precision()])
			case iceberg.Float32Type:
				if f := float64(math.Float32frombits(uint32(v))); math.IsNaN(f) || math.IsInf(f, 0) {
					c.Fixed[k] = 0
				}
			case iceberg.Float64Type:
				if f := math.Float64frombits(uint64(v)); math.IsNaN(f) || math.IsInf(f, 0) {
					c.Fixed[k] = 0
				}
			}
		}
		if _, decimal := l.Type.(iceberg.DecimalType); decimal && l.Kind == Fixed {
			for at := 0; at < len(c.Arena); at += l.Width {
				c.Arena[at] = byte(int8(c.Arena[at+1]) >> 7)
			}
		}
	}
}

// decodable returns the rows whose maps have no two equal keys: the others the
// ingest refuses, rightly.
func decodable(t testing.TB, layout *Layout, b *Batch) []int32 {
	t.Helper()
	var rows []int32
	for i, row := range assemble(t, b) {
		if !doubled(layout.Root, row) {
			rows = append(rows, int32(i))
		}
	}
	return rows
}

func doubled(n *Node, v any) bool {
	switch v := v.(type) {
	case map[string]any:
		for _, c := range n.Children {
			if doubled(c, v[c.Name]) {
				return true
			}
		}
	case []any:
		for _, e := range v {
			if doubled(n.Children[0], e) {
				return true
			}
		}
	case []pair:
		seen := map[any]bool{}
		for _, p := range v {
			key := p.Key
			if f, ok := key.(float64); ok && f == 0 {
				key = float64(0)
			}
			if seen[key] || doubled(n.Children[1], p.Value) {
				return true
			}
			seen[key] = true
		}
	}
	return false
}

// scanJSON reads all rows of a file.
func scanJSON(t testing.TB, schema *iceberg.Schema, o ScanOptions, in ScanInput) [][]byte {
	t.Helper()
	s, err := NewScan(schema, o)
	if err != nil {
		t.Fatal(err)
	}
	rows, err := scanAll(s, in)
	if err != nil {
		t.Fatal(err)
	}
	return rows
}

func scanAll(s *Scan, in ScanInput) ([][]byte, error) {
	f, err := s.Open(in)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var all [][]byte
	var rows Rows
	for {
		if err := f.Next(&rows); errors.Is(err, io.EOF) {
			return all, nil
		} else if err != nil {
			return all, err
		}
		for i := range rows.Len() {
			if want := int64(len(all)); len(in.Deleted) == 0 && rows.RowNumber(i) != want {
				return all, fmt.Errorf("row %d is number %d", want, rows.RowNumber(i))
			}
			row, err := rows.AppendJSON(nil, i)
			if err != nil {
				return all, err
			}
			all = append(all, row)
		}
	}
}

// decodeScan decodes rows with the ingest's decoder.
func decodeScan(t testing.TB, layout *Layout, rows [][]byte) *Batch {
	t.Helper()
	d, err := NewJSON(layout, JSONOptions{RefuseUnknown: true})
	if err != nil {
		t.Fatal(err)
	}
	b := NewBatch(layout)
	for i, row := range rows {
		if err := d.Decode(b, &kgo.Record{Value: row}); err != nil {
			t.Fatalf("row %d: %v\n%s", i, err, row)
		}
	}
	return b
}

func float32FromBits(v int64) float32 { return math.Float32frombits(uint32(v)) }
func float64FromBits(v int64) float64 { return math.Float64frombits(uint64(v)) }
