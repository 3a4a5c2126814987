//go:build synctests

package sim

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"github.com/apache/iceberg-go"
	"github.com/apache/iceberg-go/table"

	"icerouter/catalog"
)

// What the auditor asks of the metadata, beyond the rows: each number that a
// reader plans with must be what the files hold, however often manifests are
// merged, and each commit of an instance must change what it says and no more.

// known is what the manifest that brought a data file says of it.
type known struct {
	file               iceberg.DataFile
	snapshot, sequence int64
}

// sum is what a manifest's entries add up to.
type sum struct {
	snapshot, sequence int64
	files              [3]int64 // by status
	rows               [3]int64
	least              int64 // the least data sequence number of its live files
	live               bool
	low, high          []any // by partition field; nil while there is no value
	nulls              []bool
}

// proveManifest compares a manifest with what a manifest list says of it, and
// its entries, when it is new, with what is known of the files. REQUIRES: a.mu is held.
func (a *auditor) proveManifest(s table.Snapshot, m iceberg.ManifestFile) error {
	at := fmt.Sprintf("snapshot %d: manifest %s", s.SnapshotID, m.FilePath())
	spec := a.meta.PartitionSpecByID(int(m.PartitionSpecID()))
	if spec == nil {
		return fmt.Errorf("%s: the table has no partition spec %d", at, m.PartitionSpecID())
	}
	body, _ := a.objects.read(m.FilePath())
	if int64(len(body)) != m.Length() {
		a.report("%s: it has %d bytes, the list says %d", at, len(body), m.Length())
	}
	n := a.sums[m.FilePath()]
	if n == nil {
		if m.SnapshotID() != s.SnapshotID || m.SequenceNum() != s.SequenceNumber {
			a.report("%s: it is new, and is said to come from snapshot %d, sequence number %d", at, m.SnapshotID(), m.SequenceNum())
		}
		var err error
		if n, err = a.addUp(at, m, *spec); err != nil {
			return err
		}
		a.sums[m.FilePath()] = n
	}
	if n.snapshot != m.SnapshotID() || n.sequence != m.SequenceNum() {
		a.report("%s: it came with snapshot %d, sequence number %d; the list says %d, %d", at, n.snapshot, n.sequence, m.SnapshotID(), m.SequenceNum())
	}
	files := [3]int64{int64(m.ExistingDataFiles()), int64(m.AddedDataFiles()), int64(m.DeletedDataFiles())}
	rows := [3]int64{m.ExistingRows(), m.AddedRows(), m.DeletedRows()}
	if files != n.files || rows != n.rows {
		a.report("%s: it has files %v with rows %v (existing, added, deleted), the list says %v with %v", at, n.files, n.rows, files, rows)
	}
	if n.live && m.MinSequenceNum() > n.least {
		a.report("%s: its files begin at sequence number %d, the list says %d", at, n.least, m.MinSequenceNum())
	}
	if !strings.Contains(m.FilePath(), "/router-m") {
		return nil // iceberg-go leaves out the bounds of empty texts
	}
	return a.proveBounds(at, m, *spec, n)
}

// ours tells whether an instance made a snapshot.
func ours(s table.Snapshot) bool {
	for key := range s.Summary.Properties {
		if strings.HasPrefix(key, "router.") {
			return true
		}
	}
	return false
}

// addUp reads a manifest's entries. REQUIRES: a.mu is held.
func (a *auditor) addUp(at string, m iceberg.ManifestFile, spec iceberg.PartitionSpec) (*sum, error) {
	entries, err := m.FetchEntries(bystander{a.objects, "auditor"}, false)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", at, err)
	}
	n := &sum{snapshot: m.SnapshotID(), sequence: m.SequenceNum(), low: make([]any, spec.NumFields()), high: make([]any, spec.NumFields()), nulls: make([]bool, spec.NumFields())}
	for _, e := range entries {
		f := e.DataFile()
		n.files[e.Status()]++
		n.rows[e.Status()] += f.Count()
		before, there := a.known[f.FilePath()]
		switch {
		case !there && e.Status() != iceberg.EntryStatusADDED:
			a.report("%s: %s is in it with status %d, and was never added", at, f.FilePath(), e.Status())
		case !there && (e.SnapshotID() != m.SnapshotID() || e.SequenceNum() != m.SequenceNum()):
			a.report("%s: %s is new, and is said to come from snapshot %d, sequence number %d", at, f.FilePath(), e.SnapshotID(), e.SequenceNum())
		case there && e.SequenceNum() != before.sequence:
			a.report("%s: %s has the sequence number %d, it was added with %d", at, f.FilePath(), e.SequenceNum(), before.sequence)
		case there && e.Status() == iceberg.EntryStatusEXISTING && e.SnapshotID() != before.snapshot:
			a.report("%s: %s is said to come from snapshot %d, it was added by %d", at, f.FilePath(), e.SnapshotID(), before.snapshot)
		case there && (f.Count() != before.file.Count() || f.FileSizeBytes() != before.file.FileSizeBytes() || fmt.Sprint(f.Partition()) != fmt.Sprint(before.file.Partition())):
			a.report("%s: %s is not what it was: %d rows, %d bytes, partition %v", at, f.FilePath(), f.Count(), f.FileSizeBytes(), f.Partition())
		}
		if !there {
			a.known[f.FilePath()] = known{f, e.SnapshotID(), e.SequenceNum()}
		}
		if e.Status() != iceberg.EntryStatusDELETED {
			if !n.live || e.SequenceNum() < n.least {
				n.least = e.SequenceNum()
			}
			n.live = true
		}
		for i := range spec.NumFields() {
			v := f.Partition()[spec.Field(i).FieldID]
			if v == nil {
				n.nulls[i] = true
				continue
			}
			if n.low[i] == nil || compare(v, n.low[i]) < 0 {
				n.low[i] = v
			}
			if n.high[i] == nil || compare(v, n.high[i]) > 0 {
				n.high[i] = v
			}
		}
	}
	return n, nil
}

// proveBounds sees that a reader which prunes by partition finds every file.
// REQUIRES: a.mu is held.
func (a *auditor) proveBounds(at string, m iceberg.ManifestFile, spec iceberg.PartitionSpec, n *sum) error {
	said := m.Partitions()
	if len(said) != spec.NumFields() {
		return fmt.Errorf("%s: its list has %d partition summaries, spec %d has %d fields", at, len(said), spec.ID(), spec.NumFields())
	}
	for i := range spec.NumFields() {
		typ := a.resultType(spec.Field(i))
		if n.nulls[i] && !said[i].ContainsNull {
			a.report("%s: field %s has nulls, the list says none", at, spec.Field(i).Name)
		}
		for _, side := range []struct {
			value any
			bound *[]byte
			sign  int
		}{{n.low[i], said[i].LowerBound, 1}, {n.high[i], said[i].UpperBound, -1}} {
			if side.value == nil {
				continue
			}
			if side.bound == nil {
				a.report("%s: field %s has values and no bounds", at, spec.Field(i).Name)
				continue
			}
			l, err := iceberg.LiteralFromBytes(typ, *side.bound)
			if err != nil {
				return fmt.Errorf("%s: field %s: bound %x: %w", at, spec.Field(i).Name, *side.bound, err)
			}
			if compare(l.Any(), side.value)*side.sign > 0 {
				a.report("%s: field %s reaches %v, the list says %v", at, spec.Field(i).Name, side.value, l)
			}
		}
	}
	return nil
}

// resultType is the type of a partition field; its column may be gone from the
// current schema. REQUIRES: a.mu is held.
func (a *auditor) resultType(f iceberg.PartitionField) iceberg.Type {
	for _, s := range a.meta.Schemas() {
		if source, ok := s.FindFieldByID(f.SourceID()); ok {
			return f.Transform.ResultType(source.Type)
		}
	}
	return iceberg.PrimitiveTypes.String
}

// compare orders two values of the types that the table has.
func compare(a, b any) int {
	switch a := a.(type) {
	case string:
		return strings.Compare(a, b.(string))
	case int32:
		return int(a) - int(b.(int32))
	case int64:
		switch b := b.(int64); {
		case a < b:
			return -1
		case a > b:
			return 1
		}
		return 0
	case []byte:
		return bytes.Compare(a, b.([]byte))
	}
	panic(fmt.Sprintf("%T is not compared here", a))
}

// proveCommit sees what the commit of an instance has changed: one snapshot on
// top of the head, whose summary is true, and of the older ones only those gone
// that may go. REQUIRES: a.mu is held.
func (a *auditor) proveCommit(by string, before, after table.Metadata) {
	a.proveExpiry(by, before, after)
	head := after.CurrentSnapshot()
	parent := before.CurrentSnapshot()
	if head == nil || parent != nil && head.SnapshotID == parent.SnapshotID {
		return
	}
	at := fmt.Sprintf("commit %d by %s: snapshot %d", a.commits, by, head.SnapshotID)
	switch {
	case parent != nil && (head.ParentSnapshotID == nil || *head.ParentSnapshotID != parent.SnapshotID):
		a.report("%s: its parent is not the head %d", at, parent.SnapshotID)
	case head.SchemaID == nil || !slices.Contains(a.schemas, *head.SchemaID):
		a.report("%s: its schema is not the table's, %d", at, after.CurrentSchema().ID)
	case head.Summary == nil || head.Summary.Operation != table.OpAppend:
		a.report("%s: its summary is %v", at, head.Summary)
		return
	}
	var files, rows, size int64
	for path, f := range a.known {
		if f.snapshot == head.SnapshotID {
			files, rows, size = files+1, rows+f.file.Count(), size+f.file.FileSizeBytes()
			if !a.objects.has(path) {
				a.report("%s: %s is not there", at, path)
			}
		}
	}
	a.rowsOf[by] += rows
	for _, total := range []struct {
		name string
		n    int64
	}{{"data-files", files}, {"records", rows}, {"files-size", size}} {
		added := "added-" + total.name
		if got := number(head, added); got != total.n {
			a.report("%s: %s is %d, it adds %d", at, added, got, total.n)
		}
		if parent == nil || parent.Summary == nil || parent.Summary.Properties["total-"+total.name] == "" {
			continue // nobody knows
		}
		if got, was := number(head, "total-"+total.name), number(parent, "total-"+total.name); got != was+total.n {
			a.report("%s: total-%s is %d, after %d it adds %d", at, total.name, got, was, total.n)
		}
	}
	if text := head.Summary.Properties[catalog.LedgerProperty(a.ingest)]; text != "" {
		if inside := after.Properties()[catalog.LedgerProperty(a.ingest)]; len(inside) == len(text) && inside != text {
			a.report("%s: its summary has the ledger %s, the table %s", at, text, inside)
		}
	}
}

// number is an entry of a snapshot's summary, 0 if there is none.
func number(s *table.Snapshot, key string) (n int64) {
	_, _ = fmt.Sscan(s.Summary.Properties[key], &n)
	return n
}

// remember notes what a writer that builds on the head must have seen: the names
// when the head was made, and the schemas since then. REQUIRES: a.mu is held.
func (a *auditor) remember(before, after table.Metadata) {
	head, was := after.CurrentSnapshot(), before.CurrentSnapshot()
	if a.refs == nil || head == nil || was == nil || head.SnapshotID != was.SnapshotID {
		a.schemas, a.refs = nil, map[string]int64{}
		for name, ref := range after.Refs() {
			a.refs[name] = ref.SnapshotID
		}
	}
	a.schemas = append(a.schemas, after.CurrentSchema().ID)
}

// proveExpiry sees that an instance has removed no snapshot but its own, that
// none has a name or lies off the branch, and that as many stay as the
// configuration says. REQUIRES: a.mu is held.
func (a *auditor) proveExpiry(by string, before, after table.Metadata) {
	line := map[int64]bool{} // the head and before
	depth := 0
	for s := after.CurrentSnapshot(); s != nil; {
		line[s.SnapshotID] = true
		if depth++; s.ParentSnapshotID == nil {
			break
		}
		if parent := before.SnapshotByID(*s.ParentSnapshotID); parent != nil && after.SnapshotByID(parent.SnapshotID) == nil && depth < a.keep {
			a.report("commit %d by %s: snapshot %d is expired, and only %d are left before it, not %d", a.commits, by, parent.SnapshotID, depth, a.keep)
		}
		s = before.SnapshotByID(*s.ParentSnapshotID)
	}
	named := map[int64]string{}
	for name, ref := range before.Refs() {
		if a.refs[name] == ref.SnapshotID {
			named[ref.SnapshotID] = name
		}
	}
	for _, s := range before.Snapshots() {
		if after.SnapshotByID(s.SnapshotID) != nil {
			continue
		}
		switch name, has := named[s.SnapshotID]; {
		case !ours(s):
			a.report("commit %d by %s: snapshot %d of another writer is gone", a.commits, by, s.SnapshotID)
		case has && name != table.MainBranch:
			a.report("commit %d by %s: snapshot %d is gone, which %q names", a.commits, by, s.SnapshotID, name)
		case !line[s.SnapshotID]:
			a.report("commit %d by %s: snapshot %d is gone, which lies off the branch", a.commits, by, s.SnapshotID)
		}
	}
}
