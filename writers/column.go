package writers

import (
	"bytes"
	"encoding/binary"
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

	pages   []page
	limits  []byte // bounds of the pages, end to end
	rows    int64  // of the closed pages, like all below
	entries int64  // values and nulls
	nulls   int64
	stored  int64 // bytes as in the file, with headers
	raw     int64 // bytes before compression, with headers
	total   bounds
}

// levelRoomBytes takes the levels of a page without nulls: a length of four
// bytes, a run of at most five, a level.
const levelRoomBytes = 16

// chunkRows bounds the rows that are looked at before they are copied, so that
// the places of their values fit on the stack.
const chunkRows = 256

// appendFlat scatters rows of a column outside of lists and maps. batchRows
// are all rows of the batch.
func (e *Encoder) appendFlat(c *column, src *Column, rows []int32, batchRows int) {
	var at [chunkRows]uint32 // where the chunk's values are in src
	rank := rank{dense: src.Values(c.leaf.Kind) == batchRows}
	for len(rows) > 0 {
		n, values := c.fit(src, rows, &at, &rank, e.pageBytes)
		if n == 0 {
			e.closePage(c)
			continue
		}
		if c.leaf.MaxDef > 0 {
			c.def = e.grow(c.def, n)
			levels := c.def[len(c.def)-n:]
			for i, row := range rows[:n] {
				levels[i] = src.Def[row]
			}
		}
		e.scatter(c, src, at[:values])
		c.openRows += n
		c.openValues += values
		rows = rows[n:]
	}
}

// rank finds the place of a row's value among values that are dense.
type rank struct {
	dense bool // every row has a value
	row   int32
	value uint32 // how many values the rows before row have
}

// of returns the place of row's value and whether it has one.
func (r *rank) of(row int32, def []uint8, max uint8) (uint32, bool) {
	if r.dense {
		return uint32(row), true
	}
	if row < r.row {
		r.row, r.value = 0, 0
	}
	r.value += uint32(countByte(def[r.row:row], max))
	r.row = row
	return r.value, def[row] == max
}

// fit returns how many of rows the open page takes and puts into at where
// their values are. An empty page takes at least one row, however large.
func (c *column) fit(src *Column, rows []int32, at *[chunkRows]uint32, rank *rank, pageBytes int) (n, values int) {
	left := pageBytes - len(c.def) - max(len(c.values), c.room)
	levels, width := 0, c.leaf.bytesEach()
	if c.leaf.MaxDef > 0 {
		levels = 1
	}
	rows = rows[:min(len(rows), chunkRows)]
	for _, row := range rows {
		place, there := rank.of(row, src.Def, c.leaf.MaxDef)
		left -= levels
		if there {
			if left -= width; width == 0 {
				left -= 4 + src.length(place)
			}
		}
		if left < 0 && c.openRows+n > 0 {
			return n, values
		}
		if there {
			at[values] = place
			values++
		}
		n++
	}
	return n, values
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

// length returns the length of a value of kind Bytes or Fixed.
func (c *Column) length(i uint32) int {
	if i == 0 {
		return int(c.End[0])
	}
	return int(c.End[i] - c.End[i-1])
}

// scatter appends the values of src at the given places to the open page.
func (e *Encoder) scatter(c *column, src *Column, at []uint32) {
	if len(at) == 0 {
		return
	}
	width := c.leaf.bytesEach()
	size := width * len(at)
	if width == 0 {
		for _, i := range at {
			size += 4 + src.length(i)
		}
	}
	to := e.extend(c, size)
	switch c.leaf.Kind {
	case Bool:
		for k, i := range at {
			to[k] = byte(src.Fixed[i])
		}
	case Int32, Float:
		for k, i := range at {
			binary.LittleEndian.PutUint32(to[k*4:], uint32(src.Fixed[i]))
		}
	case Int64, Double:
		for k, i := range at {
			binary.LittleEndian.PutUint64(to[k*8:], uint64(src.Fixed[i]))
		}
	case Fixed:
		for k, i := range at {
			copy(to[k*width:(k+1)*width], src.Arena[int(i)*width:])
		}
	case Bytes:
		for _, i := range at {
			end := src.End[i]
			n := src.length(i)
			binary.LittleEndian.PutUint32(to, uint32(n))
			copy(to[4:], src.Arena[int(end)-n:end])
			to = to[4+n:]
		}
	}
}

// appendNested copies rows of a column inside a list or map: neighbours
// together, for their entries and values lie together.
func (e *Encoder) appendNested(c *column, src *Column, rows []int32) {
	width := c.leaf.bytesEach()
	for len(rows) > 0 {
		first := rows[0]
		entry, value := src.Entry[first], src.Value[first]
		n := 0
		for n < len(rows) && rows[n] == first+int32(n) {
			entries := int(src.Entry[rows[n]+1] - entry)
			values := int(src.Value[rows[n]+1] - value)
			size := values * width
			if width == 0 && values > 0 {
				size = 4*values + src.span(value, value+uint32(values))
			}
			if len(c.def)+len(c.rep)+max(len(c.values), c.room)+2*entries+size > e.pageBytes && c.openRows+n > 0 {
				break
			}
			n++
		}
		if n == 0 {
			e.closePage(c)
			continue
		}
		toEntry, toValue := src.Entry[first+int32(n)], src.Value[first+int32(n)]
		c.def = e.grow(c.def, int(toEntry-entry))
		copy(c.def[len(c.def)-int(toEntry-entry):], src.Def[entry:toEntry])
		c.rep = e.grow(c.rep, int(toEntry-entry))
		copy(c.rep[len(c.rep)-int(toEntry-entry):], src.Rep[entry:toEntry])
		e.transfer(c, src, value, toValue)
		c.openRows += n
		c.openValues += int(toValue - value)
		rows = rows[n:]
	}
}

// span returns the bytes of the values from one place to another.
func (c *Column) span(from, to uint32) int {
	if from == 0 {
		return int(c.End[to-1])
	}
	return int(c.End[to-1] - c.End[from-1])
}

// transfer appends the values of src from one place to another to the open page.
func (e *Encoder) transfer(c *column, src *Column, from, to uint32) {
	var at [chunkRows]uint32
	for from < to {
		n := min(to-from, chunkRows)
		for i := range n {
			at[i] = from + i
		}
		e.scatter(c, src, at[:n])
		from += n
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

// countByte counts the bytes that equal v.
func countByte(b []uint8, v uint8) int {
	return bytes.Count(b, []byte{v})
}
