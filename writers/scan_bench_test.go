//go:build unix

package writers

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"testing"
)

// BenchmarkScan reads a file of 64 batches of the encoder's benchmark and
// writes its rows as JSON. Bytes are those of the JSON.
func BenchmarkScan(b *testing.B) {
	for _, s := range []struct {
		name   string
		layout *Layout
		fill   func(*rand.Rand, *Batch) int64
	}{{"message", messageLayout(), fillMessages}, {"event", eventLayout(), fillEvents}} {
		for _, codec := range []string{"none", "snappy", "zstd"} {
			b.Run(fmt.Sprintf("rows=%s/codec=%s", s.name, codec), func(b *testing.B) {
				r := rand.New(rand.NewPCG(1, 2))
				e, err := NewEncoder(s.layout, EncoderOptions{Codec: codec})
				if err != nil {
					b.Fatal(err)
				}
				for range 64 {
					batch := NewBatch(s.layout)
					s.fill(r, batch)
					e.Append(batch, allRows(batch.Rows))
				}
				f, err := e.Finish()
				if err != nil {
					b.Fatal(err)
				}
				benchScan(b, s.layout, f.Body)
			})
		}
	}
}

func allRows(n int) []int32 {
	rows := make([]int32, n)
	for i := range rows {
		rows[i] = int32(i)
	}
	return rows
}

func benchScan(b *testing.B, layout *Layout, body []byte) {
	s, err := NewScan(layout.Schema, ScanOptions{})
	if err != nil {
		b.Fatal(err)
	}
	var out []byte
	var rows Rows
	total, count := int64(0), 0
	b.ReportAllocs()
	before := cpuTime(b)
	for b.Loop() {
		f, err := s.Open(ScanInput{Name: "x", Object: bytes.NewReader(body), Size: int64(len(body))})
		if err != nil {
			b.Fatal(err)
		}
		size := int64(0)
		for {
			err := f.Next(&rows)
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				b.Fatal(err)
			}
			out = out[:0]
			for i := range rows.Len() {
				if out, err = rows.AppendJSON(out, i); err != nil {
					b.Fatal(err)
				}
			}
			size += int64(len(out))
			count += rows.Len()
		}
		b.SetBytes(size)
		total += size
		f.Close()
	}
	b.ReportMetric(float64(total)/1e6/(cpuTime(b)-before).Seconds(), "cpu-MB/s")
	b.ReportMetric((cpuTime(b)-before).Seconds()*1e3/(float64(total)/1e6), "ms/MB")
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(count), "ns/row")
}
