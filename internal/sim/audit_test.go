//go:build synctests

package sim

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/apache/arrow-go/v18/parquet/file"
	"github.com/apache/arrow-go/v18/parquet/pqarrow"
	"github.com/apache/iceberg-go/table"

	"icerouter/catalog"
)

// auditor compares the table with the truth: at every commit, whoever made it,
// under the catalog's lock, and at every deletion. It reads the table from the
// objects alone, with readers that are not the product's.
//
//   - a good record behind the ledger is one row; ahead of it, none
//   - nothing else of Kafka is ever a row
//   - the rows of other writers are there, once
//   - the ledger never goes back
//   - every file that a snapshot names is there, and is not deleted
//
// Where another writer deletes rows or rolls the table back, retention overtakes
// the ledger or a topic is made again, what they have taken may be missing; never
// may it be there twice.
type auditor struct {
	truth   *truth
	objects *objects
	ingest  string
	printf  func(format string, arguments ...any)

	mu        sync.Mutex
	problems  []string
	lists     map[string][]string // manifests by manifest list
	manifests map[string][]string // live data files by manifest
	added     map[int64][]addedFile
	files     map[string][]row // rows by data file
	known     map[string]known // data files that were ever added
	sums      map[string]*sum  // by manifest
	rowsOf    map[string]int64 // that an instance has added
	meta      table.Metadata   // the table under audit
	keep      int              // keep_snapshots
	latest    bool             // start is "latest"
	schemas   []int            // the current ones since the head was made
	refs      map[string]int64 // the names when the head was made
	commits   int
	rewound   bool // an instance has settled a rollback
	unheard   bool // since then not everything was in the table
	rolled    bool // the table was rolled back, and no instance has committed since
}

// row is what the auditor reads of a row.
type row struct {
	id     int64
	text   string
	origin origin
}

func newAuditor(t *truth, o *objects, ingest string, printf func(string, ...any)) *auditor {
	return &auditor{truth: t, objects: o, ingest: ingest, printf: printf, lists: map[string][]string{}, manifests: map[string][]string{}, files: map[string][]row{},
		known: map[string]known{}, sums: map[string]*sum{}, rowsOf: map[string]int64{}, added: map[int64][]addedFile{}}
}

// problemsMax is how many violations are worth reading.
const problemsMax = 12

func (a *auditor) violation(format string, arguments ...any) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.report(format, arguments...)
}

// report notes a violation. REQUIRES: a.mu is held.
func (a *auditor) report(format string, arguments ...any) {
	if len(a.problems) < problemsMax {
		text := fmt.Sprintf(format, arguments...)
		a.problems = append(a.problems, text)
		a.printf("VIOLATION: %s", text)
	}
}

// rollBack is told that the table goes back.
func (a *auditor) rollBack() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.rolled = true
}

func (a *auditor) wentBack() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.rewound
}

// caughtUp is told that everything is in the table: every owner has heard of the
// rollback.
func (a *auditor) caughtUp() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.unheard = false
}

// someUnaware tells whether an owner may not have heard of the last rollback.
func (a *auditor) someUnaware() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.unheard
}

func (a *auditor) rolledBack() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.rolled
}

func (a *auditor) found() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.problems
}

// ledger is what the table says: by topic its id and the next offset by partition.
type ledger map[string]topicLedger

type topicLedger struct {
	ID   string
	Next map[int32]int64
}

// next returns the next offset of a partition of the topic with this id.
func (l ledger) next(topic, id string, partition int32) (offset int64, entered bool) {
	if l[topic].ID != id {
		return 0, false
	}
	offset, entered = l[topic].Next[partition]
	return offset, entered
}

// of is the next offset for a record's partition, 0 if it has not been entered.
func (l ledger) of(r *record) int64 {
	offset, _ := l.next(r.origin.topic, r.log, r.origin.partition)
	return offset
}

func (l ledger) String() string {
	text := ""
	for _, topic := range slices.Sorted(maps.Keys(l)) {
		text += " " + topic
		for _, p := range slices.Sorted(maps.Keys(l[topic].Next)) {
			text += fmt.Sprintf(" %d:%d", p, l[topic].Next[p])
		}
	}
	return strings.TrimPrefix(text, " ")
}

func ledgerOf(meta table.Metadata, ingest string) (ledger, error) {
	text, ok := meta.Properties()[catalog.LedgerProperty(ingest)]
	if !ok {
		return ledger{}, nil
	}
	var in struct {
		Topics ledger
	}
	if err := json.Unmarshal([]byte(text), &in); err != nil {
		return nil, err
	}
	return in.Topics, nil
}

// applied looks at what a commit has made of the table.
func (a *auditor) applied(by string, before, after table.Metadata) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.commits++
	if a.refs == nil {
		a.remember(before, before)
	}
	defer a.remember(before, after)
	head := after.CurrentSnapshot()
	if head == nil {
		return
	}
	was, err := ledgerOf(before, a.ingest)
	now, err2 := ledgerOf(after, a.ingest)
	if err != nil || err2 != nil {
		a.report("commit by %s: ledger: %v, %v", by, err, err2)
		return
	}
	a.printf("commit %d by %s: snapshot %d, ledger %v", a.commits, by, head.SnapshotID, now)
	if a.latest {
		a.begun(was, now)
	}
	if by == foreigner || !a.rolled {
		a.forward(by, was, now)
	}
	if by != foreigner && a.rolled && !holds(before, after) {
		a.rolled, a.rewound, a.unheard = false, true, true
	}
	a.inspect(fmt.Sprintf("commit %d by %s", a.commits, by), after, now)
	if by != foreigner {
		a.proveCommit(by, before, after)
	}
}

// forward sees that the ledger has not gone back. REQUIRES: a.mu is held.
func (a *auditor) forward(by string, was, now ledger) {
	a.truth.mu.Lock()
	defer a.truth.mu.Unlock()
	for topic, t := range was {
		if t.ID != a.truth.logs[topic] {
			continue // made again: its offsets mean nothing any more
		}
		for p, next := range t.Next {
			if then, there := now.next(topic, t.ID, p); !there || then < next {
				a.report("commit %d by %s: the ledger of %s/%d went back from %d to %d (there: %t)", a.commits, by, topic, p, next, then, there)
			}
		}
	}
}

// inspect compares the table with the truth. REQUIRES: a.mu is held.
func (a *auditor) inspect(when string, meta table.Metadata, l ledger) {
	files, err := a.present(meta)
	if err != nil {
		a.report("%s: %v", when, err)
		return
	}
	a.truth.mu.Lock()
	defer a.truth.mu.Unlock()
	times := map[int64]int{}
	for _, f := range files {
		for _, r := range a.files[f] {
			times[r.id]++
			a.check(when, f, r, l)
		}
	}
	for id, r := range a.truth.records {
		next, n := l.of(r), times[id]
		switch {
		case n > 1:
			a.report("%s: %s record %d of %v is %d times in the table (ledger %d)", when, r.kind, id, r.origin, n, next)
		case r.kind == good && n == 0 && !r.loose && !a.rolled && r.origin.offset >= 0 && r.origin.offset < next:
			a.report("%s: record %d of %v is not in the table, the ledger is at %d", when, id, r.origin, next)
		}
	}
	for id, committed := range a.truth.foreign {
		if n := times[id]; n > 1 || n == 0 && committed {
			a.report("%s: row %d of another writer is %d times in the table", when, id, n)
		}
	}
}

// check looks at one row. REQUIRES: a.mu and a.truth.mu are held.
func (a *auditor) check(when, file string, row row, l ledger) {
	if _, foreign := a.truth.foreign[row.id]; foreign {
		return
	}
	r := a.truth.records[row.id]
	switch {
	case r == nil:
		a.report("%s: row %d of %v was never produced (%s)", when, row.id, row.origin, file)
	case r.kind != good:
		a.report("%s: %s record %d of %v is in the table", when, r.kind, row.id, row.origin)
	case r.origin.topic != row.origin.topic || r.origin.partition != row.origin.partition || r.origin.offset >= 0 && r.origin.offset != row.origin.offset:
		a.report("%s: record %d of %v says in the table that it is %v", when, row.id, r.origin, row.origin)
	case r.log == a.truth.logs[r.origin.topic] && row.origin.offset >= l.of(r):
		a.report("%s: record %d of %v is in the table, the ledger is at %d", when, row.id, row.origin, l.of(r))
	}
}

// present returns the data files of the head, after seeing that all files that
// any snapshot names are there.
func (a *auditor) present(meta table.Metadata) ([]string, error) {
	a.meta = meta
	head := meta.CurrentSnapshot()
	var live []string
	seen := map[string]bool{}
	for _, s := range meta.Snapshots() {
		manifests, err := a.listed(s)
		if err != nil {
			return nil, err
		}
		if !a.objects.has(s.ManifestList) {
			return nil, fmt.Errorf("snapshot %d: manifest list %s is missing", s.SnapshotID, s.ManifestList)
		}
		for _, m := range manifests {
			current := head != nil && s.SnapshotID == head.SnapshotID
			if current {
				live = append(live, a.manifests[m]...)
			}
			if seen[m] {
				continue
			}
			seen[m] = true
			if !a.objects.has(m) {
				return nil, fmt.Errorf("snapshot %d: manifest %s is missing", s.SnapshotID, m)
			}
			for _, f := range a.manifests[m] {
				if !a.objects.has(f) {
					return nil, fmt.Errorf("snapshot %d: data file %s is missing", s.SnapshotID, f)
				}
				if _, known := a.files[f]; !known {
					is, err := readFacts(a.objects, f)
					if err != nil {
						return nil, fmt.Errorf("data file %s: %w", f, err)
					}
					a.files[f] = is.rows
					a.proveFile(f, is)
				}
			}
		}
	}
	return live, nil
}

// listed returns the manifests of a snapshot and learns what they list.
func (a *auditor) listed(s table.Snapshot) ([]string, error) {
	if known, ok := a.lists[s.ManifestList]; ok {
		return known, nil
	}
	store := bystander{a.objects, "auditor"}
	manifests, err := s.Manifests(store)
	if err != nil {
		return nil, fmt.Errorf("snapshot %d: %w", s.SnapshotID, err)
	}
	var names []string
	for _, m := range manifests {
		names = append(names, m.FilePath())
		if err := a.proveManifest(s, m); err != nil {
			return nil, err
		}
		if _, ok := a.manifests[m.FilePath()]; ok {
			continue
		}
		entries, err := m.FetchEntries(store, true)
		if err != nil {
			return nil, fmt.Errorf("snapshot %d: manifest %s: %w", s.SnapshotID, m.FilePath(), err)
		}
		files := []string{}
		for _, e := range entries {
			a.learn(m, e)
			files = append(files, e.DataFile().FilePath())
		}
		a.manifests[m.FilePath()] = files
	}
	a.lists[s.ManifestList] = names
	return names, nil
}

// deleting notes the deletion of a file that the table names.
func (a *auditor) deleting(meta table.Metadata, by, name string) {
	if meta == nil {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, s := range meta.Snapshots() {
		if s.ManifestList == name {
			a.report("%s deletes the manifest list of snapshot %d: %s", by, s.SnapshotID, name)
		}
		for _, m := range a.lists[s.ManifestList] {
			if m == name {
				a.report("%s deletes a manifest of snapshot %d: %s", by, s.SnapshotID, name)
			}
			for _, f := range a.manifests[m] {
				if f == name {
					a.report("%s deletes a data file of snapshot %d: %s", by, s.SnapshotID, name)
				}
			}
		}
	}
}

// readFacts reads a data file.
func readFacts(o *objects, name string) (*facts, error) {
	body, _ := o.read(name)
	f, err := file.NewParquetReader(bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	reader, err := pqarrow.NewFileReader(f, pqarrow.ArrowReadProperties{}, memory.DefaultAllocator)
	if err != nil {
		return nil, err
	}
	t, err := reader.ReadTable(context.Background())
	if err != nil {
		return nil, err
	}
	defer t.Release()
	is := &facts{size: int64(len(body)), rows: make([]row, t.NumRows()), columns: map[int][]any{}}
	if text := f.MetaData().KeyValueMetadata().FindValue("router.origins"); text != nil {
		is.origins = *text
	}
	for i := range int(t.NumCols()) {
		field := t.Schema().Field(i)
		column := make([]any, 0, t.NumRows())
		for _, chunk := range t.Column(i).Data().Chunks() {
			for k := range chunk.Len() {
				is.rows[len(column)].set(field.Name, chunk, k)
				column = append(column, valueAt(chunk, k))
			}
		}
		is.columns[fieldID(field)] = column
	}
	return is, nil
}

// set takes the value of one column.
func (r *row) set(column string, values arrow.Array, i int) {
	if values.IsNull(i) {
		return
	}
	switch column {
	case "id":
		r.id = values.(*array.Int64).Value(i)
	case "text":
		r.text = values.(interface{ Value(int) string }).Value(i)
	case "_kafka_topic":
		r.origin.topic = values.(interface{ Value(int) string }).Value(i)
	case "_kafka_partition":
		r.origin.partition = values.(*array.Int32).Value(i)
	case "_kafka_offset":
		r.origin.offset = values.(*array.Int64).Value(i)
	}
}
