package writers

import (
	"fmt"
	"strings"

	"github.com/apache/iceberg-go"
)

// extra plans a column that is read beside the value: a struct with it as its
// only field.
func (b *planBuilder) extra(x scanExtra, n *fileNode) (*outNode, error) {
	name := ""
	f := x[0]
	for i := range x {
		f = x[i]
		if i > 0 {
			name = joinNames(name, x[i-1].Name)
		}
		var there *fileNode
		if n != nil {
			for _, child := range n.children {
				if child.id == f.ID {
					there = child
				}
			}
			if there != nil && i < len(x)-1 && there.kind != Struct {
				return nil, mismatched(&outNode{name: joinNames(name, f.Name)}, there, f.Type)
			}
		}
		n = there
	}
	f.Required = f.Required && len(x) == 1
	node, err := b.field(f, n, name, inExtra)
	if err != nil {
		return nil, err
	}
	return &outNode{kind: outStruct, name: node.name, children: []*outNode{node}, leaves: node.leaves, leaf: node.leaf}, nil
}

// Extra columns are named by their place in ScanOptions.Extra.

// Null tells whether row i has no value in extra column k.
func (r *Rows) Null(k, i int) bool {
	n := r.file.plan.extras[k].children[0]
	if n.kind == outConstant {
		return n.constant == nil && len(n.text) == 0 || n.constant != nil && n.constant.null
	}
	l := r.file.leaves[n.leaf]
	if l.plan.maxDef == 0 {
		return false
	}
	def := l.def[l.slot(r.window(i))]
	if n.kind == outLeaf {
		return def != l.plan.maxDef
	}
	return def < n.def
}

// AppendText appends the value of extra column k in row i: strings and binaries
// as their bytes are, other primitive types as in JSON but without quotes,
// structs, lists and maps as JSON. It appends nothing for null. Values that have
// no text are refused as AppendJSON refuses them.
func (r *Rows) AppendText(to []byte, k, i int) ([]byte, error) {
	if r.Null(k, i) {
		return to, nil
	}
	n := r.file.plan.extras[k].children[0]
	row, ok := r.window(i), true
	switch {
	case n.constant != nil:
		to, ok = n.form.appendRaw(to, n.constant.inBytes, n.constant.number, n.constant.bytes)
	case n.kind == outLeaf:
		l := r.file.leaves[n.leaf]
		slot := l.slot(row)
		if l.plan.bytes {
			to, ok = n.form.appendRaw(to, true, 0, l.octets(slot))
		} else {
			to, ok = n.form.appendRaw(to, false, l.integer(slot), nil)
		}
	default:
		r.wrong = nil
		start := len(to)
		to = r.fields(to, r.file.plan.extras[k], row)
		to = to[:max(start, len(to)-1)] // without the comma
		if r.wrong != nil {
			return to[:start], &RowError{File: r.file.name, Row: r.first + int64(row), Column: r.wrong.name, Detail: r.detail}
		}
	}
	if !ok {
		return to, &RowError{File: r.file.name, Row: r.first + int64(row), Column: n.name, Detail: "the value has no text"}
	}
	return to, nil
}

// appendRaw appends a value that stands alone.
func (f *outForm) appendRaw(to []byte, inBytes bool, number int64, b []byte) ([]byte, bool) {
	switch {
	case inBytes && (f.op == outString || f.op == outBase64):
		return append(to, b...), true
	case inBytes:
		return f.appendBytes(to, b)
	}
	from := len(to)
	to, ok := f.appendNumber(to, number)
	if len(to) > from && to[from] == '"' { // NaN
		copy(to[from:], to[from+1:])
		to = to[:len(to)-2]
	}
	return to, ok
}

// Int returns the value of extra column k in row i: an int or long; days of a
// date; microseconds of a time or timestamp (nanoseconds of timestamp_ns), since
// 1970; 0 or 1 of a boolean. It is 0 for null, and panics for other types.
func (r *Rows) Int(k, i int) int64 {
	if r.Null(k, i) {
		return 0
	}
	n := r.file.plan.extras[k].children[0]
	if n.constant != nil && !n.constant.inBytes {
		return n.constant.number
	}
	if n.kind != outLeaf || n.form.op == outFloat || n.form.op == outDouble {
		panic(fmt.Sprintf("column %s has no whole numbers", n.name))
	}
	l := r.file.leaves[n.leaf]
	return l.integer(l.slot(r.window(i)))
}

// Pairs calls each for every entry of extra column k in row i, whose type must
// be as PairsOf wants it. Null has no entries. The bytes are valid as long as
// the rows are; a value that is null is nil, one that is empty is not. It
// returns a *RowError where the file is damaged.
func (r *Rows) Pairs(k, i int, each func(key, value []byte)) error {
	n := r.file.plan.extras[k].children[0]
	if r.Null(k, i) || n.kind == outConstant {
		return nil
	}
	row := r.window(i)
	lead := r.file.leaves[n.leaf]
	key, value := n.part("key"), n.part("value")
	from, to := int(lead.start[lead.off+row]), int(lead.start[lead.off+row+1])
	for _, leaf := range n.leaves {
		if l := r.file.leaves[leaf]; int(l.start[l.off+row+1])-int(l.start[l.off+row]) != to-from {
			return &RowError{File: r.file.name, Row: r.first + int64(row), Column: n.name, Detail: "keys and values differ in number: the file is damaged"}
		}
	}
	for at := range to - from {
		if lead.def[from+at] >= n.entry {
			each(r.entry(key, row, at), r.entry(value, row, at))
		}
	}
	return nil
}

// part finds a part of the pairs that n has.
func (n *outNode) part(name string) *outNode {
	parts := n.children
	if n.kind == outList {
		parts = n.children[0].children
	}
	for _, p := range parts {
		if strings.HasSuffix(p.name, "."+name) && p.kind == outLeaf {
			return p
		}
	}
	return nil // the file does not have it
}

// entry returns the bytes of a row's entry, nil for null.
func (r *Rows) entry(n *outNode, row, at int) []byte {
	if n == nil {
		return nil
	}
	l := r.file.leaves[n.leaf]
	slot := int(l.start[l.off+row]) + at
	if !l.there(slot) {
		return nil
	}
	if b := l.octets(slot); b != nil {
		return b
	}
	return []byte{}
}

// PairsOf tells whether a column's type is one that Pairs reads: a list of
// structs whose two fields are key and value, in either order, or a map, of
// strings or binaries.
func PairsOf(t iceberg.Type) bool {
	text := func(t iceberg.Type) bool {
		return t.Equals(iceberg.PrimitiveTypes.String) || t.Equals(iceberg.PrimitiveTypes.Binary)
	}
	switch t := t.(type) {
	case *iceberg.MapType:
		return text(t.KeyType) && text(t.ValueType)
	case *iceberg.ListType:
		s, ok := t.Element.(*iceberg.StructType)
		if !ok || len(s.FieldList) != 2 {
			return false
		}
		_, key := fieldNamed(s.FieldList, "key")
		_, value := fieldNamed(s.FieldList, "value")
		return key && value && text(s.FieldList[0].Type) && text(s.FieldList[1].Type)
	}
	return false
}
