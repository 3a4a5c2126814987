package catalog

import (
	"fmt"
	"time"
)

// Start is where following begins.
type Start struct {
	// At is the position: what comes after it is to come. The zero Snapshot is
	// the place before the table's first.
	At Snapshot
	// State says that first come the rows that the table has at At (View.Live).
	State bool
	// Whole says that nothing that was ever appended is left out, but for rows
	// that were deleted before At.
	Whole bool
}

// StartCurrent begins with all rows that the table has now.
func (v *View) StartCurrent() Start {
	head, ok := v.Head()
	return Start{At: head, State: ok, Whole: true}
}

// StartLatest begins with what comes after the current snapshot.
func (v *View) StartLatest() Start {
	head, ok := v.Head()
	return Start{At: head, Whole: !ok}
}

// StartEarliest begins with the rows that the table had at the oldest snapshot
// that is kept in the head's history, and goes on from there. Where the history
// reaches back to the table's first snapshot that is every append, one by one;
// where its beginning was expired it is what the expired snapshots left, in one.
func (v *View) StartEarliest() (Start, error) {
	line, err := v.line()
	if err != nil || len(line) == 0 {
		return Start{Whole: err == nil}, err
	}
	return Start{At: line[0], State: true, Whole: true}, nil
}

// StartAt begins with the rows that the snapshot called id appended. The
// snapshot must be in the head's history: *NotAncestorError if it is another's,
// ErrSnapshotGone if the table doesn't have it.
func (v *View) StartAt(id int64) (Start, error) {
	s, err := v.snapshot(id)
	if err != nil {
		return Start{}, fmt.Errorf("start at: table %s: %w", v.table.name, err)
	}
	if _, err := v.After(snapshotOf(s)); err != nil {
		return Start{}, fmt.Errorf("start at: %w", err)
	}
	return v.startBefore(snapshotOf(s)), nil
}

// StartSince begins with the first snapshot of the head's history that was
// committed at that time or later; with what comes, when there is none yet. Times are
// those that the writers' clocks gave. When snapshots of that time or later may
// have been expired it is a *GapError: its Kept begins with the oldest that is left.
func (v *View) StartSince(at time.Time) (Start, error) {
	line, err := v.line()
	if err != nil {
		return Start{}, err
	}
	for i, s := range line {
		if s.Time.Before(at) {
			continue
		}
		if i == 0 && s.Parent != 0 {
			return Start{}, &GapError{Table: v.table.name, Position: Snapshot{Time: at}, Kept: line}
		}
		return v.startBefore(s), nil
	}
	return v.StartLatest(), nil
}

// startBefore is the position whose next snapshot is s. The parent may be expired: its id is enough.
func (v *View) startBefore(s Snapshot) Start {
	if parent, ok := v.Snapshot(s.Parent); ok {
		return Start{At: parent}
	}
	return Start{At: Snapshot{ID: s.Parent}, Whole: s.Parent == 0}
}

// line returns what is kept of the head's history, oldest first.
func (v *View) line() ([]Snapshot, error) {
	line, err := v.After(Snapshot{})
	if gap, ok := err.(*GapError); ok {
		return gap.Kept, nil
	}
	return line, err
}
