package catalog

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/apache/iceberg-go"
	icecatalog "github.com/apache/iceberg-go/catalog"
	"github.com/apache/iceberg-go/table"
	"golang.org/x/sync/errgroup"
)

// Append is data files and the offsets that their records came from: the
// ledger is to move from From to To in the commit that adds the files.
type Append struct {
	ID     string // unique to this append for ever: it is how a lost answer is settled
	Source Source
	Files  []iceberg.DataFile
	// The ids that the files were written under.
	Schema, Spec int
	// From lacks a partition that the ledger must not have yet.
	From, To Offsets
	// Counts of the records between From and To. Nil: they were not counted, and
	// the ledger's books of these partitions end.
	Counts Counts
}

// Merge returns a followed by b as one append, under an id of its own. It
// panics unless b starts where a ends in every partition that both have.
func (a Append) Merge(b Append) Append {
	m := Append{ID: mergedID(a.ID, b.ID), Schema: b.Schema, Spec: b.Spec, Files: slices.Concat(a.Files, b.Files), From: Offsets{}, To: Offsets{}, Counts: a.Counts.merged(b.Counts)}
	m.Source = Source{Cluster: a.Source.Cluster, TopicIDs: map[string]string{}}
	if m.Source.Cluster == "" {
		m.Source.Cluster = b.Source.Cluster
	}
	maps.Copy(m.Source.TopicIDs, a.Source.TopicIDs)
	maps.Copy(m.Source.TopicIDs, b.Source.TopicIDs)
	put := func(o Offsets, topic string, p int32, offset int64) {
		if o[topic] == nil {
			o[topic] = map[int32]int64{}
		}
		o[topic][p] = offset
	}
	for _, topic := range topicNames(a.From, a.To) {
		for _, p := range partitions(a.From[topic], a.To[topic]) {
			if from, ok := a.From[topic][p]; ok {
				put(m.From, topic, p, from)
			}
			if to, ok := a.To[topic][p]; ok {
				put(m.To, topic, p, to)
			}
		}
	}
	for _, topic := range topicNames(b.From, b.To) {
		for _, p := range partitions(b.From[topic], b.To[topic]) {
			from, starts := b.From[topic][p]
			end, shared := a.To[topic][p]
			if shared && (!starts || from != end) {
				panic(fmt.Sprintf("merge appends %s and %s: topic %s partition %d: %d (known: %t) after %d", a.ID, b.ID, topic, p, from, starts, end))
			}
			if starts && !shared {
				put(m.From, topic, p, from)
			}
			if to, ok := b.To[topic][p]; ok {
				put(m.To, topic, p, to)
			}
		}
	}
	return m
}

// mergedIDBytesMax keeps ids of long merges short.
const mergedIDBytesMax = 80

func mergedID(a, b string) string {
	id := a + "+" + b
	if len(id) <= mergedIDBytesMax {
		return id
	}
	sum := sha256.Sum256([]byte(id))
	return hex.EncodeToString(sum[:16])
}

// Commit is an append that is in the table.
type Commit struct {
	Snapshot           int64
	Seq                int64
	Rows, Files, Bytes int64
	Attempts           int           // commits that were sent; 0: it was in the table before
	Took               time.Duration // from the call to the certainty
	SchemaChanged      bool          // the table's schema or spec isn't the one the files were written under
}

// Append adds a's files to the table and moves the ledger, in one commit, if
// and only if the ledger is at a.From. It is idempotent by a.ID: an append that
// is in the table already has landed.
//
// ErrFenced: nothing is committed and nothing will be. ErrUnknown: ctx ended in
// doubt. *RollbackError, ErrReplaced: the table isn't what the ledger speaks
// of. Any other error: not committed. No object is ever deleted here, whatever
// happens: what a refused attempt stored is left to the removal of orphans,
// because an attempt that is in doubt may need it.
func (t *Table) Append(ctx context.Context, a Append) (Commit, error) {
	if a.ID == "" {
		panic("append without an id")
	}
	if err := a.sound(); err != nil {
		return Commit{}, fmt.Errorf("append %d files to %s: %w", len(a.Files), t.name, err)
	}
	ch := change{id: a.ID, files: a.Files, schema: a.Schema, spec: a.Spec, passed: a.passedBy, move: func(l Ledger, sequence int64) Ledger { return l.moved(a, sequence) }}
	ch.admits = func(l Ledger, broken error) error {
		if broken != nil {
			return broken
		}
		return l.admits(a)
	}
	c, err := t.change(ctx, ch)
	if err != nil {
		return c, t.catalog.scrub.error(fmt.Errorf("append %d files to %s: %w", len(a.Files), t.name, err))
	}
	return c, nil
}

func (a Append) passedBy(l Ledger) bool { return l.passed(a) }

// Rewind replaces the whole ledger, if and only if it is still from, by an empty
// snapshot. It is for policies that go on after a reset; from is what Ledger
// returned. A table that was rolled back meanwhile is a *RollbackError: a commit
// on top of it would hide that, and what was taken.
func (t *Table) Rewind(ctx context.Context, from, to Ledger) error {
	return t.rewind(ctx, to, func(l Ledger, broken error) error {
		if broken != nil {
			return broken
		}
		return l.stillIs(from)
	})
}

// Reread settles a rollback of the table by an empty snapshot: the ledger becomes
// the one of the head's own history, Ancestor, which must not be nil. ErrFenced:
// the table was rolled further, or forward, or somebody else was faster.
func (t *Table) Reread(ctx context.Context, rolled *RollbackError) error {
	return t.rewind(ctx, *rolled.Ancestor, func(l Ledger, broken error) error {
		var now *RollbackError
		switch {
		case errors.As(broken, &now) && now.Ancestor != nil && now.Ancestor.equal(*rolled.Ancestor):
			return l.stillIs(rolled.Property)
		case broken == nil || now != nil:
			return fenced("the table is not rolled back any more, or to another place")
		}
		return broken
	})
}

// rewind makes to the ledger where admits finds nothing against it.
func (t *Table) rewind(ctx context.Context, to Ledger, admits func(l Ledger, broken error) error) error {
	id := "rewind-" + newID()
	ch := change{id: id, rewind: true, passed: func(Ledger) bool { return false }, admits: admits}
	ch.move = func(l Ledger, sequence int64) Ledger {
		n := to.dated(sequence)
		n.Seq, n.Append = l.Seq+1, id
		return n
	}
	if _, err := t.change(ctx, ch); err != nil {
		return t.catalog.scrub.error(fmt.Errorf("rewind ledger of %s: %w", t.name, err))
	}
	return nil
}

// stillIs fences what was decided on another ledger.
func (l Ledger) stillIs(from Ledger) error {
	if !l.equal(from) {
		return fenced("it is at append %d, not as it was read at append %d", l.Seq, from.Seq)
	}
	return nil
}

// change is a move of the ledger, with or without files.
type change struct {
	id     string
	files  []iceberg.DataFile
	schema int
	spec   int
	admits func(l Ledger, broken error) error // broken: what reading the ledger complained of
	passed func(Ledger) bool
	move   func(l Ledger, sequence int64) Ledger // sequence: the new snapshot's number
	rewind bool                                  // the ledger goes back to what it was
}

// course is where a change stands between its attempts.
type course struct {
	began   time.Time
	sent    int
	failed  int      // tries in a row that ended before anything was sent
	missing int      // loads in a row that found no table
	pending *attempt // sent, and not settled
	doubt   *attempt // sent, not in the table when last looked, and not proven dead
	last    error
	bare    bool // append only, and leave expiry to a later commit
}

// attempt is one commit that was sent.
type attempt struct {
	st      *staged
	began   time.Time
	err     error
	hint    hint
	refusal bool // the catalog said no, rather than nothing
}

// change runs the compare-and-swap until it is clear how it ended.
//
// Each round loads the table and asks it, never the memory: is the change there
// (landed), is the ledger still where it starts (build on this head and
// commit), or has the ledger moved (fenced). An attempt whose answer is an
// error, whatever the error, is settled by the next round's load; the following
// attempt is not built before. Two attempts can't both land, as both assert a head.
func (t *Table) change(ctx context.Context, ch change) (Commit, error) {
	if err := t.turn.take(ctx); err != nil {
		return Commit{}, fmt.Errorf("wait for another change of the table: %w", err)
	}
	defer t.turn.leave()
	u := t.planUpkeep()
	var beside errgroup.Group
	beside.Go(func() error { u.run(ctx, t); return nil })
	c, err := t.swap(ctx, ch)
	_ = beside.Wait()
	u.finish(t)
	return c, err
}

// swap is the loop of change.
func (t *Table) swap(ctx context.Context, ch change) (Commit, error) {
	co := &course{began: time.Now()}
	for {
		s, wait, err := t.reloadWithHint(ctx)
		if err != nil {
			if err := t.afterFailedLoad(ctx, co, err, wait); err != nil {
				return Commit{}, err
			}
			continue
		}
		co.missing = 0
		from, verdict := t.judge(s, ch)
		if verdict == errLanded {
			return t.landedBefore(s, ch, co, from), nil
		}
		again, err := t.settled(ctx, co, s, ch, from, verdict)
		if err != nil {
			return Commit{}, err
		}
		if again {
			continue
		}
		c, done, err := t.attempt(ctx, co, s, ch, from)
		if done || err != nil {
			return c, err
		}
	}
}

// errLanded is judge's verdict that the change is in the table.
var errLanded = errors.New("landed")

// judge asks the table about a change: errLanded, nil (it may be committed here), or why not.
func (t *Table) judge(s *state, ch change) (Ledger, error) {
	l, broken := t.ledgerIn(s.meta)
	if broken == nil && t.holds(s.meta, l, ch.id) {
		return l, errLanded
	}
	return l, ch.admits(l, broken)
}

// settled closes a pending attempt that the table doesn't hold, and decides
// whether to go on. again: time has passed, so that the table must be loaded anew.
func (t *Table) settled(ctx context.Context, co *course, s *state, ch change, from Ledger, verdict error) (again bool, err error) {
	p := co.pending
	co.pending = nil
	moved := p != nil && headID(s.meta) != headOf(p.st.base)
	if co.doubt != nil && headID(s.meta) != headOf(co.doubt.st.base) {
		co.doubt = nil // its head is gone: it can't land any more
	}
	if verdict != nil {
		if p != nil && errors.Is(verdict, ErrFenced) && ch.passed(from) {
			verdict = fmt.Errorf("%w (it stands at the end of this append: another instance wrote the same records, or this one did and its snapshot has expired)", verdict)
		}
		outcome := "fenced"
		if !errors.Is(verdict, ErrFenced) {
			outcome = "refused"
		}
		t.report(CommitAttempt{Number: co.sent, Outcome: outcome, Err: verdict, Base: headID(s.meta), Took: time.Since(co.began)})
		return false, verdict
	}
	if p == nil {
		return false, nil
	}
	a := CommitAttempt{Number: co.sent, Outcome: "refused", Err: p.err, Base: headOf(p.st.base), Took: time.Since(p.began)}
	a.Head, a.By = headID(s.meta), madeBy(s.meta.CurrentSnapshot())
	if moved {
		a.Outcome = "conflict"
	} else {
		co.bare = true // it may be the expiry that was refused: a publish came to hold a snapshot
		if !p.refusal {
			co.doubt = p
		}
	}
	co.last = p.err
	if limit := t.options.CommitAttempts; limit > 0 && co.sent >= limit {
		t.report(a)
		return false, co.end(fmt.Errorf("not committed after %d attempts: %w", co.sent, p.err))
	}
	a.Wait = backoff(co.sent, moved, p.hint.retryAfter)
	t.report(a)
	return true, co.sleep(ctx, a.Wait)
}

// attempt builds, stores and sends one commit. done: it landed.
func (t *Table) attempt(ctx context.Context, co *course, s *state, ch change, from Ledger) (c Commit, done bool, err error) {
	began := time.Now()
	st, err := t.stage(ctx, s, ch, from, co.bare)
	if err == nil {
		err = t.put(ctx, s, st)
	}
	if err != nil {
		var unfit *unfitError
		if errors.As(err, &unfit) {
			return Commit{}, false, co.end(err)
		}
		return Commit{}, false, t.afterFailure(ctx, co, err, 0)
	}
	co.failed = 0
	co.sent++
	if st.merge != nil {
		st.merge.sent = true
	}
	meta, h, err := t.send(ctx, st)
	if err != nil {
		co.pending = &attempt{st: st, began: began, err: err, hint: h, refusal: errors.Is(err, table.ErrCommitFailed) || h.status >= 400 && h.status < 500 && h.status != 408}
		return Commit{}, false, nil
	}
	t.landed(s, st, meta)
	t.report(CommitAttempt{Number: co.sent, Outcome: "landed", Base: headOf(st.base), Took: time.Since(began)})
	return Commit{
		Snapshot: st.snapshot.SnapshotID, Seq: st.ledger.Seq, Rows: st.tally.rows, Files: st.tally.files, Bytes: st.tally.bytes,
		Attempts: co.sent, Took: time.Since(co.began), SchemaChanged: outdated(s.meta, ch),
	}, true, nil
}

// send commits. An answer that doesn't show our snapshot is an error like any other.
func (t *Table) send(ctx context.Context, st *staged) (table.Metadata, hint, error) {
	ctx, cancel := context.WithTimeout(ctx, commitTimeout)
	defer cancel()
	ctx, h := withHint(ctx)
	meta, _, err := t.catalog.io.CommitTable(ctx, slices.Clone(t.ident), st.requires, st.updates)
	if err != nil {
		return nil, *h, h.explain(err)
	}
	if meta == nil || meta.SnapshotByID(st.snapshot.SnapshotID) == nil {
		return nil, *h, fmt.Errorf("the catalog's answer doesn't show snapshot %d", st.snapshot.SnapshotID)
	}
	return meta, *h, nil
}

// landedBefore makes the Commit of a change that a load found in the table.
func (t *Table) landedBefore(s *state, ch change, co *course, l Ledger) Commit {
	c := Commit{Snapshot: headID(s.meta), Seq: l.Seq, Attempts: co.sent, Took: time.Since(co.began), SchemaChanged: outdated(s.meta, ch)}
	for x := range ancestors(s.meta, s.meta.CurrentSnapshot()) {
		if x.Summary != nil && x.Summary.Properties[t.keys.append] == ch.id {
			c.Snapshot = x.SnapshotID
			if seq, ok := t.seqOf(x); ok {
				c.Seq = seq
			}
			break
		}
	}
	for _, f := range ch.files {
		c.Rows, c.Files, c.Bytes = c.Rows+f.Count(), c.Files+1, c.Bytes+f.FileSizeBytes()
	}
	a := CommitAttempt{Number: co.sent, Outcome: "landed", Base: headID(s.meta), Took: time.Since(co.began)}
	if p := co.pending; p != nil {
		a.Err, a.Base, a.Took = p.err, headOf(p.st.base), time.Since(p.began)
		if headID(s.meta) == p.st.snapshot.SnapshotID {
			t.landed(s, p.st, s.meta)
		}
	}
	t.report(a)
	return c
}

// afterFailedLoad decides after the table could not be loaded.
func (t *Table) afterFailedLoad(ctx context.Context, co *course, err error, wait time.Duration) error {
	if errors.Is(err, ErrReplaced) {
		return err
	}
	if errors.Is(err, icecatalog.ErrNoSuchTable) {
		co.missing++
		if co.missing >= missingLoadsMax {
			return fmt.Errorf("%w: %s is not in the catalog any more: bring it back, or start again to fill a new one from the beginning: %w", ErrReplaced, t.name, err)
		}
	}
	return t.afterFailure(ctx, co, err, wait)
}

// missingLoadsMax is how often in a row the catalog must say that there is no
// such table. A catalog that has just been started may say so for a moment; the
// 404 of a proxy without a catalog behind it doesn't count (strangerError).
const missingLoadsMax = 6

// afterFailure waits after a try that sent nothing, or ends the change.
func (t *Table) afterFailure(ctx context.Context, co *course, err error, retryAfter time.Duration) error {
	co.failed++
	co.last = err
	outcome := "refused"
	if co.pending != nil || co.doubt != nil {
		outcome = "unknown"
	} else if limit := t.options.CommitAttempts; limit > 0 && co.failed >= limit {
		t.report(CommitAttempt{Outcome: outcome, Err: err, Took: time.Since(co.began)})
		return fmt.Errorf("not committed after %d tries: %w", co.failed, err)
	}
	wait := backoff(co.failed, false, retryAfter)
	t.report(CommitAttempt{Number: co.sent, Outcome: outcome, Err: err, Took: time.Since(co.began), Wait: wait})
	return co.sleep(ctx, wait)
}

// sleep waits, or ends the change with the context.
func (co *course) sleep(ctx context.Context, wait time.Duration) error {
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return co.end(fmt.Errorf("%w, after: %w", context.Cause(ctx), co.last))
	case <-timer.C:
		return nil
	}
}

// end returns err, as an unknown outcome when an attempt may be in the table or may get there still.
func (co *course) end(err error) error {
	if co.pending != nil || co.doubt != nil {
		return fmt.Errorf("%w: %w", ErrUnknown, err)
	}
	return err
}

// outdated tells whether the table has left the schema or spec that the files were written under.
func outdated(meta table.Metadata, ch change) bool {
	return len(ch.files) > 0 && (meta.CurrentSchema().ID != ch.schema || meta.DefaultPartitionSpec() != ch.spec)
}

func headID(meta table.Metadata) int64 { return headOf(meta.CurrentSnapshot()) }

func headOf(s *table.Snapshot) int64 {
	if s == nil {
		return 0
	}
	return s.SnapshotID
}
