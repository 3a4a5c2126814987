package router

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"

	iceio "github.com/apache/iceberg-go/io"
	"go.uber.org/zap"

	"icerouter/catalog"
	"icerouter/writers"
)

// AuditOptions says what Audit looks at.
type AuditOptions struct {
	Ingests []string // by name; none: all of the configuration
	Footers bool     // don't read rows, even where the table has the columns

	// Dial makes the connections to the catalog and to S3, as Options.Dial does.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
	// Store opens the stores of the tables; nil: as the configuration says.
	Store catalog.OpenStore
}

// ErrNotProven reports that an audit found something, or could not prove something.
var ErrNotProven = errors.New("not proven")

// Audit proves, from the tables alone, that every record which the ingests'
// ledgers have passed is accounted for, and is in the table just once if it
// became a row. It writes to out what is proven, partition by partition, and
// names every gap and every duplicate. Nothing is changed, Kafka is not asked.
// The error is ErrNotProven unless everything is proven; a name that no ingest
// has is a *UsageError.
//
// Three witnesses are heard, which don't share code: the ledger's books, which
// count what was committed; the footers of the data files, which say whose
// rows they hold; and the rows themselves, where the table has the columns
// _kafka_partition and _kafka_offset. DESIGN.md says what each can prove.
func Audit(ctx context.Context, cfg Config, o AuditOptions, out io.Writer) error {
	var ingests []IngestConfig
	for _, in := range cfg.Ingest {
		if len(o.Ingests) == 0 || slices.Contains(o.Ingests, in.Name) {
			ingests = append(ingests, in)
		}
	}
	for _, name := range o.Ingests {
		if !slices.ContainsFunc(ingests, func(in IngestConfig) bool { return in.Name == name }) {
			return &UsageError{fmt.Errorf("audit %s: no ingest has this name; there are %s", name, strings.Join(ingestNames(cfg), ", "))}
		}
	}
	if len(ingests) == 0 {
		return &UsageError{errors.New("audit: the configuration has no [[ingest]], so that there is nothing to prove")}
	}
	out = cfg.MaskWriter(out)
	cfg.Log.Level, cfg.Log.Format = "warn", "console"
	log, err := NewLog(cfg, out)
	if err != nil {
		return err
	}
	cfg.Catalog.Dial = o.Dial
	stores := writers.NewStores(log)
	stores.Dial = o.Dial
	defer stores.Close() //nolint:errcheck // stores that were only read
	open := o.Store
	if open == nil {
		open = func(ctx context.Context, location string, properties map[string]string) (iceio.IO, error) {
			return stores.Open(ctx, location, properties)
		}
	}
	c, err := catalog.OpenToLook(ctx, catalog.Config(cfg.Catalog), open, log)
	if err != nil {
		return err
	}
	defer c.Close() //nolint:errcheck // a catalog that was only read

	unproven := 0
	for _, in := range ingests {
		a := &audit{cfg: in, footersOnly: o.Footers, log: log}
		if err := a.run(ctx, c); err != nil {
			return fmt.Errorf("audit %s: %w", in.Name, err)
		}
		if !a.report(out) {
			unproven++
		}
	}
	if unproven > 0 {
		return fmt.Errorf("%w: %d of %d ingests", ErrNotProven, unproven, len(ingests))
	}
	return nil
}

func ingestNames(cfg Config) (names []string) {
	for _, in := range cfg.Ingest {
		names = append(names, in.Name)
	}
	return names
}

// audit is what is heard about one ingest.
type audit struct {
	cfg         IngestConfig
	footersOnly bool
	log         *zap.Logger

	inspection *catalog.Inspection
	ledger     catalog.Ledger
	shared     []string // other ingests whose ledgers in this table have topics of ours
	findings   []string // what contradicts the promise, or stands in the way of a proof
	notes      []string // what one should know, and contradicts nothing

	partitions map[topicPartition]*testimony
	paths      map[string]bool   // data files seen
	copies     map[string]string // path by the file's own id
	files      fileTally
	deletes    int
	rowsHeard  bool  // whether rows were read
	rowsBroken bool  // whether they could not be, which is found already
	noOrigin   int64 // rows that don't say where they come from
}

// fileTally counts data files and their rows by who wrote them.
type fileTally struct{ ours, oursRows, bare, bareRows, foreign, foreignRows int64 }

// testimony is all that is heard about one partition.
type testimony struct {
	next int64
	book catalog.Book
	kept bool // whether there is a book
	anew bool // whether another topic had the name before

	cuts   map[string]*cutSpan  // what the footers say, by cut
	former int64                // rows that footers say are from before the book
	alien  int64                // those of them that are of another log with the same offsets
	others map[string][]cutSpan // what files of other ingests have of this partition

	rows  *offsetSet // what the rows say; nil: not heard
	twice []int64    // offsets that more than one row has, the first few
	extra int64      // rows too many
}

// cutSpan is what the files of one cut hold of a partition.
type cutSpan struct{ first, last, rows, sequence int64 }

func (c *cutSpan) String() string {
	return fmt.Sprintf("%v (committed with sequence number %d)", run{c.first, c.last}, c.sequence)
}

func (a *audit) find(format string, args ...any) {
	a.findings = append(a.findings, fmt.Sprintf(format, args...))
}

func (a *audit) note(format string, args ...any) {
	a.notes = append(a.notes, fmt.Sprintf(format, args...))
}

// run hears the witnesses.
func (a *audit) run(ctx context.Context, c *catalog.Catalog) error {
	t, err := c.Look(ctx, a.cfg.Table, catalog.TableOptions{Ingest: a.cfg.Name})
	if errors.Is(err, catalog.ErrNoTable) {
		a.find("table %s does not exist", a.cfg.Table)
		return nil
	}
	if err != nil {
		return err
	}
	if a.inspection, err = t.Inspect(ctx); err != nil {
		return err
	}
	if ok, err := a.hearLedger(); !ok || err != nil {
		return err
	}
	a.hearHistory()
	if err := a.hearFooters(ctx); err != nil {
		return err
	}
	return a.hearRows(ctx)
}

// hearLedger reads the ledger and its books. It reports whether there is one.
func (a *audit) hearLedger() (bool, error) {
	var err error
	var rolled *catalog.RollbackError
	switch a.ledger, err = a.inspection.Ledger(a.cfg.Name); {
	case errors.As(err, &rolled):
		a.find("%v", err)
	case err != nil:
		a.find("the ledger can't be read: %v", err)
		return false, nil
	case a.ledger.Seq == 0:
		a.find("table %s has no ledger of this ingest: it never wrote there, or the property %s was removed", a.cfg.Table, catalog.LedgerProperty(a.cfg.Name))
		return false, nil
	}
	a.partitions = map[topicPartition]*testimony{}
	for topic, t := range a.ledger.Topics {
		for p, next := range t.Next {
			w := &testimony{next: next, anew: len(t.Retired) > 0, cuts: map[string]*cutSpan{}}
			w.book, w.kept = t.Books[p]
			a.partitions[topicPartition{topic, p}] = w
			if w.kept && !w.book.Adds(next) {
				a.find("%s/%d: the ledger is at %d, its book accounts for %d to %d: somebody changed the property %s", topic, p, next,
					w.book.Since, w.book.Since+w.book.Rows+w.book.Left+w.book.Gaps+w.book.Lost, catalog.LedgerProperty(a.cfg.Name))
			}
		}
	}
	for _, name := range a.inspection.Ingests() {
		if name == a.cfg.Name {
			continue
		}
		other, err := a.inspection.Ledger(name)
		if err != nil && !errors.As(err, &rolled) {
			continue // its own audit says so
		}
		for topic := range other.Topics {
			if _, ours := a.ledger.Topics[topic]; ours && !slices.Contains(a.shared, name) {
				a.shared = append(a.shared, name)
			}
		}
	}
	return true, nil
}

// hearHistory compares the ledger with what the snapshots say that are left.
func (a *audit) hearHistory() {
	moves := a.inspection.Moves(a.cfg.Name)
	for i, m := range moves {
		if i == 0 {
			if m.Ledger != nil && m.Seq == a.ledger.Seq {
				a.compareLedgers(*m.Ledger, m.Snapshot)
			}
			continue
		}
		later := moves[i-1]
		switch {
		case later.Seq == m.Seq+1:
		case later.Rewound:
			a.note("history: append %d of this ingest (snapshot %d) rewound the ledger after a rollback of the table; the one before it in the table is append %d (snapshot %d)", later.Seq, later.Snapshot, m.Seq, m.Snapshot)
		default:
			a.find("history: snapshot %d is append %d of this ingest, the one before it in the table is append %d (snapshot %d)", later.Snapshot, later.Seq, m.Seq, m.Snapshot)
		}
		if m.Ledger != nil && later.Ledger != nil {
			if rows, ok := rowsBetween(*m.Ledger, *later.Ledger); ok && rows != later.Rows {
				a.find("history: snapshot %d says that it added %d rows, the books of its ledger %d", later.Snapshot, later.Rows, rows)
			}
		}
	}
}

// compareLedgers finds where the property is not what its own commit wrote.
func (a *audit) compareLedgers(committed catalog.Ledger, snapshot int64) {
	property := catalog.LedgerProperty(a.cfg.Name)
	if now := a.ledger; now.Cluster != committed.Cluster || now.Append != committed.Append {
		a.find("the ledger is of append %q from Kafka cluster %q, snapshot %d committed append %q from %q: somebody changed the property %s",
			now.Append, now.Cluster, snapshot, committed.Append, committed.Cluster, property)
	}
	for topic, t := range a.ledger.Topics {
		if was, ok := committed.Topics[topic]; ok && was.ID != t.ID {
			a.find("topic %s: the ledger is about topic id %q, snapshot %d committed it for %q: somebody changed the property %s", topic, t.ID, snapshot, was.ID, property)
		}
	}
	for _, at := range a.sorted() {
		was, ok := committed.Topics[at.topic].Next[at.partition]
		switch now := a.partitions[at].next; {
		case !ok:
			a.find("%s: the ledger is at %d, snapshot %d didn't commit it: somebody changed the property %s", at, now, snapshot, property)
			continue
		case was != now:
			a.find("%s: the ledger is at %d, snapshot %d committed it at %d: somebody changed the property %s", at, now, snapshot, was, property)
		}
		book, kept := committed.Topics[at.topic].Books[at.partition]
		if w := a.partitions[at]; kept && (!w.kept || book != w.book) {
			a.find("%s: the ledger's book is not the one that snapshot %d committed: somebody changed the property %s", at, snapshot, property)
		}
	}
	for topic, t := range committed.Topics {
		for p := range t.Next {
			if a.partitions[topicPartition{topic, p}] == nil {
				a.find("%s/%d: snapshot %d committed it, the ledger lacks it: somebody changed the property %s", topic, p, snapshot, property)
			}
		}
	}
}

// rowsBetween tells how many rows the books of one ledger have more than those
// of an earlier one; not if a book ends or begins between them.
func rowsBetween(before, after catalog.Ledger) (rows int64, ok bool) {
	for topic, t := range after.Topics {
		for p := range t.Next {
			book, kept := t.Books[p]
			was, had := before.Topics[topic].Books[p]
			switch _, entered := before.Topics[topic].Next[p]; {
			case !kept, had && (was.Since != book.Since || was.Sequence != book.Sequence), entered && !had:
				return 0, false
			}
			rows += book.Rows - was.Rows
		}
	}
	return rows, true
}

func (a *audit) sorted() []topicPartition {
	at := make([]topicPartition, 0, len(a.partitions))
	for p := range a.partitions {
		at = append(at, p)
	}
	slices.SortFunc(at, func(x, y topicPartition) int {
		if c := strings.Compare(x.topic, y.topic); c != 0 {
			return c
		}
		return int(x.partition) - int(y.partition)
	})
	return at
}
