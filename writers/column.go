package writers

import (
	"bytes"
	"encoding/binary"
	"math/bits"
)

// column is one leaf of an open file: its open page and what its closed pages
// add up to.
type column struct {
	leaf *Leaf
	room int // bytes kept free at the start of values, for levels

	def, rep   []uint8 // levels of the open page
	values     []byte  // room, then PLAIN values of the open page; of kind Bool a byte each
	openRows   int
	openValues int

	dictionary *dictionary // of the closed pages; nil: none
	plainOnly  bool        // further pages get on without

	dictionaryPage page     // of the finished file; stored 0: none
	byEncoding     [2]int32 // how many pages are PLAIN and RLE_DICTIONARY
	pages          []page
	limits         []byte // bounds of the pages, end to end
	rows           int64  // of the closed pages, like all below
	entries        int64  // values and nulls
	nulls          int64
	stored         int64 // bytes as in the file, with headers
	raw            int64 // bytes before compression, with headers
	total          bounds
}

// levelRoomBytes takes the levels of a page without nulls: a length of four
// bytes, a run of at most five, a level.
const levelRoomBytes = 16

// chunkRows bounds the rows that are copied at a time, so that the places of
// their values fit on the stack.
const chunkRows = 256

// appendFlat scatters rows of a column outside of lists and maps.
func (e *Encoder) appendFlat(c *column, src *Column, rows []int32, rank *rank) {
	if c.leaf.Kind == Bytes {
		e.appendFlatBytes(c, src, rows, rank)
		return
	}
	var scratch [chunkRows]int32
	width := c.leaf.bytesEach()
	each := width + c.levelBytes()
	for len(rows) > 0 {
		n := (e.pageBytes - c.openBytes()) / each
		if n <= 0 && c.openRows > 0 {
			e.closePage(c)
			continue
		}
		n = min(max(n, 1), len(rows), chunkRows)
		places := rows[:n]
		if !rank.dense {
			places = rank.places(rows[:n], &scratch)
		}
		if c.leaf.MaxDef > 0 {
			e.appendDef(c, src, rows[:n])
		}
		if len(places) > 0 {
			c.leaf.scatter(e.extend(c, len(places)*width), src, places)
		}
		c.openRows += n
		c.openValues += len(places)
		rows = rows[n:]
	}
}

// appendFlatBytes is appendFlat for byte strings, whose lengths decide row by
// row where a page ends.
func (e *Encoder) appendFlatBytes(c *column, src *Column, rows []int32, rank *rank) {
	levels := c.levelBytes()
	first := 0 // of the rows whose levels aren't in the page yet
	used := c.openBytes()
	for i, row := range rows {
		place, there := row, true
		if !rank.dense {
			place, there = rank.of(row)
		}
		var from, end, size uint32
		if there {
			if end = src.End[place]; place > 0 {
				from = src.End[place-1]
			}
			size = 4 + end - from
		}
		if used += levels + int(size); used > e.pageBytes && c.openRows+i-first > 0 {
			e.appendDef(c, src, rows[first:i])
			c.openRows += i - first
			e.closePage(c)
			first, used = i, c.openBytes()+levels+int(size)
		}
		if there {
			if at := len(c.values); at > 0 && at+int(size) <= cap(c.values) {
				c.values = c.values[:at+int(size)]
				binary.LittleEndian.PutUint32(c.values[at:], size-4)
				copy(c.values[at+4:], src.Arena[from:end])
			} else {
				to := e.extend(c, int(size))
				binary.LittleEndian.PutUint32(to, size-4)
				copy(to[4:], src.Arena[from:end])
			}
			c.openValues++
		}
	}
	e.appendDef(c, src, rows[first:])
	c.openRows += len(rows) - first
}

// appendDef copies the definition levels of rows.
func (e *Encoder) appendDef(c *column, src *Column, rows []int32) {
	if c.leaf.MaxDef == 0 || len(rows) == 0 {
		return
	}
	c.def = e.grow(c.def, len(rows))
	levels := c.def[len(c.def)-len(rows):]
	for i, row := range rows {
		levels[i] = src.Def[row]
	}
}

// levelBytes returns the bytes of an entry's levels in an open page.
func (c *column) levelBytes() int {
	return min(int(c.leaf.MaxDef), 1) + min(int(c.leaf.MaxRep), 1)
}

// openBytes returns the size of the open page, which must stay below the limit.
func (c *column) openBytes() int {
	return len(c.def) + len(c.rep) + max(len(c.values), c.room)
}

// rank finds the place of a row's value among values that are dense. It is
// fast for ascending rows, and for any after tabulate.
type rank struct {
	def   []uint8
	max   uint8
	dense bool    // every row has a value, at its own place
	table []int32 // the place of every row's value, if not nil
	row   int32
	value int32 // how many values the rows before row have
}

// tabulate finds the places of all rows at once and keeps them in table.
func (r *rank) tabulate(table *placeTable) {
	if cap(*table) < len(r.def) {
		*table = make(placeTable, len(r.def))
	}
	r.table = (*table)[:len(r.def)]
	value := int32(0)
	for row, def := range r.def {
		r.table[row] = value
		value -= (int32(def^r.max) - 1) >> 31 // one more where they are equal
	}
}

// of returns the place of row's value and whether it has one.
func (r *rank) of(row int32) (place int32, there bool) {
	if r.table != nil {
		return r.table[row], r.def[row] == r.max
	}
	if row < r.row {
		r.row, r.value = 0, 0
	}
	if r.max > 1 {
		r.value += int32(bytes.Count(r.def[r.row:row], []byte{r.max}))
	} else {
		r.value += int32(countOnes(r.def, int(r.row), int(row)))
	}
	r.row = row
	return r.value, r.def[row] == r.max
}

// places returns where the values of rows are, as far as they have any.
func (r *rank) places(rows []int32, scratch *[chunkRows]int32) []int32 {
	n := 0
	for _, row := range rows {
		place, there := r.of(row)
		scratch[n] = place
		if there {
			n++
		}
	}
	return scratch[:n]
}

// countOnes counts the ones among levels of 0 and 1 from one place to another.
func countOnes(levels []uint8, from, to int) (n int) {
	for ; from+8 <= to; from += 8 {
		n += bits.OnesCount64(binary.LittleEndian.Uint64(levels[from:]))
	}
	if from == to {
		return n
	}
	if from+8 <= len(levels) {
		return n + bits.OnesCount64(binary.LittleEndian.Uint64(levels[from:])<<(64-8*(to-from)))
	}
	for _, level := range levels[from:to] {
		n += int(level)
	}
	return n
}

// bytesEach returns the bytes of a value in an open page; 0: they differ.
func (l *Leaf) bytesEach() int {
	switch l.Kind {
	case Bool:
		return 1
	case Int32, Float:
		return 4
	case Int64, Double:
		return 8
	case Fixed:
		return l.Width
	}
	return 0
}

// scatter writes the values at the given places of src, which have one width,
// to to.
func (l *Leaf) scatter(to []byte, src *Column, places []int32) {
	switch l.Kind {
	case Bool:
		for k, i := range places {
			to[k] = byte(src.Fixed[i])
		}
	case Int32, Float:
		for k, i := range places {
			binary.LittleEndian.PutUint32(to[k*4:], uint32(src.Fixed[i]))
		}
	case Int64, Double:
		for k, i := range places {
			binary.LittleEndian.PutUint64(to[k*8:], uint64(src.Fixed[i]))
		}
	case Fixed:
		for _, i := range places {
			to = to[copy(to, src.Arena[int(i)*l.Width:][:l.Width]):]
		}
	}
}

// appendNested copies rows of a column inside a list or map: neighbours
// together, for their entries and values lie together.
func (e *Encoder) appendNested(c *column, src *Column, rows []int32) {
	for len(rows) > 0 {
		n := c.fitNested(src, rows, e.pageBytes)
		if n == 0 {
			e.closePage(c)
			continue
		}
		first, end := rows[0], rows[0]+int32(n)
		def, rep := src.Def[src.Entry[first]:src.Entry[end]], src.Rep[src.Entry[first]:src.Entry[end]]
		c.def = e.grow(c.def, len(def))
		copy(c.def[len(c.def)-len(def):], def)
		c.rep = e.grow(c.rep, len(rep))
		copy(c.rep[len(c.rep)-len(rep):], rep)
		e.transfer(c, src, int(src.Value[first]), int(src.Value[end]))
		c.openRows += n
		rows = rows[n:]
	}
}

// fitNested returns how many of rows, from the first one on, follow each other
// in src and fit into the open page. An empty page takes at least one row,
// however large.
func (c *column) fitNested(src *Column, rows []int32, pageBytes int) (n int) {
	first := rows[0]
	entry, value := src.Entry[first], src.Value[first]
	left := pageBytes - c.openBytes()
	width := c.leaf.bytesEach()
	for n < len(rows) && rows[n] == first+int32(n) {
		end := src.Value[rows[n]+1]
		size := 2*int(src.Entry[rows[n]+1]-entry) + int(end-value)*width
		if width == 0 {
			size += 4*int(end-value) + src.span(value, end)
		}
		if size > left && c.openRows+n > 0 {
			break
		}
		n++
	}
	return n
}

// span returns the bytes of the values of kind Bytes from one place to another.
func (c *Column) span(from, to uint32) int {
	switch {
	case from == to:
		return 0
	case from == 0:
		return int(c.End[to-1])
	}
	return int(c.End[to-1] - c.End[from-1])
}

// transfer appends the values of src from one place to another to the open page.
func (e *Encoder) transfer(c *column, src *Column, from, end int) {
	c.openValues += end - from
	if from == end {
		return
	}
	width := c.leaf.bytesEach()
	if width == 0 {
		to := e.extend(c, 4*(end-from)+src.span(uint32(from), uint32(end)))
		at := uint32(0)
		if from > 0 {
			at = src.End[from-1]
		}
		for _, ends := range src.End[from:end] {
			binary.LittleEndian.PutUint32(to, ends-at)
			to = to[4+copy(to[4:], src.Arena[at:ends]):]
			at = ends
		}
		return
	}
	to := e.extend(c, (end-from)*width)
	switch c.leaf.Kind {
	case Bool:
		for i, v := range src.Fixed[from:end] {
			to[i] = byte(v)
		}
	case Int32, Float:
		for i, v := range src.Fixed[from:end] {
			binary.LittleEndian.PutUint32(to[i*4:], uint32(v))
		}
	case Int64, Double:
		for i, v := range src.Fixed[from:end] {
			binary.LittleEndian.PutUint64(to[i*8:], uint64(v))
		}
	case Fixed:
		copy(to, src.Arena[from*width:end*width])
	}
}

// extend makes the open page's values longer by n bytes and returns these.
func (e *Encoder) extend(c *column, n int) []byte {
	if len(c.values) == 0 {
		n += c.room
	}
	c.values = e.grow(c.values, n)
	return c.values[max(len(c.values)-n, c.room):]
}

// grow returns b with a length of n more bytes, whose contents are arbitrary,
// in a larger buffer where need be.
func (e *Encoder) grow(b []byte, n int) []byte {
	if len(b)+n <= cap(b) {
		return b[:len(b)+n]
	}
	larger := newBuffer(len(b) + n)[:len(b)+n]
	copy(larger, b)
	e.open += int64(cap(larger) - cap(b))
	freeBuffer(b)
	return larger
}

// empty begins a new page in the buffers of the one just closed. Buffers that
// one huge row has blown up are given back.
func (e *Encoder) empty(c *column) {
	for _, b := range []*[]byte{&c.def, &c.rep, &c.values} {
		if cap(*b) > 2*e.pageBytes {
			e.open -= int64(cap(*b))
			freeBuffer(*b)
			*b = nil
		}
		*b = (*b)[:0]
	}
	c.openRows, c.openValues = 0, 0
}
