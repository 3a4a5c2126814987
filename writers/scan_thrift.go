package writers

import "encoding/binary"

// uncompact reads structures of Thrift's compact protocol from bytes that may
// be cut or wrong. After anything that can't be, bad is set and all that
// follows reads as zero, so that callers check once, at the end.
//
// Source: thrift/doc/specs/thrift-compact-protocol.md.
type uncompact struct {
	from []byte
	at   int
	bad  bool
	// short tells that bad was set because from ended, not because it is wrong.
	short bool
}

// thriftDepthMax bounds how deep structures nest that nobody asked for.
const thriftDepthMax = 32

func (r *uncompact) cut() {
	r.bad, r.short = true, true
	r.at = len(r.from)
}

func (r *uncompact) octet() byte {
	if r.bad || r.at >= len(r.from) {
		r.cut()
		return 0
	}
	r.at++
	return r.from[r.at-1]
}

func (r *uncompact) unsigned() uint64 {
	if r.bad {
		return 0
	}
	v, n := binary.Uvarint(r.from[r.at:])
	if n <= 0 {
		if n == 0 {
			r.cut()
		}
		r.bad = true
		return 0
	}
	r.at += n
	return v
}

func (r *uncompact) signed() int64 {
	v := r.unsigned()
	return int64(v>>1) ^ -int64(v&1)
}

// int32 reads a number and refuses what has more bits.
func (r *uncompact) int32() int32 {
	v := r.signed()
	if int64(int32(v)) != v {
		r.bad = true
		return 0
	}
	return int32(v)
}

// binary returns a part of the input.
func (r *uncompact) binary() []byte {
	n := r.unsigned()
	if r.bad || n > uint64(len(r.from)-r.at) {
		r.cut()
		return nil
	}
	r.at += int(n)
	return r.from[r.at-int(n) : r.at]
}

// field reads the header of a structure's next field. It returns kind 0 at the
// structure's end. last is the id of the field before, 0 at first.
func (r *uncompact) field(last int16) (id int16, kind byte) {
	b := r.octet()
	if r.bad || b == 0 {
		return 0, 0
	}
	if delta := b >> 4; delta > 0 {
		return last + int16(delta), b & 15
	}
	return int16(r.signed()), b & 15
}

// list reads the header of a list. Its length is bounded by what is left to
// read, for an item has at least a byte.
func (r *uncompact) list() (n int, kind byte) {
	b := r.octet()
	size := uint64(b >> 4)
	if size == 15 {
		size = r.unsigned()
	}
	if r.bad || size > uint64(len(r.from)-r.at) {
		r.cut()
		return 0, 0
	}
	return int(size), b & 15
}

// skip passes over a value.
func (r *uncompact) skip(kind byte, depth int) {
	if depth > thriftDepthMax {
		r.bad = true
	}
	if r.bad {
		return
	}
	switch kind {
	case compactTrue, compactFalse: // the value is in the kind
	case 3:
		r.octet()
	case compactI16, compactI32, compactI64:
		r.unsigned()
	case 7:
		r.at += 8
		if r.at > len(r.from) {
			r.cut()
		}
	case compactBinary:
		r.binary()
	case compactList, 10:
		n, item := r.list()
		for range n {
			r.skipItem(item, depth+1)
		}
	case 11:
		n := r.unsigned()
		if n == 0 || r.bad {
			return
		}
		kinds := r.octet()
		for range min(n, uint64(len(r.from))) {
			r.skipItem(kinds>>4, depth+1)
			r.skipItem(kinds&15, depth+1)
		}
	case compactStruct:
		for last := int16(0); ; {
			id, kind := r.field(last)
			if kind == 0 {
				return
			}
			r.skip(kind, depth+1)
			last = id
		}
	default:
		r.bad = true
	}
}

// skipItem passes over an item of a list or map, where booleans take a byte.
func (r *uncompact) skipItem(kind byte, depth int) {
	if kind == compactTrue || kind == compactFalse {
		r.octet()
		return
	}
	r.skip(kind, depth)
}

// structure calls read for each field of a structure. read returns false for
// fields that it leaves to be passed over.
func (r *uncompact) structure(read func(id int16, kind byte) bool) {
	for last := int16(0); ; {
		id, kind := r.field(last)
		if kind == 0 {
			return
		}
		if !read(id, kind) {
			r.skip(kind, 0)
		}
		last = id
	}
}

// items calls read for each item of a list.
func (r *uncompact) items(kind byte, read func()) {
	if kind != compactList {
		r.bad = true
		return
	}
	n, _ := r.list()
	for range n {
		if r.bad {
			return
		}
		read()
	}
}
