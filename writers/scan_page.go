package writers

import (
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"math"
	"math/bits"

	"golang.org/x/sync/errgroup"
)

// scanPageBytesMax bounds a page before and after compression. Writers aim at
// 1 MiB; beyond this a header is damaged, or a value is larger than any record.
const scanPageBytesMax = 256 << 20

// headerBytesMax bounds a page header, which may hold the bounds of its values.
const headerBytesMax = 16 << 20

// pageHead is a PageHeader.
type pageHead struct {
	kind        int32
	raw, stored int32
	sum         uint32
	summed      bool
	values      int32
	encoding    int32
	defEncoding int32
	repEncoding int32
	// Version 2 only.
	second             bool
	rows               int32
	defBytes, repBytes int32
	plain              bool // not compressed
}

const (
	pageIndex   = 1
	pageSecond  = 3 // DATA_PAGE_V2
	encodingBit = 4 // BIT_PACKED, of levels
)

// readHead reads a page header from the start of from, and returns its length.
func readHead(from []byte) (h pageHead, n int, r uncompact) {
	r = uncompact{from: from}
	r.structure(func(id int16, kind byte) bool {
		switch id {
		case 1:
			h.kind = r.int32()
		case 2:
			h.raw = r.int32()
		case 3:
			h.stored = r.int32()
		case 4:
			h.sum, h.summed = uint32(r.int32()), true
		case 5, 7, 8:
			if kind != compactStruct {
				return false
			}
			h.second = id == 8
			r.structure(func(id int16, kind byte) bool { return h.part(&r, id, kind) })
		default:
			return false
		}
		return true
	})
	return h, r.at, r
}

// part reads a field of the header of one sort of pages.
func (h *pageHead) part(r *uncompact, id int16, kind byte) bool {
	switch {
	case id == 1:
		h.values = r.int32()
	case h.second && id == 3:
		h.rows = r.int32()
	case h.second && id == 4:
		h.encoding = r.int32()
	case h.second && id == 5:
		h.defBytes = r.int32()
	case h.second && id == 6:
		h.repBytes = r.int32()
	case h.second && id == 7:
		h.plain = kind == compactFalse
	case h.second:
		return false
	case id == 2:
		h.encoding = r.int32()
	case id == 3 && h.kind == pageData:
		h.defEncoding = r.int32()
	case id == 4 && h.kind == pageData:
		h.repEncoding = r.int32()
	default:
		return false
	}
	return true
}

// pages reads the pages of one column chunk, one after another.
type pages struct {
	from          extent
	codec         int32
	left          int64 // values that pages to come have
	maxDef        uint8
	maxRep        uint8
	head          pageHead
	entries       int // of the page, nulls included, that were not read yet
	def, rep      hybrid
	values        values
	raw           []byte // the page, expanded
	dictionary    scanDictionary
	hasDictionary bool
}

// next opens the next data page. Pages whose rows are all among the first skip
// rows are passed over, as far as that shows without reading them, and counted
// off. It returns io.EOF behind the last page.
func (p *pages) next(skip *int64) error {
	for {
		if p.left == 0 {
			return io.EOF
		}
		if err := p.header(); err != nil {
			return err
		}
		switch p.head.kind {
		case pageDictionary:
			if err := p.openDictionary(); err != nil {
				return fmt.Errorf("dictionary: %w", err)
			}
		case pageData, pageSecond:
			if int64(p.head.values) > p.left {
				return fmt.Errorf("a page has %d values where the column chunk has %d left", p.head.values, p.left)
			}
			p.left -= int64(p.head.values)
			rows := int64(p.head.values)
			if p.maxRep > 0 && p.head.second {
				rows = int64(p.head.rows)
			}
			if rows == 0 || (p.maxRep == 0 || p.head.second) && rows <= *skip {
				*skip -= rows
				p.from.skip(int(p.head.stored))
				continue
			}
			return p.openData()
		default:
			p.from.skip(int(p.head.stored))
		}
	}
}

// header reads the header of the next page.
func (p *pages) header() error {
	for want := 256; ; want *= 4 {
		have, err := p.from.peek(want)
		if err != nil {
			return err
		}
		head, n, r := readHead(have)
		if r.short && len(have) == want && want < headerBytesMax {
			continue
		}
		if r.bad {
			return errors.New("a page header is damaged")
		}
		if head.raw < 0 || head.stored < 0 || head.values < 0 || head.raw > scanPageBytesMax || head.stored > scanPageBytesMax {
			return fmt.Errorf("a page of %d bytes, %d compressed, with %d values: at most %d bytes can be read", head.raw, head.stored, head.values, scanPageBytesMax)
		}
		p.head = head
		p.from.skip(n)
		return nil
	}
}

// body takes the page's bytes and checks them.
func (p *pages) body() ([]byte, error) {
	body, err := p.from.take(int(p.head.stored))
	if err != nil {
		return nil, err
	}
	if p.head.summed {
		if sum := crc32.ChecksumIEEE(body); sum != p.head.sum {
			return nil, fmt.Errorf("a page has the checksum %08x instead of %08x: the file is damaged", sum, p.head.sum)
		}
	}
	return body, nil
}

// expanded returns body as it was before compression, in a buffer that is kept.
func (p *pages) expanded(buffer *[]byte, body []byte, size int) ([]byte, error) {
	if p.codec == codecNone {
		if len(body) != size {
			return nil, fmt.Errorf("a page of %d bytes says it has %d", len(body), size)
		}
		return body, nil
	}
	if cap(*buffer) < size {
		*buffer = make([]byte, size+size/4)
	}
	to := (*buffer)[:size]
	if size == 0 && len(body) == 0 {
		return to, nil
	}
	if err := expand(p.codec, to, body); err != nil {
		return nil, fmt.Errorf("expand a page of %d bytes: %w", len(body), err)
	}
	return to, nil
}

// openData makes levels and values of the page readable.
func (p *pages) openData() error {
	body, err := p.body()
	if err != nil {
		return err
	}
	p.entries = int(p.head.values)
	rest := body
	if p.head.second {
		rest, err = p.secondLevels(body)
	} else if rest, err = p.expanded(&p.raw, body, int(p.head.raw)); err == nil {
		rest, err = p.firstLevels(rest)
	}
	if err != nil {
		return err
	}
	dictionary := p.head.encoding == encodingDictionary || p.head.encoding == encodingPlainDictionary
	if dictionary && !p.hasDictionary {
		return errors.New("a page needs a dictionary that the column chunk has not")
	}
	return p.values.open(p.head.encoding, rest, p.entries)
}

// firstLevels takes the levels from a page of version 1.
func (p *pages) firstLevels(page []byte) ([]byte, error) {
	take := func(most uint8, encoding int32) (hybrid, error) {
		if most == 0 {
			return hybrid{}, nil
		}
		if encoding != encodingRLE {
			return hybrid{}, fmt.Errorf("encoding %d of levels is not supported", encoding)
		}
		if len(page) < 4 {
			return hybrid{}, errors.New("a page ends within its levels")
		}
		n := uint32(page[0]) | uint32(page[1])<<8 | uint32(page[2])<<16 | uint32(page[3])<<24
		if uint64(n) > uint64(len(page)-4) {
			return hybrid{}, errors.New("a page ends within its levels")
		}
		levels := page[4 : 4+n]
		page = page[4+n:]
		return newHybrid(levels, bits.Len8(most)), nil
	}
	var err error
	if p.rep, err = take(p.maxRep, p.head.repEncoding); err != nil {
		return nil, err
	}
	p.def, err = take(p.maxDef, p.head.defEncoding)
	return page, err
}

// secondLevels takes the levels from a page of version 2, where they are not
// compressed, and expands the rest.
func (p *pages) secondLevels(body []byte) ([]byte, error) {
	h := &p.head
	levels := int64(h.repBytes) + int64(h.defBytes)
	if h.repBytes < 0 || h.defBytes < 0 || levels > int64(len(body)) || levels > int64(h.raw) {
		return nil, errors.New("a page ends within its levels")
	}
	p.rep = newHybrid(body[:h.repBytes], bits.Len8(p.maxRep))
	p.def = newHybrid(body[h.repBytes:levels], bits.Len8(p.maxDef))
	rest := body[levels:]
	if h.plain {
		return rest, nil
	}
	return p.expanded(&p.raw, rest, int(int64(h.raw)-levels))
}

// scanDictionary has the values of a column chunk that pages name by number.
type scanDictionary struct {
	count int
	fixed []int64
	views []uint64
	base  []byte
	raw   []byte // a buffer for base
	// changed tells that fixed has the table's numbers, and no more the file's.
	changed bool
	text    dictionaryText
}

// openDictionary reads the dictionary page.
func (p *pages) openDictionary() error {
	if p.hasDictionary {
		return errors.New("the column chunk has two")
	}
	if e := p.head.encoding; e != encodingPlain && e != encodingPlainDictionary {
		return fmt.Errorf("encoding %d is not supported", e)
	}
	body, err := p.body()
	if err != nil {
		return err
	}
	d := &p.dictionary
	page, err := p.expanded(&d.raw, body, int(p.head.raw))
	if err != nil {
		return err
	}
	if p.codec == codecNone { // the extent will overwrite it
		d.raw = append(d.raw[:0], page...)
		page = d.raw
	}
	d.count, d.changed, p.hasDictionary = int(p.head.values), false, true
	least := max(1, p.values.width)
	if p.values.physical == physicalBytes {
		least = 4
	}
	if p.values.physical != physicalBool && d.count > len(page)/least || d.count > 8*len(page) {
		return fmt.Errorf("%d values can't lie in %d bytes", d.count, len(page))
	}
	v := &p.values
	if err := v.open(encodingPlain, page, d.count); err != nil {
		return err
	}
	d.base = page
	if v.physical == physicalBytes || v.physical == physicalFixed {
		d.views = sized(d.views, d.count)
		return v.views(d.views)
	}
	d.fixed = sized(d.fixed, d.count)
	return v.numbers(d.fixed)
}

// sized returns a slice of n elements, with the memory of s if that is enough.
func sized[T any](s []T, n int) []T {
	if cap(s) < n {
		return make([]T, n, n+n/4)
	}
	return s[:n]
}

// open begins a column chunk.
func (p *pages) open(c *fileChunk, object io.ReaderAt, end int64, window int, fetches *errgroup.Group) error {
	if c.values < 0 || c.values > math.MaxInt64/16 || c.at < 4 || c.at >= end && c.values > 0 {
		return fmt.Errorf("%d values at byte %d make no sense", c.values, c.at)
	}
	p.codec, p.left, p.entries, p.hasDictionary = c.codec, c.values, 0, false
	p.from.open(object, c.at, end, max(0, c.stored), window, fetches)
	return nil
}
