package writers

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// fileFooter is what a scan needs of a Parquet file's metadata.
//
// Source: parquet.thrift, FileMetaData.
type fileFooter struct {
	at       int64 // where the footer begins: no page lies behind
	elements []fileElement
	rows     int64
	groups   []fileGroup
	created  string
}

// fileElement is a SchemaElement.
type fileElement struct {
	name       string
	physical   int32 // -1: a group
	width      int32 // of FIXED_LEN_BYTE_ARRAY
	repetition int32
	children   int32
	converted  int32 // -1: none
	scale      int32
	precision  int32
	id         int32 // -1: none
	logical    int16 // the number of the LogicalType's field; 0: none
	unit       int16 // of time and timestamp: 1 millis, 2 micros, 3 nanos
	bits       int8  // of an integer
	unsigned   bool
}

// fileGroup is a RowGroup.
type fileGroup struct {
	rows   int64
	chunks []fileChunk
}

// fileChunk is a ColumnChunk with its ColumnMetaData.
type fileChunk struct {
	external  bool // lies in another file
	encrypted bool
	there     bool // has metadata
	physical  int32
	codec     int32
	values    int64
	raw       int64
	stored    int64
	at        int64 // of the first page, a dictionary if there is one
	depth     int   // names in its path
}

// footerBytesFirst is read of the end of a file in the hope that it has the
// whole footer.
const footerBytesFirst = 64 << 10

// readFooter reads the footer of a file.
func readFooter(object io.ReaderAt, size int64) (*fileFooter, error) {
	if size < 12 {
		return nil, fmt.Errorf("%d bytes are too few for a Parquet file", size)
	}
	tail := make([]byte, min(size, footerBytesFirst))
	if err := readFull(object, tail, size-int64(len(tail))); err != nil {
		return nil, fmt.Errorf("read the footer: %w", err)
	}
	switch string(tail[len(tail)-4:]) {
	case magic:
	case "PARE":
		return nil, errors.New("the footer is encrypted, which is not supported")
	default:
		return nil, fmt.Errorf("the file ends with %q and not with %q: it is cut short or no Parquet file", tail[len(tail)-4:], magic)
	}
	length := int64(binary.LittleEndian.Uint32(tail[len(tail)-8:]))
	if length > size-12 {
		return nil, fmt.Errorf("the footer says it has %d bytes; the file has %d", length, size)
	}
	if whole := length + 8; whole > int64(len(tail)) {
		tail = make([]byte, whole)
		if err := readFull(object, tail, size-whole); err != nil {
			return nil, fmt.Errorf("read the footer: %w", err)
		}
	}
	f := &fileFooter{at: size - 8 - length}
	r := &uncompact{from: tail[int64(len(tail))-8-length : len(tail)-8]}
	f.read(r)
	if r.bad {
		return nil, fmt.Errorf("the footer's metadata is damaged at byte %d of %d", r.at, length)
	}
	return f, nil
}

// readFull reads all of to, for a file can't end before the end that it has.
func readFull(object io.ReaderAt, to []byte, at int64) error {
	n, err := object.ReadAt(to, at)
	switch {
	case n == len(to):
		return nil
	case err == nil || errors.Is(err, io.EOF):
		return fmt.Errorf("%d bytes at %d: the file ends after %d: %w", len(to), at, at+int64(n), io.ErrUnexpectedEOF)
	}
	return fmt.Errorf("%d bytes at %d: %w", len(to), at, err)
}

func (f *fileFooter) read(r *uncompact) {
	r.structure(func(id int16, kind byte) bool {
		switch id {
		case 2:
			r.items(kind, func() { f.elements = append(f.elements, readElement(r)) })
		case 3:
			f.rows = r.signed()
		case 4:
			r.items(kind, func() { f.groups = append(f.groups, readGroup(r)) })
		case 6:
			f.created = string(r.binary())
		default:
			return false
		}
		return true
	})
}

func readElement(r *uncompact) fileElement {
	e := fileElement{physical: -1, converted: -1, id: -1}
	r.structure(func(id int16, kind byte) bool {
		switch id {
		case 1:
			e.physical = r.int32()
		case 2:
			e.width = r.int32()
		case 3:
			e.repetition = r.int32()
		case 4:
			e.name = string(r.binary())
		case 5:
			e.children = r.int32()
		case 6:
			e.converted = r.int32()
		case 7:
			e.scale = r.int32()
		case 8:
			e.precision = r.int32()
		case 9:
			e.id = r.int32()
		case 10:
			r.structure(func(id int16, kind byte) bool {
				e.logical = id
				return e.readLogical(r, id, kind)
			})
		default:
			return false
		}
		return true
	})
	return e
}

// readLogical reads the parameters of a logical type.
func (e *fileElement) readLogical(r *uncompact, logical int16, kind byte) bool {
	if kind != compactStruct {
		return false
	}
	r.structure(func(id int16, kind byte) bool {
		switch {
		case logical == logicalDecimal && id == 1:
			e.scale = r.int32()
		case logical == logicalDecimal && id == 2:
			e.precision = r.int32()
		case (logical == logicalTime || logical == logicalTimestamp) && id == 2:
			r.structure(func(id int16, _ byte) bool {
				e.unit = id
				return false
			})
		case logical == logicalInteger && id == 1:
			e.bits = int8(r.octet())
		case logical == logicalInteger && id == 2:
			e.unsigned = kind == compactFalse
		default:
			return false
		}
		return true
	})
	return true
}

func readGroup(r *uncompact) fileGroup {
	var g fileGroup
	r.structure(func(id int16, kind byte) bool {
		switch id {
		case 1:
			r.items(kind, func() { g.chunks = append(g.chunks, readColumnChunk(r)) })
		case 3:
			g.rows = r.signed()
		default:
			return false
		}
		return true
	})
	return g
}

func readColumnChunk(r *uncompact) fileChunk {
	var c fileChunk
	r.structure(func(id int16, kind byte) bool {
		switch id {
		case 1:
			c.external = len(r.binary()) > 0
		case 3:
			c.there = true
			c.metadata(r)
		case 8, 9:
			c.encrypted = true
			return false
		default:
			return false
		}
		return true
	})
	return c
}

func (c *fileChunk) metadata(r *uncompact) {
	var dictionary int64
	r.structure(func(id int16, kind byte) bool {
		switch id {
		case 1:
			c.physical = r.int32()
		case 3:
			r.items(kind, func() { r.binary(); c.depth++ })
		case 4:
			c.codec = r.int32()
		case 5:
			c.values = r.signed()
		case 6:
			c.raw = r.signed()
		case 7:
			c.stored = r.signed()
		case 9:
			c.at = r.signed()
		case 11:
			dictionary = r.signed()
		default:
			return false
		}
		return true
	})
	if dictionary > 0 && dictionary < c.at { // some writers say 0 for none
		c.at = dictionary
	}
}

// check looks whether the parts of a footer agree. leaves is how many columns
// the schema has.
func (f *fileFooter) check(leaves int) error {
	rows := int64(0)
	for i := range f.groups {
		g := &f.groups[i]
		if len(g.chunks) != leaves {
			return fmt.Errorf("row group %d has %d columns, the schema %d", i, len(g.chunks), leaves)
		}
		if g.rows < 0 || g.rows > f.rows {
			return fmt.Errorf("row group %d has %d rows, the file %d", i, g.rows, f.rows)
		}
		rows += g.rows
	}
	if rows != f.rows {
		return fmt.Errorf("the row groups have %d rows together, the file %d", rows, f.rows)
	}
	return nil
}
