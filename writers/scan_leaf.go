package writers

import (
	"bytes"
	"errors"
	"fmt"
	"io"

	"golang.org/x/sync/errgroup"
)

// leafPlan is how a column of a file is read.
type leafPlan struct {
	column   int    // place in the file
	name     string // as the file has it
	physical int32
	width    int
	maxDef   uint8
	maxRep   uint8
	bytes    bool // values are views, else numbers
	nanos    bool // of INT96
	change   change
}

// scanLeaf is a column of a row group that is being read. It has a window of
// rows that are decoded, each value in the slot of its entry, so that a row's
// value is found by its place; the slots of nulls hold anything.
type scanLeaf struct {
	plan  *leafPlan
	text  *outNode // whose texts a dictionary may have; nil: nobody's
	pages pages

	// The window. Exactly one of numbered, fixed and views has the values.
	def      []uint8 // when plan.maxDef > 0
	rep      []uint8 // when plan.maxRep > 0
	numbered bool    // values are number in pages.dictionary
	number   []uint32
	texts    *dictionaryText // of number; nil: it has none
	fixed    []int64
	views    []uint64
	base     []byte   // what views point into
	start    []uint32 // when plan.maxRep > 0: where each row begins, and the last ends
	flatDef  []uint8  // memory for def
	off      int      // rows of the window that were consumed
	avail    int      // rows of the window that were not

	// Levels of the open page, of a column inside of lists.
	pageDef, pageRep []uint8
	pageAt           int
	tail             Column // a row that lies across pages
	skipped          int64  // rows still to be passed over
	chunkValues      int64
}

// scanRowsMax is how many rows are decoded at a time: so few that all columns
// stay in the second-level cache.
const scanRowsMax = 1024

// scanEntriesMax bounds the entries of a page of a column inside of lists,
// whose levels are decoded at once.
const scanEntriesMax = 64 << 20

// open begins a column chunk.
func (l *scanLeaf) open(c *fileChunk, object io.ReaderAt, end int64, window int, fetches *errgroup.Group) error {
	p := l.plan
	switch {
	case c.encrypted || !c.there:
		return errors.New("the column is encrypted, which is not supported")
	case c.external:
		return errors.New("the column lies in another file, which is not supported")
	case c.physical != p.physical:
		return fmt.Errorf("the column chunk has physical type %d, the schema %d", c.physical, p.physical)
	}
	l.pages.maxDef, l.pages.maxRep = p.maxDef, p.maxRep
	v := &l.pages.values
	v.physical, v.width, v.nanos = p.physical, p.width, p.nanos
	l.off, l.avail, l.pageAt, l.pageRep, l.pageDef = 0, 0, 0, l.pageRep[:0], l.pageDef[:0]
	l.chunkValues = c.values
	return l.pages.open(c, object, end, window, fetches)
}

// fill decodes up to most rows into the window, at least one.
func (l *scanLeaf) fill(most int) error {
	if l.plan.maxRep > 0 {
		return l.fillRows(most)
	}
	if l.pages.entries == 0 {
		if err := l.page(); err != nil {
			return err
		}
	}
	n := min(most, l.pages.entries)
	there := n
	if most := l.plan.maxDef; most > 0 {
		l.flatDef = sized(l.flatDef, n)
		l.def = l.flatDef
		if !l.pages.def.levels(l.def) {
			return errValues("there are too few definition levels")
		}
		there = bytes.Count(l.def, []byte{most})
	}
	l.pages.entries -= n
	l.off, l.avail = 0, n
	return l.read(n, there)
}

// page opens the next page that has rows which are not skipped.
func (l *scanLeaf) page() error {
	err := l.pages.next(&l.skipped)
	if errors.Is(err, io.EOF) {
		return errors.New("the column has fewer rows than the row group")
	}
	return err
}

// read decodes the values of n entries, of which so many are there, into the
// window.
func (l *scanLeaf) read(n, there int) error {
	v := &l.pages.values
	l.numbered = v.encoding == encodingDictionary || v.encoding == encodingPlainDictionary
	l.texts = nil
	switch {
	case l.numbered:
		l.number = sized(l.number, n)
		if !v.hybrid.numbers(l.number[:there]) {
			return errValues("there are too few")
		}
		if most := largest(l.number[:there]); there > 0 && int(most) >= l.pages.dictionary.count {
			return errValues(fmt.Sprintf("number %d of a dictionary of %d", most, l.pages.dictionary.count))
		}
		spread(l.number, l.def, l.plan.maxDef, there)
		return l.openDictionary()
	case l.plan.bytes:
		l.views = sized(l.views, n)
		if err := v.views(l.views[:there]); err != nil {
			return err
		}
		l.base = v.base
		spread(l.views, l.def, l.plan.maxDef, there)
		return nil
	default:
		l.fixed = sized(l.fixed, n)
		if err := v.numbers(l.fixed[:there]); err != nil {
			return err
		}
		if err := l.plan.change.apply(l.fixed[:there]); err != nil {
			return err
		}
		spread(l.fixed, l.def, l.plan.maxDef, there)
		return nil
	}
}

// openDictionary changes the dictionary's numbers to what the table's type has,
// and makes the texts of all values where that is worth it: where most come up
// again. It does so once a dictionary.
func (l *scanLeaf) openDictionary() error {
	d := &l.pages.dictionary
	if !d.changed {
		d.changed = true
		if !l.plan.bytes {
			if err := l.plan.change.apply(d.fixed[:d.count]); err != nil {
				return err
			}
		}
		d.text.built = false
		if l.text != nil && l.chunkValues >= 2*int64(d.count) {
			d.text.build(d, l.text, l.plan.bytes)
		}
	}
	if d.text.built {
		l.texts = &d.text
	}
	return nil
}

func largest(numbers []uint32) uint32 {
	most := uint32(0)
	for _, n := range numbers {
		most = max(most, n)
	}
	return most
}

// spread moves values that lie one after another to the slots of their entries.
func spread[T uint32 | uint64 | int64](s []T, def []uint8, most uint8, there int) {
	from := there - 1
	for i := len(s) - 1; i > from && from >= 0; i-- {
		s[i] = s[from]
		if def[i] == most {
			from--
		}
	}
}

// fillRows is fill for a column inside of lists, where rows have any number of
// entries and may lie across pages.
func (l *scanLeaf) fillRows(most int) error {
	if l.pageAt == len(l.pageRep) {
		if err := l.pageLevels(); err != nil {
			return err
		}
	}
	rep := l.pageRep[l.pageAt:]
	if rep[0] != 0 {
		return errValues("a row begins within a list")
	}
	l.start = append(l.start[:0], 0)
	end := 0
	for i := 1; i < len(rep) && len(l.start) <= most; i++ {
		if rep[i] == 0 {
			l.start = append(l.start, uint32(i))
			end = i
		}
	}
	if len(l.start) <= most && l.pages.left == 0 {
		l.start = append(l.start, uint32(len(rep)))
		end = len(rep)
	}
	if end == 0 {
		return l.tailRow()
	}
	l.off, l.avail = 0, len(l.start)-1
	return l.entries(end)
}

// entries makes the page's next n entries the window.
func (l *scanLeaf) entries(n int) error {
	there := n
	l.rep, l.def = l.pageRep[l.pageAt:l.pageAt+n], nil
	if l.plan.maxDef > 0 {
		l.def = l.pageDef[l.pageAt : l.pageAt+n]
		there = bytes.Count(l.def, []byte{l.plan.maxDef})
	}
	l.pageAt += n
	return l.read(n, there)
}

// pageLevels opens the next page and decodes its levels.
func (l *scanLeaf) pageLevels() error {
	if err := l.page(); err != nil {
		return err
	}
	n := l.pages.entries
	if n > scanEntriesMax {
		return fmt.Errorf("a page of %d entries of a list: at most %d can be read", n, scanEntriesMax)
	}
	l.pages.entries, l.pageAt = 0, 0
	l.pageRep, l.pageDef = sized(l.pageRep, n), sized(l.pageDef, n)
	if !l.pages.rep.levels(l.pageRep) || l.plan.maxDef > 0 && !l.pages.def.levels(l.pageDef) {
		return errValues("there are too few levels")
	}
	return nil
}

// tailRow makes the last row of a page the window, which may go on in the
// pages that follow. Its values are copied, for pages go as they come.
func (l *scanLeaf) tailRow() error {
	t := &l.tail
	t.Def, t.Rep, t.Fixed, t.Arena, t.End = t.Def[:0], t.Rep[:0], t.Fixed[:0], t.Arena[:0], t.End[:0]
	n := len(l.pageRep) - l.pageAt
	for {
		if err := l.entries(n); err != nil {
			return err
		}
		if err := l.keep(n); err != nil {
			return err
		}
		if l.pageAt < len(l.pageRep) || l.pages.left == 0 {
			break
		}
		if err := l.pageLevels(); err != nil {
			return err
		}
		for n = 0; n < len(l.pageRep) && l.pageRep[n] != 0; n++ {
		}
		if n == 0 {
			break
		}
	}
	l.def, l.rep, l.numbered, l.texts = t.Def, t.Rep, false, nil
	if l.plan.bytes {
		l.base, l.views = t.Arena, sized(l.views, len(t.End))
		from := 0
		for i, end := range t.End {
			l.views[i] = view(from, int(end)-from)
			from = int(end)
		}
	} else {
		l.fixed = append(l.fixed[:0], t.Fixed...)
	}
	l.start = append(l.start[:0], 0, uint32(len(t.Rep)))
	l.off, l.avail = 0, 1
	return nil
}

// keep copies the n entries of the window to the tail, nulls with empty values.
func (l *scanLeaf) keep(n int) error {
	t := &l.tail
	for i := range n {
		there := l.plan.maxDef == 0 || l.def[i] == l.plan.maxDef
		switch {
		case l.plan.bytes:
			if there {
				t.Arena = append(t.Arena, l.octets(i)...)
			}
			if len(t.Arena) > scanPageBytesMax {
				return fmt.Errorf("a row of more than %d bytes", scanPageBytesMax)
			}
			t.End = append(t.End, uint32(len(t.Arena)))
		case there:
			t.Fixed = append(t.Fixed, l.integer(i))
		default:
			t.Fixed = append(t.Fixed, 0)
		}
	}
	t.Rep = append(t.Rep, l.rep...)
	if l.plan.maxDef > 0 {
		t.Def = append(t.Def, l.def...)
	}
	return nil
}

// integer returns the number in a slot of the window.
func (l *scanLeaf) integer(slot int) int64 {
	if l.numbered {
		return l.pages.dictionary.fixed[l.number[slot]]
	}
	return l.fixed[slot]
}

// octets returns the bytes in a slot of the window.
func (l *scanLeaf) octets(slot int) []byte {
	if l.numbered {
		d := &l.pages.dictionary
		w := d.views[l.number[slot]]
		return d.base[w>>32:][:uint32(w)]
	}
	w := l.views[slot]
	return l.base[w>>32:][:uint32(w)]
}

// there tells whether a slot has a value.
func (l *scanLeaf) there(slot int) bool {
	return l.plan.maxDef == 0 || l.def[slot] == l.plan.maxDef
}

// slot returns where a row of a column outside of lists lies; inside of lists,
// it returns where its entries begin.
func (l *scanLeaf) slot(row int) int {
	if l.plan.maxRep > 0 {
		return int(l.start[l.off+row])
	}
	return l.off + row
}

// advance consumes rows of the window.
func (l *scanLeaf) advance(rows int) {
	l.off += rows
	l.avail -= rows
}

// skip passes over rows of the row group.
func (l *scanLeaf) skip(rows int64) error {
	l.skipped = rows
	for {
		if l.avail == 0 {
			if l.skipped == 0 {
				return nil
			}
			if err := l.fill(scanRowsMax); err != nil {
				return err
			}
		}
		n := int(min(int64(l.avail), l.skipped))
		l.advance(n)
		l.skipped -= int64(n)
		if l.skipped == 0 {
			return nil
		}
	}
}

// release forgets the file, and memory that is larger than most need.
func (l *scanLeaf) release() {
	l.pages.from.settle()
	if cap(l.pages.raw)+cap(l.pages.dictionary.raw)+cap(l.pages.dictionary.text.bytes)+cap(l.tail.Arena)+
		cap(l.pageRep)+cap(l.pages.values.own)+cap(l.pages.from.memory)+cap(l.pages.from.ahead) > leafBytesKept {
		*l = scanLeaf{}
		return
	}
	l.plan, l.text, l.texts, l.base, l.def, l.rep = nil, nil, nil, nil, nil, nil
	l.pages.from = extent{memory: l.pages.from.memory, ahead: l.pages.from.ahead}
	l.pages.def, l.pages.rep = hybrid{}, hybrid{}
	v := &l.pages.values
	*v = values{own: v.own, last: v.last, lengths: v.lengths, lengths2: v.lengths2}
}

// leafBytesKept is what a leaf may keep of one file for the next.
const leafBytesKept = 4 << 20
