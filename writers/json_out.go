package writers

import (
	"bytes"
	"fmt"
)

// RowError says why a row can't be written.
type RowError struct {
	File   string
	Row    int64  // in the file, from 0
	Column string // full name
	Detail string
}

func (e *RowError) Error() string {
	return fmt.Sprintf("file %s: row %d: column %q: %s", e.File, e.Row, e.Column, e.Detail)
}

// Rows is a batch of rows of a file. It belongs to the scan that filled it, and
// is valid until that scan's next Next, SeekRow or Close. It is not safe for
// concurrent use.
type Rows struct {
	file   *ScanFile
	rows   int
	first  int64   // row of the file that the window begins with
	picked []int32 // rows of the window that were not deleted; nil: all
	at     []int   // a leaf: the next entry of the row that is being written
	end    []int   // a leaf: the end of that row's entries
	wrong  *outNode
	detail string

	pickedMemory []int32
}

// Len returns how many rows there are.
func (r *Rows) Len() int { return r.rows }

// window returns the place of row i in the leaves' windows.
func (r *Rows) window(i int) int {
	if r.picked != nil {
		return int(r.picked[i])
	}
	if i < 0 || i >= r.rows {
		panic(fmt.Sprintf("row %d of %d", i, r.rows))
	}
	return i
}

// RowNumber returns the place of row i in its file, from 0, deleted rows
// counted.
func (r *Rows) RowNumber(i int) int64 { return r.first + int64(r.window(i)) }

// AppendJSON appends row i as a JSON object without white space, and returns
// the extended slice; all of to's capacity may be written to. For a row that JSON can't say it returns to as it was and
// a *RowError; other rows are not concerned. The fields are in the order of the
// table's schema:
//
//	column                    JSON
//	------------------------  -----------------------------------------------------
//	null                      null, or no field with Nulls "omit"
//	boolean                   true, false
//	int, long                 a number with all digits; long with Numbers "string": a string
//	float, double             the shortest number that reads back the same; "NaN",
//	                          "Infinity" and "-Infinity" as strings, for JSON has no such numbers
//	decimal(p, s)             a number with all s digits after the point; with
//	                          Numbers "string": a string
//	string                    a string
//	uuid                      a string, 8-4-4-4-12 hex digits in lower case
//	fixed, binary             a string, base64 (RFC 4648 §4, padded)
//	date                      a string YYYY-MM-DD
//	time                      a string HH:MM:SS and a fraction of 3 or 6 digits, if it has one
//	timestamp                 a string YYYY-MM-DDTHH:MM:SS and such a fraction; with
//	                          Timestamps "epoch_millis" and "epoch_micros" a number,
//	                          with a fraction where the value is finer
//	timestamptz               the same with Z
//	struct                    an object
//	list                      a list
//	map                       an object whose names are the texts of the keys; a list of
//	                          {"key":…,"value":…} where keys are structs, lists or maps
//
// The decoder of this package reads back the same values from it, but for what
// it refuses: floats that are no numbers, maps that are lists, long as strings,
// and years other than 0001 to 9999, which are written with a sign and at least
// five digits. Two equal keys of a map, which no map should have, become two
// equal names. Refused are strings that are no UTF-8 and times of more than a day.
func (r *Rows) AppendJSON(to []byte, i int) ([]byte, error) {
	row, start := r.window(i), len(to)
	r.wrong = nil
	to = r.fields(append(to, '{'), r.file.plan.root, row)
	to = shut(to, '{', '}')
	if r.wrong != nil {
		return to[:start], &RowError{File: r.file.name, Row: r.first + int64(row), Column: r.wrong.name, Detail: r.detail}
	}
	return to, nil
}

// shut ends an object or a list, whose fields all bring a comma.
func shut(to []byte, open, end byte) []byte {
	if last := len(to) - 1; to[last] == ',' {
		to[last] = end
		return to
	}
	return append(to, end)
}

// fields appends the fields of a struct outside of lists and maps, each with a
// comma.
func (r *Rows) fields(to []byte, n *outNode, row int) []byte {
	leaves := r.file.leaves
	for _, c := range n.children {
		switch c.kind {
		case outLeaf:
			l := leaves[c.leaf]
			slot := l.off + row
			switch {
			case c.def > 0 && l.def[slot] != c.def:
				to = appendShort(to, c.null, len(c.null))
			case l.texts != nil:
				to = l.texts.append(to, l.number[slot])
			default:
				to = append(r.value(appendShort(to, c.prefix, len(c.prefix)), c, l, slot), ',')
			}
		case outConstant:
			to = append(to, c.text...)
		case outStruct:
			l := leaves[c.leaf]
			if c.def > 0 && l.def[l.slot(row)] < c.def {
				to = append(to, c.null...)
				continue
			}
			to = append(append(to, c.prefix...), '{')
			to = append(shut(r.fields(to, c, row), '{', '}'), ',')
		default:
			for _, leaf := range c.leaves {
				l := leaves[leaf]
				r.at[leaf], r.end[leaf] = int(l.start[l.off+row]), int(l.start[l.off+row+1])
			}
			to = r.field(to, c)
			for _, leaf := range c.leaves {
				if r.at[leaf] != r.end[leaf] {
					r.refuse(c, "its columns in the file disagree about how many entries there are: the file is damaged")
				}
			}
		}
	}
	return to
}

// field appends one field inside of a list or map, with a comma, and moves past
// its entries.
func (r *Rows) field(to []byte, n *outNode) []byte {
	if n.kind == outConstant {
		return append(to, n.text...)
	}
	l, slot := r.file.leaves[n.leaf], r.at[n.leaf]
	if slot >= r.end[n.leaf] {
		r.refuse(n, "its columns in the file disagree about how many entries there are: the file is damaged")
		return to
	}
	def := uint8(0)
	if l.plan.maxDef > 0 {
		def = l.def[slot]
	}
	if n.kind == outLeaf {
		r.at[n.leaf]++
		if def != l.plan.maxDef {
			return append(to, n.null...)
		}
		if l.texts != nil {
			return l.texts.append(to, l.number[slot])
		}
		return append(r.value(appendShort(to, n.prefix, len(n.prefix)), n, l, slot), ',')
	}
	if def < n.def {
		r.pass(n)
		return append(to, n.null...)
	}
	to = append(to, n.prefix...)
	switch n.kind {
	case outStruct:
		to = append(to, '{')
		for _, c := range n.children {
			to = r.field(to, c)
		}
		to = shut(to, '{', '}')
	case outList:
		to = shut(r.entries(append(to, '['), n, l, def), '[', ']')
	default:
		to = shut(r.entries(append(to, '{'), n, l, def), '{', '}')
	}
	return append(to, ',')
}

// entries appends the entries of a list or map, each with a comma.
func (r *Rows) entries(to []byte, n *outNode, l *scanLeaf, def uint8) []byte {
	if def < n.entry {
		r.pass(n)
		return to
	}
	for {
		if n.kind == outMap {
			before := len(to)
			if to = r.field(to, n.children[0]); len(to) == before {
				r.refuse(n.children[0], "a key is null")
				return to
			}
			to[len(to)-1] = ':'
			to = r.field(to, n.children[1])
		} else {
			to = r.field(to, n.children[0])
		}
		if slot := r.at[n.leaf]; r.wrong != nil || slot >= r.end[n.leaf] || l.rep[slot] != n.rep {
			return to
		}
	}
}

// pass moves past an entry without a value.
func (r *Rows) pass(n *outNode) {
	for _, leaf := range n.leaves {
		r.at[leaf]++
	}
}

// value appends a value that is there.
func (r *Rows) value(to []byte, n *outNode, l *scanLeaf, slot int) []byte {
	switch {
	case n.form.op == outInteger && !n.form.quoted:
		return appendInteger(to, l.integer(slot))
	case n.form.op == outString:
		b := l.octets(slot)
		to, ok := appendEscaped(append(to, '"'), b)
		if !ok {
			r.refuse(n, n.form.whyNot(b))
		}
		return append(to, '"')
	case l.plan.bytes:
		return r.appendBytes(to, n, l.octets(slot))
	}
	return r.appendNumber(to, n, l.integer(slot))
}

func (r *Rows) appendBytes(to []byte, n *outNode, b []byte) []byte {
	to, ok := n.form.textOfBytes(to, b)
	if !ok {
		r.refuse(n, n.form.whyNot(b))
	}
	return to
}

func (r *Rows) appendNumber(to []byte, n *outNode, v int64) []byte {
	to, ok := n.form.textOfNumber(to, v)
	if !ok {
		r.refuse(n, fmt.Sprintf("a time of %d µs is not within a day", v))
	}
	return to
}

// refuse notes why the row can't be written.
func (r *Rows) refuse(n *outNode, detail string) {
	if r.wrong == nil {
		r.wrong, r.detail = n, detail
	}
}

// textOfBytes appends a value with its quotes.
func (f *outForm) textOfBytes(to, b []byte) ([]byte, bool) {
	if !f.quotes() {
		return f.appendBytes(to, b)
	}
	to, ok := f.appendBytes(append(to, '"'), b)
	return append(to, '"'), ok
}

// textOfNumber appends a value with its quotes.
func (f *outForm) textOfNumber(to []byte, v int64) ([]byte, bool) {
	if !f.quotes() {
		return f.appendNumber(to, v)
	}
	from := len(to)
	to, ok := f.appendNumber(append(to, '"'), v)
	if len(to) > from+1 && to[from+1] == '"' { // no number, which brings its own quotes
		copy(to[from:], to[from+1:])
		return to[:len(to)-1], ok
	}
	return append(to, '"'), ok
}

// whyNot says why bytes have no text.
func (f *outForm) whyNot(b []byte) string {
	if f.op == outString {
		return "the string " + quote(bytes.ToValidUTF8(b, []byte("�"))) + " is no UTF-8; a binary column would hold it"
	}
	return fmt.Sprintf("a decimal of %d bytes has more than 38 digits", len(b))
}

// dictionaryText has the JSON of all values of a dictionary, prefix and comma
// included, so that a value is a copy.
type dictionaryText struct {
	built bool
	bytes []byte
	ends  []uint32 // one more than values
}

func (t *dictionaryText) append(to []byte, number uint32) []byte {
	from, end := t.ends[number], t.ends[number+1]
	return appendShort(to, t.bytes[from:], int(end-from))
}

// shortBytes is how much appendShort copies at once.
const shortBytes = 32

// appendShort appends the first n bytes of s. Short texts are most of a row:
// where there is room behind both, a copy of fixed size is cheaper than a call
// that looks at the size first.
func appendShort(to, s []byte, n int) []byte {
	at := len(to)
	if n <= shortBytes && cap(s) >= shortBytes && cap(to)-at >= shortBytes {
		*(*[shortBytes]byte)(to[at : at+shortBytes]) = *(*[shortBytes]byte)(s[:shortBytes])
		return to[:at+n]
	}
	return append(to, s[:n]...)
}

// roomy returns s with the room behind it that appendShort likes.
func roomy(s []byte) []byte {
	return append(make([]byte, 0, len(s)+shortBytes), s...)
}

// dictionaryTextMax bounds the text of a dictionary: every column may have one,
// and a larger one is no more in the cache, so that a copy from it costs as much
// as writing the value.
const dictionaryTextMax = 1 << 20

// build writes all values. It leaves those to each row that have no text, or
// too much of it.
func (t *dictionaryText) build(d *scanDictionary, n *outNode, inBytes bool) {
	t.bytes, t.ends = t.bytes[:0], append(sized(t.ends, d.count+1)[:0], 0)
	for i := range d.count {
		t.bytes = append(t.bytes, n.prefix...)
		ok := false
		if inBytes {
			w := d.views[i]
			t.bytes, ok = n.form.textOfBytes(t.bytes, d.base[w>>32:][:uint32(w)])
		} else {
			t.bytes, ok = n.form.textOfNumber(t.bytes, d.fixed[i])
		}
		if !ok || len(t.bytes) > dictionaryTextMax {
			return
		}
		t.bytes = append(t.bytes, ',')
		t.ends = append(t.ends, uint32(len(t.bytes)))
	}
	t.bytes = append(t.bytes, make([]byte, shortBytes)...)
	t.built = true
}
