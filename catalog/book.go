package catalog

import (
	"fmt"
	"maps"
)

// Book accounts for the offsets of one partition that the ledger has passed,
// from Since up to Next. Every one of them is exactly one of four things, so
//
//	Rows + Left + Gaps + Lost = Next - Since
//
// The append that moves the ledger moves the book, in the same commit. It is a
// handful of numbers a partition, whatever the age of the table, and stays
// true whoever expires snapshots or rewrites data files.
type Book struct {
	Since    int64 // the first offset that is accounted for
	Sequence int64 // of the snapshot that opened the book: data files of earlier ones are not in it. 0: not known (format version 1)
	Rows     int64 // offsets whose record became a row
	Left     int64 // offsets whose record was left out: skipped, or a dead letter
	Gaps     int64 // offsets without a record to read: control records, aborted transactions, compacted
	Lost     int64 // offsets that were gone before they could be read, and were given up by policy
	Late     bool  // rows of offsets before Since may be in the table, which no book accounts for
}

// Adds reports whether the book accounts for just the offsets below next.
func (b Book) Adds(next int64) bool { return b.Rows+b.Left+b.Gaps+b.Lost == next-b.Since }

// Counts says what became of the records of an append, by topic and partition.
type Counts map[string]map[int32]Count

// Count is of the records between an append's From and To in one partition.
type Count struct {
	Rows int64 // in the append's files
	Left int64 // left out: skipped, or a dead letter
}

// Add adds to the count of one partition.
func (c Counts) Add(topic string, partition int32, n Count) {
	if c[topic] == nil {
		c[topic] = map[int32]Count{}
	}
	sum := c[topic][partition]
	sum.Rows, sum.Left = sum.Rows+n.Rows, sum.Left+n.Left
	c[topic][partition] = sum
}

// merged returns the sum of two counts; what is not counted in one isn't in both.
func (c Counts) merged(o Counts) Counts {
	if c == nil || o == nil {
		return nil
	}
	sum := Counts{}
	for _, counts := range []Counts{c, o} {
		for topic, parts := range counts {
			for p, n := range parts {
				sum.Add(topic, p, n)
			}
		}
	}
	return sum
}

// sound is an invariant of every append: no file is in it twice, its files hold
// just the rows that it counts, and no partition has more records than offsets.
func (a Append) sound() error {
	seen := make(map[string]bool, len(a.Files))
	var stored, counted int64
	for _, f := range a.Files {
		if seen[f.FilePath()] {
			return fmt.Errorf("data file %s is in the append twice", f.FilePath())
		}
		seen[f.FilePath()] = true
		stored += f.Count()
	}
	if a.Counts == nil {
		return nil
	}
	for topic, parts := range a.Counts {
		for p, n := range parts {
			from, begins := a.From[topic][p]
			to, ends := a.To[topic][p]
			if n != (Count{}) && (!begins || !ends || n.Rows < 0 || n.Left < 0 || n.Rows+n.Left > to-from) {
				return fmt.Errorf("topic %s partition %d: %d rows and %d records left out can't come from the offsets %d to %d (in the append: %t)", topic, p, n.Rows, n.Left, from, to, begins && ends)
			}
			counted += n.Rows
		}
	}
	if stored != counted {
		return fmt.Errorf("the files hold %d rows, %d were counted", stored, counted)
	}
	return nil
}

// account returns the books of a topic after an append that the ledger admits.
// A partition that enters the ledger opens its book; so does one without a
// book, as an earlier version of this program left it, where the append starts.
func (a Append) account(topic string, books map[int32]Book, sequence int64) map[int32]Book {
	out := maps.Clone(books)
	if out == nil {
		out = map[int32]Book{}
	}
	for p, to := range a.To[topic] {
		from, known := a.From[topic][p]
		book, open := out[p]
		switch {
		case !known:
			out[p] = Book{Since: to, Sequence: sequence}
			continue
		case a.Counts == nil:
			delete(out, p) // what became of these offsets isn't known
			continue
		case !open:
			book = Book{Since: from, Sequence: sequence, Late: true}
		}
		n := a.Counts[topic][p]
		book.Rows, book.Left, book.Gaps = book.Rows+n.Rows, book.Left+n.Left, book.Gaps+to-from-n.Rows-n.Left
		out[p] = book
	}
	return out
}

// Lose moves a partition of l over offsets that can't be read any more.
func (l *Ledger) Lose(topic string, partition int32, to int64) {
	t := l.Topics[topic]
	if book, ok := t.Books[partition]; ok {
		book.Lost += to - t.Next[partition]
		t.Books[partition] = book
	}
	t.Next[partition] = to
}

// Restart moves a partition of l to where its log begins now: what the ledger
// said about its offsets is about other records.
func (l *Ledger) Restart(topic string, partition int32, to int64) {
	t := l.Topics[topic]
	if t.Books == nil {
		t.Books = map[int32]Book{}
	}
	t.Next[partition] = to
	t.Books[partition] = Book{Since: to, Sequence: nextSnapshot}
	l.Topics[topic] = t
}

// nextSnapshot stands for the sequence number of the snapshot that will carry a book.
const nextSnapshot = -1

// dated is l with the books that begin with this commit under its sequence number.
func (l Ledger) dated(sequence int64) Ledger {
	l = l.Clone()
	for _, t := range l.Topics {
		for p, b := range t.Books {
			if b.Sequence == nextSnapshot {
				b.Sequence = sequence
				t.Books[p] = b
			}
		}
	}
	return l
}

// bookJSON is the stored form: since, sequence, rows, left, gaps, lost, and 1 for a late book.
type bookJSON [7]int64

func encodeBooks(books map[int32]Book) map[int32]bookJSON {
	if len(books) == 0 {
		return nil
	}
	out := make(map[int32]bookJSON, len(books))
	for p, b := range books {
		j := bookJSON{b.Since, b.Sequence, b.Rows, b.Left, b.Gaps, b.Lost, 0}
		if b.Late {
			j[6] = 1
		}
		out[p] = j
	}
	return out
}

func decodeBooks(topic string, books map[int32]bookJSON) (map[int32]Book, error) {
	out := make(map[int32]Book, len(books))
	for p, b := range books {
		for _, n := range b {
			if n < 0 || p < 0 {
				return nil, fmt.Errorf("topic %s partition %d: book is %v", topic, p, b)
			}
		}
		out[p] = Book{Since: b[0], Sequence: b[1], Rows: b[2], Left: b[3], Gaps: b[4], Lost: b[5], Late: b[6] == 1}
	}
	return out, nil
}
