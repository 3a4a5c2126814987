package writers

import (
	"bytes"
	"encoding/json"
	"hash/crc32"
	"math/big"
	"reflect"
	"slices"
	"testing"

	"github.com/apache/arrow-go/v18/arrow/decimal128"
	"github.com/apache/arrow-go/v18/parquet/file"
	"github.com/apache/iceberg-go"
	pq "github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/encoding/thrift"
	"github.com/parquet-go/parquet-go/format"
)

func decimalNum(v *big.Int) decimal128.Num { return decimal128.FromBigInt(v) }

// checkFooter compares the footer, the page headers and the page indexes of a
// file with what is in want.
func checkFooter(t testing.TB, want *Batch, body []byte) {
	t.Helper()
	f, err := pq.OpenFile(bytes.NewReader(body), int64(len(body)))
	if err != nil {
		t.Fatal(err)
	}
	checkColumn(t, want.Layout.Root, f.Root())
	md := f.Metadata()
	if md.NumRows != int64(want.Rows) || len(md.ColumnOrders) != len(want.Columns) {
		t.Fatalf("%d rows, %d column orders; want %d, %d", md.NumRows, len(md.ColumnOrders), want.Rows, len(want.Columns))
	}
	if text, _ := f.Lookup("iceberg.schema"); text != "" {
		var schema iceberg.Schema
		if err := json.Unmarshal([]byte(text), &schema); err != nil || !schema.Equals(want.Layout.Schema) {
			t.Fatalf("schema in the footer: %v, %s", err, text)
		}
	} else {
		t.Fatal("no schema in the footer")
	}
	if want.Rows == 0 {
		return
	}
	group := &md.RowGroups[0]
	columnIndexes, offsetIndexes, err := f.ReadPageIndex()
	if err != nil {
		t.Fatal(err)
	}
	at := int64(len(magic))
	for i := range want.Columns {
		m := &group.Columns[i].MetaData
		if m.DataPageOffset != at && m.DictionaryPageOffset != at {
			t.Fatalf("%s: at %d, want %d", want.Layout.Leaves[i].Name, m.DataPageOffset, at)
		}
		at += m.TotalCompressedSize
		checkChunk(t, want, i, m)
		index := &format.ColumnIndex{}
		if group.Columns[i].ColumnIndexLength > 0 {
			index = &columnIndexes[i]
		}
		checkPages(t, want, i, body, m, index, &offsetIndexes[i])
	}
	checkArrow(t, want, body)
}

// checkColumn compares a schema element and those below it with the layout.
func checkColumn(t testing.TB, n *Node, c *pq.Column) {
	t.Helper()
	if n.ID != 0 && (c.ID() != n.ID || c.Name() != n.Name || c.Required() != n.Required) {
		t.Fatalf("column %s (%d, required: %t), want %s (%d, required: %t)", c.Name(), c.ID(), c.Required(), n.Name, n.ID, n.Required)
	}
	children := c.Columns()
	if n.Kind == List || n.Kind == Map {
		if len(children) != 1 || !children[0].Repeated() {
			t.Fatalf("column %s: no repeated group", n.Name)
		}
		children = children[0].Columns()
	}
	if len(children) != len(n.Children) {
		t.Fatalf("column %s has %d children, want %d", n.Name, len(children), len(n.Children))
	}
	for i := range children {
		checkColumn(t, n.Children[i], children[i])
	}
}

// checkChunk compares the statistics of a column chunk with its values.
func checkChunk(t testing.TB, want *Batch, i int, m *format.ColumnMetaData) {
	t.Helper()
	l := &want.Layout.Leaves[i]
	x := factsOf(l, &want.Columns[i])
	s := &m.Statistics
	if m.NumValues != x.entries || s.NullCount != x.nulls || !slices.Equal([]string(m.PathInSchema), l.Path) {
		t.Fatalf("%s: %v: %d values, %d nulls; want %d, %d", l.Name, m.PathInSchema, m.NumValues, s.NullCount, x.entries, x.nulls)
	}
	checkLimits(t, l, &x, s.MinValue, s.MaxValue, s.MinValue != nil || s.MaxValue != nil)
}

// checkLimits fails where a page or chunk has a value beyond its bounds, or
// bounds that aren't values though they might be.
func checkLimits(t testing.TB, l *Leaf, x *facts, lower, upper []byte, some bool) {
	t.Helper()
	if x.min == nil || l.Width > prefixBytes {
		if some {
			t.Fatalf("%s: bounds %x to %x of no values", l.Name, lower, upper)
		}
		return
	}
	long := l.Kind == Bytes && (len(x.min) > prefixBytes || len(x.max) > prefixBytes)
	if !some {
		if !long {
			t.Fatalf("%s: no bounds of %x to %x", l.Name, x.min, x.max)
		}
		return
	}
	if long {
		if bytes.Compare(lower, x.min) > 0 || bytes.Compare(upper, x.max) < 0 || len(lower) > prefixBytes || len(upper) > prefixBytes {
			t.Fatalf("%s: bounds %x to %x of %x to %x", l.Name, lower, upper, x.min, x.max)
		}
		return
	}
	if !bytes.Equal(lower, zeroed(l, x.min, -1)) || !bytes.Equal(upper, zeroed(l, x.max, 1)) {
		t.Fatalf("%s: bounds %x to %x, want %x to %x", l.Name, lower, upper, x.min, x.max)
	}
}

// checkPages walks the pages of a chunk header by header and compares them with
// both indexes and with the values.
func checkPages(t testing.TB, want *Batch, i int, body []byte, m *format.ColumnMetaData, index *format.ColumnIndex, offsets *format.OffsetIndex) {
	t.Helper()
	l := &want.Layout.Leaves[i]
	from := m.DataPageOffset
	end := from + m.TotalCompressedSize
	if m.DictionaryPageOffset > 0 {
		end = m.DictionaryPageOffset + m.TotalCompressedSize
	}
	var entry, value, row int
	var raw int64
	if m.DictionaryPageOffset > 0 {
		h, size := pageHeader(t, body[m.DictionaryPageOffset:])
		raw += int64(size) + int64(h.UncompressedPageSize)
	}
	for page, loc := range offsets.PageLocations {
		h, size := pageHeader(t, body[from:])
		stored := body[from+int64(size) : from+int64(size)+int64(h.CompressedPageSize)]
		if h.CRC != int32(crc32.ChecksumIEEE(stored)) {
			t.Fatalf("%s: page %d: checksum", l.Name, page)
		}
		if loc.Offset != from || loc.CompressedPageSize != int32(size)+h.CompressedPageSize || loc.FirstRowIndex != int64(row) {
			t.Fatalf("%s: page %d at %d, %d bytes, row %d; the index says %+v", l.Name, page, from, h.CompressedPageSize, row, loc)
		}
		part := cutColumn(l, &want.Columns[i], entry, value, int(h.DataPageHeader.V.NumValues))
		x := factsOf(l, part)
		if len(index.NullPages) > 0 {
			if index.NullPages[page] != (x.entries == x.nulls) || index.NullCounts[page] != x.nulls {
				t.Fatalf("%s: page %d: null page %t, %d nulls; want %d of %d", l.Name, page, index.NullPages[page], index.NullCounts[page], x.nulls, x.entries)
			}
			checkLimits(t, l, &x, index.MinValues[page], index.MaxValues[page], !index.NullPages[page])
		}
		entry, value, row = entry+int(x.entries), value+int(x.entries-x.nulls), row+rowsIn(l, part)
		from += int64(size) + int64(h.CompressedPageSize)
		raw += int64(size) + int64(h.UncompressedPageSize)
	}
	if row != want.Rows || from != end || raw != m.TotalUncompressedSize {
		t.Fatalf("%s: pages end at row %d, byte %d, %d before compression; want %d, %d, %d", l.Name, row, from, raw, want.Rows, end, m.TotalUncompressedSize)
	}
}

func pageHeader(t testing.TB, b []byte) (h format.PageHeader, size int) {
	t.Helper()
	r := bytes.NewReader(b)
	if err := thrift.NewDecoder(new(thrift.CompactProtocol).NewReader(r)).Decode(&h); err != nil {
		t.Fatal(err)
	}
	return h, len(b) - r.Len()
}

// cutColumn returns n entries of a column and their values.
func cutColumn(l *Leaf, c *Column, entry, value, n int) *Column {
	part := &Column{}
	values := n
	if l.MaxDef > 0 {
		part.Def = c.Def[entry : entry+n]
		values = bytes.Count(part.Def, []byte{l.MaxDef})
	}
	if l.MaxRep > 0 {
		part.Rep = c.Rep[entry : entry+n]
	}
	if l.Kind != Bytes && l.Kind != Fixed {
		part.Fixed = c.Fixed[value : value+values]
		return part
	}
	for i := range values {
		part.Arena = append(part.Arena, c.Bytes(value+i)...)
		part.End = append(part.End, uint32(len(part.Arena)))
	}
	return part
}

func rowsIn(l *Leaf, c *Column) int {
	switch {
	case l.MaxRep > 0:
		return bytes.Count(c.Rep, []byte{0})
	case l.MaxDef > 0:
		return len(c.Def)
	}
	return c.Values(l.Kind)
}

// checkArrow compares what another reader finds in the footer.
func checkArrow(t testing.TB, want *Batch, body []byte) {
	t.Helper()
	r, err := file.NewParquetReader(bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	for i := range want.Layout.Leaves {
		l := &want.Layout.Leaves[i]
		c := r.MetaData().Schema.Column(i)
		if c.SchemaNode().FieldID() != int32(l.ID) || !reflect.DeepEqual([]string(c.ColumnPath()), l.Path) ||
			c.MaxDefinitionLevel() != int16(l.MaxDef) || c.MaxRepetitionLevel() != int16(l.MaxRep) {
			t.Fatalf("arrow-go: column %s (%d), levels %d and %d; want %+v", c.ColumnPath(), c.SchemaNode().FieldID(), c.MaxDefinitionLevel(), c.MaxRepetitionLevel(), l)
		}
		chunk, err := r.MetaData().RowGroup(0).ColumnChunk(i)
		if err != nil {
			t.Fatal(err)
		}
		s, err := chunk.Statistics()
		if err != nil {
			t.Fatalf("arrow-go: %s: statistics: %v", l.Name, err)
		}
		if x := factsOf(l, &want.Columns[i]); s.NullCount() != x.nulls {
			t.Fatalf("arrow-go: %s: %d nulls, want %d", l.Name, s.NullCount(), x.nulls)
		}
	}
}
