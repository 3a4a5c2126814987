package writers

import (
	"fmt"
	"hash/maphash"

	"github.com/twmb/franz-go/pkg/kgo"
)

// JSON decodes records whose values are JSON objects into the rows of one
// table, driven by the table's schema. It reads every byte of a value once, or
// twice where a string has escapes, and builds nothing in between: no tree, no
// maps, no Go values. It is not safe for concurrent use: make one a goroutine.
//
// Source: RFC 8259, read strictly. A value is accepted in full or not at all,
// and never changed:
//
//	column             accepted JSON                                         refused
//	-----------------  ----------------------------------------------------  ------------------------------------------
//	any                null or absent, when the column is optional           null or absent, when it is required
//	boolean            true, false                                           numbers, strings
//	int, long          a number that is whole, however it is written:        1.5; out of range; strings
//	                   1, -0, 1.0, 1e3; exact in all 64 bits
//	float, double      a number; the nearest value is stored                 what rounds to infinity; strings
//	decimal(p, s)      a number, or a string that holds one; exact           more than s digits after the point (zeros
//	                                                                         don't count); more than p digits
//	string             a string                                              numbers, objects, lists
//	uuid               a string, 8-4-4-4-12 hex digits in either case        braces, urn:uuid:
//	fixed, binary      a string, base64 (RFC 4648 §4, padded)                the URL alphabet, line ends, a wrong length
//	date               a string YYYY-MM-DD; a number of days with Dates      a time after the date
//	time               a string HH:MM[:SS[.f]]; a number with Times          24:00, a leap second, a zone
//	timestamp          a string YYYY-MM-DDTHH:MM[:SS[.f]], a space for the   other offsets than zero
//	                   T too, also t and z; without a zone or with Z or a
//	                   zero offset; a number with Timestamps
//	timestamptz        the same with a zone: Z, ±HH:MM, ±HHMM or ±HH;        no zone
//	                   stored in UTC
//	struct             an object                                             strings that hold an object
//	list               a list                                                a single element without brackets
//	map                an object; its names are read as strings of the       two names of equal value
//	                   key's type are, and as numbers for numeric keys
//
// Dates and times lie in the years 0001 to 9999, also those given as numbers,
// and have no more than microseconds: further digits must be zeros. Numbers
// may have a fraction while it is whole in microseconds.
//
// Field names match exactly, upper and lower case and dots included. Fields
// that no column has are ignored or, with RefuseUnknown, refused. What is
// ignored must still be JSON, and may nest JSONDepthMax deep. The same name
// twice in an object that is a struct or a map is refused, also where no
// column has it; objects inside of ignored values are not checked for it.
// Strings and names must be UTF-8 without lone surrogates, ignored ones
// included. NaN and Infinity are no JSON. Nothing but white space may follow
// the object.
type JSON struct {
	layout   *Layout
	options  JSONOptions
	root     *field
	repeated []int    // the leaves inside of lists and maps
	stamps   []*stamp // the columns that are filled from the record, not from its value

	// While a record is decoded.
	cols     []Column
	serial   uint64 // of the object begun last, over the decoder's life
	scratch  []byte // the last string that had escapes, without them
	num      number // the last number that was not a short whole one
	unique   nameSet
	keyBytes [8]byte // the last map key of a numeric kind
	err      *RecordError
}

// JSONOptions says what a decoder accepts beyond strict JSON of the table's
// types. The zero value accepts nothing more and ignores unknown fields.
type JSONOptions struct {
	RefuseUnknown bool   // fields that no column has refuse the record, instead of being ignored
	Timestamps    string // unit of JSON numbers in timestamp and timestamptz columns: "" refuses them, "seconds", "millis", "micros" since 1970
	Dates         string // unit of JSON numbers in date columns: "" refuses them, "days" since 1970
	Times         string // unit of JSON numbers in time columns: "" refuses them, "seconds", "millis", "micros" since midnight
}

// JSONDepthMax is how deep a value may nest that no column takes. What columns
// take is as deep as the schema.
const JSONDepthMax = 200

// scratchBytesKept is how large a string with escapes may be before its memory
// is given back.
const scratchBytesKept = 1 << 20

// recordBytesMax keeps all positions in a record within 32 bits.
const recordBytesMax = 1 << 30

// NewJSON returns a decoder for rows of l. It refuses options that don't exist
// and columns that can't be read from JSON, naming them.
func NewJSON(l *Layout, o JSONOptions) (*JSON, error) {
	d := &JSON{layout: l, options: o}
	d.unique.seed = maphash.MakeSeed()
	p := plan{layout: l, seed: d.unique.seed}
	if err := p.units(o); err != nil {
		return nil, err
	}
	var err error
	if d.root, d.stamps, err = p.root(); err != nil {
		return nil, err
	}
	for i := range l.Leaves {
		if l.Leaves[i].MaxRep > 0 {
			d.repeated = append(d.repeated, i)
		}
	}
	return d, nil
}

// Decode appends the row of r to b, or returns a *RecordError and leaves b
// exactly as it was. It keeps no reference to r, and allocates nothing once
// the memory of b has grown. It panics when b has another layout.
//
// Top-level columns named _kafka_topic, _kafka_partition, _kafka_offset,
// _kafka_timestamp, _kafka_key and _kafka_headers are filled from the record,
// never from its value: a JSON field of such a name is an unknown field. A
// record without a timestamp or a key has null there; an empty key is empty.
// Headers keep their order and repeated keys, a value that is null stays null,
// and a header whose key is no UTF-8 refuses the record.
func (d *JSON) Decode(b *Batch, r *kgo.Record) error {
	if b.Layout != d.layout {
		panic(fmt.Sprintf("decode into a batch of another layout: schema %d, decoder has %d", b.Layout.Schema.ID, d.layout.Schema.ID))
	}
	d.cols = b.Columns
	ok := d.document(r.Value) && d.stampAll(r) && d.fits()
	if ok {
		for _, leaf := range d.repeated {
			c := &d.cols[leaf]
			c.Entry = append(c.Entry, uint32(len(c.Def)))
			c.Value = append(c.Value, uint32(c.Values(d.layout.Leaves[leaf].Kind)))
		}
		b.Rows++
		d.cols = nil
		return nil
	}
	d.rollback(b)
	err := d.err
	d.cols, d.err = nil, nil
	return err
}

// document reads a record's value: one object and nothing else.
func (d *JSON) document(buf []byte) bool {
	switch {
	case buf == nil:
		d.fail(d.root, ReasonSyntax, "no value (a tombstone)")
		return false
	case len(buf) == 0:
		d.fail(d.root, ReasonSyntax, "empty value")
		return false
	case len(buf) > recordBytesMax:
		d.fail(d.root, ReasonSize, fmt.Sprintf("the value has %d bytes; at most %d can be decoded", len(buf), recordBytesMax))
		return false
	}
	d.unique.reset()
	if cap(d.scratch) > scratchBytesKept {
		d.scratch = nil
	}
	p := space(buf, 0)
	switch {
	case p == len(buf):
		d.fail(d.root, ReasonSyntax, "the value is nothing but white space")
		return false
	case buf[p] == 0:
		d.fail(d.root, ReasonSyntax, "the value begins with a zero byte, as values framed for a schema registry do; expected plain JSON")
		return false
	case buf[p] == 0xEF:
		d.fail(d.root, ReasonSyntax, "the value begins with byte 0xEF, perhaps a byte order mark; expected {")
		return false
	case buf[p] != '{':
		d.mismatch(d.root, buf, p)
		return false
	}
	if p = d.object(d.root, buf, p, 0); p < 0 {
		return false
	}
	if p = space(buf, p); p < len(buf) {
		d.fail(d.root, ReasonSyntax, fmt.Sprintf("%s after the object, at byte %d", clip(buf[p:]), p))
		return false
	}
	return true
}

// fits tells whether the columns still count their bytes in 32 bits.
func (d *JSON) fits() bool {
	for i := range d.cols {
		if uint64(len(d.cols[i].Arena)) > 1<<32-1 {
			d.fail(d.root, ReasonSize, "the batch holds 4 GiB of "+d.layout.Leaves[i].Name+" already")
			return false
		}
	}
	return true
}

// rollback takes what a refused record left in b away. Nothing is noted while
// a record is decoded: outside of lists and maps a row has one entry, so that
// an entry too many tells whether there is a value too many, and inside of
// them the row starts say how much there was.
func (d *JSON) rollback(b *Batch) {
	for i := range b.Columns {
		l, c := &b.Layout.Leaves[i], &b.Columns[i]
		values := c.Values(l.Kind)
		switch {
		case l.MaxRep > 0:
			entries := c.Entry[b.Rows]
			values = int(c.Value[b.Rows])
			c.Def, c.Rep = c.Def[:entries], c.Rep[:entries]
		case l.MaxDef == 0:
			values = b.Rows
		case len(c.Def) > b.Rows:
			if c.Def[b.Rows] == l.MaxDef {
				values--
			}
			c.Def = c.Def[:b.Rows]
		}
		if l.Kind != Bytes && l.Kind != Fixed {
			c.Fixed = c.Fixed[:values]
			continue
		}
		c.End = c.End[:values]
		if values == 0 {
			c.Arena = c.Arena[:0]
			continue
		}
		c.Arena = c.Arena[:c.End[values-1]]
	}
}
