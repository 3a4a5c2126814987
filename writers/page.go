package writers

import (
	"bytes"
	"fmt"
	"hash/crc32"
	"math"
)

// page is a data page of version 1 that lies compressed in the arena.
type page struct {
	at       int64 // place of its header in the arena
	stored   int32 // bytes of header and compressed body
	raw      int32 // bytes of header and body before compression
	firstRow int64 // of the row group
	nulls    int64
	entries  int64
	some     bool      // the page has bounds
	bounds   [2]uint32 // where lower and upper end in column.limits
}

// Encodings and page types by their numbers. Source: parquet.thrift.
const (
	encodingPlain      = 0
	encodingRLE        = 3
	encodingDictionary = 8 // RLE_DICTIONARY
	pageData           = 0
	pageDictionary     = 2
)

// closePage encodes and compresses the open page of c and empties it.
func (e *Encoder) closePage(c *column) {
	if c.openRows == 0 {
		return
	}
	e.extend(c, 0)
	plain := c.values[c.room:]
	p := presses.Get().(*press)
	encoding := int32(encodingPlain)
	if e.numbers(c, p, plain) {
		encoding = encodingDictionary
	}
	body := c.assemble(p, plain, encoding)
	out := p.squeeze(e.codec, body)
	// Compression has brought the page back into the cache: now look at its values.
	b, values := measure(c.leaf, plain)
	entries := values
	if c.leaf.MaxDef > 0 {
		entries = len(c.def)
	}
	c.check(entries, values)
	header := p.header(len(body), len(out), entries, encoding, crc32.ChecksumIEEE(out))

	next := page{
		at: e.arena.used, stored: int32(len(header) + len(out)), raw: int32(len(header) + len(body)),
		firstRow: c.rows, nulls: int64(entries - values), entries: int64(entries),
	}
	e.arena.write(header)
	e.arena.write(out)
	p.free()
	c.note(next, &b)
	c.byEncoding[min(encoding, 1)]++
	e.empty(c)
}

// check panics where the levels of the open page and its values contradict
// each other: they would make a file that no reader takes.
func (c *column) check(entries, values int) {
	if values != c.openValues || c.leaf.MaxRep > 0 && len(c.rep) != entries || c.leaf.MaxRep == 0 && entries != c.openRows {
		panic(fmt.Sprintf("column %s: page of %d rows has %d definition levels, %d repetition levels, %d values, of which %d were counted",
			c.leaf.Name, c.openRows, len(c.def), len(c.rep), c.openValues, values))
	}
	if len(c.def) > 0 {
		if there := bytes.Count(c.def, []byte{c.leaf.MaxDef}); there != values {
			panic(fmt.Sprintf("column %s: page has %d values, its definition levels say %d", c.leaf.Name, values, there))
		}
	}
}

// assemble returns the body of the open page before compression: repetition
// levels, definition levels, values. Levels of a few bytes, the rule where there
// are no nulls, go into the room in front of the values.
func (c *column) assemble(p *press, plain []byte, encoding int32) []byte {
	p.levels = p.levels[:0]
	if c.leaf.MaxRep > 0 {
		p.levels = appendLevels(p.levels, c.rep, c.leaf.MaxRep)
	}
	if c.leaf.MaxDef > 0 {
		p.levels = appendLevels(p.levels, c.def, c.leaf.MaxDef)
	}
	body := p.levels
	switch {
	case encoding == encodingDictionary:
		p.raw = c.dictionary.appendNumbers(append(p.raw[:0], p.levels...), p.numbers)
		body = p.raw
	case c.leaf.Kind == Bool:
		p.raw = appendBits(append(p.raw[:0], p.levels...), plain)
		body = p.raw
	case len(p.levels) <= c.room:
		at := c.room - len(p.levels)
		copy(c.values[at:], p.levels)
		body = c.values[at:]
	default:
		p.raw = append(append(p.raw[:0], p.levels...), plain...)
		body = p.raw
	}
	if len(body) > math.MaxInt32/2 {
		panic(fmt.Sprintf("column %s: page of %d rows has %d bytes, more than a page header can say", c.leaf.Name, c.openRows, len(body)))
	}
	return body
}

// header returns the header of a data page, valid until the press is used again.
//
// Source: parquet.thrift, PageHeader.
func (p *press) header(raw, stored, entries int, encoding int32, crc uint32) []byte {
	w := p.beginHeader(pageData, raw, stored, crc)
	w.begin(5)
	w.i32(1, int32(entries))
	w.i32(2, encoding)
	w.i32(3, encodingRLE)
	w.i32(4, encodingRLE)
	w.end()
	w.end()
	return w.to
}

func (p *press) beginHeader(kind int32, raw, stored int, crc uint32) *compact {
	w := &p.head
	w.to, w.last = w.to[:0], 0
	w.beginItem()
	w.i32(1, kind)
	w.i32(2, int32(raw))
	w.i32(3, int32(stored))
	w.i32(4, int32(crc))
	return w
}

// closeDictionary puts the dictionary page of c, if it has one, into the arena.
func (e *Encoder) closeDictionary(c *column) {
	if c.dictionary == nil {
		return
	}
	p := presses.Get().(*press)
	defer p.free()
	body := c.dictionary.plain
	out := p.squeeze(e.codec, body)
	w := p.beginHeader(pageDictionary, len(body), len(out), crc32.ChecksumIEEE(out))
	w.begin(7)
	w.i32(1, int32(len(c.dictionary.ends)))
	w.i32(2, encodingPlain)
	w.end()
	w.end()
	c.dictionaryPage = page{at: e.arena.used, stored: int32(len(w.to) + len(out)), raw: int32(len(w.to) + len(body))}
	e.arena.write(w.to)
	e.arena.write(out)
	c.stored += int64(c.dictionaryPage.stored)
	c.raw += int64(c.dictionaryPage.raw)
}

// note adds a closed page to the column's totals.
func (c *column) note(p page, b *bounds) {
	c.total.merge(b, c.leaf)
	if l := b.parquet(c.leaf); l.lower != nil && l.upper != nil {
		p.some = true
		c.limits = append(c.limits, l.lower...)
		p.bounds[0] = uint32(len(c.limits))
		c.limits = append(c.limits, l.upper...)
	} else {
		p.bounds[0] = uint32(len(c.limits))
	}
	p.bounds[1] = uint32(len(c.limits))
	c.pages = append(c.pages, p)
	c.rows += int64(c.openRows)
	c.entries += p.entries
	c.nulls += p.nulls
	c.stored += int64(p.stored)
	c.raw += int64(p.raw)
}

// limitsOf returns the bounds of page i as Parquet has them.
func (c *column) limitsOf(i int) (lower, upper []byte) {
	var from uint32
	if i > 0 {
		from = c.pages[i-1].bounds[1]
	}
	ends := c.pages[i].bounds
	return c.limits[from:ends[0]], c.limits[ends[0]:ends[1]]
}
