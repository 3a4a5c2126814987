package catalog

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/apache/iceberg-go"
	"github.com/apache/iceberg-go/table"
	"github.com/google/uuid"
	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"
)

// staged is a snapshot that is ready to be committed on top of one head.
type staged struct {
	snapshot  table.Snapshot
	base      *table.Snapshot // nil: the table has none
	ledger    Ledger
	requires  []table.Requirement
	updates   []table.Update
	objects   []object               // to be there before the commit
	manifests []iceberg.ManifestFile // what the new manifest list says
	added     map[string]*carried    // bodies of the small manifests that this snapshot brings
	merge     *merged                // the prepared merge that it takes in
	expired   []table.Snapshot       // the snapshots that it takes out
	horizon   *int64                 // the oldest held snapshot, as seen when they were chosen
	// dropHorizon: nothing is held any more.
	dropHorizon bool
	tally       tally
}

// object is a file of the table's metadata.
type object struct {
	location string
	body     []byte
}

// tally counts what an append adds.
type tally struct{ rows, files, bytes, partitions int64 }

// stage builds the snapshot for a change on top of s. It only reads; nothing is
// stored yet. A bare one expires nothing.
//
// Source: Iceberg spec, "Snapshots", "Manifests", "Manifest Lists", "Commit Conflict Resolution".
func (t *Table) stage(ctx context.Context, s *state, ch change, from Ledger, bare bool) (*staged, error) {
	meta := s.meta
	base := meta.CurrentSnapshot()
	st := &staged{base: base, ledger: ch.move(from, nextSequence(meta)), added: map[string]*carried{}}
	st.snapshot = table.Snapshot{
		SnapshotID:     newSnapshotID(meta),
		TimestampMs:    t.timestamp(meta),
		SequenceNumber: nextSequence(meta),
		SchemaID:       &meta.CurrentSchema().ID,
	}
	if base != nil {
		st.snapshot.ParentSnapshotID = &base.SnapshotID
	}
	list, err := t.manifestsOf(ctx, s, base)
	if err != nil {
		return nil, err
	}
	fresh, err := t.writeManifests(s, st, ch.files, ch.schema)
	if err != nil {
		return nil, err
	}
	t.mergeLeftBehind(ctx, s, list)
	list = t.takeMerge(st, list)
	if err := t.writeList(s, st, append(fresh, list...)); err != nil {
		return nil, err
	}
	said := st.ledger.summary(t.keys, ch.id)
	if ch.rewind {
		said[t.keys.rewound] = strconv.FormatInt(from.Seq, 10)
	}
	st.snapshot.Summary = summary(base, st.tally, said)
	if !bare {
		t.expire(st, meta)
	}
	st.assemble(meta, iceberg.Properties{t.keys.ledger: st.ledger.encode(true)})
	return st, nil
}

// assemble makes the commit's requirements and updates: the table is still this
// one, main is still at the base, and then all changes at once.
func (st *staged) assemble(meta table.Metadata, properties iceberg.Properties) {
	var head *int64
	if st.base != nil {
		head = &st.base.SnapshotID
	}
	st.requires = []table.Requirement{table.AssertTableUUID(meta.TableUUID()), table.AssertRefSnapshotID(table.MainBranch, head)}
	var refAge, snapshotAge int64
	var keep int
	for name, ref := range meta.Refs() {
		if name != table.MainBranch {
			continue
		}
		// A set-snapshot-ref without them would drop the branch's own retention rules.
		refAge, snapshotAge, keep = deref(ref.MaxRefAgeMs), deref(ref.MaxSnapshotAgeMs), deref(ref.MinSnapshotsToKeep)
	}
	st.updates = []table.Update{
		table.NewAddSnapshotUpdate(&st.snapshot),
		table.NewSetSnapshotRefUpdate(table.MainBranch, st.snapshot.SnapshotID, table.BranchRef, refAge, snapshotAge, keep),
	}
	if len(properties) > 0 {
		st.updates = append(st.updates, table.NewSetPropertiesUpdate(properties))
	}
	if len(st.expired) > 0 {
		ids := make([]int64, len(st.expired))
		for i, x := range st.expired {
			ids[i] = x.SnapshotID
		}
		st.requires = append(st.requires, table.AssertRefSnapshotID(horizonTag, st.horizon))
		if st.dropHorizon {
			st.updates = append(st.updates, table.NewRemoveSnapshotRefUpdate(horizonTag))
		}
		st.updates = append(st.updates, table.NewRemoveSnapshotsUpdate(ids, false))
	}
}

// writeManifests encodes one manifest for each partition spec among files.
func (t *Table) writeManifests(s *state, st *staged, files []iceberg.DataFile, schema int) ([]iceberg.ManifestFile, error) {
	bySpec := map[int32][]iceberg.DataFile{}
	for _, f := range files {
		bySpec[f.SpecID()] = append(bySpec[f.SpecID()], f)
	}
	ids := make([]int32, 0, len(bySpec))
	for id := range bySpec {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	var out []iceberg.ManifestFile
	for _, id := range ids {
		spec := s.meta.PartitionSpecByID(int(id))
		if spec == nil {
			return nil, &unfitError{fmt.Errorf("the files were written under partition spec %d, which table %s doesn't have", id, t.name)}
		}
		m, err := t.writeManifest(s, st, *spec, schemaFor(s.meta, *spec, schema), bySpec[id])
		if err != nil {
			return nil, &unfitError{fmt.Errorf("encode manifest of %d files: %w", len(bySpec[id]), err)}
		}
		out = append(out, m)
	}
	return out, nil
}

// unfitError is a failure that trying again doesn't change.
type unfitError struct{ inner error }

func (e *unfitError) Error() string { return e.inner.Error() }
func (e *unfitError) Unwrap() error { return e.inner }

// writeManifest encodes the manifest of files that this snapshot adds under one spec.
func (t *Table) writeManifest(s *state, st *staged, spec iceberg.PartitionSpec, schema *iceberg.Schema, files []iceberg.DataFile) (iceberg.ManifestFile, error) {
	var body bytes.Buffer
	w, err := iceberg.NewManifestWriter(s.meta.Version(), &body, avroSpec(spec), schema, st.snapshot.SnapshotID)
	if err != nil {
		return nil, err
	}
	tuples := map[string]struct{}{}
	var key []byte
	for _, f := range files {
		entry := iceberg.NewManifestEntry(iceberg.EntryStatusADDED, &st.snapshot.SnapshotID, nil, nil, f)
		if err := w.Add(entry); err != nil {
			return nil, fmt.Errorf("%s: %w", f.FilePath(), err)
		}
		st.tally.files++
		st.tally.rows += f.Count()
		st.tally.bytes += f.FileSizeBytes()
		key = tupleKey(key[:0], spec, f.Partition())
		tuples[string(key)] = struct{}{}
	}
	st.tally.partitions += int64(len(tuples))
	if err := w.Close(); err != nil {
		return nil, err
	}
	location := metadataFolder(s.meta) + "/" + manifestName(0)
	m, err := w.ToManifestFile(location, int64(body.Len()))
	if err != nil {
		return nil, err
	}
	st.objects = append(st.objects, object{location, body.Bytes()})
	st.added[location] = &carried{body: body.Bytes()}
	return m, nil
}

// avroSpec renames partition fields whose names Avro doesn't allow ("a.b_bucket"),
// as Java does. Readers go by the field ids.
//
// Source: Avro 1.12 specification, "Names"; Java AvroSchemaUtil.sanitize.
func avroSpec(spec iceberg.PartitionSpec) iceberg.PartitionSpec {
	fields := make([]iceberg.PartitionField, spec.NumFields())
	renamed := false
	for i := range fields {
		fields[i] = spec.Field(i)
		if name := avroName(fields[i].Name); name != fields[i].Name {
			fields[i].Name, renamed = name, true
		}
	}
	if !renamed {
		return spec
	}
	return iceberg.NewPartitionSpecID(spec.ID(), fields...)
}

func avroName(name string) string {
	var b strings.Builder
	for i, c := range name {
		switch {
		case c == '_' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || i > 0 && c >= '0' && c <= '9':
			b.WriteRune(c)
		case c >= '0' && c <= '9':
			b.WriteByte('_')
			b.WriteRune(c)
		default:
			fmt.Fprintf(&b, "_x%X", c)
		}
	}
	return b.String()
}

// tupleKey appends the partition tuple's text to key.
func tupleKey(key []byte, spec iceberg.PartitionSpec, tuple map[int]any) []byte {
	for i := range spec.NumFields() {
		key = fmt.Appendf(key, "%v\x00", tuple[spec.Field(i).FieldID])
	}
	return key
}

// schemaFor picks the schema to write a spec's manifest with: the current one,
// or, when a source column of the spec is gone from it, the one that the files
// were written under, or the latest that has them all.
func schemaFor(meta table.Metadata, spec iceberg.PartitionSpec, written int) *iceberg.Schema {
	has := func(schema *iceberg.Schema) bool {
		for i := range spec.NumFields() {
			if _, ok := schema.FindFieldByID(spec.Field(i).SourceID()); !ok {
				return false
			}
		}
		return true
	}
	if current := meta.CurrentSchema(); has(current) {
		return current
	}
	var latest *iceberg.Schema
	for _, schema := range meta.Schemas() {
		if !has(schema) {
			continue
		}
		if schema.ID == written {
			return schema
		}
		if latest == nil || schema.ID > latest.ID {
			latest = schema
		}
	}
	if latest == nil {
		return meta.CurrentSchema()
	}
	return latest
}

// writeList encodes the manifest list and, on v3, hands out row ids.
func (t *Table) writeList(s *state, st *staged, manifests []iceberg.ManifestFile) error {
	var body bytes.Buffer
	id, parent, sequence := st.snapshot.SnapshotID, st.snapshot.ParentSnapshotID, st.snapshot.SequenceNumber
	var w *iceberg.ManifestListWriter
	var err error
	first := s.meta.NextRowID()
	switch s.meta.Version() {
	case 1:
		w, err = iceberg.NewManifestListWriterV1(&body, id, parent)
	case 2:
		w, err = iceberg.NewManifestListWriterV2(&body, id, sequence, parent)
	case 3:
		w, err = iceberg.NewManifestListWriterV3(&body, id, sequence, first, parent)
	default:
		return &unfitError{fmt.Errorf("table %s has format version %d: this program writes 1 to 3", t.name, s.meta.Version())}
	}
	if err != nil {
		return fmt.Errorf("encode manifest list: %w", err)
	}
	whole := make([]iceberg.ManifestFile, len(manifests))
	for i, m := range manifests {
		whole[i] = withEmptyBounds(m)
	}
	if err := w.AddManifests(whole); err != nil {
		return fmt.Errorf("encode manifest list: %w", err)
	}
	if err := w.Close(); err != nil {
		return fmt.Errorf("encode manifest list: %w", err)
	}
	if s.meta.Version() == 3 {
		added := *w.NextRowID() - first
		st.snapshot.FirstRowID, st.snapshot.AddedRows = &first, &added
	}
	st.snapshot.ManifestList = metadataFolder(s.meta) + "/" + listName(id)
	st.objects = append(st.objects, object{st.snapshot.ManifestList, body.Bytes()})
	// Read back what the list says: the writer filled in sequence numbers and row ids.
	st.manifests, err = iceberg.ReadManifestList(bytes.NewReader(body.Bytes()))
	if err != nil {
		return fmt.Errorf("read manifest list back: %w", err)
	}
	if len(st.manifests) != len(manifests) {
		panic(fmt.Sprintf("manifest list of %d manifests reads back as %d", len(manifests), len(st.manifests)))
	}
	return nil
}

// put stores the snapshot's objects, all at once.
func (t *Table) put(ctx context.Context, s *state, st *staged) error {
	g, ctx := errgroup.WithContext(ctx)
	for _, o := range st.objects {
		g.Go(func() error {
			if err := ctx.Err(); err != nil {
				return err
			}
			if err := s.write(ctx, o); err != nil {
				return fmt.Errorf("write %s: %w", o.location, err)
			}
			return nil
		})
	}
	return g.Wait()
}

// summary is the snapshot's, with the totals carried on from the parent's as Java does:
// a total that the parent doesn't have isn't made up.
//
// Source: Iceberg spec, appendix F "Optional Snapshot Summary Fields"; Java SnapshotProducer.updateTotal.
func summary(parent *table.Snapshot, n tally, own iceberg.Properties) *table.Summary {
	p := own
	positive := func(key string, v int64) {
		if v > 0 {
			p[key] = strconv.FormatInt(v, 10)
		}
	}
	positive("added-data-files", n.files)
	positive("added-records", n.rows)
	positive("added-files-size", n.bytes)
	p["changed-partition-count"] = strconv.FormatInt(n.partitions, 10)
	total := func(key string, v int64) {
		if parent != nil {
			if parent.Summary == nil {
				return
			}
			before, err := strconv.ParseInt(parent.Summary.Properties[key], 10, 64)
			if err != nil {
				return
			}
			v += before
		}
		p[key] = strconv.FormatInt(v, 10)
	}
	total("total-data-files", n.files)
	total("total-records", n.rows)
	total("total-files-size", n.bytes)
	total("total-delete-files", 0)
	total("total-position-deletes", 0)
	total("total-equality-deletes", 0)
	return &table.Summary{Operation: table.OpAppend, Properties: p}
}

// clockSkewMax is how far the table's last update may lie ahead of our clock before it is told.
const clockSkewMax = time.Minute

// timestamp is now, but later than the table's last update, whatever the clocks
// say: catalogs refuse a snapshot from before the last.
func (t *Table) timestamp(meta table.Metadata) int64 {
	now, last := time.Now().UnixMilli(), meta.LastUpdatedMillis()
	if ahead := time.Duration(last-now) * time.Millisecond; ahead > clockSkewMax && !t.skewTold {
		t.skewTold = true
		t.log.Warn("the table was last updated in the future: check the clock here, and those of other writers", zap.Duration("ahead", ahead))
	}
	return max(last+1, now)
}

// newSnapshotID draws a positive id that the table doesn't have.
func newSnapshotID(meta table.Metadata) int64 {
	for {
		id := rand.Int64()
		if id > 0 && meta.SnapshotByID(id) == nil {
			return id
		}
	}
}

func nextSequence(meta table.Metadata) int64 {
	if meta.Version() < 2 {
		return 0
	}
	return meta.LastSequenceNumber() + 1
}

// metadataFolder is where manifests go, without a slash at the end. Locations
// are joined as they are, not as URLs: other readers take the bytes literally.
func metadataFolder(meta table.Metadata) string {
	if p := meta.Properties()[table.WriteMetadataPathKey]; p != "" {
		return strings.TrimRight(p, "/")
	}
	return strings.TrimRight(meta.Location(), "/") + "/metadata"
}

// Files of this program have its name in theirs; only those are ever deleted.
// A manifest's level says how often its entries were merged.
const (
	manifestPrefix = "router-m"
	listMiddle     = "-router-"
)

func manifestName(level int) string {
	return manifestPrefix + strconv.Itoa(level) + "-" + uuid.NewString() + ".avro"
}

func listName(snapshot int64) string {
	return "snap-" + strconv.FormatInt(snapshot, 10) + listMiddle + uuid.NewString() + ".avro"
}

// levelOf returns a manifest's level, or false when its name isn't one of ours.
func levelOf(location string) (int, bool) {
	name, ok := strings.CutPrefix(baseName(location), manifestPrefix)
	if !ok || !strings.HasSuffix(name, ".avro") {
		return 0, false
	}
	digits, _, ok := strings.Cut(name, "-")
	level, err := strconv.Atoi(digits)
	return level, ok && err == nil && level >= 0
}

// isOurList tells whether a manifest list has a name that this program gives.
func isOurList(location string) bool {
	name := baseName(location)
	return strings.HasPrefix(name, "snap-") && strings.Contains(name, listMiddle) && strings.HasSuffix(name, ".avro")
}

func baseName(location string) string { return location[strings.LastIndexByte(location, '/')+1:] }

func deref[T cmp.Ordered](p *T) (v T) {
	if p != nil {
		v = *p
	}
	return v
}
