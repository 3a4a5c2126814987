package catalog

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
)

// The book follows the ledger: rows, what was left out and gaps add up to the
// offsets that were passed, and a partition that enters has an empty one.
func TestBooks(t *testing.T) {
	w := newWorld(t)
	c := w.open()
	tbl := w.table(c, TableOptions{})
	book := func(p int32) (Book, int64) {
		t.Helper()
		l, err := tbl.Ledger(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		b, ok := l.Topics["orders"].Books[p]
		if !ok {
			t.Fatalf("partition %d has no book: %+v", p, l)
		}
		return b, l.Topics["orders"].Next[p]
	}
	add := func(files int, from, to int64, counts Counts) {
		t.Helper()
		a := next(t, tbl, from, to-from, files)
		a.From, a.Counts = Offsets{"orders": {0: from}}, counts
		mustAppend(t, tbl, a)
	}
	mustAppend(t, tbl, Append{ID: newID(), From: Offsets{}, To: Offsets{"orders": {0: 100, 1: 7}}})
	first, _ := book(0)
	if first != (Book{Since: 100, Sequence: first.Sequence}) || first.Sequence < 2 {
		t.Errorf("book of a partition that entered: %+v", first)
	}
	add(3, 100, 110, Counts{"orders": {0: {Rows: 3, Left: 2}}})
	add(2, 110, 112, Counts{"orders": {0: {Rows: 2}}})
	want := Book{Since: 100, Sequence: first.Sequence, Rows: 5, Left: 2, Gaps: 5}
	if b, next := book(0); b != want || !b.Adds(next) {
		t.Errorf("book is %+v at %d, want %+v", b, next, want)
	}
	if b, next := book(1); b != (Book{Since: 7, Sequence: first.Sequence}) || !b.Adds(next) {
		t.Errorf("book of the partition that stood still: %+v", b)
	}

	// Lost offsets and a log that begins anew, as policies have it.
	from, _ := tbl.Ledger(t.Context())
	to := from.Clone()
	to.Lose("orders", 0, 150)
	to.Restart("orders", 1, 3)
	if err := tbl.Rewind(t.Context(), from, to); err != nil {
		t.Fatal(err)
	}
	want.Lost = 38
	if b, next := book(0); b != want || next != 150 || !b.Adds(next) {
		t.Errorf("after a loss: %+v at %d", b, next)
	}
	if b, next := book(1); b.Since != 3 || next != 3 || b.Sequence <= first.Sequence || b.Late {
		t.Errorf("after a new beginning: %+v at %d", b, next)
	}

	// An append that was not counted, as by an earlier version, ends the book; the next one opens another.
	add(1, 150, 160, nil)
	if l, _ := tbl.Ledger(t.Context()); len(l.Topics["orders"].Books) != 1 {
		t.Errorf("books after an append without counts: %+v", l.Topics["orders"].Books)
	}
	add(1, 160, 170, Counts{"orders": {0: {Rows: 1}}})
	if b, next := book(0); b.Since != 160 || b.Rows != 1 || b.Gaps != 9 || !b.Late || !b.Adds(next) {
		t.Errorf("the book that follows: %+v", b)
	}
}

// The copy of the ledger in the snapshots keeps within its bound: it leaves
// its books out first.
func TestBooksInSummary(t *testing.T) {
	l := Ledger{Seq: 1, Topics: map[string]TopicLedger{"t": {Next: map[int32]int64{}, Books: map[int32]Book{}}}}
	var with, without int
	for p := range int32(200) {
		l.Topics["t"].Next[p], l.Topics["t"].Books[p] = 1<<40, Book{Rows: 1 << 40}
		text, ok := l.summary(keysOf("x"), "id")[keysOf("x").ledger]
		if len(text) > ledgerSummaryBytesMax {
			t.Fatalf("%d bytes", len(text))
		}
		if !ok {
			continue
		}
		got, err := decodeLedger(text)
		if err != nil || len(got.Topics["t"].Next) != int(p)+1 {
			t.Fatalf("%d partitions: %v", p+1, err)
		}
		if without++; len(got.Topics["t"].Books) == int(p)+1 {
			with++
		}
	}
	if with < 20 || without < 2*with || without > 150 {
		t.Errorf("the ledger of up to %d partitions fits, with books %d", without, with)
	}
}

// B056: an append that holds a file twice, or other rows than it counts, never
// reaches the catalog.
func TestAppendUnsound(t *testing.T) {
	w := newWorld(t)
	tbl := w.table(w.open(), TableOptions{})
	mustAppend(t, tbl, Append{ID: newID(), From: Offsets{}, To: Offsets{"orders": {0: 0}}})
	refused := func(words string, change func(*Append)) {
		t.Helper()
		a := next(t, tbl, 0, 10, 2)
		a.From, a.Counts = Offsets{"orders": {0: 0}}, Counts{"orders": {0: {Rows: 2}}}
		change(&a)
		if _, err := tbl.Append(t.Context(), a); err == nil || !strings.Contains(err.Error(), words) {
			t.Errorf("%v, want %q", err, words)
		}
	}
	refused("is in the append twice", func(a *Append) { a.Files = append(a.Files, a.Files[0]) })
	refused("hold 2 rows, 1 were counted", func(a *Append) { a.Counts["orders"][0] = Count{Rows: 1} })
	refused("can't come from the offsets 0 to 1", func(a *Append) { a.To["orders"][0] = 1 })
	refused("partition 5", func(a *Append) { a.Counts["orders"][5] = Count{Rows: 2}; delete(a.Counts["orders"], 0) })
	if l, err := tbl.Ledger(t.Context()); err != nil || l.Seq != 1 {
		t.Errorf("ledger is at %d, %v", l.Seq, err)
	}
}

// What two appends that are merged count is summed.
func TestMergeCounts(t *testing.T) {
	a := Append{ID: "a", From: Offsets{"t": {0: 1}}, To: Offsets{"t": {0: 5}}, Counts: Counts{"t": {0: {Rows: 1, Left: 2}}}}
	b := Append{ID: "b", From: Offsets{"t": {0: 5}, "u": {1: 0}}, To: Offsets{"t": {0: 9}, "u": {1: 4}}, Counts: Counts{"t": {0: {Rows: 3}}, "u": {1: {Left: 4}}}}
	if got, want := a.Merge(b).Counts, (Counts{"t": {0: {Rows: 4, Left: 2}}, "u": {1: {Left: 4}}}); !reflect.DeepEqual(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	if want := (Counts{"t": {0: {Rows: 1, Left: 2}}}); !reflect.DeepEqual(a.Counts, want) {
		t.Errorf("the first append now counts %v", a.Counts)
	}
	b.Counts = nil
	if got := a.Merge(b).Counts; got != nil {
		t.Errorf("%v, though one of them was not counted", got)
	}
}

func TestLedgerDecodesBooks(t *testing.T) {
	l := Ledger{Seq: 7, Topics: map[string]TopicLedger{"t": {Next: map[int32]int64{3: 9}, Books: map[int32]Book{3: {Since: 1, Sequence: 2, Rows: 3, Left: 4, Gaps: 1, Lost: 0, Late: true}}}}}
	text := l.encode(true)
	if want := `{"seq":7,"topics":{"t":{"next":{"3":9},"books":{"3":[1,2,3,4,1,0,1]}}}}`; text != want {
		t.Errorf("encoded as %s", text)
	}
	if got, err := decodeLedger(text); err != nil || !got.equal(l) {
		t.Errorf("decoded as %+v, %v", got, err)
	}
	for i := range 7 {
		numbers := [7]int64{}
		numbers[i] = -1
		bad := strings.ReplaceAll(fmt.Sprintf(`{"seq":1,"topics":{"t":{"next":{"0":0},"books":{"0":%v}}}}`, numbers), " ", ",")
		if _, err := decodeLedger(bad); err == nil {
			t.Errorf("%s decodes", bad)
		}
	}
}
