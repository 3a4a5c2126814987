package catalog

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/apache/iceberg-go"
	icebergio "github.com/apache/iceberg-go/io"
	"github.com/apache/iceberg-go/table"
	"go.uber.org/zap"
)

// disk is a store on local disk: create-only, and it counts and remembers.
type disk struct {
	icebergio.LocalFS
	mu      sync.Mutex
	written int
	removed []string
	read    map[string]int
	fault   func(operation, name string) error
}

func newDisk() *disk { return &disk{read: map[string]int{}} }

func (d *disk) open(context.Context, string, map[string]string) (icebergio.IO, error) { return d, nil }

func local(name string) string { return strings.TrimPrefix(name, "file://") }

func (d *disk) trouble(operation, name string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.fault == nil {
		return nil
	}
	return d.fault(operation, name)
}

func (d *disk) Open(name string) (icebergio.File, error) {
	if err := d.trouble("read", name); err != nil {
		return nil, err
	}
	return d.LocalFS.Open(local(name))
}

func (d *disk) ReadFile(name string) ([]byte, error) {
	if err := d.trouble("read", name); err != nil {
		return nil, err
	}
	d.mu.Lock()
	d.read[name]++
	d.mu.Unlock()
	return os.ReadFile(local(name))
}

func (d *disk) WriteFile(name string, body []byte) error {
	if err := d.trouble("write", name); err != nil {
		return err
	}
	path := local(name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	d.mu.Lock()
	d.written++
	d.mu.Unlock()
	_, err = f.Write(body)
	return errors.Join(err, f.Close())
}

type buffered struct {
	bytes.Buffer
	d    *disk
	name string
}

func (b *buffered) Close() error { return b.d.WriteFile(b.name, b.Bytes()) }

func (d *disk) Create(name string) (icebergio.FileWriter, error) {
	return &buffered{d: d, name: name}, nil
}

func (d *disk) Remove(name string) error {
	d.mu.Lock()
	d.removed = append(d.removed, name)
	d.mu.Unlock()
	return os.Remove(local(name))
}

// world is a catalog on SQLite and a warehouse on disk.
type world struct {
	t    testing.TB
	dir  string
	disk *disk
}

func newWorld(t testing.TB) *world { return &world{t: t, dir: t.TempDir(), disk: newDisk()} }

func (w *world) config() Config {
	return Config{Name: "lake", Type: "sql", URI: "sqlite:" + filepath.Join(w.dir, "db", "catalog.db"), Warehouse: filepath.Join(w.dir, "wh")}
}

func (w *world) open() *Catalog {
	w.t.Helper()
	c, err := Open(w.t.Context(), w.config(), w.disk.open, zap.NewNop())
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { c.Close() })
	return c
}

var ordersCreate = Create{
	Schema:    []Column{{Name: "id", Type: "long", Required: true}, {Name: "message", Type: "string"}, {Name: "ts", Type: "timestamptz"}},
	Partition: []string{"bucket(id, 64)"},
}

func (w *world) table(c *Catalog, o TableOptions) *Table {
	w.t.Helper()
	if o.Ingest == "" {
		o.Ingest = "orders"
	}
	if o.Create == nil {
		create := ordersCreate
		o.Create = &create
	}
	t, err := c.Table(w.t.Context(), "shop.orders", o)
	if err != nil {
		w.t.Fatal(err)
	}
	return t
}

var fileNumber atomic.Int64

// files makes data files of one row each for the table's current spec; they exist only by name.
func files(tb testing.TB, t *Table, n int) []iceberg.DataFile {
	tb.Helper()
	spec := t.Spec()
	out := make([]iceberg.DataFile, n)
	for i := range out {
		number := fileNumber.Add(1)
		partition := map[int]any{}
		for f := range spec.NumFields() {
			partition[spec.Field(f).FieldID] = int32(i % 64)
		}
		b, err := iceberg.NewDataFileBuilder(spec, iceberg.EntryContentData, fmt.Sprintf("%s/f%08d.parquet", t.DataLocation(), number), iceberg.ParquetFile, partition, nil, nil, 1, 1000+number%10)
		if err != nil {
			tb.Fatal(err)
		}
		id := []byte{byte(number), byte(number >> 8), byte(number >> 16), 0, 0, 0, 0, 0}
		out[i] = b.ColumnSizes(map[int]int64{1: 100, 2: 500, 3: 80}).ValueCounts(map[int]int64{1: 1, 2: 1, 3: 1}).
			NullValueCounts(map[int]int64{1: 0, 2: 0, 3: 0}).
			LowerBoundValues(map[int][]byte{1: id, 2: []byte("lower message abc"), 3: id}).
			UpperBoundValues(map[int][]byte{1: id, 2: []byte("upper message xyz"), 3: id}).SplitOffsets([]int64{4}).Build()
	}
	return out
}

// next makes the append that follows from on topic "orders", partition 0.
func next(tb testing.TB, t *Table, from, count int64, n int) Append {
	tb.Helper()
	a := Append{ID: newID(), Source: Source{Cluster: "kafka", TopicIDs: map[string]string{"orders": "topic-id"}}, Files: files(tb, t, n), Schema: t.Schema().ID, Spec: 0, From: Offsets{}, To: Offsets{"orders": {0: from + count}}}
	spec := t.Spec()
	a.Spec = spec.ID()
	if from > 0 {
		a.From = Offsets{"orders": {0: from}}
	}
	return a
}

func mustAppend(tb testing.TB, t *Table, a Append) Commit {
	tb.Helper()
	c, err := t.Append(tb.Context(), a)
	if err != nil {
		tb.Fatal(err)
	}
	return c
}

// contents lists the paths of the table's live data files, through iceberg-go's own scan.
func contents(tb testing.TB, c *Catalog, name string) map[string]int {
	tb.Helper()
	ident, _ := identifier(name)
	loaded, err := c.io.LoadTable(tb.Context(), ident)
	if err != nil {
		tb.Fatal(err)
	}
	tasks, err := loaded.Scan().PlanFiles(tb.Context())
	if err != nil {
		tb.Fatal(err)
	}
	got := map[string]int{}
	for _, task := range tasks {
		got[task.File.FilePath()]++
	}
	return got
}

func metaOf(tb testing.TB, c *Catalog, name string) table.Metadata {
	tb.Helper()
	ident, _ := identifier(name)
	loaded, err := c.io.LoadTable(tb.Context(), ident)
	if err != nil {
		tb.Fatal(err)
	}
	return loaded.Metadata()
}

// expectOnce sees that the table holds just the files of these appends, each once.
func expectOnce(tb testing.TB, c *Catalog, appends ...Append) {
	tb.Helper()
	want := map[string]int{}
	for _, a := range appends {
		for _, f := range a.Files {
			want[f.FilePath()] = 1
		}
	}
	got := contents(tb, c, "shop.orders")
	if !maps.Equal(got, want) {
		missing, twice, strange := 0, 0, 0
		for p := range want {
			if got[p] == 0 {
				missing++
			}
		}
		for p, n := range got {
			if n > 1 {
				twice++
			}
			if want[p] == 0 {
				strange++
			}
		}
		tb.Fatalf("table has %d files, want %d: %d missing, %d twice, %d strange", len(got), len(want), missing, twice, strange)
	}
}

var (
	_ icebergio.WriteFileIO = (*disk)(nil)
	_ io.Writer             = (*buffered)(nil)
	_                       = fs.ErrNotExist
)

func dirNames(tb testing.TB, dir string) (names []string) {
	tb.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		tb.Fatal(err)
	}
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

func mustTime(tb testing.TB, text string) time.Time {
	tb.Helper()
	at, err := http.ParseTime(text)
	if err != nil {
		tb.Fatal(err)
	}
	return at
}

func (d *disk) setFault(f func(operation, name string) error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.fault = f
}

func errorsContain(err error, texts ...string) bool {
	for _, text := range texts {
		if !strings.Contains(err.Error(), text) {
			return false
		}
	}
	return true
}
