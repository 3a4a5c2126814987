package catalog

import (
	"context"
	"errors"
	"io/fs"
	"maps"
	"slices"
	"strings"

	"github.com/apache/iceberg-go/table"
	"go.uber.org/zap"
)

// expiredMax bounds the snapshots that one commit expires.
const expiredMax = 100

// expireYoungFrom says from how many times ExpireKeep on snapshots are expired
// whatever their age.
const expireYoungFrom = 4

// expire chooses the snapshots that leave the table with this commit: of the
// new head's history, those behind the newest ExpireKeep which this program
// made, once they are older than ExpireAfter: a commit of another engine, such
// as a compaction that takes an hour, fails for good when the snapshot that it
// began with is gone. Never one that a branch or tag names, none that lies outside of main's
// history (somebody rolled back, and may want it again), and none from the oldest
// on that a publish holds (see hold.go): the commit asserts that no other hold came.
// None at all as long as a publish holds whatever comes.
func (t *Table) expire(st *staged, meta table.Metadata) {
	keep := t.options.ExpireKeep
	if keep <= 0 || !t.mayExpire(meta) || holdsAll(meta) {
		return
	}
	named, held := map[int64]bool{}, map[int64]bool{}
	tags := holds(meta)
	if id, ok := tags[horizonTag]; ok {
		st.horizon = &id
		if len(tags) == 1 {
			st.dropHorizon = true // somebody removed the hold, but not what comes with it
		}
	}
	for name, ref := range meta.Refs() {
		if name == horizonTag && st.dropHorizon {
			continue
		}
		_, hold := tags[name]
		named[ref.SnapshotID], held[ref.SnapshotID] = true, held[ref.SnapshotID] || hold
	}
	place, back := 1, 0 // the new head's; what is held back
	for s := range ancestors(meta, meta.CurrentSnapshot()) {
		place++
		if held[s.SnapshotID] { // what follows it is still to be read
			back += len(st.expired)
			st.expired = st.expired[:0]
			delete(held, s.SnapshotID)
		}
		young := s.TimestampMs > st.snapshot.TimestampMs-t.options.ExpireAfter.Milliseconds() && place <= expireYoungFrom*keep
		if place > keep && !young && !named[s.SnapshotID] && isOurSnapshot(s) {
			st.expired = append(st.expired, *s)
		}
	}
	for _, further := range held {
		if further { // another engine has expired snapshots between: all that is left follows it
			back += len(st.expired)
			st.expired = nil
		}
	}
	t.tellHeld(back, tags)
	if extra := len(st.expired) - expiredMax; extra > 0 {
		st.expired = st.expired[extra:] // the oldest go first
	}
}

// heldManyMin is how many snapshots a hold may keep from expiring before it is told.
const heldManyMin = 500

// tellHeld warns when a hold keeps many snapshots, and again when they have doubled.
func (t *Table) tellHeld(back int, tags map[string]int64) {
	if back == 0 {
		t.heldTold = 0
		return
	}
	if back < max(heldManyMin, 2*t.heldTold) {
		return
	}
	t.heldTold = back
	t.log.Warn("a publish keeps old snapshots from expiring: see that it runs, or release its hold by removing its tag",
		zap.Int("snapshots", back), zap.Strings("tags", slices.Sorted(maps.Keys(tags))))
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

// waste is what landed commits left behind: locations that nothing names any
// more, and manifests that only old snapshots still name.
type waste struct {
	locations []string
	tries     map[string]int
	replaced  []replaced
}

const (
	// wasteMax bounds what is remembered; what is forgotten is an orphan and goes with those.
	wasteMax = 4096
	// removedAtOnceMax bounds the removals beside one commit.
	removedAtOnceMax = 32
	// removeTriesMax bounds the tries for one location.
	removeTriesMax = 3
)

// replaced are manifests that a snapshot took out of the list by merging them.
// They can go once all snapshots before it are gone.
type replaced struct {
	sequence  int64
	last      int64 // the newest snapshot known to descend from the one that replaced them
	locations []string
}

func (w *waste) add(locations ...string) {
	if len(w.locations)+len(locations) <= wasteMax {
		w.locations = append(w.locations, locations...)
	}
}

func (w *waste) take() []string {
	n := min(len(w.locations), removedAtOnceMax)
	out := w.locations[:n:n]
	w.locations = w.locations[n:]
	return out
}

func (w *waste) giveBack(locations []string) {
	for _, l := range locations {
		if w.tries == nil {
			w.tries = map[string]int{}
		}
		if w.tries[l]++; w.tries[l] < removeTriesMax {
			w.add(l)
		} else {
			delete(w.tries, l)
		}
	}
}

// collect notes what a commit that is proven to be in the table made useless.
func (t *Table) collect(before *state, st *staged, after table.Metadata) {
	for _, s := range st.expired {
		if isOurList(s.ManifestList) && after.SnapshotByID(s.SnapshotID) == nil {
			t.waste.add(s.ManifestList)
		}
	}
	if st.merge != nil {
		r := replaced{sequence: st.snapshot.SequenceNumber, last: st.snapshot.SnapshotID}
		for _, m := range st.merge.inputs {
			r.locations = append(r.locations, m.FilePath())
		}
		if len(t.waste.replaced) < wasteMax/mergeFan {
			t.waste.replaced = append(t.waste.replaced, r)
		}
		t.ready = nil
	}
	t.collectManifests(st, after)
	t.collectMetadata(before, after)
}

// collectManifests lets go of merged manifests that no snapshot names any more.
// Proof: the history is a line (every snapshot is an ancestor of the head, and
// nothing else is named) whose beginning was expired, the head descends from the
// snapshot that replaced them, and no snapshot is older than that one. A catalog
// that hides the history (Nessie) shows a line without a beginning and proves nothing.
func (t *Table) collectManifests(st *staged, after table.Metadata) {
	inLine := map[int64]bool{}
	oldest := &st.snapshot
	for s := range ancestors(after, after.CurrentSnapshot()) {
		inLine[s.SnapshotID] = true
		oldest = s
	}
	line := t.mayExpire(after) && len(inLine) == len(after.Snapshots()) && oldest.ParentSnapshotID != nil
	held := holds(after) // they name snapshots of the line
	for name := range after.Refs() {
		_, hold := held[name]
		line = line && (name == table.MainBranch || hold)
	}
	keep := t.waste.replaced[:0]
	for _, r := range t.waste.replaced {
		if !inLine[r.last] {
			continue // the history went another way, or left us behind: an orphan at most
		}
		r.last = st.snapshot.SnapshotID
		if line && oldest.SequenceNumber >= r.sequence {
			t.waste.add(r.locations...)
			continue
		}
		keep = append(keep, r)
	}
	t.waste.replaced = keep
}

// collectMetadata lets go of the metadata files that fell out of the metadata
// log, where the table asks for it and no catalog server does it.
func (t *Table) collectMetadata(before *state, after table.Metadata) {
	if !t.catalog.trimsLogs || !after.Properties().GetBool(table.MetadataDeleteAfterCommitEnabledKey, table.MetadataDeleteAfterCommitEnabledDefault) {
		return
	}
	kept := map[string]bool{}
	for e := range after.PreviousFiles() {
		kept[e.MetadataFile] = true
	}
	for e := range before.meta.PreviousFiles() {
		if !kept[e.MetadataFile] && e.MetadataFile != before.location && strings.HasSuffix(e.MetadataFile, ".metadata.json") {
			t.waste.add(e.MetadataFile)
		}
	}
}

// Sweep removes what is known to be useless and was not yet removed beside a
// commit. It is for the end of a run; failures are left to the removal of orphans.
func (t *Table) Sweep(ctx context.Context) {
	if t.turn.take(ctx) != nil {
		return
	}
	defer t.turn.leave()
	for len(t.waste.locations) > 0 && ctx.Err() == nil {
		u := &upkeep{state: t.view.Load(), garbage: t.waste.take()}
		u.run(ctx, t)
	}
}

func isNotExist(err error) bool { return errors.Is(err, fs.ErrNotExist) }
