package writers

import (
	"encoding/binary"
	"fmt"
	"strings"
)

// The walk reads one value at a time. Its functions take the position where
// the value begins and return the position after it, or a negative one after
// they noted why they refuse it. rep is the repetition level of the first
// entry that they add.

// object reads the object that begins at p into the columns below f.
func (d *JSON) object(f *field, buf []byte, p int, rep uint8) int {
	d.serial++
	serial := d.serial
	f.object = serial
	missing := len(f.children)
	guess, before := f.opening, (*field)(nil)
	p = space(buf, p+1)
	if p < len(buf) && buf[p] == '}' {
		return d.absent(f, p+1, rep)
	}
	for {
		child := guess
		if child != nil && child.key != "" && len(buf)-p > len(child.key) && buf[p] == '"' && string(buf[p+1:p+1+len(child.key)]) == child.key {
			p += 1 + len(child.key)
		} else if child, p = d.name(f, buf, p); p < 0 {
			return p
		}
		if p = colon(buf, p); p < 0 {
			return d.syntax(f, buf, ^p, "a colon")
		}
		if child == nil {
			if p = d.skip(f, buf, p, JSONDepthMax); p < 0 {
				return p
			}
		} else {
			if child.seen == serial {
				return d.fail(child, ReasonDuplicate, "the field is there twice")
			}
			child.seen = serial
			missing--
			if child != guess {
				f.follow(before, child)
			}
			before, guess = child, child.after
			if p = d.value(child, buf, p, rep); p < 0 {
				return p
			}
		}
		p = space(buf, p)
		if p >= len(buf) {
			return d.early(f)
		}
		if buf[p] == '}' {
			break
		}
		if buf[p] != ',' {
			return d.syntax(f, buf, p, "a comma or }")
		}
		p = space(buf, p+1)
	}
	if missing > 0 {
		return d.absent(f, p+1, rep)
	}
	return p + 1
}

// follow notes that next came after before, or first.
func (f *field) follow(before, next *field) {
	if before == nil {
		f.opening = next
		return
	}
	before.after = next
}

// name reads a name that was not predicted. It returns nil for an unknown
// field that may be ignored.
func (d *JSON) name(f *field, buf []byte, p int) (*field, int) {
	if p >= len(buf) {
		return nil, d.early(f)
	}
	if buf[p] != '"' {
		return nil, d.syntax(f, buf, p, "a name in quotes")
	}
	name, p := d.text(f, buf, p+1)
	if p < 0 {
		return nil, p
	}
	if child := f.names.find(name); child != nil {
		return child, p
	}
	if d.options.RefuseUnknown {
		d.err = &RecordError{Reason: ReasonUnknown, Field: f.within(name), Detail: "no column for the field " + quote(name)}
		return nil, -1
	}
	if !d.unique.add(f.object, name) {
		return nil, d.fail(f, ReasonDuplicate, "the field "+quote(name)+" is there twice")
	}
	return nil, p
}

// absent writes null for the fields that the object just read did not have.
func (d *JSON) absent(f *field, p int, rep uint8) int {
	for _, child := range f.children {
		if child.seen == f.object {
			continue
		}
		if child.required {
			return d.fail(child, ReasonRequired, "the field is absent, and required")
		}
		d.mark(child, child.def-1, rep)
	}
	return p
}

// mark writes an entry without a value to each column below f.
func (d *JSON) mark(f *field, def, rep uint8) {
	leaves := d.layout.Leaves
	for i := f.first; i < f.end; i++ {
		c := &d.cols[i]
		c.Def = append(c.Def, def)
		if leaves[i].MaxRep > 0 {
			c.Rep = append(c.Rep, rep)
		}
	}
}

// value reads any value into the columns of f.
func (d *JSON) value(f *field, buf []byte, p int, rep uint8) int {
	if p >= len(buf) {
		return d.early(f)
	}
	switch c := buf[p]; c {
	case '"':
		switch f.op {
		case opString:
			return d.str(f, buf, p+1, rep)
		case opDecimal, opDecimalWide, opUUID, opBase64, opDate, opTime, opTimestamp, opTimestampTZ:
			text, next := d.text(f, buf, p+1)
			if next < 0 || !d.parse(f, text, rep) {
				return -1
			}
			return next
		default:
		}
	case '-', '0', '1', '2', '3', '4', '5', '6', '7', '8', '9':
		return d.number(f, buf, p, rep)
	case '{':
		switch f.op {
		case opStruct:
			return d.object(f, buf, p, rep)
		case opMap:
			return d.pairs(f, buf, p, rep)
		default:
		}
	case '[':
		if f.op == opList {
			return d.list(f, buf, p, rep)
		}
	case 't', 'f':
		if f.op != opBool {
			break
		}
		if literal(buf, p, "true") {
			d.put(f, 1, rep)
			return p + len("true")
		}
		if literal(buf, p, "false") {
			d.put(f, 0, rep)
			return p + len("false")
		}
	case 'n':
		if !literal(buf, p, "null") {
			break
		}
		if f.required {
			return d.fail(f, ReasonRequired, "null, and required")
		}
		d.mark(f, f.def-1, rep)
		return p + len("null")
	}
	return d.mismatch(f, buf, p)
}

// list reads the list that begins at p.
func (d *JSON) list(f *field, buf []byte, p int, rep uint8) int {
	p = space(buf, p+1)
	if p < len(buf) && buf[p] == ']' {
		d.mark(f, f.def, rep)
		return p + 1
	}
	element := f.children[0]
	for {
		if p = d.value(element, buf, p, rep); p < 0 {
			return p
		}
		rep = f.rep
		p = space(buf, p)
		if p >= len(buf) {
			return d.early(f)
		}
		if buf[p] == ']' {
			return p + 1
		}
		if buf[p] != ',' {
			return d.syntax(f, buf, p, "a comma or ]")
		}
		p = space(buf, p+1)
	}
}

// pairs reads the object that begins at p as a map.
func (d *JSON) pairs(f *field, buf []byte, p int, rep uint8) int {
	p = space(buf, p+1)
	if p < len(buf) && buf[p] == '}' {
		d.mark(f, f.def, rep)
		return p + 1
	}
	d.serial++
	serial := d.serial
	key, value := f.children[0], f.children[1]
	for {
		if p >= len(buf) {
			return d.early(f)
		}
		if buf[p] != '"' {
			return d.syntax(f, buf, p, "a name in quotes")
		}
		text, next := d.text(f, buf, p+1)
		if next < 0 || !d.parse(key, text, rep) {
			return -1
		}
		if !d.unique.add(serial, d.last(key)) {
			return d.fail(key, ReasonDuplicate, "the key "+quote(text)+" is there twice")
		}
		if p = colon(buf, next); p < 0 {
			return d.syntax(f, buf, ^p, "a colon")
		}
		if p = d.value(value, buf, p, rep); p < 0 {
			return p
		}
		rep = f.rep
		p = space(buf, p)
		if p >= len(buf) {
			return d.early(f)
		}
		if buf[p] == '}' {
			return p + 1
		}
		if buf[p] != ',' {
			return d.syntax(f, buf, p, "a comma or }")
		}
		p = space(buf, p+1)
	}
}

// last returns the last value of a leaf in a form that is equal for equal
// values. It is valid until the next call.
func (d *JSON) last(f *field) []byte {
	c := &d.cols[f.leaf]
	if len(c.End) > 0 {
		return c.Bytes(len(c.End) - 1)
	}
	v := uint64(c.Fixed[len(c.Fixed)-1])
	if f.op == opFloat && v == 1<<31 || f.op == opDouble && v == 1<<63 {
		v = 0 // zero has one name, though it has two signs
	}
	binary.LittleEndian.PutUint64(d.keyBytes[:], v)
	return d.keyBytes[:]
}

// put writes a value of a kind that lies in Column.Fixed.
func (d *JSON) put(f *field, v int64, rep uint8) {
	c := &d.cols[f.leaf]
	c.Fixed = append(c.Fixed, v)
	if f.def > 0 {
		c.Def = append(c.Def, f.def)
	}
	if f.rep > 0 {
		c.Rep = append(c.Rep, rep)
	}
}

// seal ends the value that was added to Column.Arena.
func (d *JSON) seal(f *field, c *Column, rep uint8) {
	c.End = append(c.End, uint32(len(c.Arena)))
	if f.def > 0 {
		c.Def = append(c.Def, f.def)
	}
	if f.rep > 0 {
		c.Rep = append(c.Rep, rep)
	}
}

// fail notes why the record is refused and returns a negative position.
func (d *JSON) fail(f *field, reason Reason, detail string) int {
	d.err = &RecordError{Reason: reason, Field: f.name, Detail: detail}
	return -1
}

// within is the path of a name in the object f, which no column has. A name
// without end is cut.
func (f *field) within(name []byte) string {
	const nameBytesMax = 200
	path := strings.ToValidUTF8(string(name[:min(len(name), nameBytesMax)]), "")
	if f.name != "" {
		path = f.name + "." + path
	}
	return path
}

// early refuses a value that ends too soon.
func (d *JSON) early(f *field) int {
	return d.fail(f, ReasonSyntax, "the value ends in the middle of the object")
}

// syntax refuses what stands at p.
func (d *JSON) syntax(f *field, buf []byte, p int, expected string) int {
	if p >= len(buf) {
		return d.early(f)
	}
	return d.fail(f, ReasonSyntax, fmt.Sprintf("%s at byte %d; expected %s", clip(buf[p:]), p, expected))
}

// mismatch refuses a value that begins at p and is none of the column's.
func (d *JSON) mismatch(f *field, buf []byte, p int) int {
	found := ""
	switch c := buf[p]; {
	case c == '"':
		found = "a string, "
	case c == '{':
		found = "an object, "
	case c == '[':
		found = "a list, "
	case c == '-' || c >= '0' && c <= '9':
		found = "a number, "
	case literal(buf, p, "true"), literal(buf, p, "false"):
		found = "a boolean, "
	case literal(buf, p, "null"):
		found = "null, "
	default:
		return d.syntax(f, buf, p, f.description)
	}
	return d.fail(f, ReasonType, found+clip(buf[p:])+"; expected "+f.description)
}
