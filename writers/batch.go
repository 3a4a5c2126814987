package writers

// Batch holds decoded rows column by column, with Dremel levels, on their way
// from a decoder to the encoders. It owns all its memory and keeps no
// reference to the records it was decoded from. It is reused with Reset and
// not safe for concurrent writing; any number of readers may share it.
type Batch struct {
	Layout  *Layout
	Rows    int
	Columns []Column // one a leaf, in Layout order
}

// Column is one leaf column of a Batch.
//
// A column outside of lists and maps (MaxRep 0) has exactly one entry a row.
// Inside of them row r has the entries Entry[r] to Entry[r+1] and, of its
// values, Value[r] to Value[r+1].
//
// An entry carries a value when its definition level is the leaf's MaxDef, so
// values are dense: they are fewer than entries where there are nulls. With
// MaxDef 0 every entry has a value and Def is empty.
type Column struct {
	Def []uint8 // a level an entry; empty when MaxDef is 0
	Rep []uint8 // a level an entry; empty when MaxRep is 0

	Fixed []int64  // values of all kinds but Bytes and Fixed; see Kind
	Arena []byte   // values of Bytes and Fixed, end to end
	End   []uint32 // Bytes and Fixed: where each value ends in Arena; it begins where the one before ends

	Entry []uint32 // MaxRep > 0 only: Rows+1 starts into Def and Rep
	Value []uint32 // MaxRep > 0 only: Rows+1 starts into the values
}

// Limits of a batch: rows so that a batch stays in the second-level cache while
// it is scattered, bytes so that large rows don't pile up. A single row may
// exceed the second.
const (
	BatchRowsMax  = 1024
	BatchBytesMax = 2 << 20
)

// NewBatch returns an empty batch for rows of layout.
func NewBatch(layout *Layout) *Batch {
	b := &Batch{Layout: layout, Columns: make([]Column, len(layout.Leaves))}
	for i := range b.Columns {
		if layout.Leaves[i].MaxRep > 0 {
			b.Columns[i].Entry = append(b.Columns[i].Entry, 0)
			b.Columns[i].Value = append(b.Columns[i].Value, 0)
		}
	}
	return b
}

// Reset empties the batch and keeps its memory.
func (b *Batch) Reset() {
	b.Rows = 0
	for i := range b.Columns {
		c := &b.Columns[i]
		c.Def, c.Rep, c.Fixed, c.Arena, c.End = c.Def[:0], c.Rep[:0], c.Fixed[:0], c.Arena[:0], c.End[:0]
		if b.Layout.Leaves[i].MaxRep > 0 {
			c.Entry, c.Value = c.Entry[:1], c.Value[:1]
		}
	}
}

// Values returns how many values the column holds.
func (c *Column) Values(kind Kind) int {
	if kind == Bytes || kind == Fixed {
		return len(c.End)
	}
	return len(c.Fixed)
}

// Bytes returns value i of a column of kind Bytes or Fixed. The caller must not
// keep or change it.
func (c *Column) Bytes(i int) []byte {
	var from uint32
	if i > 0 {
		from = c.End[i-1]
	}
	return c.Arena[from:c.End[i]]
}
