package writers

import "encoding/binary"

// compact writes structures in Thrift's compact protocol, the form of Parquet's
// page headers, indexes and footer. Fields must be written in ascending order.
//
// Source: thrift/doc/specs/thrift-compact-protocol.md.
type compact struct {
	to   []byte
	last int16   // id of the field written last in the open structure
	open []int16 // the same of the structures around it
}

// Types of the compact protocol that Parquet's structures use.
const (
	compactTrue   = 1
	compactFalse  = 2
	compactI16    = 4
	compactI32    = 5
	compactI64    = 6
	compactBinary = 8
	compactList   = 9
	compactStruct = 12
)

func (w *compact) field(id int16, kind byte) {
	if delta := id - w.last; 0 < delta && delta < 16 {
		w.to = append(w.to, byte(delta)<<4|kind)
	} else {
		w.to = binary.AppendVarint(append(w.to, kind), int64(id))
	}
	w.last = id
}

func (w *compact) i16(id int16, v int16) {
	w.field(id, compactI16)
	w.to = binary.AppendVarint(w.to, int64(v))
}

func (w *compact) i32(id int16, v int32) {
	w.field(id, compactI32)
	w.to = binary.AppendVarint(w.to, int64(v))
}

func (w *compact) i64(id int16, v int64) {
	w.field(id, compactI64)
	w.to = binary.AppendVarint(w.to, v)
}

func (w *compact) bool(id int16, v bool) {
	if v {
		w.field(id, compactTrue)
	} else {
		w.field(id, compactFalse)
	}
}

func (w *compact) bytes(id int16, v []byte) {
	w.field(id, compactBinary)
	w.itemBytes(v)
}

func (w *compact) string(id int16, v string) {
	w.field(id, compactBinary)
	w.itemString(v)
}

// begin opens a structure as a field; end closes it.
func (w *compact) begin(id int16) {
	w.field(id, compactStruct)
	w.beginItem()
}

// beginItem opens a structure that is an item of a list, or the outermost one.
func (w *compact) beginItem() {
	w.open = append(w.open, w.last)
	w.last = 0
}

func (w *compact) end() {
	w.to = append(w.to, 0)
	w.last = w.open[len(w.open)-1]
	w.open = w.open[:len(w.open)-1]
}

// list begins a list as a field; its n items must follow.
func (w *compact) list(id int16, kind byte, n int) {
	w.field(id, compactList)
	if n < 15 {
		w.to = append(w.to, byte(n)<<4|kind)
	} else {
		w.to = binary.AppendUvarint(append(w.to, 0xF0|kind), uint64(n))
	}
}

func (w *compact) itemInt(v int64) { w.to = binary.AppendVarint(w.to, v) }

func (w *compact) itemBool(v bool) {
	if v {
		w.to = append(w.to, compactTrue)
	} else {
		w.to = append(w.to, compactFalse)
	}
}

func (w *compact) itemBytes(v []byte) {
	w.to = append(binary.AppendUvarint(w.to, uint64(len(v))), v...)
}

func (w *compact) itemString(v string) {
	w.to = append(binary.AppendUvarint(w.to, uint64(len(v))), v...)
}
