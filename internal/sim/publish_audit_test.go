//go:build synctests

package sim

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"sync"

	"github.com/apache/iceberg-go"
	"github.com/apache/iceberg-go/table"
	"github.com/twmb/franz-go/pkg/kgo"

	"icerouter/catalog"
)

// returns is the auditor of the way back: it compares the records that are
// committed with the rows that were ever appended to the table. What a snapshot
// has added it learns from the table's own files when the snapshot is committed.
//
//   - a record is a row that an append has added, or one that the table had where
//     the publish began, and has that row's value
//   - no row is there twice
//   - the rows of a partition of the table are in one partition of the topic, in
//     the order in which they were appended
//   - no position goes back, and what all positions have passed is there
//   - after settle every such row is there
//
// Where another writer expires snapshots that are still to be published, whatever
// the tags say, their rows may be missing; never may they be there twice.
type returns struct {
	audit *auditor

	mu        sync.Mutex
	snapshots map[int64]appended
	head      int64
	began     *place // where the first positions are
	marks     map[int32]mark
	lost      map[int64]bool // snapshots that were expired before all positions had passed them
	seen      map[string][]bool
	count     map[string]int // rows of a file that are there
	last      map[string]*spot
	offsets   map[string]int64
	robbed    bool // another engine has expired what was held
	grown     bool // the topic has more partitions than at first
	records   int
}

// appended is what is remembered of a snapshot.
type appended struct {
	id, parent, sequence int64
	operation            string
	list                 string // its manifest list
}

// addedFile is a data file that a snapshot has added.
type addedFile struct {
	path, tuple string
}

// place is a position, as the position topic has it.
type place struct {
	Snapshot    int64 `json:"snapshot,string"`
	Sequence    int64
	State, Done bool
	File        int
	Row         int64
}

// mark is a record of the position topic.
type mark struct {
	Generation int64
	Shards     int
	At         place
}

// spot is where a row of a partition of the table was found last.
type spot struct {
	partition int32
	offset    int64
	sequence  int64
	file      string
	row       int64
	what      string
}

func newReturns(a *auditor) *returns {
	return &returns{
		audit: a, snapshots: map[int64]appended{}, marks: map[int32]mark{}, lost: map[int64]bool{}, seen: map[string][]bool{}, count: map[string]int{},
		last: map[string]*spot{}, offsets: map[string]int64{},
	}
}

// learn notes that a manifest has a file. REQUIRES: a.mu is held.
func (a *auditor) learn(m iceberg.ManifestFile, e iceberg.ManifestEntry) {
	if e.Status() != iceberg.EntryStatusADDED {
		return
	}
	tuple := ""
	for id, value := range e.DataFile().Partition() {
		tuple += fmt.Sprintf(" %d=%v", id, value)
	}
	if tuple != "" {
		tuple = fmt.Sprintf("%d:%s", m.PartitionSpecID(), tuple)
	}
	a.added[e.SnapshotID()] = append(a.added[e.SnapshotID()], addedFile{e.DataFile().FilePath(), tuple})
}

// holds tells whether a commit did no more than to hold snapshots for a publish.
func holds(before, after table.Metadata) bool {
	was, now := before.CurrentSnapshot(), after.CurrentSnapshot()
	property := catalog.LedgerProperty(ingestName)
	return was != nil && was.SnapshotID == now.SnapshotID && before.Properties()[property] == after.Properties()[property]
}

// applied notes a new state of the table.
func (r *returns) applied(before, meta table.Metadata) {
	head := meta.CurrentSnapshot()
	if head == nil {
		return
	}
	if r.unheld(before, meta) {
		for _, s := range before.Snapshots() {
			if meta.SnapshotByID(s.SnapshotID) == nil {
				r.lose(s)
			}
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.head = head.SnapshotID
	s := appended{id: head.SnapshotID, sequence: head.SequenceNumber, list: head.ManifestList}
	if head.ParentSnapshotID != nil {
		s.parent = *head.ParentSnapshotID
	}
	if head.Summary != nil {
		s.operation = string(head.Summary.Operation)
	}
	r.snapshots[s.id] = s
	held := []string{}
	for name, ref := range meta.Refs() {
		if name != table.MainBranch {
			held = append(held, fmt.Sprintf("%s=%d", name, ref.SnapshotID))
		}
	}
	r.audit.printf("held: %v, %d snapshots", held, len(meta.Snapshots()))
}

// files returns what a snapshot has added; with state, what the table had there.
// REQUIRES: r.audit.mu is held.
func (r *returns) files(s appended, state bool) (out []string) {
	if state {
		for _, m := range r.audit.lists[s.list] {
			out = append(out, r.audit.manifests[m]...)
		}
		return out
	}
	for _, f := range r.audit.added[s.id] {
		out = append(out, f.path)
	}
	return out
}

// due is what is to be published of a snapshot.
type due struct {
	appended
	state bool
}

// line returns what is to be published, newest first. REQUIRES: r.mu is held.
func (r *returns) line() (out []due) {
	if r.began == nil {
		return nil
	}
	for id := r.head; id != 0; {
		s, known := r.snapshots[id]
		switch {
		case id == r.began.Snapshot && r.began.State:
			return append(out, due{s, true})
		case id == r.began.Snapshot || !known:
			return out
		case s.operation == string(table.OpAppend):
			out = append(out, due{s, false})
		}
		id = s.parent
	}
	return out
}

// missing names a row of a snapshot that isn't there, or nothing. REQUIRES: both locks are held.
func (r *returns) missing(d due) string {
	if r.lost[d.id] {
		return ""
	}
	for _, f := range r.files(d.appended, d.state) {
		if n := len(r.audit.files[f]); r.count[f] < n {
			for i, there := range append(r.seen[f], make([]bool, n)...)[:n] {
				if !there {
					return fmt.Sprintf("row %d (id %d) of %s, of snapshot %d, is not in the topic; %d rows of the file are, of %d", i, r.audit.files[f][i].id, f, d.id, r.count[f], n)
				}
			}
		}
	}
	return ""
}

// waiting names what is still to be published, or nothing.
func (r *returns) waiting() string {
	r.audit.mu.Lock()
	defer r.audit.mu.Unlock()
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.head == 0 {
		return ""
	}
	if r.began == nil {
		return "the publish has no position yet"
	}
	line := r.line()
	for i := range line {
		if missing := r.missing(line[len(line)-1-i]); missing != "" {
			return missing
		}
	}
	return ""
}

// inspect sees that what the positions have passed is there.
func (r *returns) inspect(when string) {
	r.audit.mu.Lock()
	defer r.audit.mu.Unlock()
	r.mu.Lock()
	defer r.mu.Unlock()
	slowest, whole := r.slowest()
	if !whole {
		return
	}
	for _, d := range r.line() {
		if !slowest.passed(d) {
			continue
		}
		if missing := r.missing(d); missing != "" {
			r.audit.report("%s: all positions have passed it, the slowest is %+v: %s", when, slowest, missing)
			return
		}
	}
}

func (p place) passed(d due) bool {
	return p.Sequence > d.sequence || p.Snapshot == d.id && p.Done
}

// slowest is the position of the shard that is least far. Whole is false while
// the layout of the shards is not known. REQUIRES: r.mu is held.
func (r *returns) slowest() (at place, whole bool) {
	newest := mark{}
	for _, m := range r.marks {
		if m.Generation > newest.Generation {
			newest = m
		}
	}
	at = newest.At
	for i := range int32(newest.Shards) {
		m, there := r.marks[i]
		if !there || m.Generation != newest.Generation {
			return place{}, false
		}
		if m.At.before(at) {
			at = m.At
		}
	}
	return at, newest.Shards > 0
}

func (p place) before(q place) bool {
	switch {
	case p.Sequence != q.Sequence:
		return p.Sequence < q.Sequence
	case p.Done != q.Done:
		return q.Done
	case p.File != q.File:
		return p.File < q.File
	}
	return p.Row < q.Row
}

// needs tells whether a snapshot is still to be published, or held.
func (r *returns) needs(s table.Snapshot) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	slowest, whole := r.slowest()
	return !whole || !slowest.passed(due{appended: appended{id: s.SnapshotID, sequence: s.SequenceNumber}})
}

// unheld tells whether another engine has expired what was held, name and all, and
// no publish has held anything again: until then an ingest's expiry can't know.
func (r *returns) unheld(before, after table.Metadata) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	robbed := r.robbed && !tagged(before)
	r.robbed = r.robbed && !tagged(after)
	return robbed
}

// tagged tells whether a table has a name besides its branch.
func tagged(meta table.Metadata) bool {
	for name := range meta.Refs() {
		if name != table.MainBranch {
			return true
		}
	}
	return false
}

// lose notes that a snapshot is about to be expired, needed or not.
func (r *returns) lose(s table.Snapshot) {
	if r.needs(s) {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.lost[s.SnapshotID], r.robbed = true, true
	}
}

// mark takes a committed record of the position topic in.
func (r *returns) mark(k *kgo.Record) {
	r.audit.mu.Lock()
	defer r.audit.mu.Unlock()
	r.mu.Lock()
	defer r.mu.Unlock()
	var m mark
	if err := json.Unmarshal(k.Value, &m); err != nil {
		r.audit.report("position topic %d@%d: %v", k.Partition, k.Offset, err)
		return
	}
	if was, there := r.marks[k.Partition]; there && (m.Generation < was.Generation || m.Generation == was.Generation && m.At.before(was.At)) {
		r.audit.report("position of shard %d went back from %+v to %+v", k.Partition, was, m)
	}
	r.marks[k.Partition] = m
	if r.began == nil {
		r.began = &m.At
	}
}

// record takes a committed record of the topic in.
func (r *returns) record(k *kgo.Record) {
	r.audit.mu.Lock()
	defer r.audit.mu.Unlock()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.records++
	snapshot, file, row := originOfRow(k)
	what := fmt.Sprintf("%s/%d@%d, row %d of %s, snapshot %d", k.Topic, k.Partition, k.Offset, row, file, snapshot)
	rows, known := r.audit.files[file]
	if !known || row < 0 || row >= int64(len(rows)) {
		r.audit.report("%s: there is no such row", what)
		return
	}
	if r.seen[file] == nil {
		r.seen[file] = make([]bool, len(rows))
	}
	if r.seen[file][row] {
		r.audit.report("%s: it is there twice (id %d)", what, rows[row].id)
		return
	}
	r.seen[file][row] = true
	r.count[file]++
	if wrong := sameValue(k.Value, rows[row]); wrong != "" {
		r.audit.report("%s: %s: %s", what, wrong, k.Value)
	}
	if wrong := r.place(k, snapshot, file, row, what); wrong != "" {
		r.audit.report("%s: %s", what, wrong)
	}
}

// place sees that a row was to be published, and comes after those that it
// followed. REQUIRES: both locks are held.
func (r *returns) place(k *kgo.Record, snapshot int64, file string, row int64, what string) string {
	s, known := r.snapshots[snapshot]
	if !known {
		return "there was no such snapshot"
	}
	state := r.began != nil && r.began.State && r.began.Snapshot == snapshot
	tuple, of := "", false
	for _, f := range r.audit.added[snapshot] {
		if f.path == file {
			tuple, of = f.tuple, true
		}
	}
	switch {
	case state:
		for _, f := range r.files(s, true) {
			of = of || f == file
		}
	case s.operation != string(table.OpAppend):
		return fmt.Sprintf("the snapshot is %q", s.operation)
	}
	if !of {
		return "the snapshot has no such file"
	}
	if state || tuple == "" || r.grown {
		return ""
	}
	now := &spot{k.Partition, k.Offset, s.sequence, file, row, what}
	was := r.last[tuple]
	r.last[tuple] = now
	if was != nil && (was.partition != now.partition || was.offset > now.offset || was.sequence > now.sequence || was.file == now.file && was.row > now.row) {
		return fmt.Sprintf("it comes after %s, of the same partition %s of the table", was.what, tuple)
	}
	return r.inOrder(tuple, r.audit.files[file][row])
}

// inOrder sees that the rows of a partition of Kafka come as they came.
func (r *returns) inOrder(tuple string, now row) string {
	if now.origin.topic == "" {
		return ""
	}
	r.audit.truth.mu.Lock()
	defer r.audit.truth.mu.Unlock()
	from := r.audit.truth.records[now.id]
	if from == nil {
		return "it was never produced"
	}
	at := fmt.Sprintf("%s %s %d", tuple, from.log, now.origin.partition)
	if was, there := r.offsets[at]; there && was >= now.origin.offset {
		return fmt.Sprintf("it is the record %v, and comes after its partition's offset %d", now.origin, was)
	}
	r.offsets[at] = now.origin.offset
	return ""
}

// show tells what has become of the rows.
func (r *returns) show() string {
	r.audit.mu.Lock()
	defer r.audit.mu.Unlock()
	r.mu.Lock()
	defer r.mu.Unlock()
	rows, there := 0, 0
	for _, d := range r.line() {
		for _, f := range r.files(d.appended, d.state) {
			rows += len(r.audit.files[f])
			there += r.count[f]
		}
	}
	newest := mark{}
	for _, m := range r.marks {
		if m.Generation > newest.Generation {
			newest = m
		}
	}
	return fmt.Sprintf("out: %d records, %d of %d rows; layout %d, shards %d\n", r.records, there, rows, newest.Generation, newest.Shards)
}

// originOfRow is where a record says that its row is.
func originOfRow(k *kgo.Record) (snapshot int64, file string, row int64) {
	row = -1
	for _, h := range k.Headers {
		n, _ := strconv.ParseInt(string(h.Value), 10, 64)
		switch h.Key {
		case "router.snapshot":
			snapshot = n
		case "router.file":
			file = string(h.Value)
		case "router.row":
			row = n
		}
	}
	return snapshot, file, row
}

// sameValue says what is wrong with the value of a record, or nothing.
func sameValue(value []byte, r row) string {
	in := map[string]any{}
	d := json.NewDecoder(bytes.NewReader(value))
	d.UseNumber()
	if err := d.Decode(&in); err != nil {
		return err.Error()
	}
	if in["text"] == nil && r.text == "" {
		in["text"] = "" // it may be null
	}
	if in["id"] != json.Number(strconv.FormatInt(r.id, 10)) || in["text"] != r.text {
		return fmt.Sprintf("the row has id %d and text %q", r.id, r.text)
	}
	for name, v := range in {
		if name != "id" && name != "text" && (v != nil || !strings.HasPrefix(name, "extra_")) {
			return fmt.Sprintf("column %q is %v", name, v)
		}
	}
	return ""
}
