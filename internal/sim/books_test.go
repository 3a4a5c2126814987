//go:build synctests

package sim

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/apache/iceberg-go/table"

	icebergio "github.com/apache/iceberg-go/io"

	"icerouter/catalog"
	"icerouter/router"
)

// The product proves from the table alone what the auditor knows from the truth:
// router audit is run at the end of a scene, and must say just that. It must
// prove a partition whose rows are all there, must name the gap of one whose rows
// another writer deleted, and must never speak of duplicates, as the auditor has
// seen that there are none.

// audited is a catalog and a store that router audit looks at.
type audited struct {
	uri     string
	objects *objects
}

// proof is what router audit said.
type proof struct {
	proven     bool
	text       string
	partitions map[origin]string // offset 0: the partition's line and what is said about it
	findings   string            // what must not be, and is of no partition
}

// auditName is how router audit signs in.
const auditName = "audit"

// appendNumber differs from one play to the next: records come in one cut or in two.
var appendNumber = regexp.MustCompile(`append \d+`)

var partitionLine = regexp.MustCompile(`^  (\w+)/(\d+)[: ]`)

// prove runs router audit.
func (w *world) prove(at audited) (proof, error) {
	cfg := w.cfg
	cfg.Catalog.URI, cfg.Catalog.Type = at.uri, "rest"
	if strings.HasPrefix(at.uri, "postgres:") {
		cfg.Catalog.Type = "sql"
	}
	cfg.Catalog.Properties = map[string]string{"token": auditName}
	o := router.AuditOptions{Dial: w.network.DialContext, Store: func(context.Context, string, map[string]string) (icebergio.IO, error) {
		return bystander{at.objects, auditName}, nil
	}}
	var out bytes.Buffer
	err := router.Audit(w.ctx, cfg, o, &out)
	p := proof{proven: err == nil, text: out.String(), partitions: map[origin]string{}}
	if err != nil && !errors.Is(err, router.ErrNotProven) {
		return p, err
	}
	for line := range strings.Lines(p.text) {
		if m := partitionLine.FindStringSubmatch(line); m != nil {
			n, _ := strconv.Atoi(m[2])
			p.partitions[origin{m[1], int32(n), 0}] += line
		}
		if strings.Contains(line, "NOT AS IT MUST BE") {
			p.findings += line
		}
	}
	return p, nil
}

// book is what the ledger says of one partition.
type book struct {
	next                          int64
	since, rows, left, gaps, lost int64
}

// booksIn returns the books that the table's ledger keeps of the topics of now.
func (w *world) booksIn(properties map[string]string) (books map[origin]book, former bool, err error) {
	var in struct {
		Topics map[string]struct {
			ID    string
			Next  map[int32]int64
			Books map[int32][]int64
		}
	}
	text := properties[catalog.LedgerProperty(ingestName)]
	if text == "" {
		return nil, false, nil
	}
	if err := json.Unmarshal([]byte(text), &in); err != nil {
		return nil, false, err
	}
	books = map[origin]book{}
	for topic, t := range in.Topics {
		if t.ID != w.truth.logs[topic] {
			former = true
			continue
		}
		for p, next := range t.Next {
			b := t.Books[p]
			if len(b) != 7 || b[6] != 0 {
				return nil, false, fmt.Errorf("the book of %s/%d is %v", topic, p, b)
			}
			books[origin{topic, p, 0}] = book{next, b[0], b[2], b[3], b[4], b[5]}
		}
	}
	return books, former, nil
}

// account is what the truth says of one partition, between two offsets.
type account struct {
	rows    int64   // good records that are in the table
	deleted []int64 // offsets of good records that were, until another writer deleted them
	left    int64   // records that are no rows
	loose   bool    // whether some of the records may be lost
}

// accountOf counts the records that a book speaks of. REQUIRES: truth.mu is held.
func (w *world) accountOf(at origin, b book, there map[int64]bool) (a account) {
	for id, r := range w.truth.records {
		if r.log != w.truth.logs[at.topic] || r.origin.topic != at.topic || r.origin.partition != at.partition || r.origin.offset < b.since || r.origin.offset >= b.next {
			continue
		}
		a.loose = a.loose || r.loose && !r.deleted
		switch {
		case r.kind == good && there[id]:
			a.rows++
		case r.kind == good && r.deleted:
			a.deleted = append(a.deleted, r.origin.offset)
		case r.kind == bad || r.kind == null:
			a.left++
		}
	}
	slices.Sort(a.deleted)
	return a
}

// checkBooks compares what the ledger's books and router audit say with the
// truth. It tells whether everything was proven.
func (w *world) checkBooks() (proven bool) {
	meta := w.lake.current()
	if meta == nil || meta.CurrentSnapshot() == nil {
		return false
	}
	p, err := w.prove(w.audited)
	if err != nil {
		w.audit.violation("router audit: %v", err)
		return false
	}
	w.log.printf("%s", p.text)
	there, err := w.rowsNow()
	if err != nil {
		w.audit.violation("router audit: %v", err)
		return false
	}
	w.truth.mu.Lock()
	defer w.truth.mu.Unlock()
	books, former, err := w.booksIn(meta.Properties())
	if err != nil || books == nil {
		if err != nil || p.proven {
			w.audit.violation("router audit: proven: %t, ledger: %v", p.proven, err)
		}
		return false
	}
	gapless := !former
	for at, b := range books {
		a := w.accountOf(at, b, there)
		gap := b.rows - a.rows
		gapless = gapless && gap == 0
		w.checkBook(at, b, a)
		w.checkVerdict(at, gap, a, p.partitions[at])
	}
	if strings.Contains(p.text, "twice") || strings.Contains(p.text, "copies") {
		w.audit.violation("router audit speaks of rows that are there twice, and there are none:\n%s", p.text)
	}
	if p.findings != "" || gapless && !p.proven {
		w.audit.violation("router audit does not prove what is right:\n%s", p.text)
	}
	return p.proven
}

// examine is checkBooks, and in a share of the scenes the opposite: a copy of
// the table is doctored, and router audit must see it.
func (w *world) examine() {
	if !w.checkBooks() || w.seed%doctorEvery != 0 {
		return
	}
	if len(w.truth.allLogs) > len(topics) {
		return // rows of an earlier log have the same offsets: then not everything can be named
	}
	names := slices.Sorted(maps.Keys(treatments))
	what := names[w.rand.IntN(len(names))]
	switch _, err := w.doctor(what); {
	case errors.Is(err, errHealthy), errors.Is(err, table.ErrInvalidMetadata): // the latter: the doctor's clock is behind the table's
	case err != nil:
		w.audit.violation("%v", err)
	}
}

// doctorEvery says of how many scenes one is doctored.
const doctorEvery = 2

// checkBook compares a partition's book with the truth.
func (w *world) checkBook(at origin, b book, a account) {
	if b.rows+b.left+b.gaps+b.lost != b.next-b.since {
		w.audit.violation("the book of %v does not add up: %+v", at, b)
	}
	if w.audit.wentBack() {
		return // what was deleted may have come back, or be lost with what was taken
	}
	if n := a.rows + int64(len(a.deleted)); b.rows != n {
		w.audit.violation("the book of %v counts %d rows, there are %d and %d were deleted", at, b.rows, a.rows, len(a.deleted))
	}
	if !a.loose && (b.left != a.left || b.lost != 0) {
		w.audit.violation("the book of %v counts %d records left out and %d lost, there are %d and none", at, b.left, b.lost, a.left)
	}
}

// checkVerdict compares what router audit says about a partition with the truth.
func (w *world) checkVerdict(at origin, gap int64, a account, said string) {
	proven := said != "" && !strings.Contains(said, "NOT PROVEN")
	switch {
	case gap == 0 && !proven:
		w.audit.violation("router audit does not prove %v, which is gapless and single:\n%s", at, said)
	case gap == 0:
	case proven:
		w.audit.violation("router audit proves %v, where %d rows are gone:\n%s", at, gap, said)
	case !strings.Contains(said, fmt.Sprintf("gap: %d rows are gone", gap)) && !strings.Contains(said, fmt.Sprintf("%d of its", gap)):
		w.audit.violation("router audit does not say that %d rows of %v are gone:\n%s", gap, at, said)
	default:
		for _, offset := range a.deleted[:min(len(a.deleted), 1)] { // it names the first few runs
			if int64(len(a.deleted)) == gap && !names(said, offset) {
				w.audit.violation("router audit does not name the offset %d of %v, whose row is gone:\n%s", offset, at, said)
			}
		}
	}
}

var runs = regexp.MustCompile(`(\d+)(?:\.\.(\d+))?`)

// names tells whether one of the runs after "no row", or "never had a row", in
// text holds the offset, or may: there are more than are named, or rows don't
// say of which log they are.
func names(text string, offset int64) bool {
	if strings.Contains(text, "more") || strings.Contains(text, "rows don't say of which") {
		return true
	}
	if _, after, ok := strings.Cut(text, "no row"); ok {
		text = after
	} else {
		_, text, _ = strings.Cut(text, "never had a row")
	}
	for _, m := range runs.FindAllStringSubmatch(text, -1) {
		first, _ := strconv.ParseInt(m[1], 10, 64)
		last := first
		if m[2] != "" {
			last, _ = strconv.ParseInt(m[2], 10, 64)
		}
		if first <= offset && offset <= last {
			return true
		}
	}
	return false
}

// rowsNow returns the ids of the rows that are in the table.
func (w *world) rowsNow() (map[int64]bool, error) {
	w.audit.mu.Lock()
	defer w.audit.mu.Unlock()
	live, err := w.audit.present(w.lake.current())
	if err != nil {
		return nil, err
	}
	there := map[int64]bool{}
	for _, f := range live {
		for _, r := range w.audit.files[f] {
			there[r.id] = true
		}
	}
	return there, nil
}
