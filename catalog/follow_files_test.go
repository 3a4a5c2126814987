package catalog

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/apache/iceberg-go"
	"github.com/apache/iceberg-go/table"
	"github.com/google/uuid"
)

// engine writes snapshots as other programs do, manifests and all.
type engine struct {
	t  testing.TB
	w  *world
	c  *Catalog
	n  int
	as map[string]iceberg.DataFile // by short name
	// anonymous leaves out of manifest lists what version 1 doesn't ask for: who wrote a manifest, and how much is in it.
	anonymous bool
}

func newEngine(w *world, c *Catalog) *engine {
	return &engine{t: w.t, w: w, c: c, as: map[string]iceberg.DataFile{}}
}

func (e *engine) path(name string) string { return e.w.dir + "/wh/" + name }

// file makes a data or delete file under the spec, by a short name.
func (e *engine) file(name string, spec iceberg.PartitionSpec, content iceberg.ManifestEntryContent, values map[int]any, more func(*iceberg.DataFileBuilder)) {
	e.t.Helper()
	format := iceberg.ParquetFile
	switch {
	case strings.HasSuffix(name, ".orc"):
		format = iceberg.OrcFile
	case strings.HasSuffix(name, ".puffin"):
		format = iceberg.PuffinFile
	}
	b, err := iceberg.NewDataFileBuilder(spec, content, e.path(name), format, values, nil, nil, 10, 1000)
	if err != nil {
		e.t.Fatal(err)
	}
	if content == iceberg.EntryContentEqDeletes {
		b.EqualityFieldIDs([]int{1})
	}
	if more != nil {
		more(b)
	}
	e.as[name] = b.Build()
}

// manifest is one of a new snapshot: what it adds, and the files of older
// snapshots that it carries or takes out, as "name@snapshot@sequence".
type manifest struct {
	add, carry, drop []string
}

// commit makes a snapshot on top of the head: first its own manifests, then the
// head's but for those that are replaced.
func (e *engine) commit(operation table.Operation, replaced []string, own ...manifest) (id int64) {
	e.t.Helper()
	meta := metaOf(e.t, e.c, "shop.orders")
	head := meta.CurrentSnapshot()
	s := table.Snapshot{
		SnapshotID: newSnapshotID(meta), ParentSnapshotID: &head.SnapshotID, SequenceNumber: nextSequence(meta), TimestampMs: meta.LastUpdatedMillis() + 1,
		Summary: &table.Summary{Operation: operation}, SchemaID: head.SchemaID,
	}
	var list []iceberg.ManifestFile
	for _, m := range own {
		list = append(list, e.write(meta, s.SnapshotID, m))
	}
	before, err := head.Manifests(e.w.disk)
	if err != nil {
		e.t.Fatal(err)
	}
	for _, m := range before {
		if !slices.Contains(replaced, m.FilePath()) {
			list = append(list, m)
		}
	}
	if e.anonymous {
		for i, m := range list {
			list[i] = iceberg.NewManifestFile(1, m.FilePath(), m.Length(), m.PartitionSpecID(), -1).AddedFiles(-1).ExistingFiles(-1).DeletedFiles(-1).Build()
		}
	}
	var body bytes.Buffer
	if err := iceberg.WriteManifestList(meta.Version(), &body, s.SnapshotID, s.ParentSnapshotID, &s.SequenceNumber, meta.NextRowID(), list); err != nil {
		e.t.Fatal(err)
	}
	s.ManifestList = e.path(fmt.Sprintf("list-%d.avro", s.SnapshotID))
	if err := e.w.disk.WriteFile(s.ManifestList, body.Bytes()); err != nil {
		e.t.Fatal(err)
	}
	if meta.Version() == 3 {
		first, added := meta.NextRowID(), int64(1000)
		s.FirstRowID, s.AddedRows = &first, &added
	}
	ident, _ := identifier("shop.orders")
	if _, _, err := e.c.io.CommitTable(e.t.Context(), ident, nil, []table.Update{
		table.NewAddSnapshotUpdate(&s), table.NewSetSnapshotRefUpdate(table.MainBranch, s.SnapshotID, table.BranchRef, 0, 0, 0),
	}); err != nil {
		e.t.Fatal(err)
	}
	return s.SnapshotID
}

// write stores a manifest.
func (e *engine) write(meta table.Metadata, id int64, m manifest) iceberg.ManifestFile {
	e.t.Helper()
	all := slices.Concat(m.add, m.carry, m.drop)
	name, _, _ := strings.Cut(all[0], "@")
	first := e.as[name]
	content := iceberg.ManifestContentData
	if first.ContentType() != iceberg.EntryContentData {
		content = iceberg.ManifestContentDeletes
	}
	spec := meta.PartitionSpecByID(int(first.SpecID()))
	var body bytes.Buffer
	w, err := iceberg.NewManifestWriter(meta.Version(), &body, *spec, meta.CurrentSchema(), id, iceberg.WithManifestWriterContent(content))
	if err != nil {
		e.t.Fatal(err)
	}
	old := func(text string) iceberg.ManifestEntry {
		name, rest, _ := strings.Cut(text, "@")
		var snapshot, sequence int64
		if n, err := fmt.Sscanf(rest, "%d@%d", &snapshot, &sequence); n != 2 {
			e.t.Fatalf("%s: %v", text, err)
		}
		return iceberg.NewManifestEntry(iceberg.EntryStatusEXISTING, &snapshot, &sequence, &sequence, e.as[name])
	}
	for _, text := range m.carry {
		err = errors.Join(err, w.Existing(old(text)))
	}
	for _, text := range m.drop {
		err = errors.Join(err, w.Delete(old(text)))
	}
	for _, name := range m.add {
		err = errors.Join(err, w.Add(iceberg.NewManifestEntry(iceberg.EntryStatusADDED, nil, nil, nil, e.as[name])))
	}
	if err = errors.Join(err, w.Close()); err != nil {
		e.t.Fatal(err)
	}
	e.n++
	location := e.path(fmt.Sprintf("m%d.avro", e.n))
	f, err := w.ToManifestFile(location, int64(body.Len()), iceberg.WithManifestFileContent(content))
	if err != nil {
		e.t.Fatal(err)
	}
	if err := e.w.disk.WriteFile(location, body.Bytes()); err != nil {
		e.t.Fatal(err)
	}
	return f
}

// show writes files as "name(delete delete)", for comparing.
func (e *engine) show(list []DataFile, err error) string {
	if err != nil {
		return err.Error()
	}
	short := func(path string) string { return strings.TrimPrefix(path, e.w.dir+"/wh/") }
	var out []string
	for _, f := range list {
		text := short(f.Path)
		var deletes []string
		for _, d := range f.Deletes {
			deletes = append(deletes, short(d.Path))
		}
		if len(deletes) > 0 {
			text += "(" + strings.Join(deletes, " ") + ")"
		}
		out = append(out, text)
	}
	return strings.Join(out, " ")
}

// engineTable makes a table of the given format version and partitioning.
func engineTable(t *testing.T, version string, partition ...string) (*engine, iceberg.PartitionSpec) {
	w := newWorld(t)
	c := w.open()
	create := Create{
		Schema:     []Column{{Name: "id", Type: "long", Required: true}, {Name: "region", Type: "string"}, {Name: "ts", Type: "timestamptz"}},
		Partition:  partition,
		Properties: map[string]string{"format-version": version},
	}
	tbl := w.table(c, TableOptions{Create: &create})
	return newEngine(w, c), tbl.Spec()
}

// TestFilesOfOtherEngines: appends that carry older entries along, compactions, overwrites and deletes.
func TestFilesOfOtherEngines(t *testing.T) {
	for _, version := range []string{"1", "2", "3"} {
		t.Run("version="+version, func(t *testing.T) {
			e, spec := engineTable(t, version, "region")
			for _, name := range []string{"a", "b", "c", "d", "e", "f", "g", "ab"} {
				e.file(name, spec, iceberg.EntryContentData, map[int]any{1000: "eu"}, nil)
			}
			s1 := e.commit(table.OpAppend, nil, manifest{add: []string{"b", "a"}})
			s2 := e.commit(table.OpAppend, nil, manifest{add: []string{"c"}}, manifest{add: []string{"d"}})
			// A merging append: one manifest with its own files and all older ones.
			meta := metaOf(t, e.c, "shop.orders")
			replaced := []string{e.path("m1.avro"), e.path("m2.avro"), e.path("m3.avro")}
			sequence := func(n int) int {
				if version == "1" {
					return 0
				}
				return n
			}
			carried := []string{fmt.Sprintf("b@%d@%d", s1, sequence(2)), fmt.Sprintf("a@%d@%d", s1, sequence(2)), fmt.Sprintf("c@%d@%d", s2, sequence(3)), fmt.Sprintf("d@%d@%d", s2, sequence(3))}
			s3 := e.commit(table.OpAppend, replaced, manifest{carry: carried, add: []string{"f", "e"}})
			// A compaction of a and b, then an overwrite that takes out c and adds g.
			s4 := e.commit(table.OpReplace, []string{e.path("m4.avro")}, manifest{add: []string{"ab"}},
				manifest{drop: carried[:2], carry: append(carried[2:], fmt.Sprintf("f@%d@%d", s3, sequence(4)), fmt.Sprintf("e@%d@%d", s3, sequence(4)))})
			s5 := e.commit(table.OpOverwrite, []string{e.path("m6.avro")}, manifest{add: []string{"g"}},
				manifest{drop: carried[2:3], carry: []string{carried[3], fmt.Sprintf("f@%d@%d", s3, sequence(4)), fmt.Sprintf("e@%d@%d", s3, sequence(4))}})
			reader, err := e.c.Look(t.Context(), "shop.orders", TableOptions{})
			if err != nil {
				t.Fatal(err)
			}
			v := mustFollow(t, reader)
			line, err := v.After(Snapshot{ID: meta.CurrentSnapshot().SnapshotID})
			if err != nil || len(line) != 3 || line[1].Operation != "replace" || line[2].Operation != "overwrite" {
				t.Errorf("history %+v, %v", line, err)
			}
			for i, want := range []struct {
				id    int64
				added string
			}{{s1, "b a"}, {s2, "c d"}, {s3, "f e"}, {s4, "ab"}, {s5, "g"}} {
				if got := e.show(v.Added(t.Context(), want.id)); got != want.added {
					t.Errorf("snapshot %d added %s, want %s", i+1, got, want.added)
				}
			}
			for id, want := range map[int64]string{s1: "b a", s2: "b a c d", s3: "b a c d f e", s5: "d f e ab g"} {
				if version == "1" {
					// Without sequence numbers the order is that of the manifests, oldest first.
					want = map[int64]string{s1: "b a", s2: "b a c d", s3: "b a c d f e", s5: "ab g d f e"}[id]
				}
				if got := e.show(v.Live(t.Context(), id)); got != want {
					t.Errorf("live files %s, want %s", got, want)
				}
			}
		})
	}
}

// TestFilesOfAnonymousManifests: a list that doesn't say who wrote a manifest. The entries do.
func TestFilesOfAnonymousManifests(t *testing.T) {
	e, spec := engineTable(t, "1", "region")
	e.anonymous = true
	for _, name := range []string{"a", "b", "c"} {
		e.file(name, spec, iceberg.EntryContentData, map[int]any{1000: "eu"}, nil)
	}
	s1 := e.commit(table.OpAppend, nil, manifest{add: []string{"a"}})
	s2 := e.commit(table.OpAppend, nil, manifest{add: []string{"b", "c"}})
	_, v := e.w.follow(e.c)
	for id, want := range map[int64]string{s1: "a", s2: "b c"} {
		if got := e.show(v.Added(t.Context(), id)); got != want {
			t.Errorf("added %s, want %s", got, want)
		}
	}
}

// TestDeletes: which delete files belong to which data files.
//
// Source: Iceberg spec, "Scan Planning".
func TestDeletes(t *testing.T) {
	e, spec := engineTable(t, "3", "region")
	plain := iceberg.NewPartitionSpecID(7)
	commit(t, e.c, table.NewAddPartitionSpecUpdate(&plain, false))
	meta := metaOf(t, e.c, "shop.orders")
	plain = *meta.PartitionSpecByID(meta.PartitionSpecs()[len(meta.PartitionSpecs())-1].ID())
	eu, us := map[int]any{1000: "eu"}, map[int]any{1000: "us"}
	e.file("eu1", spec, iceberg.EntryContentData, eu, nil)
	e.file("eu2", spec, iceberg.EntryContentData, eu, nil)
	e.file("eu3", spec, iceberg.EntryContentData, eu, nil)
	e.file("us1", spec, iceberg.EntryContentData, us, nil)
	e.file("all1", plain, iceberg.EntryContentData, nil, nil)
	bounds := func(low, high string) func(*iceberg.DataFileBuilder) {
		return func(b *iceberg.DataFileBuilder) {
			b.LowerBoundValues(map[int][]byte{pathFieldID: []byte(e.path(low))}).UpperBoundValues(map[int][]byte{pathFieldID: []byte(e.path(high))})
		}
	}
	e.file("pos-eu", spec, iceberg.EntryContentPosDeletes, eu, nil)
	e.file("pos-eu1", spec, iceberg.EntryContentPosDeletes, eu, bounds("eu1", "eu1"))
	e.file("pos-eu2-3", spec, iceberg.EntryContentPosDeletes, eu, bounds("eu2", "eu4"))
	e.file("pos-us1", spec, iceberg.EntryContentPosDeletes, us, func(b *iceberg.DataFileBuilder) { b.ReferencedDataFile(e.path("us1")) })
	e.file("eq-eu", spec, iceberg.EntryContentEqDeletes, eu, nil)
	e.file("eq-all", plain, iceberg.EntryContentEqDeletes, nil, nil)
	e.file("dv.puffin", spec, iceberg.EntryContentPosDeletes, eu, func(b *iceberg.DataFileBuilder) {
		b.ReferencedDataFile(e.path("eu1")).ContentOffset(4).ContentSizeInBytes(40)
	})
	e.commit(table.OpAppend, nil, manifest{add: []string{"eu1", "us1"}}, manifest{add: []string{"all1"}})
	// A row delta: it adds a file, deletes rows of it by position, and by equality rows of older ones.
	delta := e.commit(table.OpOverwrite, nil, manifest{add: []string{"eu2"}}, manifest{add: []string{"pos-eu", "eq-eu"}})
	deleted := e.commit(table.OpDelete, nil, manifest{add: []string{"pos-eu1", "pos-eu2-3", "pos-us1"}}, manifest{add: []string{"eq-all"}})
	last := e.commit(table.OpAppend, nil, manifest{add: []string{"eu3"}})
	reader, err := e.c.Look(t.Context(), "shop.orders", TableOptions{})
	if err != nil {
		t.Fatal(err)
	}
	v := mustFollow(t, reader)
	if got, want := e.show(v.Added(t.Context(), delta)), "eu2(pos-eu)"; got != want {
		t.Errorf("the row delta added %s, want %s", got, want)
	}
	if got := e.show(v.Added(t.Context(), deleted)); got != "" {
		t.Errorf("the delete added %s", got)
	}
	if got, want := e.show(v.Live(t.Context(), last)), "eu1(pos-eu1 pos-eu eq-eu eq-all) us1(pos-us1 eq-all) all1(eq-all) eu2(pos-eu pos-eu2-3 eq-all) eu3"; got != want {
		t.Errorf("live files\n%s, want\n%s", got, want)
	}
	vector := e.commit(table.OpDelete, nil, manifest{add: []string{"dv.puffin"}})
	v = mustFollow(t, reader)
	list, err := v.Live(t.Context(), vector)
	if got, want := e.show(list[:1], err), "eu1(dv.puffin eq-eu eq-all)"; got != want {
		t.Errorf("with a deletion vector %s, want %s", got, want)
	}
	if d := list[0].Deletes; d[0].Offset != 4 || d[0].Length != 40 || d[0].Equality != nil || !slices.Equal(d[1].Equality, []int{1}) || d[1].Sequence != 3 {
		t.Errorf("deletes %+v %+v", d[0], d[1])
	}
}

// TestFilesRefused: what can't be read is named.
func TestFilesRefused(t *testing.T) {
	for _, c := range []struct {
		name string
		more func(*iceberg.DataFileBuilder)
		want string
	}{
		{"a.orc", nil, "ORC"},
		{"secret", func(b *iceberg.DataFileBuilder) { b.KeyMetadata([]byte("key")) }, "encrypted"},
	} {
		e, spec := engineTable(t, "2", "region")
		e.file("good", spec, iceberg.EntryContentData, map[int]any{1000: "eu"}, nil)
		e.file(c.name, spec, iceberg.EntryContentData, map[int]any{1000: "eu"}, c.more)
		id := e.commit(table.OpAppend, nil, manifest{add: []string{"good", c.name}})
		reader, err := e.c.Look(t.Context(), "shop.orders", TableOptions{})
		if err != nil {
			t.Fatal(err)
		}
		v := mustFollow(t, reader)
		for _, list := range []func() ([]DataFile, error){
			func() ([]DataFile, error) { return v.Added(t.Context(), id) },
			func() ([]DataFile, error) { return v.Live(t.Context(), id) },
		} {
			if got, err := list(); err == nil || !errorsContain(err, c.want, e.path(c.name), fmt.Sprint(id), "shop.orders") {
				t.Errorf("%s: %v, %v", c.name, paths(got), err)
			}
		}
	}
}

// TestSlots holds the rule of Slots to its word. The numbers must never change.
func TestSlots(t *testing.T) {
	field := func(source int, name string, transform iceberg.Transform) iceberg.PartitionField {
		return iceberg.PartitionField{SourceIDs: []int{source}, FieldID: 1000 + source, Name: name, Transform: transform}
	}
	bucket, day, region, void := field(1, "id_bucket", iceberg.BucketTransform{NumBuckets: 512}), field(3, "ts_day", iceberg.DayTransform{}), field(2, "region", iceberg.IdentityTransform{}), field(4, "old", iceberg.VoidTransform{})
	second := field(5, "other_bucket", iceberg.BucketTransform{NumBuckets: 16})
	big := uuid.MustParse("12345678-9abc-def0-1234-56789abcdef0")
	for _, c := range []struct {
		name   string
		fields []iceberg.PartitionField
		values map[int]any
		want   uint16
	}{
		{"unpartitioned", nil, nil, 0},
		{"void", []iceberg.PartitionField{void}, nil, 0},
		{"bucket", []iceberg.PartitionField{bucket}, map[int]any{1001: int32(300)}, 44},
		{"bucket and day", []iceberg.PartitionField{day, bucket}, map[int]any{1001: int32(300), 1003: iceberg.Date(20000)}, 44},
		{"null bucket", []iceberg.PartitionField{bucket}, map[int]any{1001: nil}, 196},
		{"two buckets", []iceberg.PartitionField{second, bucket}, map[int]any{1001: int32(3), 1005: int32(4)}, 114},
		{"two buckets in another order", []iceberg.PartitionField{bucket, region, second}, map[int]any{1001: int32(3), 1005: int32(4), 1002: "eu"}, 114},
		{"region", []iceberg.PartitionField{region}, map[int]any{1002: "eu"}, 43},
		{"region and void", []iceberg.PartitionField{void, region}, map[int]any{1002: "eu"}, 43},
		{"other region", []iceberg.PartitionField{region}, map[int]any{1002: "us"}, 199},
		{"null region", []iceberg.PartitionField{region}, map[int]any{1002: nil}, 227},
		{"int", []iceberg.PartitionField{region}, map[int]any{1002: int32(-7)}, 127},
		{"long", []iceberg.PartitionField{region}, map[int]any{1002: int64(-7)}, 127},
		{"uuid", []iceberg.PartitionField{region}, map[int]any{1002: big}, 125},
		{"fixed", []iceberg.PartitionField{region}, map[int]any{1002: [16]byte(big)}, 125},
		{"day", []iceberg.PartitionField{day}, map[int]any{1003: iceberg.Date(20000)}, 91},
		{"day as int", []iceberg.PartitionField{day}, map[int]any{1003: int32(20000)}, 91},
	} {
		spec := iceberg.NewPartitionSpecID(3, c.fields...)
		got, err := slotOf(&spec, c.values)
		if err != nil || got != c.want {
			t.Errorf("%s: slot %d, want %d; %v", c.name, got, c.want, err)
		}
	}
	spec := iceberg.NewPartitionSpecID(3, region)
	if _, err := slotOf(&spec, map[int]any{1002: struct{}{}}); err == nil || !errorsContain(err, "region", "struct {}") {
		t.Errorf("a value of an unknown type: %v", err)
	}
}

// TestTuples reads partition values of every type back from manifests.
func TestTuples(t *testing.T) {
	w := newWorld(t)
	c := w.open()
	types := []string{"boolean", "int", "long", "float", "double", "decimal(9,2)", "date", "time", "timestamp", "timestamptz", "string", "uuid", "fixed[4]", "binary"}
	create := Create{}
	for i, typ := range types {
		name := fmt.Sprintf("c%d", i)
		create.Schema = append(create.Schema, Column{Name: name, Type: typ})
		create.Partition = append(create.Partition, name)
	}
	tbl := w.table(c, TableOptions{Create: &create})
	e := newEngine(w, c)
	number, err := iceberg.NewLiteral("-12.34").To(iceberg.DecimalTypeOf(9, 2))
	if err != nil {
		t.Fatal(err)
	}
	big := uuid.MustParse("12345678-9abc-def0-1234-56789abcdef0")
	values := []any{true, int32(-1), int64(1 << 40), float32(1.5), 2.5, number.Any(), iceberg.Date(20000), iceberg.Time(5), iceberg.Timestamp(6), iceberg.Timestamp(7), "x/y", big, []byte("abcd"), []byte{0, 255}}
	full, empty := map[int]any{}, map[int]any{}
	wantFull, wantEmpty := map[int]any{}, map[int]any{}
	spec := tbl.Spec()
	for i, v := range values {
		full[spec.Field(i).FieldID], empty[spec.Field(i).FieldID] = v, nil
		wantFull[spec.Field(i).SourceID()], wantEmpty[spec.Field(i).SourceID()] = v, nil
	}
	e.file("full", spec, iceberg.EntryContentData, full, nil)
	e.file("empty", spec, iceberg.EntryContentData, empty, nil)
	e.file("full2", spec, iceberg.EntryContentData, full, nil)
	id := e.commit(table.OpAppend, nil, manifest{add: []string{"full", "empty", "full2"}})
	_, v := w.follow(c)
	list, err := v.Added(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	text := func(m map[int]any) string {
		var out []string
		for _, id := range slices.Sorted(maps.Keys(m)) {
			out = append(out, fmt.Sprintf("%d: %T %v", id, m[id], m[id]))
		}
		return strings.Join(out, "\n")
	}
	for i, want := range []map[int]any{wantFull, wantEmpty, wantFull} {
		if got := text(list[i].Constants); got != text(want) {
			t.Errorf("file %d:\n%s\nwant\n%s", i, got, text(want))
		}
	}
	if list[0].Slot != list[2].Slot || list[0].Tuple != list[2].Tuple || !strings.Contains(list[0].Tuple, "c6=2024-10-04") || !strings.Contains(list[1].Tuple, "c6=null") {
		t.Errorf("tuples %q %d, %q %d, %q %d", list[0].Tuple, list[0].Slot, list[1].Tuple, list[1].Slot, list[2].Tuple, list[2].Slot)
	}
}

// TestSlotsAcrossSpecs: an ingest's buckets keep their slots while the spec grows a day beside them.
func TestSlotsAcrossSpecs(t *testing.T) {
	e, spec := engineTable(t, "2", "bucket(id, 8)")
	e.file("old", spec, iceberg.EntryContentData, map[int]any{1000: int32(5)}, nil)
	first := e.commit(table.OpAppend, nil, manifest{add: []string{"old"}})
	wider := iceberg.NewPartitionSpecID(1, spec.Field(0), iceberg.PartitionField{SourceIDs: []int{3}, FieldID: 1001, Name: "ts_day", Transform: iceberg.DayTransform{}})
	commit(t, e.c, table.NewAddPartitionSpecUpdate(&wider, false), table.NewSetDefaultSpecUpdate(-1))
	e.file("new", wider, iceberg.EntryContentData, map[int]any{1000: int32(5), 1001: iceberg.Date(20000)}, nil)
	e.file("next", wider, iceberg.EntryContentData, map[int]any{1000: int32(6), 1001: iceberg.Date(20001)}, nil)
	second := e.commit(table.OpAppend, nil, manifest{add: []string{"new", "next"}})
	_, v := e.w.follow(e.c)
	a, err := v.Added(t.Context(), first)
	b, err2 := v.Added(t.Context(), second)
	if err := errors.Join(err, err2); err != nil {
		t.Fatal(err)
	}
	if a[0].Slot != 5 || b[0].Slot != 5 || b[1].Slot != 6 || a[0].Spec != 0 || b[0].Spec != 1 || b[0].Tuple != "id_bucket=5/ts_day=2024-10-04" || b[0].Constants != nil {
		t.Errorf("%+v\n%+v", a, b)
	}
}

// TestNameMapping: it is read, and a broken one is told.
func TestNameMapping(t *testing.T) {
	w := newWorld(t)
	c := w.open()
	w.table(c, TableOptions{})
	reader, v := w.follow(c)
	if m, err := v.NameMapping(); m != nil || err != nil {
		t.Errorf("without: %v, %v", m, err)
	}
	commit(t, c, table.NewSetPropertiesUpdate(iceberg.Properties{table.DefaultNameMappingKey: `[{"field-id": 1, "names": ["id", "ident"]}]`}))
	if m, err := mustFollow(t, reader).NameMapping(); err != nil || len(m) != 1 || *m[0].FieldID != 1 || m[0].Names[1] != "ident" {
		t.Errorf("with one: %v, %v", m, err)
	}
	commit(t, c, table.NewSetPropertiesUpdate(iceberg.Properties{table.DefaultNameMappingKey: `[{"field-id"`}))
	if _, err := mustFollow(t, reader).NameMapping(); err == nil || !errorsContain(err, table.DefaultNameMappingKey, "shop.orders") {
		t.Errorf("with a broken one: %v", err)
	}
}
