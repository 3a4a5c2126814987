package writers

import (
	"bytes"
	"math/rand/v2"
	"runtime"
	"testing"
	"unicode/utf8"

	"github.com/apache/iceberg-go"
)

func everyRow(b *Batch) []int32 {
	rows := make([]int32, b.Rows)
	for i := range rows {
		rows[i] = int32(i)
	}
	return rows
}

// Open pages of a wide table stay small, whatever the rows, and Size says what
// is held.
func TestEncoderSize(t *testing.T) {
	layout := eventLayout()
	e, err := NewEncoder(layout, EncoderOptions{Codec: "snappy"})
	if err != nil {
		t.Fatal(err)
	}
	r := rand.New(rand.NewPCG(5, 5))
	for range 20 {
		b := NewBatch(layout)
		fillEvents(r, b)
		e.Append(b, everyRow(b))
		var held int64
		for i := range e.columns {
			c := &e.columns[i]
			held += int64(cap(c.def) + cap(c.rep) + cap(c.values))
			if c.dictionary != nil {
				held += c.dictionary.memory()
			}
		}
		if held != e.open || held > 2<<20 {
			t.Fatalf("after %d rows: open pages hold %d bytes, counted are %d", e.Rows(), held, e.open)
		}
		if e.Size() < e.open+e.arena.used || e.Size() > e.open+e.arena.used+blockBytes {
			t.Fatalf("size %d with %d open and %d compressed", e.Size(), e.open, e.arena.used)
		}
	}
	e.Reset()
	if e.Size() != 0 || e.Rows() != 0 {
		t.Fatalf("after a reset: %d bytes, %d rows", e.Size(), e.Rows())
	}
}

// One huge row doesn't leave its buffers behind, B165.
func TestEncoderGivesHugeBuffersBack(t *testing.T) {
	layout := messageLayout()
	e, err := NewEncoder(layout, EncoderOptions{Codec: "snappy"})
	if err != nil {
		t.Fatal(err)
	}
	b := NewBatch(layout)
	for _, n := range []int{8 << 20, 10} {
		b.Columns[0].Fixed = append(b.Columns[0].Fixed, 1)
		b.Columns[1].Arena = append(b.Columns[1].Arena, make([]byte, n)...)
		b.Columns[1].End = append(b.Columns[1].End, uint32(len(b.Columns[1].Arena)))
		b.Columns[1].Def = append(b.Columns[1].Def, 1)
		b.Rows++
	}
	e.Append(b, []int32{0})
	if e.Size() < 8<<20 {
		t.Fatalf("%d bytes with a row of 8 MiB open", e.Size())
	}
	e.Append(b, []int32{1})
	if e.Size() > 2<<20 {
		t.Fatalf("%d bytes after the row of 8 MiB was compressed", e.Size())
	}
}

// Memory doesn't grow with the number of files, B160.
func TestEncoderMemoryPlateau(t *testing.T) {
	layout := eventLayout()
	b := NewBatch(layout)
	fillEvents(rand.New(rand.NewPCG(6, 6)), b)
	rows := everyRow(b)[:100]
	heap := func() uint64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	var early uint64
	e, err := NewEncoder(layout, EncoderOptions{Codec: "zstd"})
	if err != nil {
		t.Fatal(err)
	}
	for i := range 2000 {
		if i%2 == 0 {
			if e, err = NewEncoder(layout, EncoderOptions{Codec: "zstd"}); err != nil {
				t.Fatal(err)
			}
		}
		e.Append(b, rows)
		if _, err := e.Finish(); err != nil {
			t.Fatal(err)
		}
		if i == 200 {
			early = heap()
		}
	}
	if late := heap(); late > early+4<<20 {
		t.Fatalf("heap grew from %d to %d bytes in 1,800 files", early, late)
	}
}

// A file without rows is a file all the same, and an encoder can be used again.
func TestEncoderEmptyFile(t *testing.T) {
	layout := eventLayout()
	e, err := NewEncoder(layout, EncoderOptions{Codec: "gzip"})
	if err != nil {
		t.Fatal(err)
	}
	e.Append(NewBatch(layout), nil)
	f, err := e.Finish()
	if err != nil {
		t.Fatal(err)
	}
	want := NewBatch(layout)
	sameColumns(t, "parquet-go", layout, want.Columns, readParquetGo(t, layout, f.Body))
	sameColumns(t, "arrow-go", layout, want.Columns, readArrow(t, layout, f.Body))
	checkMetrics(t, f, want)
	checkFooter(t, want, f.Body)
}

func TestEncoderOptions(t *testing.T) {
	layout := messageLayout()
	for _, o := range []EncoderOptions{{}, {Codec: "lz4"}, {Codec: "ZSTD"}, {Codec: "zstd", PageBytes: 1}, {Codec: "zstd", PageBytes: PageBytesMax + 1}, {Codec: "zstd", PageBytes: -1}} {
		if _, err := NewEncoder(layout, o); err == nil {
			t.Errorf("%+v: no error", o)
		}
	}
	empty, err := NewLayout(iceberg.NewSchema(0, iceberg.NestedField{ID: 1, Name: "f", Type: iceberg.FixedTypeOf(0)}))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := NewEncoder(empty, EncoderOptions{Codec: "zstd"}); err == nil {
		t.Error("fixed[0]: no error")
	}
}

// A batch that contradicts itself stops the program before it becomes a file.
func TestEncoderAsserts(t *testing.T) {
	for name, spoil := range map[string]func(*Batch){
		"a value too few":   func(b *Batch) { b.Columns[0].Fixed = b.Columns[0].Fixed[:1] },
		"a level too great": func(b *Batch) { b.Columns[1].Def[0] = 2 },
		"another layout":    func(b *Batch) { b.Layout = messageLayout() },
	} {
		t.Run(name, func(t *testing.T) {
			layout := messageLayout()
			e, err := NewEncoder(layout, EncoderOptions{Codec: "none"})
			if err != nil {
				t.Fatal(err)
			}
			b := NewBatch(layout)
			fillMessages(rand.New(rand.NewPCG(1, 1)), b)
			spoil(b)
			defer func() {
				if recover() == nil {
					t.Error("no panic")
				}
			}()
			e.Append(b, everyRow(b))
			_, err = e.Finish()
			t.Errorf("finished: %v", err)
		})
	}
}

// A data file carries its partition, and every field of the spec must have one.
func TestDataFilePartition(t *testing.T) {
	f, want := fileOf(t, iceberg.PrimitiveTypes.Date, 0, 19000, 19001)
	spec := iceberg.NewPartitionSpecID(3, iceberg.PartitionField{SourceIDs: []int{7}, FieldID: 1000, Name: "v_day", Transform: iceberg.DayTransform{}})
	df, err := f.DataFile("mem://t/f.parquet", spec, map[int]any{1000: iceberg.Date(19000)})
	if err != nil {
		t.Fatal(err)
	}
	if df.SpecID() != 3 || df.Partition()[1000] != iceberg.Date(19000) || df.Count() != int64(want.Rows) {
		t.Fatalf("spec %d, partition %v, %d rows", df.SpecID(), df.Partition(), df.Count())
	}
	if _, err := f.DataFile("mem://t/f.parquet", spec, nil); err == nil {
		t.Fatal("no error for a partition without a value")
	}
	if _, err := f.DataFile("", spec, map[int]any{1000: nil}); err == nil {
		t.Fatal("no error for a file without a location")
	}
}

// Bounds are never beyond the value, are short, and text stays text.
func FuzzBounds(f *testing.F) {
	f.Add([]byte("aaaaaaaaaaaaaaa\uD7FFx"))
	f.Add(bytes.Repeat([]byte("\U0010FFFF"), 20))
	f.Add(bytes.Repeat([]byte{0xFF}, 20))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, v []byte) {
		p := prefixOf(v)
		for _, text := range []bool{false, true} {
			lower, upper := lowerBound(&p, text), upperBound(&p, text)
			if lower != nil && bytes.Compare(lower, v) > 0 || upper != nil && bytes.Compare(upper, v) < 0 {
				t.Fatalf("%q: bounds %q to %q", v, lower, upper)
			}
			if !text && (len(lower) > boundBytes || len(upper) > boundBytes || lower == nil) {
				t.Fatalf("%q: bounds %q to %q", v, lower, upper)
			}
			if !text || !utf8.Valid(v) {
				continue
			}
			if lower == nil || !utf8.Valid(lower) || !utf8.Valid(upper) || utf8.RuneCount(lower) > boundRunes || utf8.RuneCount(upper) > boundRunes {
				t.Fatalf("%q: bounds %q to %q", v, lower, upper)
			}
			if slow := slowText(string(v), true); !bytes.Equal(slow, upper) {
				t.Fatalf("%q: upper bound %q, want %q", v, upper, slow)
			}
		}
	})
}
