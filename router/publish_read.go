package router

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"time"

	"go.uber.org/zap"

	"icerouter/catalog"
	"icerouter/writers"
)

// reader turns the rows of a shard's slots into sheets, from a position on. It
// runs on a goroutine of its own; sheets come back to it through free.
type reader struct {
	p     *publish
	shard int
	mark  mark // what it began with: Ahead, and the number of shards
	at    position
	view  *catalog.View
	plan  *publishPlan

	sheets chan<- *sheet
	free   <-chan *sheet
	sheet  *sheet // being filled
	rows   writers.Rows
}

// read reads until ctx ends or a person is needed.
//
//	snapshots after the position → files of my slots → rows → sheets
func (r *reader) read(ctx context.Context) error {
	for {
		var changed <-chan struct{}
		r.view, r.plan, changed = r.p.feed.now()
		if err := r.catchUp(ctx); err != nil {
			return r.stop(ctx, err)
		}
		if err := r.hand(ctx, true); err != nil {
			return err
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// catchUp reads everything from the position to the view's head.
func (r *reader) catchUp(ctx context.Context) error {
	if !r.at.Done {
		if err := r.snapshot(ctx); err != nil {
			return err
		}
	}
	line, err := r.ahead(ctx)
	if err != nil {
		return err
	}
	for i, s := range line {
		r.p.status.behind(r.shard, line[i:])
		publish, err := r.wanted(ctx, s)
		if err != nil {
			return err
		}
		r.at = after(r.at, s)
		if !publish {
			r.finish()
		} else if err := r.snapshot(ctx); err != nil {
			return err
		}
	}
	return nil
}

// stop hands over what has been read before a person is needed, and why.
func (r *reader) stop(ctx context.Context, err error) error {
	if !halts(err) {
		return err
	}
	if err := r.blank(ctx); err != nil {
		return err
	}
	r.sheet.halt = err
	return r.hand(ctx, true)
}

// ahead lists the snapshots that follow the position's. Where some are gone it
// says so, or goes on at the oldest that is left, as the configuration wants.
func (r *reader) ahead(ctx context.Context) ([]catalog.Snapshot, error) {
	line, err := r.view.After(r.at.snapshot())
	var gap *catalog.GapError
	var astray *catalog.NotAncestorError
	var blind *catalog.NoHistoryError
	switch {
	case err == nil:
		return line, nil
	case errors.As(err, &gap) && r.p.cfg.OnLostSnapshots == policySkip:
		r.p.log.Warn("snapshots are gone; going on at the oldest that is left", zap.Int("shard", r.shard), zap.Error(err))
		if err := r.blank(ctx); err != nil {
			return nil, err
		}
		r.sheet.lost += max(gap.MissingMax(), 1)
		return gap.Kept, nil
	case errors.As(err, &gap):
		return nil, haltf("%v; set on_lost_snapshots = \"skip\" to go on at the oldest that is left and count what is lost", err)
	case errors.As(err, &astray) && r.view.Sequence() < r.at.Sequence:
		return r.aheadOfOld(ctx, err)
	case errors.As(err, &astray):
		return nil, haltf("%v: with the position topic %s deleted and on_lost_position = \"restart\" the publish begins again where start says", err, r.p.cfg.Positions())
	case errors.As(err, &blind):
		return nil, haltf("%v", err)
	}
	return nil, err
}

// A table that is older than a position comes from a catalog's copy that is
// behind. One that stays so was restored from an old state.
const (
	oldLooksMax  = 20
	oldLookEvery = 500 * time.Millisecond
)

// aheadOfOld is ahead where the view is older than the position: it looks at the
// table again, for a while.
func (r *reader) aheadOfOld(ctx context.Context, why error) ([]catalog.Snapshot, error) {
	for range oldLooksMax {
		view, err := r.p.table.Follow(ctx)
		if err == nil && view.Sequence() >= r.at.Sequence {
			r.view = view
			return r.ahead(ctx)
		}
		if err := sleep(ctx, oldLookEvery); err != nil {
			return nil, err
		}
	}
	return nil, haltf("%v: the table's newest snapshot has a smaller number than the position's: an old state of the table was restored; with the position topic %s deleted and on_lost_position = \"restart\" the publish begins again where start says", why, r.p.cfg.Positions())
}

// wanted tells whether the rows that a snapshot added are to be published.
func (r *reader) wanted(ctx context.Context, s catalog.Snapshot) (bool, error) {
	switch s.Operation {
	case "append":
		return true, nil
	case "replace":
		return false, nil
	}
	if r.p.cfg.OnDelete == policySkip {
		if r.shard == 0 { // counted once
			if err := r.blank(ctx); err != nil {
				return false, err
			}
			r.sheet.skipped++
		}
		return false, nil
	}
	what := fmt.Sprintf("is %q", s.Operation)
	if s.Operation == "" {
		what = "doesn't say what it did"
	}
	return false, haltf("table %s: snapshot %d of %s %s: rows were deleted or changed, which records can't say; set on_delete = \"skip\" to pass over such snapshots, with the rows that they add, and count them",
		r.p.cfg.Table, s.ID, s.Time.Format("2006-01-02T15:04:05.000Z07:00"), what)
}

// snapshot reads the files of the position's snapshot from the position on.
func (r *reader) snapshot(ctx context.Context) error {
	files, err := r.p.feed.files(ctx, r.view, listKey{r.at.Snapshot, r.at.State})
	if err != nil {
		return r.gone(ctx, err)
	}
	if r.at.Row > 0 && (r.at.File >= len(files) || files[r.at.File].Path != r.at.Path) {
		return haltf("table %s: snapshot %d doesn't have %s as its file %d any more: its metadata was rewritten; delete the position topic %s and set on_lost_position = \"restart\" to begin again",
			r.p.cfg.Table, r.at.Snapshot, r.at.Path, r.at.File, r.p.cfg.Positions())
	}
	s, ok := r.view.Snapshot(r.at.Snapshot)
	if !ok {
		s = r.at.snapshot()
	}
	for r.at.File < len(files) {
		f := &files[r.at.File]
		row, ours := r.from(f)
		if ours {
			if err := r.file(ctx, s, f, row); err != nil {
				return r.gone(ctx, err)
			}
		}
		r.at.File++
		r.at.Row, r.at.Path = 0, ""
	}
	r.finish()
	return nil
}

// finish moves the position behind the snapshot's last file.
func (r *reader) finish() {
	r.at = r.at.finished()
	if r.sheet != nil {
		r.sheet.end = r.at
	}
}

// from returns the first row of a file that is still to be published by this shard.
func (r *reader) from(f *catalog.DataFile) (row int64, ours bool) {
	if int(f.Slot)%r.mark.Shards != r.shard {
		return 0, false
	}
	here := r.at
	if further := r.mark.of(int(f.Slot)); further.compare(here) > 0 {
		end := here
		end.File, end.Row, end.Path = here.File+1, 0, ""
		if further.compare(end) >= 0 {
			return 0, false // published already, by the shard that had the slot before
		}
		here = further
	}
	return here.Row, true
}

// gone explains an error of a file or a list that isn't there: the snapshot was
// expired while it was read.
func (r *reader) gone(ctx context.Context, err error) error {
	if !errors.Is(err, catalog.ErrSnapshotGone) && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	view, e := r.p.table.Follow(ctx)
	if e != nil {
		return errors.Join(err, e)
	}
	if _, still := view.Snapshot(r.at.Snapshot); still {
		return err
	}
	if r.p.cfg.OnLostSnapshots == policySkip {
		r.p.log.Warn("a snapshot was expired before it was published whole; going on after it", zap.Int("shard", r.shard), zap.Stringer("position", r.at), zap.Error(err))
		if err := r.blank(ctx); err != nil {
			return err
		}
		r.sheet.lost++
		r.finish()
		return nil
	}
	return haltf("table %s: snapshot %d was expired before it was published whole (%s): %v; set on_lost_snapshots = \"skip\" to go on after it and count it as lost", r.p.cfg.Table, r.at.Snapshot, r.at, err)
}

// file reads one data file from a row on.
func (r *reader) file(ctx context.Context, s catalog.Snapshot, f *catalog.DataFile, row int64) error {
	store, err := r.p.stores.Open(ctx, f.Path, r.view.StoreProperties())
	if err != nil {
		return fmt.Errorf("open store of %s: %w", f.Path, err)
	}
	in := writers.ScanInput{Name: f.Path, Object: store.Object(ctx, f.Path, f.Size), Size: f.Size, Constants: f.Constants}
	if in.Deleted, err = r.deleted(ctx, f); err != nil {
		return err
	}
	scan, err := r.plan.scan.Open(in)
	if err != nil {
		return err
	}
	defer scan.Close() //nolint:errcheck // it was only read
	if row > 0 {
		if err := scan.SeekRow(row); err != nil {
			return err
		}
	}
	c := &clerk{p: r.p, plan: r.plan, snapshot: s, file: f}
	for {
		switch err := scan.Next(&r.rows); {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		}
		if err := r.batch(ctx, c); err != nil {
			return err
		}
	}
}

// batch makes records of the rows that were just read.
func (r *reader) batch(ctx context.Context, c *clerk) error {
	for i := range r.rows.Len() {
		if r.sheet == nil || r.sheet.full() {
			if err := r.hand(ctx, false); err != nil {
				return err
			}
			if err := r.blank(ctx); err != nil {
				return err
			}
		}
		err := c.record(r.sheet, &r.rows, i)
		var bad *badRow
		switch {
		case errors.As(err, &bad) && r.p.cfg.OnBadRow == policyDeadLetter:
			err = c.letter(r.sheet, &r.rows, i, bad)
		case errors.As(err, &bad):
			err = &badRowError{r.p.cfg.Name, r.p.cfg.Table, c.whereIs(&r.rows, i), bad}
		}
		if err != nil {
			return err
		}
		if r.sheet.since.IsZero() {
			r.sheet.since = c.snapshot.Time
		}
		r.at.Row, r.at.Path = r.rows.RowNumber(i)+1, c.file.Path
		r.sheet.end = r.at
	}
	return nil
}

// blank makes sure that there is a sheet to fill.
func (r *reader) blank(ctx context.Context) error {
	if r.sheet != nil {
		return nil
	}
	select {
	case r.sheet = <-r.free:
		r.sheet.reset()
		r.sheet.end = r.at
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// hand gives the sheet to write. With idle it goes even if it is empty: write
// then knows that it need not wait for more.
func (r *reader) hand(ctx context.Context, idle bool) error {
	if idle {
		if err := r.blank(ctx); err != nil {
			return err
		}
		r.sheet.idle, r.sheet.end = true, r.at
	}
	if r.sheet == nil {
		return nil
	}
	select {
	case r.sheets <- r.sheet:
		r.sheet = nil
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// deleted reads which rows of a file are deleted.
func (r *reader) deleted(ctx context.Context, f *catalog.DataFile) ([]int64, error) {
	if len(f.Deletes) == 0 {
		return nil, nil
	}
	var inputs []writers.DeleteInput
	for _, d := range f.Deletes {
		store, err := r.p.stores.Open(ctx, d.Path, r.view.StoreProperties())
		if err != nil {
			return nil, fmt.Errorf("open store of %s: %w", d.Path, err)
		}
		content := 1
		if d.Equality != nil {
			content = 2
		}
		inputs = append(inputs, writers.DeleteInput{
			ScanInput: writers.ScanInput{Name: d.Path, Object: store.Object(ctx, d.Path, d.Size), Size: d.Size},
			Content:   content, Format: string(d.Format),
		})
	}
	rows, err := writers.DeletedRows(f.Path, inputs)
	if err != nil {
		return nil, haltf("%v", err)
	}
	return rows, nil
}
