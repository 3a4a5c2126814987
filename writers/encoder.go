package writers

import (
	"fmt"
)

// EncoderOptions are the choices that a table leaves to whoever writes it.
type EncoderOptions struct {
	Codec     string // "zstd", "snappy", "gzip" or "none"
	PageBytes int    // size of a page before compression; 0: by the number of columns
}

// Bounds of EncoderOptions.PageBytes. A reader decompresses whole pages and a
// page header counts in 31 bits; below the least, headers outweigh values.
const (
	PageBytesMin = 64
	PageBytesMax = 64 << 20
)

// Pages by default are as large as keeps the open pages of a file within
// openBytesMax, for every bucket of a table has such a file open.
const (
	openBytesMax     = 1 << 20
	pageBytesDefault = 128 << 10
	pageBytesLeast   = 8 << 10
)

// Encoder turns the rows of one open data file into Parquet while they come in:
// values are scattered into one open page a column, full pages are compressed
// at once, and Finish only has to close the last ones and write the footer.
//
// The file has one row group, data pages of version 1, and an index of its
// pages. An Encoder is not safe for concurrent use.
//
// Source: parquet-format, parquet.thrift and Encodings.md; Iceberg spec,
// appendix A "Parquet".
type Encoder struct {
	layout    *Layout
	codec     int32
	pageBytes int
	columns   []column
	schema    []byte // as JSON, from the first file on
	arena     arena  // compressed pages of all columns
	rows      int64
	open      int64 // capacity of the open pages' buffers
	notes     []note
}

// NewEncoder returns an encoder for rows of layout. It fails for options out of
// range and for columns that Parquet can't hold.
func NewEncoder(layout *Layout, o EncoderOptions) (*Encoder, error) {
	codec, err := codecNamed(o.Codec)
	if err != nil {
		return nil, err
	}
	if o.PageBytes != 0 && (o.PageBytes < PageBytesMin || o.PageBytes > PageBytesMax) {
		return nil, fmt.Errorf("page size %d: must be 0 (by default) or %d to %d", o.PageBytes, PageBytesMin, PageBytesMax)
	}
	e := &Encoder{layout: layout, codec: codec, pageBytes: o.PageBytes, columns: make([]column, len(layout.Leaves))}
	if e.pageBytes == 0 {
		e.pageBytes = pageBytesDefault
		for e.pageBytes > pageBytesLeast && e.pageBytes*len(layout.Leaves) > openBytesMax {
			e.pageBytes /= 2
		}
	}
	for i := range e.columns {
		leaf := &layout.Leaves[i]
		if leaf.Kind == Fixed && leaf.Width < 1 {
			return nil, fmt.Errorf("column %q: %s has no bytes to store", leaf.Name, leaf.Type)
		}
		e.columns[i].leaf, e.columns[i].plainOnly = leaf, leaf.Kind == Bool
		if leaf.MaxDef > 0 {
			e.columns[i].room = levelRoomBytes
		}
	}
	return e, nil
}

// Append adds rows of b, in the order given. It only reads b and keeps nothing
// of it. b must be of the encoder's layout.
func (e *Encoder) Append(b *Batch, rows []int32) {
	Scatter([]Share{{Batch: b, Rows: rows, To: e}})
}

// Rows returns how many rows have been added.
func (e *Encoder) Rows() int64 { return e.rows }

// Size returns the bytes of memory that the encoder holds for its rows.
func (e *Encoder) Size() int64 { return e.open + e.arena.capacity() }

// Note puts a key and a value into the metadata of the file that is being
// written. The encoder keeps value until Finish or Reset.
func (e *Encoder) Note(key string, value []byte) { e.notes = append(e.notes, note{key, value}) }

// note is an entry of a file's key-value metadata.
type note struct {
	key   string
	value []byte
}

// Finish closes the file and returns it. The encoder is empty afterwards, also
// after an error, and may be used for the next file.
func (e *Encoder) Finish() (*File, error) {
	defer e.Reset()
	for i := range e.columns {
		c := &e.columns[i]
		e.closePage(c)
		e.closeDictionary(c)
		if c.rows != e.rows {
			panic(fmt.Sprintf("column %s has %d rows, the file %d", c.leaf.Name, c.rows, e.rows))
		}
	}
	body, err := e.write()
	if err != nil {
		return nil, fmt.Errorf("finish file of %d rows: %w", e.rows, err)
	}
	return &File{Body: body, Rows: e.rows, metrics: e.metrics()}, nil
}

// Reset throws the rows away and gives the memory back.
func (e *Encoder) Reset() {
	for i := range e.columns {
		c := &e.columns[i]
		freeBuffer(c.def)
		freeBuffer(c.rep)
		freeBuffer(c.values)
		if c.dictionary != nil {
			c.dictionary.free()
		}
		*c = column{leaf: c.leaf, room: c.room, plainOnly: c.leaf.Kind == Bool}
	}
	e.arena.reset()
	e.rows, e.open, e.notes = 0, 0, nil
}
