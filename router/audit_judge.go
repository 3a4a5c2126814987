package router

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
)

// verdict is what the witnesses prove about one partition together.
type verdict struct {
	byRows, byFooters bool
	wrong             []string // contradicts the promise
	open              []string // what stands in the way of a proof
}

func (v *verdict) proven() bool { return (v.byRows || v.byFooters) && len(v.wrong) == 0 }

// judge weighs what was heard about a partition.
func (a *audit) judge(w *testimony) verdict {
	var v verdict
	a.judgeFooters(w, &v)
	a.judgeRows(w, &v)
	judgeOthers(w, &v)
	if !v.byFooters && !v.byRows && len(v.wrong)+len(v.open) == 0 {
		v.open = append(v.open, "nothing proves it")
	}
	if v.byRows || v.byFooters {
		v.open = nil
	}
	return v
}

// judgeFooters asks whether the files hold just the rows that the book counts.
func (a *audit) judgeFooters(w *testimony, v *verdict) {
	var held, holes int64
	var uncovered []string
	at := w.book.Since
	var before *cutSpan
	for _, c := range slices.SortedFunc(maps.Values(w.cuts), func(a, b *cutSpan) int { return cmp.Compare(a.first, b.first) }) {
		held += c.rows
		if n := c.last - c.first + 1; c.rows > n {
			v.wrong = append(v.wrong, fmt.Sprintf("twice: files hold %d rows of the %d offsets %v", c.rows, n, c))
		} else if c.rows < n {
			uncovered = append(uncovered, fmt.Sprintf("%d of %v", n-c.rows, c))
			holes += n - c.rows
		}
		switch {
		case before != nil && c.first < at:
			v.wrong = append(v.wrong, fmt.Sprintf("twice: files hold rows of the offsets %v and of %v, which overlap", before, c))
		case c.first > at && w.kept:
			uncovered = append(uncovered, run{at, c.first - 1}.String())
			holes += c.first - at
		}
		if c.last >= at {
			before, at = c, c.last+1
		}
	}
	if at > w.next && len(w.cuts) > 0 {
		v.wrong = append(v.wrong, fmt.Sprintf("the files hold rows up to offset %d, the ledger is at %d: it was moved back, and these records will be read again", at-1, w.next))
	}
	if at < w.next && w.kept {
		uncovered = append(uncovered, run{at, w.next - 1}.String())
		holes += w.next - at
	}
	if len(uncovered) > runsShown {
		uncovered = append(uncovered[:runsShown], fmt.Sprintf("and %d more", len(uncovered)-runsShown))
	}
	switch {
	case !w.kept:
		v.open = append(v.open, "no book accounts for its offsets: it was last written by a version that kept none")
	case !w.book.Adds(w.next): // found already
	case held > w.book.Rows:
		v.wrong = append(v.wrong, fmt.Sprintf("twice: the files hold %d rows, %d were committed", held, w.book.Rows))
	case held < w.book.Rows && a.files.foreign > 0:
		v.open = append(v.open, fmt.Sprintf("%d of its %d rows are in no file of ours; others wrote %d files with %d rows, which don't say whose rows they hold",
			w.book.Rows-held, w.book.Rows, a.files.foreign, a.files.foreignRows))
	case held < w.book.Rows:
		v.wrong = append(v.wrong, fmt.Sprintf("gap: %d rows are gone; %d offsets are in no file and %d of them never had a row: %s",
			w.book.Rows-held, holes, w.book.Left+w.book.Gaps+w.book.Lost, strings.Join(uncovered, ", ")))
	case w.book.Late:
		v.open = append(v.open, fmt.Sprintf("its book begins at offset %d: before that a version wrote which kept none", w.book.Since))
	case held > 0 && a.files.foreign > 0 && !a.rowsBroken && !a.allOurs(w, held):
		v.open = append(v.open, fmt.Sprintf("all its rows are there; but others wrote %d files with %d rows, which don't say whose rows they hold and may repeat some", a.files.foreign, a.files.foreignRows))
	default:
		v.byFooters = len(v.wrong) == 0
	}
}

// allOurs tells whether the rows say that none in files of others is of this partition or
// that, where the offsets are of one log alone, judgeRows will count them.
func (a *audit) allOurs(w *testimony, held int64) bool {
	switch {
	case w.rows == nil:
		return false
	case w.alien == 0 && !a.mixed(w):
		return true
	}
	return a.deletes == 0 && w.rows.n+w.extra == held+w.former
}

// mixed tells whether rows of a topic that is gone may be in files that don't
// say so: others have written the files anew.
func (a *audit) mixed(w *testimony) bool { return w.anew && a.files.foreign > 0 }

// judgeRows asks whether each offset has its row, or a reason in the book.
func (a *audit) judgeRows(w *testimony, v *verdict) {
	if !a.rowsHeard || w.rows == nil {
		return
	}
	if a.mixed(w) {
		explained := w.book.Left + w.book.Gaps + w.book.Lost
		if runs, missing := w.rows.missing(w.book.Since, w.next); w.kept && missing > explained && !v.byFooters { // of neither topic
			v.wrong = append(v.wrong, fmt.Sprintf("gap: %d offsets have no row, the book explains %d of them: %s", missing, explained, namesOf(runs)))
		}
		v.open = append(v.open, fmt.Sprintf("its topic was deleted and made again; in files that others wrote rows don't say of which they are: the table has %d rows of its offsets", w.rows.n+w.extra))
		return
	}
	if w.alien > 0 || w.extra > 0 && w.former > 0 {
		v.open = append(v.open, fmt.Sprintf("%d rows are of an earlier log with the same offsets, and rows don't say of which", w.former))
		return
	}
	var wrong []string
	if w.extra > 0 {
		wrong = append(wrong, fmt.Sprintf("twice: %d rows too many, of the offsets %s", w.extra, namesOf(singles(w.twice))))
	}
	if w.rows.n > 0 && w.rows.high >= w.next {
		wrong = append(wrong, fmt.Sprintf("the table has rows up to offset %d, the ledger is at %d: it was moved back, and these records will be read again", w.rows.high, w.next))
	}
	from := w.rows.low
	if w.kept {
		from = w.book.Since
	} else if w.rows.n == 0 {
		from = w.next
	}
	runs, missing := w.rows.missing(from, w.next)
	explained := w.book.Left + w.book.Gaps + w.book.Lost
	switch {
	case !w.kept && missing > 0:
		v.open = append(v.open, fmt.Sprintf("%d offsets have no row, and no book tells control records and bad records from loss: %s", missing, namesOf(runs)))
	case w.kept && missing > explained && v.byFooters && (a.deletes > 0 || a.noOrigin > 0):
		// What was committed is all there; others deleted rows, or the columns came later.
	case w.kept && missing > explained && explained == 0:
		wrong = append(wrong, fmt.Sprintf("gap: %d offsets have no row: %s", missing, namesOf(runs)))
	case w.kept && missing > explained:
		wrong = append(wrong, fmt.Sprintf("gap: %d offsets have no row, the book explains %d of them: %s", missing, explained, namesOf(runs)))
	case w.kept && missing < explained:
		wrong = append(wrong, fmt.Sprintf("%d offsets never had a row by the book, and %d of them have one: somebody added rows, or changed the book", explained, explained-missing))
	case len(wrong) == 0:
		if before, n := w.rows.missing(min(w.rows.low, from), from); n > 0 {
			v.open = append(v.open, fmt.Sprintf("before its book, which begins at offset %d, %d offsets have no row, and nothing tells control records and bad records from loss: %s", from, n, namesOf(before)))
		} else {
			v.byRows = true
		}
	}
	v.wrong = append(v.wrong, wrong...)
}

// judgeOthers asks whether another ingest wrote rows of the same records.
func judgeOthers(w *testimony, v *verdict) {
	if len(w.cuts) == 0 {
		return
	}
	ours := cutSpan{first: w.next}
	for _, c := range w.cuts {
		ours.first, ours.last = min(ours.first, c.first), max(ours.last, c.last)
	}
	for _, name := range slices.Sorted(maps.Keys(w.others)) {
		var both cutSpan
		for _, s := range w.others[name] {
			if s.last < ours.first || s.first > ours.last {
				continue
			}
			if both.rows == 0 {
				both.first, both.last = s.first, s.last
			}
			both.first, both.last, both.rows = min(both.first, s.first), max(both.last, s.last), both.rows+s.rows
		}
		if both.rows > 0 {
			v.wrong = append(v.wrong, fmt.Sprintf("twice: ingest %s wrote rows of the offsets %v of this partition into the table, too; if this ingest had that name before, its records were read again", name, run{both.first, both.last}))
		}
	}
}

func singles(offsets []int64) (runs []run) {
	slices.SortFunc(offsets, cmp.Compare)
	for _, o := range slices.Compact(offsets) {
		runs = append(runs, run{o, o})
	}
	return runs
}

// report writes what is proven and returns whether that is everything.
func (a *audit) report(out io.Writer) (proven bool) {
	fmt.Fprintf(out, "%s → %s", a.cfg.Name, a.cfg.Table)
	if a.ledger.Seq > 0 {
		fmt.Fprintf(out, ", append %d, snapshot %d", a.ledger.Seq, a.inspection.Snapshot())
	}
	fmt.Fprintln(out)
	proven = true
	var rows, former int64
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	for _, at := range a.sorted() {
		w := a.partitions[at]
		v := a.judge(w)
		rows, former = rows+w.count(v), former+w.former
		fmt.Fprintf(table, "  %s\t%s\t%s\t%s\n", at, w.span(), w.tally(v), v.word())
		for _, line := range slices.Concat(v.wrong, v.open) {
			fmt.Fprintf(table, "  %s: %s\n", at, line)
		}
		proven = proven && v.proven()
	}
	table.Flush() //nolint:errcheck // out is where errors go
	if a.files.foreign > 0 {
		a.note("%d data files with %d rows were written by others; all %d files have %d rows, the book of this ingest %d", a.files.foreign, a.files.foreignRows,
			a.files.foreign+a.files.bare+a.files.ours, a.files.foreignRows+a.files.bareRows+a.files.oursRows, a.bookRows())
	}
	if a.files.bare > 0 {
		a.note("%d data files with %d rows were written by a version that didn't note their offsets", a.files.bare, a.files.bareRows)
	}
	if a.deletes > 0 {
		a.note("%d delete files of others apply on top of what was committed", a.deletes)
	}
	if former > 0 {
		a.note("%d more rows are from before the ledger's books, as of a topic that was deleted and made again", former)
	}
	if a.noOrigin > 0 {
		a.note("%d rows don't say where they come from", a.noOrigin)
	}
	for _, line := range a.notes {
		fmt.Fprintln(out, "  note:", line)
	}
	for _, line := range a.findings {
		fmt.Fprintln(out, "  NOT AS IT MUST BE:", line)
	}
	if proven = proven && len(a.findings) == 0; proven {
		fmt.Fprintf(out, "  proven: %d partitions, %d rows, each record once\n", len(a.partitions), rows)
	} else {
		fmt.Fprintln(out, "  NOT PROVEN")
	}
	return proven
}

// bookRows is how many rows the ledger accounts for.
func (a *audit) bookRows() (n int64) {
	for _, w := range a.partitions {
		n += w.book.Rows
	}
	return n
}

// word says by whom a partition is proven.
func (v *verdict) word() string {
	switch {
	case !v.proven():
		return "NOT PROVEN"
	case v.byRows && v.byFooters:
		return "proven by rows and footers"
	case v.byRows:
		return "proven by rows"
	}
	return "proven by footers"
}

// span is the offsets that the testimony is about.
func (w *testimony) span() string {
	from := w.book.Since
	switch {
	case !w.kept && w.rows != nil && w.rows.n > 0, w.kept && w.book.Late && w.rows != nil && w.rows.n > 0:
		from = min(w.rows.low, w.next)
	case !w.kept:
		return fmt.Sprintf("?..%d", w.next-1)
	}
	if from >= w.next {
		return fmt.Sprintf("none, at %d", w.next)
	}
	return fmt.Sprintf("%d..%d", from, w.next-1)
}

// count is how many rows the partition has, by the best witness: where the
// footers alone prove it, as many as were committed.
func (w *testimony) count(v verdict) int64 {
	if w.rows == nil || !v.byRows && v.proven() {
		return w.book.Rows
	}
	return w.rows.n + w.extra
}

// tally says what became of the offsets.
func (w *testimony) tally(v verdict) string {
	parts := []string{fmt.Sprintf("%d rows", w.count(v))}
	for _, p := range []struct {
		n    int64
		word string
	}{{w.book.Left, "left out"}, {w.book.Gaps, "without a record"}, {w.book.Lost, "lost before they were read"}} {
		if p.n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", p.n, p.word))
		}
	}
	return strings.Join(parts, ", ")
}
