package catalog

import (
	"strings"

	"github.com/apache/iceberg-go"
	"github.com/apache/iceberg-go/table"
)

// expiredMax bounds the snapshots that one commit expires.
const expiredMax = 100

// expire chooses the snapshots that leave the table with this commit: of the
// new head's history, those behind the newest ExpireKeep which this program
// made. Never one that a branch or tag names, and none that lies outside of
// main's history (somebody rolled back, and may want it again).
func (t *Table) expire(st *staged, meta table.Metadata) {
	keep := t.options.ExpireKeep
	if keep <= 0 || !t.mayExpire(meta) {
		return
	}
	named := map[int64]bool{}
	for _, ref := range meta.Refs() {
		named[ref.SnapshotID] = true
	}
	place := 1 // the new head
	for s := range ancestors(meta, meta.CurrentSnapshot()) {
		place++
		if place > keep && !named[s.SnapshotID] && isOurSnapshot(s) {
			st.expired = append(st.expired, *s)
		}
	}
	if extra := len(st.expired) - expiredMax; extra > 0 {
		st.expired = st.expired[extra:] // the oldest go first
	}
}

// mayExpire obeys the table's owner.
func (t *Table) mayExpire(meta table.Metadata) bool {
	p := meta.Properties()
	if !p.GetBool("gc.enabled", true) {
		return false
	}
	return t.options.ExpireAlways || p[createdByKey] != ""
}

// isOurSnapshot tells whether this program made the snapshot, for whichever ingest.
func isOurSnapshot(s *table.Snapshot) bool {
	if s.Summary == nil {
		return false
	}
	for key := range s.Summary.Properties {
		if strings.HasPrefix(key, "router.") {
			return true
		}
	}
	return false
}

// waste is what landed commits left behind: locations that nothing names any more.
type waste struct{ locations []string }

// merged is a prepared merge of manifests.
type merged struct{}

func (t *Table) takeMerge(st *staged, list []iceberg.ManifestFile) []iceberg.ManifestFile {
	return list
}

func (t *Table) collect(before *state, st *staged, after table.Metadata) {}
