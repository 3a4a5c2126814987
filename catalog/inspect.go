package catalog

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"sync"

	"github.com/apache/arrow-go/v18/parquet/file"
	"github.com/apache/iceberg-go"
	icebergio "github.com/apache/iceberg-go/io"
	"github.com/apache/iceberg-go/table"
	"golang.org/x/sync/errgroup"
)

// Inspection is a table as it was at one moment, for whoever wants to prove
// what is in it. It changes nothing. Like Read it goes through Iceberg's and
// Arrow's readers and shares nothing with the code that writes.
type Inspection struct {
	table *Table
	state *state
}

// Inspect loads the table.
func (t *Table) Inspect(ctx context.Context) (*Inspection, error) {
	s, err := t.reload(ctx)
	if err != nil {
		return nil, t.catalog.scrub.error(fmt.Errorf("inspect %s: %w", t.name, err))
	}
	return &Inspection{t, s}, nil
}

// Snapshot returns the id of the current snapshot, 0 if there is none.
func (i *Inspection) Snapshot() int64 { return headID(i.state.meta) }

// Ingests names the ingests whose ledgers the table carries, sorted.
func (i *Inspection) Ingests() (names []string) {
	for key := range i.state.meta.Properties() {
		if name, ok := strings.CutPrefix(key, "router."); ok {
			if name, ok = strings.CutSuffix(name, ".ledger"); ok {
				names = append(names, name)
			}
		}
	}
	slices.Sort(names)
	return names
}

// Ledger returns the ledger of an ingest, as Table.Ledger does.
func (i *Inspection) Ledger(ingest string) (Ledger, error) {
	return i.as(ingest).ledgerIn(i.state.meta)
}

// as is a door for another ingest, good for reading what the metadata says.
func (i *Inspection) as(ingest string) *Table {
	return &Table{name: i.table.name, keys: keysOf(ingest), options: TableOptions{Ingest: ingest}}
}

// Column returns the type of a top-level column, or nil when the table has none of that name.
func (i *Inspection) Column(name string) iceberg.Type {
	for _, f := range i.state.meta.CurrentSchema().Fields() {
		if f.Name == name {
			return f.Type
		}
	}
	return nil
}

// Move is a snapshot that moved the ledger of an ingest.
type Move struct {
	Snapshot, Seq int64
	Rows          int64   // that it says it added
	Ledger        *Ledger // as it left it; nil when it was too large to be kept there
	Rewound       bool    // whether it replaced the ledger after a rollback or a reset, instead of moving it on
}

// Moves returns the moves of an ingest's ledger that the table's history still
// has, newest first.
func (i *Inspection) Moves(ingest string) (moves []Move) {
	t := i.as(ingest)
	for s := range ancestors(i.state.meta, i.state.meta.CurrentSnapshot()) {
		seq, ok := t.seqOf(s)
		if !ok {
			continue
		}
		m := Move{Snapshot: s.SnapshotID, Seq: seq, Rewound: s.Summary.Properties[t.keys.rewound] != ""}
		m.Rows = s.Summary.Properties.GetInt64("added-records", 0)
		if l, err := decodeLedger(s.Summary.Properties[t.keys.ledger]); err == nil {
			m.Ledger = &l
		}
		moves = append(moves, m)
	}
	return moves
}

// LiveFile is a data file that the current snapshot names.
type LiveFile struct {
	Path     string
	Rows     int64 // as its manifest says
	Sequence int64 // of the snapshot that added it; 0 in tables of format version 1
	Notes    map[string]string
	Stored   int64 // rows, as the file itself says
	Err      error // why the file could not be read; the three above it are as the manifest has them, or empty
}

// footersMax is how many data files are looked at at once.
const footersMax = 8

// Files visits every data file that the current snapshot names, as often as it
// is named, in no order, one call at a time, with what the file's own footer
// says. It returns how many delete files apply on top. Only footers are read.
func (i *Inspection) Files(ctx context.Context, visit func(LiveFile) error) (deletes int, err error) {
	if deletes, err = i.files(ctx, visit); err != nil {
		return deletes, i.table.catalog.scrub.error(fmt.Errorf("inspect %s: %w", i.table.name, err))
	}
	return deletes, nil
}

func (i *Inspection) files(ctx context.Context, visit func(LiveFile) error) (deletes int, err error) {
	head := i.state.meta.CurrentSnapshot()
	if head == nil {
		return 0, nil
	}
	store := &reach{ctx, i.state}
	manifests, err := head.Manifests(store)
	if err != nil {
		return 0, fmt.Errorf("read manifests of snapshot %d: %w", head.SnapshotID, err)
	}
	var one sync.Mutex
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(footersMax)
	for _, m := range manifests {
		entries, err := m.FetchEntries(store, true)
		if err != nil {
			_ = g.Wait()
			return 0, fmt.Errorf("read manifest %s: %w", m.FilePath(), err)
		}
		if m.ManifestContent() != iceberg.ManifestContentData {
			deletes += len(entries)
			continue
		}
		for _, e := range entries {
			g.Go(func() error {
				if err := ctx.Err(); err != nil {
					return err
				}
				f := LiveFile{Path: e.DataFile().FilePath(), Rows: e.DataFile().Count(), Sequence: max(e.SequenceNum(), 0)}
				f.Notes, f.Stored, f.Err = footer(store, f.Path)
				one.Lock()
				defer one.Unlock()
				return visit(f)
			})
		}
	}
	return deletes, g.Wait()
}

// footer reads what a Parquet file says about itself.
func footer(store icebergio.IO, path string) (notes map[string]string, rows int64, err error) {
	f, err := store.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, 0, fmt.Errorf("the table names it, and it is not there: %w", fs.ErrNotExist)
	}
	if err != nil {
		return nil, 0, err
	}
	defer func() { _ = f.Close() }()
	r, err := file.NewParquetReader(f)
	if err != nil {
		return nil, 0, fmt.Errorf("it is no Parquet file that can be read: %w", err)
	}
	defer func() { _ = r.Close() }()
	notes = map[string]string{}
	pairs := r.MetaData().KeyValueMetadata()
	for k, key := range pairs.Keys() {
		notes[key] = pairs.Values()[k]
	}
	return notes, r.NumRows(), nil
}

// Rows visits all rows of the current snapshot as Read does.
func (i *Inspection) Rows(ctx context.Context, columns []string, visit func(rows int, columns []Values) error) error {
	open := func(ctx context.Context) (icebergio.IO, error) { return &reach{ctx, i.state}, nil }
	t := table.New(slices.Clone(i.table.ident), i.state.meta, i.state.location, open, nil)
	if err := readRows(ctx, t, columns, visit); err != nil {
		return i.table.catalog.scrub.error(fmt.Errorf("read %s: %w", i.table.name, err))
	}
	return nil
}
