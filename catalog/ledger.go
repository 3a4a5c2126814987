package catalog

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/apache/iceberg-go"
	"github.com/apache/iceberg-go/table"
)

// Offsets says, for each topic and partition, the next offset to read.
type Offsets map[string]map[int32]int64

// Ledger is an ingest's progress, as the table keeps it.
type Ledger struct {
	Seq     int64 // counts the ledger's moves; 0: this ingest never wrote to the table
	Cluster string
	Topics  map[string]TopicLedger
	Append  string // the last append's id
}

// TopicLedger is the progress in one topic.
type TopicLedger struct {
	ID      string
	Next    map[int32]int64
	Books   map[int32]Book // of the partitions that are accounted for
	Retired []string       // ids of deleted topics that had the name before, the oldest first
}

// retiredMax bounds how many former ids of a topic's name are kept.
const retiredMax = 8

// Source is the Kafka cluster, and the topics' ids in it, that offsets belong to.
// What is empty is not known and not compared.
type Source struct {
	Cluster  string
	TopicIDs map[string]string
}

// Equal reports whether two sources are the same.
func (s Source) Equal(o Source) bool {
	return s.Cluster == o.Cluster && maps.Equal(s.TopicIDs, o.TopicIDs)
}

// Offsets returns the ledger's offsets, a copy.
func (l Ledger) Offsets() Offsets {
	o := Offsets{}
	for name, t := range l.Topics {
		o[name] = maps.Clone(t.Next)
	}
	return o
}

var (
	// ErrFenced says that the ledger was not where the append starts: nothing of
	// it is in the table and nothing will be. Read from the ledger again.
	ErrFenced = errors.New("fenced: the ledger has moved")
	// ErrUnknown says that the context ended before it could be told whether the
	// append is in the table. The same append may be tried again: it is found by its id.
	ErrUnknown = errors.New("outcome unknown")
	// ErrReplaced says that the table is not the one that was opened: it was dropped, or made anew.
	ErrReplaced = errors.New("the table was replaced")
)

// RollbackError says that the table's history doesn't hold the append that its
// ledger speaks of: somebody rolled the table back (or put other metadata in place).
type RollbackError struct {
	Table    string
	Ingest   string
	Property Ledger  // as the table property has it
	Head     int64   // the snapshot that main names now, 0 if none
	History  int64   // the newest seq of this ingest in the head's history; 0: none
	Ancestor *Ledger // that snapshot's own ledger, when it was small enough to be kept there
}

func (e *RollbackError) Error() string {
	found := "no append of this ingest"
	if e.History > 0 {
		found = fmt.Sprintf("append %d as the last of this ingest", e.History)
	}
	return fmt.Sprintf("ledger of ingest %s in table %s is at append %d, but the history of snapshot %d holds %s: the table was rolled back; restore it, or rewind the ledger", e.Ingest, e.Table, e.Property.Seq, e.Head, found)
}

// ledgerSummaryBytesMax bounds the ledger's copy in each snapshot's summary,
// which metadata.json repeats for every snapshot.
const ledgerSummaryBytesMax = 2 << 10

// keys are the names under which an ingest keeps its ledger.
type keys struct{ ledger, seq, append, rewound string }

func keysOf(ingest string) keys {
	return keys{
		ledger:  "router." + ingest + ".ledger",
		seq:     "router." + ingest + ".seq",
		append:  "router." + ingest + ".append",
		rewound: "router." + ingest + ".rewound",
	}
}

// ledgerJSON is the stored form. Keys of Next are partition numbers.
type ledgerJSON struct {
	Seq     int64                `json:"seq"`
	Cluster string               `json:"cluster,omitempty"`
	Append  string               `json:"append,omitempty"`
	Topics  map[string]topicJSON `json:"topics"`
}

type topicJSON struct {
	ID      string             `json:"id,omitempty"`
	Next    map[int32]int64    `json:"next"`
	Books   map[int32]bookJSON `json:"books,omitempty"`
	Retired []string           `json:"retired,omitempty"`
}

func (l Ledger) encode(books bool) string {
	j := ledgerJSON{Seq: l.Seq, Cluster: l.Cluster, Append: l.Append, Topics: make(map[string]topicJSON, len(l.Topics))}
	for name, t := range l.Topics {
		topic := topicJSON{ID: t.ID, Next: t.Next, Retired: t.Retired}
		if books {
			topic.Books = encodeBooks(t.Books)
		}
		j.Topics[name] = topic
	}
	b, err := json.Marshal(j)
	if err != nil {
		panic(fmt.Sprintf("encode ledger: %v", err)) // maps of strings and numbers always encode
	}
	return string(b)
}

func decodeLedger(text string) (Ledger, error) {
	var j ledgerJSON
	if err := json.Unmarshal([]byte(text), &j); err != nil {
		return Ledger{}, err
	}
	if j.Seq < 1 {
		return Ledger{}, fmt.Errorf("seq is %d", j.Seq)
	}
	l := Ledger{Seq: j.Seq, Cluster: j.Cluster, Append: j.Append, Topics: make(map[string]TopicLedger, len(j.Topics))}
	for name, t := range j.Topics {
		for p, next := range t.Next {
			if p < 0 || next < 0 {
				return Ledger{}, fmt.Errorf("topic %s partition %d: next offset is %d", name, p, next)
			}
		}
		if t.Next == nil {
			t.Next = map[int32]int64{}
		}
		books, err := decodeBooks(name, t.Books)
		if err != nil {
			return Ledger{}, err
		}
		l.Topics[name] = TopicLedger{ID: t.ID, Next: t.Next, Books: books, Retired: t.Retired}
	}
	return l, nil
}

// ledgerIn reads the ledger property and compares it with the history.
func (t *Table) ledgerIn(meta table.Metadata) (Ledger, error) {
	text, ok := meta.Properties()[t.keys.ledger]
	if !ok {
		return Ledger{}, nil
	}
	l, err := decodeLedger(text)
	if err != nil {
		return Ledger{}, fmt.Errorf("table %s: property %s: %w", t.name, t.keys.ledger, err)
	}
	if rb := t.rolledBack(meta, l); rb != nil {
		return l, rb
	}
	return l, nil
}

// rolledBack looks for the ledger's seq in the head's history.
//
// The newest snapshot of this ingest among the head's ancestors must carry just
// the ledger's seq. When none of ours is left there, it depends on how the
// history ends. It ends at a snapshot whose parent was expired: ours went with
// it, nothing is proven. It ends at a root: a snapshot of ours elsewhere in the
// table, or later sequence numbers than the head's, prove that history was
// left; and a single root without any of ours does too, except where the
// catalog never shows more than the head (Nessie), and the head is a stranger's.
func (t *Table) rolledBack(meta table.Metadata, l Ledger) *RollbackError {
	e := &RollbackError{Table: t.name, Ingest: t.options.Ingest, Property: l}
	head := meta.CurrentSnapshot()
	if head == nil {
		return e
	}
	e.Head = head.SnapshotID
	last := head
	for s := range ancestors(meta, head) {
		last = s
		seq, ok := t.seqOf(s)
		if !ok {
			continue
		}
		if seq == l.Seq {
			return nil
		}
		e.History = seq
		if text, ok := s.Summary.Properties[t.keys.ledger]; ok {
			if a, err := decodeLedger(text); err == nil {
				e.Ancestor = &a
			}
		}
		return e
	}
	if last.ParentSnapshotID != nil {
		return nil
	}
	if len(meta.Snapshots()) == 1 && head.SequenceNumber >= meta.LastSequenceNumber() && showsHeadOnly(meta) {
		return nil
	}
	return e
}

// showsHeadOnly tells whether the catalog presents each table with its current
// snapshot alone, whatever came before it.
func showsHeadOnly(meta table.Metadata) bool {
	for key := range meta.Properties() {
		if strings.HasPrefix(key, "nessie.") {
			return true
		}
	}
	return false
}

// seqOf returns the seq that the snapshot gave this ingest's ledger.
func (t *Table) seqOf(s *table.Snapshot) (int64, bool) {
	if s.Summary == nil {
		return 0, false
	}
	text, ok := s.Summary.Properties[t.keys.seq]
	if !ok {
		return 0, false
	}
	seq, err := strconv.ParseInt(text, 10, 64)
	return seq, err == nil
}

// loopSuspect is the length of history from which on a loop of parents is thought of.
const loopSuspect = 64

// ancestors yields head and its parents as far as the table still has them, and
// ends should they form a loop.
func ancestors(meta table.Metadata, head *table.Snapshot) func(func(*table.Snapshot) bool) {
	return func(yield func(*table.Snapshot) bool) {
		seen, most := 0, -1
		for s := head; s != nil; {
			seen++
			if seen == loopSuspect {
				most = len(meta.Snapshots()) + 1 // costs a copy of them all
			}
			if most >= 0 && seen > most || !yield(s) || s.ParentSnapshotID == nil {
				return
			}
			s = meta.SnapshotByID(*s.ParentSnapshotID)
		}
	}
}

// holds tells whether the table's present history contains the append with this id.
func (t *Table) holds(meta table.Metadata, l Ledger, id string) bool {
	if l.Append == id {
		return true
	}
	for s := range ancestors(meta, meta.CurrentSnapshot()) {
		if s.Summary != nil && s.Summary.Properties[t.keys.append] == id {
			return true
		}
	}
	return false
}

// fencedError names the first partition that stands in the way.
type fencedError struct{ detail string }

func (e *fencedError) Error() string        { return ErrFenced.Error() + ": " + e.detail }
func (e *fencedError) Is(target error) bool { return target == ErrFenced }

func fenced(format string, arguments ...any) error {
	return &fencedError{detail: fmt.Sprintf(format, arguments...)}
}

// admits is the compare of the compare-and-swap: nil when the ledger is exactly where the append starts.
func (l Ledger) admits(a Append) error {
	if l.Cluster != "" && a.Source.Cluster != "" && l.Cluster != a.Source.Cluster {
		return fenced("it belongs to Kafka cluster %s, the append to %s", l.Cluster, a.Source.Cluster)
	}
	for _, name := range topicNames(a.From, a.To) {
		t := l.Topics[name]
		if id := a.Source.TopicIDs[name]; id != "" && t.ID != "" && id != t.ID {
			return fenced("topic %s has the id %s, the append's %s", name, t.ID, id)
		}
		for _, p := range partitions(a.From[name], a.To[name]) {
			from, known := a.From[name][p]
			next, stored := t.Next[p]
			switch {
			case known && !stored:
				return fenced("topic %s partition %d is not in it, the append starts at %d", name, p, from)
			case !known && stored:
				return fenced("topic %s partition %d is at %d, the append starts it", name, p, next)
			case known && next != from:
				return fenced("topic %s partition %d is at %d, the append starts at %d", name, p, next, from)
			}
		}
	}
	return nil
}

// passed tells whether the ledger is at or beyond the append's end in every partition.
func (l Ledger) passed(a Append) bool {
	for name, to := range a.To {
		for p, end := range to {
			if next, ok := l.Topics[name].Next[p]; !ok || next < end {
				return false
			}
		}
	}
	return true
}

// moved is the swap: the ledger after the append, which is the snapshot with
// that sequence number.
func (l Ledger) moved(a Append, sequence int64) Ledger {
	n := Ledger{Seq: l.Seq + 1, Cluster: l.Cluster, Append: a.ID, Topics: maps.Clone(l.Topics)}
	if n.Topics == nil {
		n.Topics = map[string]TopicLedger{}
	}
	if a.Source.Cluster != "" {
		n.Cluster = a.Source.Cluster
	}
	for name, to := range a.To {
		t := n.Topics[name]
		next := maps.Clone(t.Next)
		if next == nil {
			next = map[int32]int64{}
		}
		maps.Copy(next, to)
		if id := a.Source.TopicIDs[name]; id != "" {
			t.ID = id
		}
		n.Topics[name] = TopicLedger{ID: t.ID, Next: next, Books: a.account(name, t.Books, sequence), Retired: t.Retired}
	}
	return n
}

// Renew says that the topic of this name is another one now: nothing of it has
// been read. Its former id is kept, so that nobody who hasn't heard of it takes
// the new topic for the older one.
func (l *Ledger) Renew(topic, id string) {
	t := l.Topics[topic]
	retired := slices.DeleteFunc(append(slices.Clone(t.Retired), t.ID), func(was string) bool { return was == "" || was == id })
	if more := len(retired) - retiredMax; more > 0 {
		retired = retired[more:]
	}
	l.Topics[topic] = TopicLedger{ID: id, Next: map[int32]int64{}, Retired: retired}
}

// Move says that the topics are those of another cluster now, of which nothing
// has been read. Topics that source doesn't name are forgotten.
func (l *Ledger) Move(source Source) {
	l.Cluster = source.Cluster
	for topic := range l.Topics {
		id, ours := source.TopicIDs[topic]
		if !ours {
			delete(l.Topics, topic)
			continue
		}
		l.Renew(topic, id)
	}
}

// equal compares two ledgers whole.
func (l Ledger) equal(o Ledger) bool {
	return l.Seq == o.Seq && l.Cluster == o.Cluster && maps.EqualFunc(l.Topics, o.Topics, func(a, b TopicLedger) bool {
		return a.ID == b.ID && maps.Equal(a.Next, b.Next) && maps.Equal(a.Books, b.Books) && slices.Equal(a.Retired, b.Retired)
	})
}

// summary is what a snapshot says of the ledger that it made.
func (l Ledger) summary(k keys, id string) iceberg.Properties {
	p := iceberg.Properties{k.seq: strconv.FormatInt(l.Seq, 10), k.append: id}
	for _, books := range []bool{true, false} {
		if text := l.encode(books); len(text) <= ledgerSummaryBytesMax {
			p[k.ledger] = text
			break
		}
	}
	return p
}

func topicNames(a, b Offsets) []string {
	names := slices.Collect(maps.Keys(a))
	for n := range b {
		if _, ok := a[n]; !ok {
			names = append(names, n)
		}
	}
	slices.Sort(names)
	return names
}

func partitions(a, b map[int32]int64) []int32 {
	ps := slices.Collect(maps.Keys(a))
	for p := range b {
		if _, ok := a[p]; !ok {
			ps = append(ps, p)
		}
	}
	slices.Sort(ps)
	return ps
}
