package writers

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"reflect"
	"testing"
	"unicode/utf8"

	"github.com/apache/iceberg-go"
)

// facts are what is to be said of some entries of a leaf, found the slow way.
type facts struct {
	entries, nulls, nans int64
	min, max             []byte // the values themselves as the column has them, PLAIN; nil: none
}

// factsOf looks at the entries and values of a column, or of a part of it.
func factsOf(l *Leaf, c *Column) (f facts) {
	values := c.Values(l.Kind)
	f.entries = int64(values)
	if l.MaxDef > 0 {
		f.entries = int64(len(c.Def))
	}
	f.nulls = f.entries - int64(values)
	for i := range values {
		v := plainValue(l, c, i)
		if isNaN(l, v) {
			f.nans++
			continue
		}
		if f.min == nil || compareValues(l, v, f.min) < 0 {
			f.min = v
		}
		if f.max == nil || compareValues(l, v, f.max) > 0 {
			f.max = v
		}
	}
	return f
}

func plainValue(l *Leaf, c *Column, i int) []byte {
	switch l.Kind {
	case Bool:
		return []byte{byte(c.Fixed[i])}
	case Int32, Float:
		return binary.LittleEndian.AppendUint32(nil, uint32(c.Fixed[i]))
	case Int64, Double:
		return binary.LittleEndian.AppendUint64(nil, uint64(c.Fixed[i]))
	}
	return append([]byte{}, c.Bytes(i)...)
}

func isNaN(l *Leaf, v []byte) bool {
	f, ok := floatOf(l, v)
	return ok && math.IsNaN(f)
}

func floatOf(l *Leaf, v []byte) (float64, bool) {
	switch l.Kind {
	case Float:
		return float64(math.Float32frombits(binary.LittleEndian.Uint32(v))), true
	case Double:
		return math.Float64frombits(binary.LittleEndian.Uint64(v)), true
	}
	return 0, false
}

// bigOf reads a whole number of any width.
func bigOf(l *Leaf, v []byte) *big.Int {
	switch l.Kind {
	case Bool:
		return big.NewInt(int64(v[0]))
	case Int32:
		return big.NewInt(int64(int32(binary.LittleEndian.Uint32(v))))
	case Int64:
		return big.NewInt(int64(binary.LittleEndian.Uint64(v)))
	}
	return signedBig(v)
}

func compareValues(l *Leaf, v, w []byte) int {
	if f, ok := floatOf(l, v); ok {
		g, _ := floatOf(l, w)
		switch {
		case f < g, f == g && math.Signbit(f) && !math.Signbit(g):
			return -1
		case f == g && math.Signbit(f) == math.Signbit(g):
			return 0
		}
		return 1
	}
	if _, decimal := l.Type.(iceberg.DecimalType); decimal || l.Kind < Float {
		return bigOf(l, v).Cmp(bigOf(l, w))
	}
	return bytes.Compare(v, w)
}

// zeroed gives a zero the sign that a bound must have.
func zeroed(l *Leaf, v []byte, sign float64) []byte {
	if f, ok := floatOf(l, v); !ok || f != 0 {
		return v
	}
	if l.Kind == Float {
		return binary.LittleEndian.AppendUint32(nil, math.Float32bits(float32(math.Copysign(0, sign))))
	}
	return binary.LittleEndian.AppendUint64(nil, math.Float64bits(math.Copysign(0, sign)))
}

// icebergBound is a bound as a manifest has it, found the slow way.
func icebergBound(l *Leaf, v []byte, upper bool) []byte {
	if v == nil {
		return nil
	}
	switch l.Type.(type) {
	case iceberg.StringType:
		return slowText(string(v), upper)
	case iceberg.BinaryType:
		return slowBinary(v, upper)
	case iceberg.DecimalType:
		lit, err := iceberg.DecimalLiteral{Val: decimalNum(bigOf(l, v))}.MarshalBinary()
		if err != nil {
			panic(err)
		}
		return lit
	}
	if l.Width > prefixBytes {
		return nil
	}
	if upper {
		return zeroed(l, v, 1)
	}
	return zeroed(l, v, -1)
}

func slowText(s string, upper bool) []byte {
	runes := []rune(s)
	if len(runes) <= 16 {
		return []byte(s)
	}
	runes = runes[:16]
	if !upper {
		return []byte(string(runes))
	}
	for i := 15; i >= 0; i-- {
		for next := runes[i] + 1; next <= utf8.MaxRune; next++ {
			if utf8.ValidRune(next) {
				return []byte(string(runes[:i]) + string(next))
			}
		}
	}
	return nil
}

func slowBinary(v []byte, upper bool) []byte {
	if len(v) <= 16 {
		return v
	}
	v = bytes.Clone(v[:16])
	if !upper {
		return v
	}
	for i := 15; i >= 0; i-- {
		if v[i] < 255 {
			v[i]++
			return v[:i+1]
		}
	}
	return nil
}

// checkMetrics compares what a data file says with what is in want.
func checkMetrics(t testing.TB, f *File, want *Batch) {
	t.Helper()
	df, err := f.DataFile("mem://t/file.parquet", *iceberg.UnpartitionedSpec, nil)
	if err != nil {
		t.Fatal(err)
	}
	if df.Count() != int64(want.Rows) || df.FileSizeBytes() != int64(len(f.Body)) || df.FileFormat() != iceberg.ParquetFile {
		t.Fatalf("file of %d rows, %d bytes, %s", df.Count(), df.FileSizeBytes(), df.FileFormat())
	}
	if order := df.SortOrderID(); order == nil || *order != 0 {
		t.Fatalf("sort order %v", order)
	}
	var sizes int64
	for i := range want.Layout.Leaves {
		l := &want.Layout.Leaves[i]
		x := factsOf(l, &want.Columns[i])
		sizes += df.ColumnSizes()[l.ID]
		if df.ValueCounts()[l.ID] != x.entries || df.NullValueCounts()[l.ID] != x.nulls {
			t.Fatalf("%s: %d values, %d nulls; want %d, %d", l.Name, df.ValueCounts()[l.ID], df.NullValueCounts()[l.ID], x.entries, x.nulls)
		}
		nans, ok := df.NaNValueCounts()[l.ID]
		if isFloat := l.Kind == Float || l.Kind == Double; ok != isFloat || nans != x.nans {
			t.Fatalf("%s: %d NaNs (%t), want %d", l.Name, nans, ok, x.nans)
		}
		lower, upper := icebergBound(l, x.min, false), icebergBound(l, x.max, true)
		if l.MaxRep > 0 {
			lower, upper = nil, nil
		}
		checkBound(t, l, "lower", df.LowerBoundValues(), lower)
		checkBound(t, l, "upper", df.UpperBoundValues(), upper)
	}
	if want.Rows > 0 && (sizes <= 0 || sizes >= int64(len(f.Body)) || !reflect.DeepEqual(df.SplitOffsets(), []int64{4})) {
		t.Fatalf("columns of %d bytes in a file of %d, row groups at %d", sizes, len(f.Body), df.SplitOffsets())
	}
}

func checkBound(t testing.TB, l *Leaf, which string, bounds map[int][]byte, want []byte) {
	t.Helper()
	got, ok := bounds[l.ID]
	if ok != (want != nil) || !bytes.Equal(got, want) {
		t.Fatalf("%s (%s): %s bound %x (%t), want %x", l.Name, l.Type, which, got, ok, want)
	}
	if ok {
		if _, err := iceberg.LiteralFromBytes(l.Type, got); err != nil {
			t.Fatalf("%s (%s): %s bound %x: %v", l.Name, l.Type, which, got, err)
		}
	}
}

// fileOf writes one column of values into a file and returns both.
func fileOf(t testing.TB, typ iceberg.Type, pageBytes int, values ...any) (*File, *Batch) {
	t.Helper()
	layout, err := NewLayout(iceberg.NewSchema(0, iceberg.NestedField{ID: 7, Name: "v", Type: typ}))
	if err != nil {
		t.Fatal(err)
	}
	b := NewBatch(layout)
	c := &b.Columns[0]
	var rows []int32
	for i, v := range values {
		rows = append(rows, int32(i))
		b.Rows++
		c.Def = append(c.Def, 1)
		switch v := v.(type) {
		case nil:
			c.Def[i] = 0
		case int:
			c.Fixed = append(c.Fixed, int64(v))
		case float64:
			if layout.Leaves[0].Kind == Float {
				c.Fixed = append(c.Fixed, float32Bits(float32(v)))
			} else {
				c.Fixed = append(c.Fixed, float64Bits(v))
			}
		case string:
			c.Arena = append(c.Arena, v...)
			c.End = append(c.End, uint32(len(c.Arena)))
		default:
			t.Fatalf("value %T", v)
		}
	}
	e, err := NewEncoder(layout, EncoderOptions{Codec: "snappy", PageBytes: pageBytes})
	if err != nil {
		t.Fatal(err)
	}
	e.Append(b, rows)
	f, err := e.Finish()
	if err != nil {
		t.Fatal(err)
	}
	return f, b
}

func repeat(s string, n int) string { return string(bytes.Repeat([]byte(s), n)) }

// Bounds worked out by hand.
func TestBounds(t *testing.T) {
	p := iceberg.PrimitiveTypes
	none := "none"
	for _, test := range []struct {
		typ          iceberg.Type
		values       []any
		lower, upper string
	}{
		{p.Bool, []any{1, 1, nil}, "\x01", "\x01"},
		{p.Bool, []any{1, 0}, "\x00", "\x01"},
		{p.Int32, []any{5, -3, nil}, "\xfd\xff\xff\xff", "\x05\x00\x00\x00"},
		{p.Int64, []any{nil, math.MinInt64, math.MaxInt64}, "\x00\x00\x00\x00\x00\x00\x00\x80", "\xff\xff\xff\xff\xff\xff\xff\x7f"},
		{p.Date, []any{-1}, "\xff\xff\xff\xff", "\xff\xff\xff\xff"},
		{p.Int64, []any{nil, nil}, none, none},
		{p.Float64, []any{math.NaN(), math.NaN()}, none, none},
		{p.Float64, []any{math.NaN(), 0.0}, "\x00\x00\x00\x00\x00\x00\x00\x80", "\x00\x00\x00\x00\x00\x00\x00\x00"},
		{p.Float64, []any{math.Copysign(0, -1)}, "\x00\x00\x00\x00\x00\x00\x00\x80", "\x00\x00\x00\x00\x00\x00\x00\x00"},
		{p.Float32, []any{math.Inf(1), -1.5}, "\x00\x00\xc0\xbf", "\x00\x00\x80\x7f"},
		{iceberg.DecimalTypeOf(9, 2), []any{-5, 128}, "\xfb", "\x00\x80"},
		{iceberg.DecimalTypeOf(9, 2), []any{-128, -129, 127}, "\xff\x7f", "\x7f"},
		{iceberg.DecimalTypeOf(18, 2), []any{0}, "\x00", "\x00"},
		{iceberg.DecimalTypeOf(38, 10), []any{repeat("\xff", 15) + "\xfb", repeat("\x00", 15) + "\x01", repeat("\xff", 16)}, "\xfb", "\x01"},
		{iceberg.DecimalTypeOf(38, 10), []any{"\xff" + repeat("\x00", 15), "\xfe" + repeat("\xff", 15)}, "\xfe" + repeat("\xff", 15), "\xff" + repeat("\x00", 15)},
		{p.UUID, []any{"\x80" + repeat("a", 15), "\x7f" + repeat("b", 15)}, "\x7f" + repeat("b", 15), "\x80" + repeat("a", 15)},
		{iceberg.FixedTypeOf(3), []any{"\xff\x00\x01", "\x00\xff\xff"}, "\x00\xff\xff", "\xff\x00\x01"},
		{iceberg.FixedTypeOf(65), []any{repeat("a", 65)}, none, none},
		{p.String, []any{"", nil}, "", ""},
		{p.String, []any{"b", "a", "abc"}, "a", "b"},
		{p.String, []any{repeat("a", 16)}, repeat("a", 16), repeat("a", 16)},
		{p.String, []any{repeat("a", 17)}, repeat("a", 16), repeat("a", 15) + "b"},
		{p.String, []any{repeat("a", 15) + "\uD7FF" + "x"}, repeat("a", 15) + "\uD7FF", repeat("a", 15) + "\uE000"},
		{p.String, []any{repeat("\U0010FFFF", 20)}, repeat("\U0010FFFF", 16), none},
		{p.String, []any{"a" + repeat("\U0010FFFF", 20)}, "a" + repeat("\U0010FFFF", 15), "b"},
		{p.String, []any{repeat("é", 17)}, repeat("é", 16), repeat("é", 15) + "ê"},
		{p.String, []any{repeat("\U0001F600", 16)}, repeat("\U0001F600", 16), repeat("\U0001F600", 16)},
		{p.String, []any{repeat("\U0001F600", 16) + "a"}, repeat("\U0001F600", 16), repeat("\U0001F600", 15) + "\U0001F601"},
		{p.String, []any{repeat("z", 2<<20), "y"}, "y", repeat("z", 15) + "{"},
		{p.String, []any{"\x00", "\x00\x00"}, "\x00", "\x00\x00"},
		{p.String, []any{repeat("\xff", 20)}, none, none}, // no text: no bounds
		{p.Binary, []any{repeat("\xff", 20), "\x00"}, "\x00", none},
		{p.Binary, []any{"a" + repeat("\xff", 20)}, "a" + repeat("\xff", 15), "b"},
		{p.Binary, []any{repeat("\xff", 16)}, repeat("\xff", 16), repeat("\xff", 16)},
	} {
		for _, pageBytes := range []int{0, PageBytesMin} {
			f, _ := fileOf(t, test.typ, pageBytes, test.values...)
			for _, b := range []struct {
				name, want string
				bounds     map[int][]byte
			}{{"lower", test.lower, f.metrics.lower}, {"upper", test.upper, f.metrics.upper}} {
				got, ok := b.bounds[7]
				if ok != (b.want != none) || ok && string(got) != b.want {
					t.Errorf("%s %.60q: %s bound %q (%t), want %q", test.typ, test.values, b.name, got, ok, b.want)
				}
			}
		}
	}
}

// A value too large for bounds still counts, B084.
func TestMetricsOfLargeValues(t *testing.T) {
	f, want := fileOf(t, iceberg.PrimitiveTypes.String, 0, repeat("x", 2<<20), nil, repeat("y", 2<<20), nil, nil)
	checkMetrics(t, f, want)
	if f.metrics.nulls[7] != 3 || f.metrics.values[7] != 5 {
		t.Fatalf("%d nulls of %d", f.metrics.nulls[7], f.metrics.values[7])
	}
	for _, read := range []func(testing.TB, *Layout, []byte) []Column{readParquetGo, readArrow} {
		sameColumns(t, "reader", want.Layout, want.Columns, read(t, want.Layout, f.Body))
	}
}

// The greatest and least strings may come from different batches and pages;
// nothing of a batch is kept, B079.
func TestBoundsSurviveReuseOfBatch(t *testing.T) {
	layout, err := NewLayout(iceberg.NewSchema(0, iceberg.NestedField{ID: 1, Name: "s", Type: iceberg.PrimitiveTypes.String, Required: true}))
	if err != nil {
		t.Fatal(err)
	}
	e, err := NewEncoder(layout, EncoderOptions{Codec: "zstd", PageBytes: PageBytesMin})
	if err != nil {
		t.Fatal(err)
	}
	b := NewBatch(layout)
	for _, s := range []string{"m", "a", "z", "q"} {
		b.Reset()
		c := &b.Columns[0]
		for range 100 {
			c.Arena = append(c.Arena, s...)
			c.End = append(c.End, uint32(len(c.Arena)))
			b.Rows++
			e.Append(b, []int32{int32(b.Rows - 1)})
		}
	}
	f, err := e.Finish()
	if err != nil {
		t.Fatal(err)
	}
	if lower, upper := string(f.metrics.lower[1]), string(f.metrics.upper[1]); lower != "a" || upper != "z" {
		t.Fatalf("bounds %q to %q", lower, upper)
	}
}

// What is said of a random file is what a slow look at its values finds.
func TestMetricsRandomly(t *testing.T) {
	for seed := range uint64(60) {
		r := rand.New(rand.NewPCG(seed, 1))
		layout, err := NewLayout(randomSchema(r, 1+r.IntN(8), r.IntN(4)))
		if err != nil {
			t.Fatal(err)
		}
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
			e, err := NewEncoder(layout, EncoderOptions{Codec: "snappy", PageBytes: []int{0, PageBytesMin, 3000}[r.IntN(3)]})
			if err != nil {
				t.Fatal(err)
			}
			f, want := encodeRandomly(t, r, e, 1+r.IntN(4), []float64{1, 0.5, 0.01}[r.IntN(3)])
			checkMetrics(t, f, want)
			checkFooter(t, want, f.Body)
		})
	}
}
