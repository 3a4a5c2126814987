package writers

import (
	"bytes"
	"encoding/binary"
	"strings"
	"testing"

	"github.com/apache/iceberg-go"
	"github.com/pierrec/lz4/v4"
)

// rawFile is a Parquet file put together by hand, for forms that no writer at
// hand makes.
type rawFile struct {
	elements []rawElement
	chunks   []rawChunk
	rows     int64
}

type rawElement struct {
	name                                             string
	physical, width, repetition, children, converted int32
	isLeaf, isAnnotated, isDecimal                   bool
	scale, precision, id                             int32
	logical                                          int16
}

type rawChunk struct {
	physical, codec int32
	values          int64
	pages           []byte
}

func rawLeaf(name string, physical, repetition int32) rawElement {
	return rawElement{name: name, physical: physical, repetition: repetition, isLeaf: true, id: -1}
}

func rawGroup(name string, repetition, children int32) rawElement {
	return rawElement{name: name, repetition: repetition, children: children, id: -1}
}

func (e rawElement) as(converted int32) rawElement {
	e.converted, e.isAnnotated = converted, true
	return e
}

func (e rawElement) with(id int32) rawElement {
	e.id = id
	return e
}

// rawPage is a data page of version 1.
func rawPage(values int32, encoding int32, raw int, body []byte) []byte {
	var w compact
	w.beginItem()
	w.i32(1, pageData)
	w.i32(2, int32(raw))
	w.i32(3, int32(len(body)))
	w.begin(5)
	w.i32(1, values)
	w.i32(2, encoding)
	w.i32(3, encodingRLE)
	w.i32(4, encodingRLE)
	w.end()
	w.end()
	return append(w.to, body...)
}

// rawLevels are levels and then values.
func rawBody(values []byte, levels ...[]uint8) []byte {
	var body []byte
	for _, l := range levels {
		most := uint8(0)
		for _, v := range l[1:] {
			most = max(most, v)
		}
		body = appendLevels(body, l[1:], l[0]) // the first says the highest
	}
	return append(body, values...)
}

func plainInts(v ...int32) []byte {
	var b []byte
	for _, n := range v {
		b = binary.LittleEndian.AppendUint32(b, uint32(n))
	}
	return b
}

func plainTexts(v ...string) []byte {
	var b []byte
	for _, s := range v {
		b = append(binary.LittleEndian.AppendUint32(b, uint32(len(s))), s...)
	}
	return b
}

func (f rawFile) bytes() []byte {
	body := []byte(magic)
	var at []int64
	for _, c := range f.chunks {
		at = append(at, int64(len(body)))
		body = append(body, c.pages...)
	}
	var w compact
	w.beginItem()
	w.i32(1, 1)
	w.list(2, compactStruct, len(f.elements))
	for _, e := range f.elements {
		w.beginItem()
		if e.isLeaf {
			w.i32(1, e.physical)
		}
		if e.width > 0 {
			w.i32(2, e.width)
		}
		w.i32(3, e.repetition)
		w.string(4, e.name)
		if !e.isLeaf {
			w.i32(5, e.children)
		}
		if e.isAnnotated {
			w.i32(6, e.converted)
		}
		if e.isDecimal {
			w.i32(7, e.scale)
			w.i32(8, e.precision)
		}
		if e.id >= 0 {
			w.i32(9, e.id)
		}
		w.end()
	}
	w.i64(3, f.rows)
	w.list(4, compactStruct, 1)
	w.beginItem()
	w.list(1, compactStruct, len(f.chunks))
	for i, c := range f.chunks {
		w.beginItem()
		w.i64(2, at[i])
		w.begin(3)
		w.i32(1, c.physical)
		w.i32(4, c.codec)
		w.i64(5, c.values)
		w.i64(6, int64(len(c.pages)))
		w.i64(7, int64(len(c.pages)))
		w.i64(9, at[i])
		w.end()
		w.end()
	}
	w.i64(2, 0)
	w.i64(3, f.rows)
	w.end()
	w.end()
	body = append(body, w.to...)
	body = binary.LittleEndian.AppendUint32(body, uint32(len(w.to)))
	return append(body, magic...)
}

func (f rawFile) input() ScanInput {
	body := f.bytes()
	return ScanInput{Name: "raw.parquet", Object: bytes.NewReader(body), Size: int64(len(body))}
}

func wantRows(t testing.TB, schema *iceberg.Schema, o ScanOptions, in ScanInput, want ...string) {
	t.Helper()
	got := string(bytes.Join(scanJSON(t, schema, o, in), []byte("\n")))
	if w := strings.Join(want, "\n"); got != w {
		t.Errorf("got\n%s\nwant\n%s", got, w)
	}
}

// wantRefusal fails the test unless the file is refused with all of parts.
func wantRefusal(t testing.TB, schema *iceberg.Schema, o ScanOptions, in ScanInput, parts ...string) {
	t.Helper()
	s, err := NewScan(schema, o)
	if err == nil {
		_, err = scanAll(s, in)
	}
	if err == nil {
		t.Errorf("read, instead of %q", parts)
		return
	}
	for _, p := range append(parts, in.Name) {
		if !strings.Contains(err.Error(), p) {
			t.Errorf("error %q does not say %q", err, p)
		}
	}
}

func id(i int) *int { return &i }

func intList() *iceberg.Schema {
	return iceberg.NewSchema(0, iceberg.NestedField{ID: 1, Name: "a", Type: &iceberg.ListType{ElementID: 2, Element: iceberg.PrimitiveTypes.Int32}})
}

// Lists in the forms of older writers, without field ids, and rows that lie
// across pages.
func TestScanLegacyLists(t *testing.T) {
	mapping := ScanOptions{NameMapping: iceberg.NameMapping{{Names: []string{"was", "a"}, FieldID: id(1), Fields: []iceberg.MappedField{{Names: []string{"element"}, FieldID: id(2)}}}}}
	rows := []string{`{"a":[1,2]}`, `{"a":null}`, `{"a":[]}`, `{"a":[3,4,5]}`}
	two := rawFile{
		elements: []rawElement{rawGroup("root", required, 1), rawGroup("a", optional, 1).as(convertedList), rawLeaf("array", physicalInt32, repeated)},
		rows:     4,
	}
	// The list of the last row goes on in two more pages.
	two.chunks = []rawChunk{{physical: physicalInt32, values: 7, pages: bytes.Join([][]byte{
		rawPage(5, encodingPlain, 0, nil), nil}, nil)}}
	page := func(n int32, rep, def []uint8, values ...int32) []byte {
		body := rawBody(plainInts(values...), append([]uint8{1}, rep...), append([]uint8{2}, def...))
		return rawPage(n, encodingPlain, len(body), body)
	}
	pages := bytes.Join([][]byte{
		page(5, []uint8{0, 1, 0, 0, 0}, []uint8{2, 2, 0, 1, 2}, 1, 2, 3),
		page(1, []uint8{1}, []uint8{2}, 4),
		page(1, []uint8{1}, []uint8{2}, 5),
	}, nil)
	two.chunks[0].pages = pages
	wantRows(t, intList(), mapping, two.input(), rows...)

	renamed := two
	renamed.elements = []rawElement{rawGroup("root", required, 1), rawGroup("was", optional, 1).as(convertedList), rawLeaf("array", physicalInt32, repeated)}
	wantRows(t, intList(), mapping, renamed.input(), rows...)

	ids := two
	ids.elements = []rawElement{rawGroup("root", required, 1), rawGroup("x", optional, 1).as(convertedList).with(1), rawLeaf("y", physicalInt32, repeated).with(2)}
	wantRows(t, intList(), ScanOptions{}, ids.input(), rows...)

	three := two
	three.elements = []rawElement{rawGroup("root", required, 1), rawGroup("a", optional, 1).as(convertedList), rawGroup("bag", repeated, 1), rawLeaf("array_element", physicalInt32, required)}
	wantRows(t, intList(), mapping, three.input(), rows...)

	bare := rawFile{elements: []rawElement{rawGroup("root", required, 1), rawLeaf("a", physicalInt32, repeated)}, rows: 2}
	body := rawBody(plainInts(7, 8), []uint8{1, 0, 1, 0}, []uint8{1, 1, 1, 0})
	bare.chunks = []rawChunk{{physical: physicalInt32, values: 3, pages: rawPage(3, encodingPlain, len(body), body)}}
	wantRows(t, intList(), mapping, bare.input(), `{"a":[7,8]}`, `{"a":[]}`)

	wantRefusal(t, intList(), ScanOptions{}, two.input(), "no field ids", "schema.name-mapping.default")
}

// A list of two levels whose element is a struct of one field, told by its name.
func TestScanLegacyTuple(t *testing.T) {
	schema := iceberg.NewSchema(0, iceberg.NestedField{ID: 1, Name: "a", Type: &iceberg.ListType{ElementID: 2, Element: &iceberg.StructType{
		FieldList: []iceberg.NestedField{{ID: 3, Name: "s", Type: iceberg.PrimitiveTypes.String}}}}})
	body := rawBody(plainTexts("x", "y"), []uint8{1, 0, 1, 0}, []uint8{2, 2, 2, 1})
	f := rawFile{rows: 2, elements: []rawElement{
		rawGroup("root", required, 1), rawGroup("a", required, 1).as(convertedList).with(1), rawGroup("a_tuple", repeated, 1).with(2), rawLeaf("s", physicalBytes, optional).with(3)},
		chunks: []rawChunk{{physical: physicalBytes, values: 3, pages: rawPage(3, encodingPlain, len(body), body)}}}
	wantRows(t, schema, ScanOptions{}, f.input(), `{"a":[{"s":"x"},{"s":"y"}]}`, `{"a":[{"s":null}]}`)
}

// Types of other writers: milliseconds, unsigned numbers, decimals as bytes.
func TestScanForeignTypes(t *testing.T) {
	one := func(e rawElement, values []byte) rawFile {
		return rawFile{rows: 2, elements: []rawElement{rawGroup("root", required, 1), e.with(1)},
			chunks: []rawChunk{{physical: e.physical, values: 2, pages: rawPage(2, encodingPlain, len(values), values)}}}
	}
	column := func(t iceberg.Type) *iceberg.Schema {
		return iceberg.NewSchema(0, iceberg.NestedField{ID: 1, Name: "v", Type: t, Required: true})
	}
	longs := func(v ...int64) []byte {
		var b []byte
		for _, n := range v {
			b = binary.LittleEndian.AppendUint64(b, uint64(n))
		}
		return b
	}
	p := iceberg.PrimitiveTypes
	money := func(e rawElement) rawElement {
		e.scale, e.precision, e.isDecimal = 2, 9, true
		return e.as(convertedDecimal)
	}
	fixed := rawLeaf("v", physicalFixed, required)
	fixed.width = 3
	wantRows(t, column(p.TimestampTz), ScanOptions{}, one(rawLeaf("v", physicalInt64, required).as(convertedStampMillis), longs(-1, 1_700_000_000_123)).input(),
		`{"v":"1969-12-31T23:59:59.999Z"}`, `{"v":"2023-11-14T22:13:20.123Z"}`)
	wantRows(t, column(p.Time), ScanOptions{}, one(rawLeaf("v", physicalInt32, required).as(convertedTimeMillis), plainInts(0, 86_399_999)).input(),
		`{"v":"00:00:00"}`, `{"v":"23:59:59.999"}`)
	wantRows(t, column(p.Int64), ScanOptions{}, one(rawLeaf("v", physicalInt32, required).as(convertedUint32), plainInts(-1, 5)).input(), `{"v":4294967295}`, `{"v":5}`)
	wantRows(t, column(p.Timestamp), ScanOptions{}, one(rawLeaf("v", physicalInt32, required).as(convertedDate), plainInts(-1, 1)).input(),
		`{"v":"1969-12-31T00:00:00"}`, `{"v":"1970-01-02T00:00:00"}`)
	wantRows(t, column(iceberg.DecimalTypeOf(12, 2)), ScanOptions{}, one(money(rawLeaf("v", physicalInt32, required)), plainInts(-5, 100)).input(), `{"v":-0.05}`, `{"v":1.00}`)
	wantRows(t, column(iceberg.DecimalTypeOf(9, 2)), ScanOptions{}, one(money(fixed), []byte{0xff, 0xff, 0xfb, 0, 1, 0}).input(), `{"v":-0.05}`, `{"v":2.56}`)
	wantRows(t, column(iceberg.DecimalTypeOf(9, 2)), ScanOptions{Numbers: "string"}, one(money(rawLeaf("v", physicalBytes, required)), plainTexts("\x80", "\x00\xff")).input(), `{"v":"-1.28"}`, `{"v":"2.55"}`)
	wantRefusal(t, column(iceberg.DecimalTypeOf(9, 3)), ScanOptions{}, one(money(rawLeaf("v", physicalInt32, required)), plainInts(1, 2)).input(), `column "v"`, "DECIMAL", "decimal(9, 3)")
	wantRefusal(t, column(p.Int32), ScanOptions{}, one(rawLeaf("v", physicalInt64, required), longs(1, 2)).input(), `column "v"`, "INT64")
	wantRefusal(t, column(p.String), ScanOptions{}, one(rawLeaf("v", physicalBytes, required), plainTexts("ok", "\xff\xfe")).input(), `column "v"`, "row 1", "UTF-8")
	wantRefusal(t, column(p.Time), ScanOptions{}, one(rawLeaf("v", physicalInt64, required), longs(0, microsPerDay)).input(), `column "v"`, "row 1", "within a day")
}

// The older LZ4 codec, as Hadoop frames it and bare.
func TestScanLZ4Hadoop(t *testing.T) {
	schema := iceberg.NewSchema(0, iceberg.NestedField{ID: 1, Name: "v", Type: iceberg.PrimitiveTypes.String, Required: true})
	text := strings.Repeat("abc", 100)
	plain := plainTexts(text, text)
	block := make([]byte, lz4.CompressBlockBound(len(plain)))
	n, err := lz4.CompressBlock(plain, block, nil)
	if err != nil || n == 0 {
		t.Fatal(n, err)
	}
	framed := binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(nil, uint32(len(plain))), uint32(n))
	for _, body := range [][]byte{block[:n], append(framed, block[:n]...)} {
		f := rawFile{rows: 2, elements: []rawElement{rawGroup("root", required, 1), rawLeaf("v", physicalBytes, required).with(1)},
			chunks: []rawChunk{{physical: physicalBytes, codec: codecLZ4, values: 2, pages: rawPage(2, encodingPlain, len(plain), body)}}}
		wantRows(t, schema, ScanOptions{}, f.input(), `{"v":"`+text+`"}`, `{"v":"`+text+`"}`)
	}
	f := rawFile{rows: 2, elements: []rawElement{rawGroup("root", required, 1), rawLeaf("v", physicalBytes, required).with(1)},
		chunks: []rawChunk{{physical: physicalBytes, codec: codecLZO, values: 2, pages: rawPage(2, encodingPlain, len(plain), plain)}}}
	wantRefusal(t, schema, ScanOptions{}, f.input(), `column "v"`, "LZO")
}
