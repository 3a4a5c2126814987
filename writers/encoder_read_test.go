package writers

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"testing"

	"github.com/apache/arrow-go/v18/parquet"
	"github.com/apache/arrow-go/v18/parquet/file"
	pq "github.com/parquet-go/parquet-go"
)

// gather returns what a file of these rows must hold, as the columns of a batch.
func gather(b *Batch, rows []int32, to *Batch) {
	for i, l := range b.Layout.Leaves {
		src, dst := &b.Columns[i], &to.Columns[i]
		for _, row := range rows {
			from, end, value := row, row+1, 0
			if l.MaxRep > 0 {
				from, end, value = int32(src.Entry[row]), int32(src.Entry[row+1]), int(src.Value[row])
			} else if l.MaxDef > 0 {
				for _, def := range src.Def[:row] {
					if def == l.MaxDef {
						value++
					}
				}
			} else {
				value = int(row)
			}
			for at := from; at < end; at++ {
				there := true
				if l.MaxDef > 0 {
					dst.Def = append(dst.Def, src.Def[at])
					there = src.Def[at] == l.MaxDef
				}
				if l.MaxRep > 0 {
					dst.Rep = append(dst.Rep, src.Rep[at])
				}
				if !there {
					continue
				}
				if l.Kind == Bytes || l.Kind == Fixed {
					dst.Arena = append(dst.Arena, src.Bytes(value)...)
					dst.End = append(dst.End, uint32(len(dst.Arena)))
				} else {
					dst.Fixed = append(dst.Fixed, src.Fixed[value])
				}
				value++
			}
			if l.MaxRep > 0 {
				dst.Entry = append(dst.Entry, uint32(len(dst.Def)))
				dst.Value = append(dst.Value, uint32(dst.Values(l.Kind)))
			}
		}
	}
	to.Rows += len(rows)
}

// sameColumns fails the test where got differs from want in levels or values.
func sameColumns(t testing.TB, reader string, layout *Layout, want, got []Column) {
	t.Helper()
	for i, l := range layout.Leaves {
		w, g := &want[i], &got[i]
		if !slices.Equal(w.Def, g.Def) || !slices.Equal(w.Rep, g.Rep) {
			t.Fatalf("%s: %s: levels differ: %d, %d of %d, %d entries", reader, l.Name, len(g.Def), len(g.Rep), len(w.Def), len(w.Rep))
		}
		if !slices.Equal(w.Fixed, g.Fixed) || !slices.Equal(w.End, g.End) || !bytes.Equal(w.Arena, g.Arena) {
			t.Fatalf("%s: %s (%s): values differ: got %d, want %d", reader, l.Name, l.Type, g.Values(l.Kind), w.Values(l.Kind))
		}
	}
}

// readParquetGo reads a file with parquet-go.
func readParquetGo(t testing.TB, layout *Layout, body []byte) []Column {
	t.Helper()
	f, err := pq.OpenFile(bytes.NewReader(body), int64(len(body)))
	if err != nil {
		t.Fatalf("parquet-go: %v", err)
	}
	columns := make([]Column, len(layout.Leaves))
	for _, group := range f.RowGroups() {
		for i, chunk := range group.ColumnChunks() {
			if err := readChunk(&layout.Leaves[i], chunk, &columns[i]); err != nil {
				t.Fatalf("parquet-go: %s: %v", layout.Leaves[i].Name, err)
			}
		}
	}
	return columns
}

func readChunk(l *Leaf, chunk pq.ColumnChunk, c *Column) error {
	pages := chunk.Pages()
	defer pages.Close()
	values := make([]pq.Value, 1000)
	for {
		p, err := pages.ReadPage()
		if p == nil {
			if errors.Is(err, io.EOF) {
				return nil
			}
			return err
		}
		for r, left := p.Values(), p.NumValues(); left > 0; {
			n, err := r.ReadValues(values)
			if n == 0 {
				return fmt.Errorf("%d values left: %w", left, err)
			}
			for _, v := range values[:n] {
				addValue(l, v, c)
			}
			left -= int64(n)
		}
		pq.Release(p)
	}
}

func addValue(l *Leaf, v pq.Value, c *Column) {
	if l.MaxDef > 0 {
		c.Def = append(c.Def, uint8(v.DefinitionLevel()))
	}
	if l.MaxRep > 0 {
		c.Rep = append(c.Rep, uint8(v.RepetitionLevel()))
	}
	if v.IsNull() {
		return
	}
	switch l.Kind {
	case Bool:
		var bit int64
		if v.Boolean() {
			bit = 1
		}
		c.Fixed = append(c.Fixed, bit)
	case Int32:
		c.Fixed = append(c.Fixed, int64(v.Int32()))
	case Int64:
		c.Fixed = append(c.Fixed, v.Int64())
	case Float:
		c.Fixed = append(c.Fixed, float32Bits(v.Float()))
	case Double:
		c.Fixed = append(c.Fixed, float64Bits(v.Double()))
	default:
		c.Arena = append(c.Arena, v.ByteArray()...)
		c.End = append(c.End, uint32(len(c.Arena)))
	}
}

// readArrow reads a file with arrow-go.
func readArrow(t testing.TB, layout *Layout, body []byte) []Column {
	t.Helper()
	f, err := file.NewParquetReader(bytes.NewReader(body))
	if err != nil {
		t.Fatalf("arrow-go: %v", err)
	}
	defer f.Close()
	columns := make([]Column, len(layout.Leaves))
	for g := range f.NumRowGroups() {
		for i := range layout.Leaves {
			r, err := f.RowGroup(g).Column(i)
			if err == nil {
				err = readColumn(&layout.Leaves[i], r, &columns[i])
			}
			if err != nil {
				t.Fatalf("arrow-go: %s: %v", layout.Leaves[i].Name, err)
			}
		}
	}
	return columns
}

const arrowBatch = 1000

// readColumn reads a column of any type in steps.
func readColumn(l *Leaf, reader file.ColumnChunkReader, c *Column) error {
	switch r := reader.(type) {
	case *file.BooleanColumnChunkReader:
		return drain(l, c, r.ReadBatch, r.HasNext, r.Err, func(v bool) {
			if v {
				c.Fixed = append(c.Fixed, 1)
			} else {
				c.Fixed = append(c.Fixed, 0)
			}
		})
	case *file.Int32ColumnChunkReader:
		return drain(l, c, r.ReadBatch, r.HasNext, r.Err, func(v int32) { c.Fixed = append(c.Fixed, int64(v)) })
	case *file.Int64ColumnChunkReader:
		return drain(l, c, r.ReadBatch, r.HasNext, r.Err, func(v int64) { c.Fixed = append(c.Fixed, v) })
	case *file.Float32ColumnChunkReader:
		return drain(l, c, r.ReadBatch, r.HasNext, r.Err, func(v float32) { c.Fixed = append(c.Fixed, float32Bits(v)) })
	case *file.Float64ColumnChunkReader:
		return drain(l, c, r.ReadBatch, r.HasNext, r.Err, func(v float64) { c.Fixed = append(c.Fixed, float64Bits(v)) })
	case *file.ByteArrayColumnChunkReader:
		return drain(l, c, r.ReadBatch, r.HasNext, r.Err, func(v parquet.ByteArray) {
			c.Arena = append(c.Arena, v...)
			c.End = append(c.End, uint32(len(c.Arena)))
		})
	case *file.FixedLenByteArrayColumnChunkReader:
		return drain(l, c, r.ReadBatch, r.HasNext, r.Err, func(v parquet.FixedLenByteArray) {
			c.Arena = append(c.Arena, v...)
			c.End = append(c.End, uint32(len(c.Arena)))
		})
	}
	return fmt.Errorf("no reader for %T", reader)
}

func drain[T any](l *Leaf, c *Column, read func(int64, []T, []int16, []int16) (int64, int, error), more func() bool, failed func() error, add func(T)) error {
	values, def, rep := make([]T, arrowBatch), make([]int16, arrowBatch), make([]int16, arrowBatch)
	for more() {
		levels, n, err := read(arrowBatch, values, def, rep)
		if err != nil {
			return err
		}
		for i := range int(levels) {
			if l.MaxDef > 0 {
				c.Def = append(c.Def, uint8(def[i]))
			}
			if l.MaxRep > 0 {
				c.Rep = append(c.Rep, uint8(rep[i]))
			}
		}
		for _, v := range values[:n] {
			add(v)
		}
	}
	return failed()
}
