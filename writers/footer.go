package writers

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/apache/iceberg-go"
)

// createdBy has the form that readers take apart to know whose mistakes to
// expect.
const createdBy = "icerouter version 0.1.0 (build 0)"

// magic begins and ends a Parquet file.
const magic = "PAR1"

// write puts the file together: magic, pages column by column, the page
// indexes, the footer, its length, magic.
func (e *Encoder) write() ([]byte, error) {
	if e.schema == nil {
		var err error
		if e.schema, err = json.Marshal(e.layout.Schema); err != nil {
			return nil, fmt.Errorf("write schema %d: %w", e.layout.Schema.ID, err)
		}
	}
	chunks := make([]chunk, len(e.columns))
	at := int64(len(magic))
	for i := range e.columns {
		chunks[i].at = at
		at += e.columns[i].stored
	}
	var tail compact
	for i := range e.columns {
		e.columns[i].index(&tail, &chunks[i], at)
	}
	for i := range e.columns {
		e.columns[i].offsets(&tail, &chunks[i], at)
	}
	footer := len(tail.to)
	e.footer(&tail, chunks)
	tail.to = binary.LittleEndian.AppendUint32(tail.to, uint32(len(tail.to)-footer))

	pieces := [][]byte{[]byte(magic)}
	for i := range e.columns {
		if p := &e.columns[i].dictionaryPage; p.stored > 0 {
			pieces = e.arena.pieces(pieces, p.at, int64(p.stored))
		}
		for k := range e.columns[i].pages {
			p := &e.columns[i].pages[k]
			pieces = e.arena.pieces(pieces, p.at, int64(p.stored))
		}
	}
	pieces = append(pieces, tail.to, []byte(magic))
	size := 0
	for _, piece := range pieces {
		size += len(piece)
	}
	body := newBody(size)
	for _, piece := range pieces {
		body = append(body, piece...)
	}
	if want := at + int64(len(tail.to)+len(magic)); int64(len(body)) != want {
		panic(fmt.Sprintf("file has %d bytes, its footer says %d", len(body), want))
	}
	return body, nil
}

// chunk is where a column lies in the file.
type chunk struct {
	at                         int64 // of its first page
	indexAt, offsetsAt         int64
	indexLength, offsetsLength int32 // 0: there is no such index
}

// index writes the column index: the bounds of every page. There is none
// where a page has values but no bounds. start is where tail goes in the file.
//
// Source: parquet-format PageIndex.md.
func (c *column) index(tail *compact, to *chunk, start int64) {
	for i := range c.pages {
		if p := &c.pages[i]; !p.some && p.nulls < p.entries {
			return
		}
	}
	if len(c.pages) == 0 {
		return
	}
	from := len(tail.to)
	tail.beginItem()
	tail.list(1, compactTrue, len(c.pages))
	for i := range c.pages {
		tail.itemBool(!c.pages[i].some)
	}
	tail.list(2, compactBinary, len(c.pages))
	for i := range c.pages {
		lower, _ := c.limitsOf(i)
		tail.itemBytes(lower)
	}
	tail.list(3, compactBinary, len(c.pages))
	for i := range c.pages {
		_, upper := c.limitsOf(i)
		tail.itemBytes(upper)
	}
	tail.i32(4, 0) // the bounds are in no order
	tail.list(5, compactI64, len(c.pages))
	for i := range c.pages {
		tail.itemInt(c.pages[i].nulls)
	}
	tail.end()
	to.indexAt, to.indexLength = start+int64(from), int32(len(tail.to)-from)
}

// offsets writes the offset index: where every page lies and begins.
func (c *column) offsets(tail *compact, to *chunk, start int64) {
	if len(c.pages) == 0 {
		return
	}
	from := len(tail.to)
	at := to.at + int64(c.dictionaryPage.stored)
	tail.beginItem()
	tail.list(1, compactStruct, len(c.pages))
	for i := range c.pages {
		p := &c.pages[i]
		tail.beginItem()
		tail.i64(1, at)
		tail.i32(2, p.stored)
		tail.i64(3, p.firstRow)
		tail.end()
		at += int64(p.stored)
	}
	tail.end()
	to.offsetsAt, to.offsetsLength = start+int64(from), int32(len(tail.to)-from)
}

// footer writes the file's metadata.
//
// Source: parquet.thrift, FileMetaData.
func (e *Encoder) footer(w *compact, chunks []chunk) {
	w.beginItem()
	w.i32(1, 2) // version: has logical types
	w.list(2, compactStruct, elements(e.layout.Root))
	e.layout.Root.elements(w)
	w.i64(3, e.rows)
	groups := 0
	if e.rows > 0 {
		groups = 1
	}
	w.list(4, compactStruct, groups)
	if groups > 0 {
		e.rowGroup(w, chunks)
	}
	w.list(5, compactStruct, 1+len(e.notes))
	w.beginItem()
	w.string(1, "iceberg.schema")
	w.bytes(2, e.schema)
	w.end()
	for _, n := range e.notes {
		w.beginItem()
		w.string(1, n.key)
		w.bytes(2, n.value)
		w.end()
	}
	w.string(6, createdBy)
	w.list(7, compactStruct, len(e.columns))
	for range e.columns {
		w.beginItem()
		w.begin(1) // the order that the type defines
		w.end()
		w.end()
	}
	w.end()
}

func (e *Encoder) rowGroup(w *compact, chunks []chunk) {
	var stored, raw int64
	w.beginItem()
	w.list(1, compactStruct, len(e.columns))
	for i := range e.columns {
		c, at := &e.columns[i], &chunks[i]
		stored, raw = stored+c.stored, raw+c.raw
		w.beginItem()
		w.i64(2, 0) // deprecated, and to be 0
		c.metadata(w, at, e.codec)
		if at.offsetsLength > 0 {
			w.i64(4, at.offsetsAt)
			w.i32(5, at.offsetsLength)
		}
		if at.indexLength > 0 {
			w.i64(6, at.indexAt)
			w.i32(7, at.indexLength)
		}
		w.end()
	}
	w.i64(2, raw)
	w.i64(3, e.rows)
	w.i64(5, int64(len(magic)))
	w.i64(6, stored)
	w.i16(7, 0)
	w.end()
}

// metadata writes a column chunk's ColumnMetaData.
func (c *column) metadata(w *compact, at *chunk, codec int32) {
	w.begin(3)
	w.i32(1, c.leaf.parquetType())
	dictionary := c.dictionaryPage.stored > 0
	if dictionary {
		w.list(2, compactI32, 3)
		w.itemInt(encodingDictionary)
	} else {
		w.list(2, compactI32, 2)
	}
	w.itemInt(encodingPlain)
	w.itemInt(encodingRLE)
	w.list(3, compactBinary, len(c.leaf.Path))
	for _, name := range c.leaf.Path {
		w.itemString(name)
	}
	w.i32(4, codec)
	w.i64(5, c.entries)
	w.i64(6, c.raw)
	w.i64(7, c.stored)
	w.i64(9, at.at+int64(c.dictionaryPage.stored))
	if dictionary {
		w.i64(11, at.at)
	}
	w.begin(12)
	w.i64(3, c.nulls)
	if l := c.total.parquet(c.leaf); l.lower != nil && l.upper != nil {
		w.bytes(5, l.upper)
		w.bytes(6, l.lower)
		w.bool(7, l.upperExact)
		w.bool(8, l.lowerExact)
	}
	w.end()
	c.encodings(w)
	w.end()
}

// encodings writes how many pages there are of each sort, from which readers
// learn whether the dictionary has all values.
func (c *column) encodings(w *compact) {
	sorts := [][3]int32{ // page type, encoding, pages
		{pageDictionary, encodingPlain, min(c.dictionaryPage.stored, 1)},
		{pageData, encodingDictionary, c.byEncoding[1]},
		{pageData, encodingPlain, c.byEncoding[0]},
	}
	sorts = slices.DeleteFunc(sorts, func(s [3]int32) bool { return s[2] == 0 })
	w.list(13, compactStruct, len(sorts))
	for _, s := range sorts {
		w.beginItem()
		w.i32(1, s[0])
		w.i32(2, s[1])
		w.i32(3, s[2])
		w.end()
	}
}

// parquetType returns the number of a leaf's physical type.
func (l *Leaf) parquetType() int32 {
	switch l.Kind {
	case Bool:
		return 0
	case Int32:
		return 1
	case Int64:
		return 2
	case Float:
		return 4
	case Double:
		return 5
	case Bytes:
		return 6
	}
	return 7
}

// Repetition types, converted types and logical types by their numbers.
// Source: parquet.thrift.
const (
	required, optional, repeated = 0, 1, 2

	convertedUTF8, convertedMap, convertedList, convertedDecimal = 0, 1, 3, 5
	convertedDate, convertedTime, convertedTimestamp             = 6, 8, 10 // microseconds

	logicalString, logicalMap, logicalList, logicalDecimal = 1, 2, 3, 5
	logicalDate, logicalTime, logicalTimestamp             = 6, 7, 8
	logicalUUID                                            = 14
)

// elements returns how many schema elements a node and those below it take.
func elements(n *Node) int {
	count := 1
	if n.Kind == List || n.Kind == Map {
		count++ // the repeated group
	}
	for _, child := range n.Children {
		count += elements(child)
	}
	return count
}

// elements writes the schema, depth first. Lists and maps have three levels.
//
// Source: parquet-format LogicalTypes.md; Iceberg spec, appendix A "Parquet".
func (n *Node) elements(w *compact) {
	root := n.Name == "" && n.ID == 0 && n.Kind == Struct
	w.beginItem()
	if n.Kind == Primitive {
		n.primitive(w)
		w.end()
		return
	}
	if root {
		w.string(4, "table")
	} else {
		n.repetition(w)
		w.string(4, n.Name)
	}
	switch n.Kind {
	case Struct:
		w.i32(5, int32(len(n.Children)))
	case List:
		w.i32(5, 1)
		w.i32(6, convertedList)
	case Map:
		w.i32(5, 1)
		w.i32(6, convertedMap)
	}
	if !root {
		w.i32(9, int32(n.ID))
	}
	switch n.Kind {
	case List:
		annotate(w, logicalList)
		w.end()
		n.group(w, "list")
	case Map:
		annotate(w, logicalMap)
		w.end()
		n.group(w, "key_value")
	default:
		w.end()
	}
	for _, child := range n.Children {
		child.elements(w)
	}
}

// group writes the repeated group in the middle of a list or map.
func (n *Node) group(w *compact, name string) {
	w.beginItem()
	w.i32(3, repeated)
	w.string(4, name)
	w.i32(5, int32(len(n.Children)))
	w.end()
}

func (n *Node) repetition(w *compact) {
	if n.Required {
		w.i32(3, required)
	} else {
		w.i32(3, optional)
	}
}

// annotate writes a logical type without parameters.
func annotate(w *compact, logical int16) {
	w.begin(10)
	w.begin(logical)
	w.end()
	w.end()
}

// primitive writes the schema element of a leaf. Converted types are written
// beside logical ones for readers of the older format, for local times too, as
// LogicalTypes.md demands.
func (n *Node) primitive(w *compact) {
	kind, width, _ := physical(n.Type)
	leaf := Leaf{Kind: kind}
	w.i32(1, leaf.parquetType())
	if kind == Fixed {
		w.i32(2, int32(width))
	}
	n.repetition(w)
	w.string(4, n.Name)
	id := func() { w.i32(9, int32(n.ID)) }
	annotated := func(converted int32, logical int16) {
		w.i32(6, converted)
		id()
		annotate(w, logical)
	}
	clock := func(converted int32, logical int16, utc bool) {
		w.i32(6, converted)
		id()
		w.begin(10)
		w.begin(logical)
		w.bool(1, utc)
		w.begin(2)
		w.begin(2) // microseconds
		w.end()
		w.end()
		w.end()
		w.end()
	}
	switch t := n.Type.(type) {
	case iceberg.StringType:
		annotated(convertedUTF8, logicalString)
	case iceberg.DateType:
		annotated(convertedDate, logicalDate)
	case iceberg.TimeType:
		clock(convertedTime, logicalTime, false)
	case iceberg.TimestampType:
		clock(convertedTimestamp, logicalTimestamp, false)
	case iceberg.TimestampTzType:
		clock(convertedTimestamp, logicalTimestamp, true)
	case iceberg.UUIDType:
		id()
		annotate(w, logicalUUID)
	case iceberg.DecimalType:
		w.i32(6, convertedDecimal)
		w.i32(7, int32(t.Scale()))
		w.i32(8, int32(t.Precision()))
		id()
		w.begin(10)
		w.begin(logicalDecimal)
		w.i32(1, int32(t.Scale()))
		w.i32(2, int32(t.Precision()))
		w.end()
		w.end()
	default:
		id()
	}
}
