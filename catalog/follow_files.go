package catalog

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"

	"github.com/apache/iceberg-go"
	"github.com/apache/iceberg-go/table"
)

// DataFile is a data file of a table, with all that is needed to read its rows
// as they are at a snapshot. What it points to is shared between files and must
// not be changed.
type DataFile struct {
	Path     string // its full location
	Size     int64
	Rows     int64 // before deletes
	Spec     int
	Tuple    string // the partition tuple for people: "id_bucket=3/day=2026-11-30"
	Slot     uint16 // see Slots
	Snapshot int64  // that added it
	Sequence int64  // the data sequence number; 0 in tables of format version 1
	// FirstRowID is the row id of the first row in tables of format version 3, -1 without.
	FirstRowID int64
	// Constants are the values of identity partition columns by the column's
	// field id, for files that don't hold the column itself: nil, bool, int32,
	// int64, float32, float64, string, []byte, uuid.UUID, iceberg.Date, Time,
	// Timestamp, TimestampNano or Decimal.
	Constants map[int]any
	Deletes   []*DeleteFile // that apply to it, oldest first
}

// DeleteFile says which rows of data files are deleted.
type DeleteFile struct {
	Path     string
	Format   iceberg.FileFormat // PARQUET; PUFFIN: a deletion vector; else what other writers use
	Equality []int              // field ids of an equality delete; nil: it deletes by position
	Size     int64
	Rows     int64
	Sequence int64
	// Offset and Length are the place of a deletion vector in its file; 0 without.
	Offset, Length int64

	low, high string // bounds of the paths that a position delete file speaks of
	bounded   bool
}

// Added returns the data files that the snapshot called id added, in the order
// of its manifest list and of the entries in its manifests: the order in which
// an append names its files. The list never changes, so that an index into it
// is a position. Each file comes with the position deletes that the same
// snapshot made for it.
//
// Only manifests that this snapshot wrote are read. What an operation other
// than append adds is returned too (a compaction adds the rows that it removes);
// which snapshots count is for the caller to say.
//
// Errors: ErrSnapshotGone; any other names the manifest or the file.
func (v *View) Added(ctx context.Context, id int64) ([]DataFile, error) {
	out, err := v.list(ctx, id, true)
	if err != nil {
		return nil, v.table.catalog.scrub.error(fmt.Errorf("list files that snapshot %d added to %s: %w", id, v.table.name, err))
	}
	return out, nil
}

// Live returns all data files of the table at the snapshot called id, oldest
// first: by data sequence number, then in the order of the manifests. The list
// never changes, so that an index into it is a position. Each file comes with
// its deletes. Memory: about half a kilobyte a file.
//
// Errors: ErrSnapshotGone; any other names the manifest or the file.
func (v *View) Live(ctx context.Context, id int64) ([]DataFile, error) {
	out, err := v.list(ctx, id, false)
	if err != nil {
		return nil, v.table.catalog.scrub.error(fmt.Errorf("list files of %s at snapshot %d: %w", v.table.name, id, err))
	}
	return out, nil
}

// Lost returns what the table still shows of a gap: the data files at the oldest
// kept snapshot that were added in the gap. There were these at least; those that
// were deleted or compacted in the gap have left no trace, and a compaction's
// own files are among them, with older rows. Nothing is known, nil, when the
// position's sequence number isn't.
//
// Errors: as for Live.
func (v *View) Lost(ctx context.Context, gap *GapError) ([]DataFile, error) {
	if gap.MissingMax() == 0 {
		return nil, nil
	}
	live, err := v.Live(ctx, gap.Kept[0].ID)
	return slices.DeleteFunc(live, func(f DataFile) bool {
		return f.Sequence <= gap.Position.Sequence || f.Snapshot == gap.Kept[0].ID
	}), err
}

// list reads the snapshot's manifests: all, or only what it added.
func (v *View) list(ctx context.Context, id int64, added bool) ([]DataFile, error) {
	s, err := v.snapshot(id)
	if err != nil {
		return nil, err
	}
	manifests, err := v.manifests(ctx, s)
	if err != nil {
		return nil, err
	}
	l := &listing{view: v, tuples: map[string]*tuple{}, deletes: newDeleteIndex()}
	if added {
		l.only = id
		manifests = slices.DeleteFunc(manifests, func(m iceberg.ManifestFile) bool { return !mayAdd(m, id) })
	}
	for i, m := range manifests {
		if i == 0 || m.SnapshotID() != manifests[i-1].SnapshotID() {
			l.group++
		}
		if err := l.read(ctx, i, m); err != nil {
			return nil, gone(fmt.Errorf("manifest %s: %w", m.FilePath(), err))
		}
	}
	return l.finish(!added), nil
}

// mayAdd tells whether a manifest may hold files that the snapshot called id
// added. Manifest lists of format version 1 needn't say who wrote a manifest, nor what is in it.
func mayAdd(m iceberg.ManifestFile, id int64) bool {
	return (m.SnapshotID() == id || m.SnapshotID() <= 0) && m.AddedDataFiles() != 0
}

// manifests reads the snapshot's manifest list.
func (v *View) manifests(ctx context.Context, s *table.Snapshot) ([]iceberg.ManifestFile, error) {
	if s.ManifestList == "" { // format version 1 allows the list to be in the metadata file
		ms, err := s.Manifests(&reach{ctx, v.state})
		if err != nil {
			return nil, gone(fmt.Errorf("embedded manifest list: %w", err))
		}
		return ms, nil
	}
	body, err := v.state.read(ctx, s.ManifestList)
	if err != nil {
		return nil, gone(fmt.Errorf("read manifest list %s: %w", s.ManifestList, err))
	}
	ms, err := iceberg.ReadManifestList(bytes.NewReader(body))
	if err != nil {
		return nil, fmt.Errorf("read manifest list %s: %w", s.ManifestList, err)
	}
	return ms, nil
}

// gone marks an error of a file that isn't there: the snapshot was expired since the table was loaded.
func gone(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%w: %w", ErrSnapshotGone, err)
	}
	return err
}

// listing gathers the files of one snapshot.
type listing struct {
	view    *View
	only    int64 // if not 0: files that this snapshot added
	group   int   // counts runs of manifests that one snapshot wrote
	files   []listed
	tuples  map[string]*tuple
	key     []byte
	deletes *deleteIndex
}

// listed is a data file with its place in the manifest list.
type listed struct {
	DataFile
	tuple           *tuple
	group, manifest int
}

// read visits the entries of one manifest.
func (l *listing) read(ctx context.Context, place int, m iceberg.ManifestFile) error {
	if len(m.KeyMetadata()) > 0 {
		return errors.New("it is encrypted, which isn't supported")
	}
	spec := l.view.state.meta.PartitionSpecByID(int(m.PartitionSpecID()))
	if spec == nil {
		return fmt.Errorf("partition spec %d is not in the table", m.PartitionSpecID())
	}
	body, err := l.view.state.read(ctx, m.FilePath())
	if err != nil {
		return err
	}
	deletes := m.ManifestContent() == iceberg.ManifestContentDeletes
	// Of the statistics only the bounds of paths in delete files are needed.
	r, err := iceberg.NewManifestReaderWithProjection(m, bytes.NewReader(body), iceberg.ManifestEntryProjection{IncludePruningStats: deletes})
	if err != nil {
		return err
	}
	defer r.Close()
	if m.Version() == 1 {
		if _, err := r.PartitionSpecID(); err != nil { // an embedded list doesn't name specs
			return err
		}
	}
	for {
		e, err := r.ReadEntry()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if e.Status() == iceberg.EntryStatusDELETED || l.only != 0 && (e.Status() != iceberg.EntryStatusADDED || e.SnapshotID() != l.only) {
			continue
		}
		if err := l.entry(place, spec, e, deletes); err != nil {
			return fmt.Errorf("file %s: %w", e.DataFile().FilePath(), err)
		}
	}
}

// entry takes in one entry.
func (l *listing) entry(place int, spec *iceberg.PartitionSpec, e iceberg.ManifestEntry, deletes bool) error {
	f := e.DataFile()
	switch {
	case e.SequenceNum() < 0:
		return errors.New("its entry has no sequence number: the manifest is damaged")
	case len(f.KeyMetadata()) > 0:
		return errors.New("it is encrypted, which isn't supported")
	}
	t, err := l.tuple(spec, f.Partition())
	if err != nil {
		return err
	}
	if deletes {
		l.deletes.add(t, e)
		return nil
	}
	if format := strings.ToUpper(string(f.FileFormat())); format != string(iceberg.ParquetFile) {
		return fmt.Errorf("it is an %s file: only Parquet is read; rewrite the table's data files as Parquet (write.format.default = parquet)", format)
	}
	d := DataFile{
		Path: f.FilePath(), Size: f.FileSizeBytes(), Rows: f.Count(), Spec: spec.ID(), Tuple: t.text, Slot: t.slot,
		Snapshot: e.SnapshotID(), Sequence: e.SequenceNum(), FirstRowID: -1, Constants: t.constants,
	}
	if id := f.FirstRowID(); id != nil {
		d.FirstRowID = *id
	}
	l.files = append(l.files, listed{d, t, l.group, place})
	return nil
}

// finish orders the files and gives each its deletes.
func (l *listing) finish(byAge bool) []DataFile {
	if byAge {
		// Files of format version 1 have no sequence number, but the manifests of
		// younger snapshots come before those of older ones.
		slices.SortStableFunc(l.files, func(a, b listed) int {
			switch {
			case a.Sequence != b.Sequence:
				return int(min(max(a.Sequence-b.Sequence, -1), 1))
			case a.Sequence == 0 && a.group != b.group:
				return b.group - a.group
			}
			return a.manifest - b.manifest
		})
	}
	l.deletes.sort()
	out := make([]DataFile, len(l.files))
	for i, f := range l.files {
		out[i] = f.DataFile
		out[i].Deletes = l.deletes.of(&f.DataFile, f.tuple)
	}
	return out
}
