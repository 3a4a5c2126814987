package catalog

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/apache/iceberg-go"
	"github.com/apache/iceberg-go/table"
)

// A hold is a tag that names the snapshot a publish has reached. By Iceberg's
// rules no engine's expiry removes a snapshot with a name. Ours moreover keeps
// all that follow it in the head's history, which is what the publish reads next.
//
// Beside the tags of the publishes there is one, horizonTag, that names the
// oldest of them. An expiry commits only if the horizon still is where it saw it,
// so that none that began before a hold removes what is held.
//
// While the table has no snapshot, a tag can name none. A property says then that
// the publish holds whatever comes, until a tag takes its place. It is set before
// there is a first snapshot or not at all, so every expiry sees it.
const (
	holdPrefix   = "router_publish_"
	horizonTag   = "router_publish"
	holdProperty = "router_publish_hold." // and the publish's name; not below "router.", where any name may be an ingest's
)

const (
	holdTries = 8
	// holdTimeout bounds a hold with all its tries: it must not keep a publish waiting.
	holdTimeout = 30 * time.Second
)

// HoldError says that a hold was not set or released. Nothing else is affected:
// who follows the table may go on, but an expiry may overtake it.
type HoldError struct {
	Table, Publish string
	Released       bool  // it was to be released
	Snapshot       int64 // that was to be held
	Err            error
}

func (e *HoldError) Error() string {
	what := fmt.Sprintf("hold snapshot %d of table %s", e.Snapshot, e.Table)
	if e.Released {
		what = fmt.Sprintf("release the hold on table %s", e.Table)
	}
	return fmt.Sprintf("%s for publish %s: %v", what, e.Publish, e.Err)
}

func (e *HoldError) Unwrap() error { return e.Err }

// Hold names the snapshot that the publish has reached by a tag,
// "router_publish_NAME", in place of the one that it held before. While the hold
// is there no ingest of this program expires that snapshot, nor any that follows it
// in the head's history. Of a snapshot that was expired, and of 0, the place before
// the first, the one that follows is held; of a table without snapshots, every
// one that comes. It is idempotent, and without a
// commit when the tag is there already. It takes its turn with other writers; an
// append that meets it is tried again.
//
// Every error is a *HoldError. ErrSnapshotGone: neither the snapshot nor the one
// that follows it is in the table. Read-only credentials are not tried twice.
func (t *Table) Hold(ctx context.Context, publish string, snapshot int64) error {
	return t.changeHold(ctx, publish, &snapshot)
}

// Release removes the publish's hold. It is idempotent. Errors are as for Hold.
func (t *Table) Release(ctx context.Context, publish string) error {
	return t.changeHold(ctx, publish, nil)
}

// changeHold loads the table and commits until the hold is as it should be.
func (t *Table) changeHold(ctx context.Context, publish string, snapshot *int64) error {
	if publish == "" {
		panic("hold of a publish without a name")
	}
	ctx, cancel := context.WithTimeout(ctx, holdTimeout)
	defer cancel()
	co := &course{}
	for try := 1; ; try++ {
		done, err := t.tryHold(ctx, holdPrefix+publish, snapshot)
		if done {
			return nil
		}
		var final *unfitError
		if !errors.As(err, &final) && try < holdTries {
			co.last = err
			if err = co.sleep(ctx, backoff(try, errors.Is(err, table.ErrCommitFailed), 0)); err == nil {
				continue
			}
		}
		return &HoldError{t.name, publish, snapshot == nil, deref(snapshot), t.catalog.scrub.error(err)}
	}
}

// tryHold is one try. done: the table shows the hold as it should be.
func (t *Table) tryHold(ctx context.Context, tag string, snapshot *int64) (done bool, err error) {
	s, err := t.reload(ctx)
	if err != nil {
		if errors.Is(err, ErrReplaced) {
			err = &unfitError{err}
		}
		return false, err
	}
	property := holdProperty + strings.TrimPrefix(tag, holdPrefix)
	_, holdsAll := s.meta.Properties()[property]
	var requires []table.Requirement
	var updates []table.Update
	switch {
	case snapshot != nil && s.meta.CurrentSnapshot() == nil:
		requires = []table.Requirement{table.AssertTableUUID(s.meta.TableUUID()), table.AssertRefSnapshotID(table.MainBranch, nil)}
		if !holdsAll {
			updates = []table.Update{table.NewSetPropertiesUpdate(iceberg.Properties{property: "true"})}
		}
	case snapshot != nil:
		if snapshot = holdable(s.meta, *snapshot); snapshot == nil {
			return false, &unfitError{ErrSnapshotGone}
		}
		fallthrough
	default:
		requires, updates = holdChange(s.meta, tag, snapshot)
		if holdsAll {
			updates = append(updates, table.NewRemovePropertiesUpdate([]string{property}))
		}
	}
	if len(updates) == 0 {
		return true, nil
	}
	call, stop := context.WithTimeout(ctx, callTimeout)
	defer stop()
	call, h := withHint(call)
	_, _, err = t.catalog.io.CommitTable(call, slices.Clone(t.ident), requires, updates)
	if err == nil {
		return true, nil
	}
	err = h.explain(err)
	switch h.status {
	case http.StatusUnauthorized, http.StatusForbidden, http.StatusMethodNotAllowed, http.StatusNotImplemented:
		err = &unfitError{err}
	}
	return false, err
}

// holdable returns the snapshot called id, or else the one that follows it in the head's history, or nil.
func holdable(meta table.Metadata, id int64) *int64 {
	if meta.SnapshotByID(id) != nil {
		return &id
	}
	for s := range ancestors(meta, meta.CurrentSnapshot()) {
		if deref(s.ParentSnapshotID) == id {
			return &s.SnapshotID
		}
	}
	return nil
}

// holdChange makes the commit that lets tag name snapshot, or nothing (nil): no
// updates when it is so already.
func holdChange(meta table.Metadata, tag string, snapshot *int64) (requires []table.Requirement, updates []table.Update) {
	held := holds(meta)
	set := func(name string, from, to *int64) {
		requires = append(requires, table.AssertRefSnapshotID(name, from))
		switch {
		case to != nil && (from == nil || *from != *to):
			updates = append(updates, table.NewSetSnapshotRefUpdate(name, *to, table.TagRef, 0, 0, 0))
		case to == nil && from != nil:
			updates = append(updates, table.NewRemoveSnapshotRefUpdate(name))
		}
	}
	at := func(name string) *int64 {
		if id, ok := held[name]; ok {
			return &id
		}
		return nil
	}
	requires = append(requires, table.AssertTableUUID(meta.TableUUID()))
	set(tag, at(tag), snapshot)
	delete(held, tag)
	if snapshot != nil {
		held[tag] = *snapshot
	}
	set(horizonTag, at(horizonTag), oldestHeld(meta, held))
	return requires, updates
}

// holdsAll tells whether a publish holds whatever the table has.
func holdsAll(meta table.Metadata) bool {
	for name := range meta.Properties() {
		if strings.HasPrefix(name, holdProperty) {
			return true
		}
	}
	return false
}

// Held returns the snapshot that the publish holds, 0 where it holds whatever
// comes; false: it holds none, so it has never been anywhere, or was released.
func (v *View) Held(publish string) (int64, bool) {
	id, ok := holds(v.state.meta)[holdPrefix+publish]
	if !ok {
		_, ok = v.state.meta.Properties()[holdProperty+publish]
	}
	return id, ok
}

// holds returns the tags of all holds, and the horizon's, with their snapshots.
func holds(meta table.Metadata) map[string]int64 {
	out := map[string]int64{}
	for name, ref := range meta.Refs() {
		if name == horizonTag || strings.HasPrefix(name, holdPrefix) {
			out[name] = ref.SnapshotID
		}
	}
	return out
}

// oldestHeld returns the snapshot of the oldest hold: by sequence number, then
// by time; nil when there is none.
func oldestHeld(meta table.Metadata, held map[string]int64) (id *int64) {
	var oldest *table.Snapshot
	for name, snapshot := range held {
		if name == horizonTag {
			continue
		}
		s := meta.SnapshotByID(snapshot)
		if s == nil {
			continue
		}
		if oldest == nil || s.SequenceNumber < oldest.SequenceNumber ||
			s.SequenceNumber == oldest.SequenceNumber && (s.TimestampMs < oldest.TimestampMs || s.TimestampMs == oldest.TimestampMs && s.SnapshotID < oldest.SnapshotID) {
			oldest = s
		}
	}
	if oldest == nil {
		return nil
	}
	return &oldest.SnapshotID
}
