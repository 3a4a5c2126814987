//go:build real

package real_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/BurntSushi/toml"
	"github.com/apache/iceberg-go"
	icebergio "github.com/apache/iceberg-go/io"
	"github.com/google/uuid"
	"github.com/twmb/franz-go/pkg/kgo"
	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"

	"icerouter/catalog"
	"icerouter/writers"
)

// committer is one instance of the program, reduced to its commits.
type committer struct {
	stores *writers.Stores
	table  *catalog.Table
	source catalog.Source
	topic  string
}

// newCommitter opens the lake's catalog anew and the table in it.
func newCommitter(t *testing.T, l lake, table, ingest string, properties map[string]string) (*committer, error) {
	var c struct{ Catalog catalog.Config }
	if _, err := toml.Decode(l.config, &c); err != nil {
		return nil, err
	}
	stores := writers.NewStores(zap.NewNop())
	t.Cleanup(func() { stores.Close() })
	cat, err := catalog.Open(t.Context(), c.Catalog, func(ctx context.Context, location string, p map[string]string) (icebergio.IO, error) {
		return stores.Open(ctx, location, p)
	}, zap.NewNop())
	if err != nil {
		return nil, err
	}
	t.Cleanup(func() { cat.Close() })
	tbl, err := cat.Table(t.Context(), table, catalog.TableOptions{Ingest: ingest, ExpireKeep: 10, Create: &catalog.Create{
		Schema:     []catalog.Column{{Name: "id", Type: "long", Required: true}, {Name: "name", Type: "string"}, {Name: "seen", Type: "timestamptz"}},
		Partition:  []string{"bucket(id, 8)", "day(seen)"},
		Properties: properties,
	}})
	return &committer{stores: stores, table: tbl, source: catalog.Source{Cluster: "c"}, topic: ingest}, err
}

// append commits ten rows, numbered from the ledger's offset on and from base.
func (c *committer) append(ctx context.Context, base, from int64) error {
	a := catalog.Append{ID: uuid.NewString(), Source: c.source, From: catalog.Offsets{}, To: catalog.Offsets{c.topic: {0: from + 10}}}
	if from > 0 {
		a.From = catalog.Offsets{c.topic: {0: from}}
	}
	var err error
	if a.Files, err = c.files(ctx, base+from); err != nil {
		return err
	}
	_, err = c.table.Append(ctx, a)
	return err
}

// files stores ten rows, a file for each partition.
func (c *committer) files(ctx context.Context, first int64) (files []iceberg.DataFile, err error) {
	layout, err := writers.NewLayout(c.table.Schema())
	if err != nil {
		return nil, err
	}
	decoder, err := writers.NewJSON(layout, writers.JSONOptions{})
	if err != nil {
		return nil, err
	}
	batch := writers.NewBatch(layout)
	for i := range int64(10) {
		value := fmt.Sprintf(`{"id": %d, "name": "n%d", "seen": "2026-0%d-01T00:00:00Z"}`, first+i, first+i, i%3+1)
		if err := decoder.Decode(batch, &kgo.Record{Value: []byte(value)}); err != nil {
			return nil, err
		}
	}
	exchange, err := writers.NewExchange(layout, c.table.Spec())
	if err != nil {
		return nil, err
	}
	rows := map[int32][]int32{}
	for row, address := range exchange.Addresses(batch, nil) {
		rows[address] = append(rows[address], int32(row))
	}
	store, err := c.stores.Open(ctx, c.table.DataLocation(), c.table.StoreProperties())
	if err != nil {
		return nil, err
	}
	for address, chosen := range rows {
		encoder, err := writers.NewEncoder(layout, writers.EncoderOptions{Codec: "zstd"})
		if err != nil {
			return nil, err
		}
		encoder.Append(batch, chosen)
		f, err := encoder.Finish()
		if err != nil {
			return nil, err
		}
		location, err := store.PutNew(ctx, func(int) string { return c.table.DataLocation() + "/" + uuid.NewString() + ".parquet" }, f.Body)
		if err != nil {
			return nil, err
		}
		file, err := f.DataFile(location, c.table.Spec(), exchange.Partition(address))
		if err != nil {
			return nil, err
		}
		files = append(files, file)
	}
	return files, nil
}

// TestCommittersShareATable starts instances at once on a table that doesn't
// exist, in every catalog and format version: they make it, commit against each
// other with merges and expiry under way, and every reader finds each row once.
func TestCommittersShareATable(t *testing.T) {
	const instances, appends = 3, 12
	lakes := map[string]func(t *testing.T) lake{"apache": func(t *testing.T) lake { return apache(t) }, "nessie": nessie, "postgres": postgres,
		"sqlite": func(t *testing.T) lake { return sqlite(t, t.TempDir()) }}
	for name, open := range lakes {
		t.Run(name, func(t *testing.T) {
			l := open(t)
			for _, version := range []string{"2", "3"} {
				if name == "nessie" && version == "3" {
					continue // Nessie 0.99 knows no format version 3
				}
				table := unique("committers") + ".rows"
				var g errgroup.Group
				for i := range instances {
					g.Go(func() error {
						c, err := newCommitter(t, l, table, fmt.Sprintf("i%d", i), map[string]string{"format-version": version})
						if err != nil {
							return err
						}
						for n := range int64(appends) {
							if err := c.append(t.Context(), int64(i)*1000, n*10); err != nil {
								return fmt.Errorf("instance %d: %w", i, err)
							}
						}
						c.table.Sweep(t.Context())
						return nil
					})
				}
				if err := g.Wait(); err != nil {
					t.Fatal(err)
				}
				readCommitters(t, l, table, version, instances, appends)
			}
		})
	}
}

// readCommitters lets the readers count, and find one row by the partitions alone.
func readCommitters(t *testing.T, l lake, table, version string, instances, appends int) {
	t.Helper()
	readers := []string{"pyiceberg", "duckdb", "java"}
	if version == "3" {
		readers = []string{"java"} // the only one of them that all of version 3 is expected of
	}
	for _, reader := range readers {
		ids := map[string]bool{}
		for _, line := range l.read(t, reader, question{table: table, choose: []string{"id"}}) {
			if ids[line] {
				t.Errorf("%s, v%s: %s finds %s twice", l.name, version, reader, line)
			}
			ids[line] = true
		}
		if len(ids) != instances*appends*10 {
			t.Errorf("%s, v%s: %s finds %d rows, want %d", l.name, version, reader, len(ids), instances*appends*10)
		}
		got := l.read(t, reader, question{table: table, where: "id = 1035 and seen < '2026-04-01T00:00:00+00:00'"})
		if len(got) != 1 || !strings.Contains(got[0], `"n1035"`) {
			t.Errorf("%s, v%s: %s finds %v by a filter", l.name, version, reader, got)
		}
	}
	if l.name == "sqlite" || version == "3" {
		return
	}
	nothingMissing(t, l, table, lab.bucketFolder())
}
