package catalog

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/apache/iceberg-go"
	"github.com/apache/iceberg-go/table"
)

// Following a table is reading its head's history from a position on, one
// snapshot at a time. The history is the line of parents behind the head of
// main. It only grows at its head, unless somebody rolls the table back, and it
// is only cut at its end, by expiry. Both are told apart here, and neither is
// passed over in silence.

// Snapshot is one snapshot of a table.
type Snapshot struct {
	ID        int64
	Parent    int64 // 0: none, it is the first of its history
	Sequence  int64 // grows with every snapshot of the table; 0 in tables of format version 1
	Time      time.Time
	Operation string // "append", "replace", "overwrite", "delete"; "": the table doesn't say
	Schema    int    // the schema that was current then; -1: the table doesn't say
	Summary   map[string]string
}

// View is a table at one moment. It is immutable and safe for concurrent use.
type View struct {
	table *Table
	state *state
}

// Follow loads the table. A table that was dropped or made anew since t was
// opened is ErrReplaced.
func (t *Table) Follow(ctx context.Context) (*View, error) {
	s, err := t.reload(ctx)
	if err != nil {
		return nil, t.catalog.scrub.error(fmt.Errorf("follow %s: %w", t.name, err))
	}
	t.view.Store(s)
	return &View{t, s}, nil
}

// UUID identifies the table for ever, whatever its name.
func (v *View) UUID() string { return v.state.meta.TableUUID().String() }

// Same is nil when uuid is the table's, and ErrReplaced otherwise: positions of
// another table mean nothing in this one.
func (v *View) Same(uuid string) error {
	if own := v.UUID(); own != uuid {
		return fmt.Errorf("follow %s: %w: it was %s and is now %s", v.table.name, ErrReplaced, uuid, own)
	}
	return nil
}

// Sequence returns the number of the newest snapshot that the table has ever had,
// rolled back or not; 0 in tables of format version 1. It never falls: a view with
// a smaller one comes from a copy of the table's metadata that is behind.
func (v *View) Sequence() int64 { return v.state.meta.LastSequenceNumber() }

// Schema returns the current schema.
func (v *View) Schema() *iceberg.Schema { return v.state.meta.CurrentSchema() }

// SchemaByID returns one of the table's schemas, or nil.
func (v *View) SchemaByID(id int) *iceberg.Schema {
	for _, s := range v.state.meta.Schemas() {
		if s.ID == id {
			return s
		}
	}
	return nil
}

// Properties returns the table's properties, a copy.
func (v *View) Properties() map[string]string { return maps.Clone(v.state.meta.Properties()) }

// StoreProperties returns what is needed to open the store of a data file, as
// Table.StoreProperties does. It holds secrets, which may expire.
func (v *View) StoreProperties() map[string]string { return maps.Clone(v.state.properties) }

// NameMapping returns the ids of columns in files that have none, nil when the
// table has no such mapping.
//
// Source: Iceberg spec, "Column Projection", "Name Mapping Serialization".
func (v *View) NameMapping() (iceberg.NameMapping, error) {
	text, ok := v.state.meta.Properties()[table.DefaultNameMappingKey]
	if !ok {
		return nil, nil
	}
	var m iceberg.NameMapping
	if err := json.Unmarshal([]byte(text), &m); err != nil {
		return nil, fmt.Errorf("table %s: property %s: %w", v.table.name, table.DefaultNameMappingKey, err)
	}
	return m, nil
}

// Head returns the current snapshot; false: the table has none.
func (v *View) Head() (Snapshot, bool) {
	head := v.state.meta.CurrentSnapshot()
	if head == nil {
		return Snapshot{}, false
	}
	return snapshotOf(head), true
}

// Snapshot returns a snapshot that the table still has, in the head's history or not.
func (v *View) Snapshot(id int64) (Snapshot, bool) {
	s := v.state.meta.SnapshotByID(id)
	if s == nil {
		return Snapshot{}, false
	}
	return snapshotOf(s), true
}

func snapshotOf(s *table.Snapshot) Snapshot {
	out := Snapshot{ID: s.SnapshotID, Parent: deref(s.ParentSnapshotID), Sequence: s.SequenceNumber, Time: time.UnixMilli(s.TimestampMs).UTC(), Schema: -1}
	if s.SchemaID != nil {
		out.Schema = *s.SchemaID
	}
	if s.Summary != nil {
		out.Operation, out.Summary = string(s.Summary.Operation), maps.Clone(s.Summary.Properties)
	}
	return out
}

// GapError says that snapshots after a position were expired: what they
// appended can't be told from the rest of the table any more.
type GapError struct {
	Table    string
	Position Snapshot // as it was asked for
	// Kept is what is left of the head's history, oldest first. Who goes on in
	// spite of the gap goes on with it.
	Kept []Snapshot
}

func (e *GapError) Error() string {
	oldest := e.Kept[0]
	after := fmt.Sprintf("snapshot %d", e.Position.ID)
	switch {
	case e.Position.ID == 0 && e.Position.Time.IsZero():
		after = "the table's beginning"
	case e.Position.ID == 0:
		after = e.Position.Time.Format(time.RFC3339Nano)
	}
	many := ""
	if n := e.MissingMax(); n > 0 {
		many = fmt.Sprintf(", at most %d,", n)
	}
	return fmt.Sprintf("table %s: snapshots after %s%s were expired, up to and with %d; the oldest that is kept in the head's history is %d of %s: what they appended can't be followed any more; keep snapshots longer, or start anew",
		e.Table, after, many, oldest.Parent, oldest.ID, oldest.Time.Format(time.RFC3339))
}

// MissingMax is how many snapshots lie in the gap at most, 0 when that isn't
// known. Snapshots of other branches and those that were rolled back count too.
func (e *GapError) MissingMax() int64 {
	oldest := e.Kept[0]
	if oldest.Sequence == 0 || e.Position.Sequence == 0 && (e.Position.ID != 0 || !e.Position.Time.IsZero()) {
		return 0
	}
	return max(0, oldest.Sequence-e.Position.Sequence-1)
}

// NotAncestorError says that a position isn't in the head's history: the table
// was rolled back, or its contents were replaced as a whole.
type NotAncestorError struct {
	Table    string
	Position Snapshot
	Head     int64 // 0: the table has no snapshot
	// Fork is the newest snapshot that both histories have, 0 when it isn't known.
	Fork int64
}

func (e *NotAncestorError) Error() string {
	text := fmt.Sprintf("table %s: snapshot %d isn't in the history of the current snapshot %d: the table was rolled back, or replaced", e.Table, e.Position.ID, e.Head)
	if e.Head == 0 {
		text = fmt.Sprintf("table %s: the table has no snapshot, but was followed up to %d: it was emptied", e.Table, e.Position.ID)
	}
	if e.Fork != 0 {
		text += fmt.Sprintf("; both have snapshot %d", e.Fork)
	}
	return text + "; restore it, or start anew"
}

// NoHistoryError says that the catalog shows no history, so that the table
// can't be followed snapshot by snapshot.
type NoHistoryError struct {
	Table string
	Why   string
}

func (e *NoHistoryError) Error() string {
	return fmt.Sprintf("table %s can't be followed: %s", e.Table, e.Why)
}

// loadingModeKey is the REST catalog property that leaves snapshots out of what is loaded.
const loadingModeKey = "snapshot-loading-mode"

// History is nil when the catalog shows the table's history, and a
// *NoHistoryError when it doesn't: Nessie shows the current snapshot alone,
// without its parent, and so does any REST catalog that is asked for "refs".
func (v *View) History() error {
	meta := v.state.meta
	head := meta.CurrentSnapshot()
	if head == nil {
		return nil
	}
	if mode := v.table.catalog.config.Properties[loadingModeKey]; strings.EqualFold(mode, "refs") {
		return &NoHistoryError{v.table.name, fmt.Sprintf("the catalog is asked for named snapshots only: remove %s = %q from [catalog.properties]", loadingModeKey, mode)}
	}
	if head.ParentSnapshotID != nil || len(meta.Snapshots()) > 1 {
		return nil
	}
	logged := 0
	for range meta.SnapshotLogs() {
		logged++
	}
	// A table's first snapshot has the sequence number 1, and is in the log.
	if showsHeadOnly(meta) || head.SequenceNumber > 1 && logged == 0 {
		return &NoHistoryError{v.table.name, fmt.Sprintf("its catalog shows the current snapshot %d alone, without parent and log (Nessie does so): keep the table in a catalog that shows the history", head.SnapshotID)}
	}
	return nil
}

// After returns the snapshots of the head's history that follow at, oldest
// first; none when at is the head. The zero Snapshot is the place before the
// first one.
//
// Only at.ID is looked for. It needn't be in the table any more, as long as the
// snapshot that follows it is: that one names it as its parent, which proves
// that nothing lies between. at.Sequence and at.Time, where they are known, help
// to tell a rollback from an expiry, and should be kept with a position.
//
// Errors: *GapError, *NotAncestorError, *NoHistoryError.
func (v *View) After(at Snapshot) ([]Snapshot, error) {
	meta := v.state.meta
	head := meta.CurrentSnapshot()
	if head == nil {
		if at.ID == 0 {
			return nil, nil
		}
		return nil, &NotAncestorError{Table: v.table.name, Position: at}
	}
	if head.SnapshotID == at.ID {
		return nil, nil
	}
	if err := v.History(); err != nil {
		return nil, err
	}
	var line []Snapshot
	for s := range ancestors(meta, head) {
		if s.SnapshotID == at.ID {
			slices.Reverse(line)
			return line, nil
		}
		line = append(line, snapshotOf(s))
	}
	slices.Reverse(line)
	if line[0].Parent == at.ID {
		return line, nil
	}
	if known := meta.SnapshotByID(at.ID); known != nil {
		at = snapshotOf(known)
	}
	if line[0].Parent == 0 || at.notBefore(line[0]) {
		return nil, &NotAncestorError{Table: v.table.name, Position: at, Head: head.SnapshotID, Fork: v.fork(at.ID, line)}
	}
	return nil, &GapError{Table: v.table.name, Position: at, Kept: line}
}

// notBefore tells whether s is certainly not older than o.
func (s Snapshot) notBefore(o Snapshot) bool {
	if s.Sequence > 0 && o.Sequence > 0 {
		return s.Sequence >= o.Sequence
	}
	return s.Sequence == 0 && o.Sequence == 0 && s.Time.After(o.Time)
}

// fork returns the newest ancestor of the snapshot called id that is in line, or 0.
func (v *View) fork(id int64, line []Snapshot) int64 {
	in := make(map[int64]bool, len(line))
	for _, s := range line {
		in[s.ID] = true
	}
	for s := range ancestors(v.state.meta, v.state.meta.SnapshotByID(id)) {
		if in[s.SnapshotID] {
			return s.SnapshotID
		}
		if parent := deref(s.ParentSnapshotID); parent == line[0].Parent {
			return parent
		}
	}
	return 0
}

// ErrSnapshotGone says that a snapshot isn't in the table any more.
var ErrSnapshotGone = errors.New("the snapshot is gone")

// snapshot returns the snapshot called id, or why it can't be read.
func (v *View) snapshot(id int64) (*table.Snapshot, error) {
	s := v.state.meta.SnapshotByID(id)
	if s == nil {
		return nil, fmt.Errorf("snapshot %d: %w: it was expired", id, ErrSnapshotGone)
	}
	return s, nil
}
