package catalog

import (
	"bytes"
	"encoding/binary"
	"io"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/apache/iceberg-go"
)

// TestMergeKeepsEntries commits often enough for two levels of merges and
// compares what iceberg-go reads from the merged manifests with what was appended.
func TestMergeKeepsEntries(t *testing.T) {
	for _, version := range []string{"2", "3"} {
		t.Run("v"+version, func(t *testing.T) { mergeKeepsEntries(t, version) })
	}
}

func mergeKeepsEntries(t *testing.T, version string) {
	w := newWorld(t)
	c := w.open()
	create := ordersCreate
	create.Properties = map[string]string{"format-version": version}
	tbl := w.table(c, TableOptions{Create: &create, ExpireKeep: 10})
	type origin struct{ snapshot, sequence int64 }
	origins := map[string]origin{}
	var appended []Append
	commits := mergeFan*mergeFan + 2*mergeFan
	for i := range commits {
		a := next(t, tbl, int64(i)*10, 10, 3)
		cm := mustAppend(t, tbl, a)
		appended = append(appended, a)
		sequence := metaOf(t, c, "shop.orders").SnapshotByID(cm.Snapshot).SequenceNumber
		for _, f := range a.Files {
			origins[f.FilePath()] = origin{cm.Snapshot, sequence}
		}
	}
	expectOnce(t, c, appended...)
	meta := metaOf(t, c, "shop.orders")
	head := meta.CurrentSnapshot()
	manifests, err := head.Manifests(w.disk)
	if err != nil {
		t.Fatal(err)
	}
	if len(manifests) > 2*mergeFan+2 {
		t.Errorf("%d manifests after %d commits", len(manifests), commits)
	}
	levels := map[int]int{}
	rowIDs := map[int64]bool{}
	for _, m := range manifests {
		level, _ := levelOf(m.FilePath())
		levels[level]++
		entries, err := m.FetchEntries(w.disk, false)
		if err != nil {
			t.Fatal(err)
		}
		if int(m.AddedDataFiles()+m.ExistingDataFiles()) != len(entries) {
			t.Errorf("%s: %d entries, the list says %d+%d", m.FilePath(), len(entries), m.AddedDataFiles(), m.ExistingDataFiles())
		}
		for _, e := range entries {
			o := origins[e.DataFile().FilePath()]
			if e.SnapshotID() != o.snapshot || e.SequenceNum() != o.sequence || *e.FileSequenceNum() != o.sequence {
				t.Errorf("%s: snapshot %d sequence %d, want %+v", e.DataFile().FilePath(), e.SnapshotID(), e.SequenceNum(), o)
			}
			if m.MinSequenceNum() > o.sequence {
				t.Errorf("%s: min sequence %d, but an entry has %d", m.FilePath(), m.MinSequenceNum(), o.sequence)
			}
			if want := iceberg.EntryStatusEXISTING; level > 0 && e.Status() != want {
				t.Errorf("status %v in a merged manifest", e.Status())
			}
			if version == "3" {
				id := *e.DataFile().FirstRowID()
				if rowIDs[id] {
					t.Errorf("row id %d twice", id)
				}
				rowIDs[id] = true
			}
			sameStatistics(t, e.DataFile(), appended)
		}
		if p := m.Partitions()[0]; p.LowerBound == nil || p.ContainsNull || !bytes.Equal(*p.LowerBound, []byte{0, 0, 0, 0}) || !bytes.Equal(*p.UpperBound, []byte{2, 0, 0, 0}) {
			t.Errorf("%s: partition summary %+v", m.FilePath(), p)
		}
	}
	if levels[1] == 0 || levels[2] == 0 {
		t.Errorf("levels: %v", levels)
	}
	if version == "3" && meta.NextRowID() < int64(commits*3) {
		t.Errorf("next row id %d", meta.NextRowID())
	}
}

// sameStatistics compares an entry's file with the file that was appended.
func sameStatistics(t *testing.T, got iceberg.DataFile, appended []Append) {
	t.Helper()
	for _, a := range appended {
		for _, want := range a.Files {
			if want.FilePath() != got.FilePath() {
				continue
			}
			if !maps.EqualFunc(got.LowerBoundValues(), want.LowerBoundValues(), bytes.Equal) || !maps.EqualFunc(got.UpperBoundValues(), want.UpperBoundValues(), bytes.Equal) ||
				!maps.Equal(got.ColumnSizes(), want.ColumnSizes()) || !maps.Equal(got.Partition(), want.Partition()) ||
				got.FileSizeBytes() != want.FileSizeBytes() || got.Count() != want.Count() || !slices.Equal(got.SplitOffsets(), want.SplitOffsets()) {
				t.Errorf("%s: statistics differ", got.FilePath())
			}
			return
		}
	}
	t.Errorf("%s was never appended", got.FilePath())
}

func TestExpiryRemovesWhatNothingNames(t *testing.T) {
	w := newWorld(t)
	c := w.open()
	tbl := w.table(c, TableOptions{ExpireKeep: 5})
	var appended []Append
	for i := range 60 {
		a := next(t, tbl, int64(i)*10, 10, 2)
		mustAppend(t, tbl, a)
		appended = append(appended, a)
	}
	tbl.Sweep(t.Context())
	meta := metaOf(t, c, "shop.orders")
	if n := len(meta.Snapshots()); n != 5 {
		t.Errorf("%d snapshots are kept", n)
	}
	expectOnce(t, c, appended...)
	named := map[string]bool{}
	for _, s := range meta.Snapshots() {
		named[baseName(s.ManifestList)] = true
		manifests, err := s.Manifests(w.disk) // every kept snapshot can be read
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range manifests {
			named[baseName(m.FilePath())] = true
			if _, err := m.FetchEntries(w.disk, true); err != nil {
				t.Fatal(err)
			}
		}
	}
	lists, manifests, metadata := 0, 0, 0
	for _, name := range dirNames(t, w.dir+"/wh/shop.db/orders/metadata") {
		switch {
		case strings.HasPrefix(name, "snap-"):
			lists++
		case strings.HasPrefix(name, manifestPrefix):
			manifests++
			if !named[name] && manifests > 40 {
				t.Errorf("%s is left over", name)
			}
		default:
			metadata++
		}
	}
	if lists != 5 || metadata != 21 {
		t.Errorf("%d manifest lists and %d metadata files are left, want 5 and 21", lists, metadata)
	}
	if left := manifests - len(named) + lists; left > 2*mergeFan {
		t.Errorf("%d manifests that no snapshot names are left", left)
	}
	for _, r := range w.disk.removed {
		if named[baseName(r)] {
			t.Errorf("%s was removed but is named", r)
		}
	}
}

func TestExpiryLeavesAlone(t *testing.T) {
	for name, test := range map[string]struct {
		properties map[string]string
		always     bool
		want       int
	}{
		"gc disabled":   {map[string]string{"gc.enabled": "false"}, true, 11},
		"not ours":      {map[string]string{createdByKey: ""}, false, 11},
		"not ours, but": {map[string]string{createdByKey: ""}, true, 3},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			c := w.open()
			create := ordersCreate
			create.Properties = test.properties
			tbl := w.table(c, TableOptions{Create: &create, ExpireKeep: 3, ExpireAlways: test.always})
			for i := range 10 {
				mustAppend(t, tbl, next(t, tbl, int64(i)*10, 10, 1))
			}
			if n := len(metaOf(t, c, "shop.orders").Snapshots()); n != test.want {
				t.Errorf("%d snapshots, want %d", n, test.want)
			}
		})
	}
}

// manifestOf encodes a manifest of n files as an append does, and what its list says of it.
func manifestOf(tb testing.TB, version, n int) (iceberg.ManifestFile, []byte) {
	tb.Helper()
	schema, spec, err := ordersCreate.Compile()
	if err != nil {
		tb.Fatal(err)
	}
	var body bytes.Buffer
	id := int64(77)
	w, err := iceberg.NewManifestWriter(version, &body, *spec, schema, id)
	if err != nil {
		tb.Fatal(err)
	}
	for i := range n {
		b, err := iceberg.NewDataFileBuilder(*spec, iceberg.EntryContentData, "file:///t/f"+strings.Repeat("x", i%7)+".parquet", iceberg.ParquetFile, map[int]any{1000: int32(i % 64)}, nil, nil, int64(i+1), 100)
		if err != nil {
			tb.Fatal(err)
		}
		f := b.ValueCounts(map[int]int64{1: int64(i)}).LowerBoundValues(map[int][]byte{2: []byte("abc")}).Build()
		if err := w.Add(iceberg.NewManifestEntry(iceberg.EntryStatusADDED, &id, nil, nil, f)); err != nil {
			tb.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		tb.Fatal(err)
	}
	return iceberg.NewManifestFile(version, "file:///t/m.avro", int64(body.Len()), 0, id).SequenceNum(5, 5).AddedFiles(int32(n)).Build(), body.Bytes()
}

// TestSpliceTwice merges what was merged, over several blocks, with other codecs.
func TestSpliceTwice(t *testing.T) {
	_, body := manifestOf(t, 2, 3000)
	once, n, err := splice([]splicePart{{body: body, snapshot: 77, sequence: 5}, {body: body, snapshot: 77, sequence: 6}})
	if err != nil || n != 6000 {
		t.Fatalf("%d entries, %v", n, err)
	}
	twice, n, err := splice([]splicePart{{body: once, snapshot: 99, sequence: 9}, {body: uncompressed(t, body), snapshot: 77, sequence: 7}})
	if err != nil || n != 9000 {
		t.Fatalf("%d entries, %v", n, err)
	}
	m := iceberg.NewManifestFile(2, "file:///t/m.avro", int64(len(twice)), 0, 100).SequenceNum(10, 5).ExistingFiles(9000).Build()
	entries, err := iceberg.ReadManifest(m, bytes.NewReader(twice), false)
	if err != nil || len(entries) != 9000 {
		t.Fatalf("%d entries, %v", len(entries), err)
	}
	for i, e := range entries {
		if want := int64(5 + i/3000); e.SnapshotID() != 77 || e.SequenceNum() != want || *e.FileSequenceNum() != want || e.Status() != iceberg.EntryStatusEXISTING || e.DataFile().Count() != int64(i%3000+1) {
			t.Fatalf("entry %d: snapshot %d, sequence %d, status %v, %d rows", i, e.SnapshotID(), e.SequenceNum(), e.Status(), e.DataFile().Count())
		}
	}
}

// uncompressed writes an Avro file with the codec "null".
func uncompressed(t *testing.T, body []byte) []byte {
	t.Helper()
	c, err := openContainer(body)
	if err != nil {
		t.Fatal(err)
	}
	out := append([]byte(nil), avroMagic...)
	out = binary.AppendVarint(out, 1)
	for _, s := range []string{"avro.schema", string(c.metadata["avro.schema"])} {
		out = append(binary.AppendVarint(out, int64(len(s))), s...)
	}
	out = append(binary.AppendVarint(out, 0), c.sync...)
	for {
		block, count, err := c.next()
		if err == io.EOF {
			return out
		}
		if err != nil {
			t.Fatal(err)
		}
		out = binary.AppendVarint(binary.AppendVarint(out, count), int64(len(block)))
		out = append(append(out, block...), c.sync...)
	}
}

// FuzzSplice: a damaged manifest is an error, never a panic, an endless loop or a wrong count.
func FuzzSplice(f *testing.F) {
	for _, version := range []int{2, 3} {
		_, body := manifestOf(f, version, 5)
		f.Add(body)
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		first := int64(3)
		out, n, err := splice([]splicePart{{body: body, snapshot: 1, sequence: 2, firstRow: &first}})
		if err != nil {
			return
		}
		c, err := openContainer(out)
		if err != nil {
			t.Fatal(err)
		}
		sum := int64(0)
		for {
			_, count, err := c.next()
			if err == io.EOF {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			sum += count
		}
		if sum != int64(n) {
			t.Errorf("%d entries written, %d told", sum, n)
		}
	})
}

// BenchmarkSplice against decoding and encoding again.
func BenchmarkSplice(b *testing.B) {
	m, body := manifestOf(b, 2, 4096)
	b.Run("how=splice", func(b *testing.B) {
		b.SetBytes(int64(len(body)))
		for b.Loop() {
			if _, _, err := splice([]splicePart{{body: body, snapshot: 77, sequence: 5}}); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("how=decode", func(b *testing.B) {
		schema, spec, err := ordersCreate.Compile()
		if err != nil {
			b.Fatal(err)
		}
		b.SetBytes(int64(len(body)))
		for b.Loop() {
			entries, err := iceberg.ReadManifest(m, bytes.NewReader(body), false)
			if err != nil {
				b.Fatal(err)
			}
			w, err := iceberg.NewManifestWriter(2, io.Discard, *spec, schema, 99)
			if err != nil {
				b.Fatal(err)
			}
			for _, e := range entries {
				if err := w.Existing(e); err != nil {
					b.Fatal(err)
				}
			}
			if err := w.Close(); err != nil {
				b.Fatal(err)
			}
		}
	})
}
