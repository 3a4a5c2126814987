package catalog

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/big"

	"github.com/apache/iceberg-go"
	"go.uber.org/zap"
)

// Every commit brings a manifest; without care a manifest list grows with the
// age of the table, and each commit with it. So manifests are merged in tiers:
// when mergeFan of one level have gathered, they become one of the next level.
// An entry is copied once a level and no more, and a list holds less than
// 2·mergeFan manifests a level, whatever the number of commits.
//
// The merge is prepared beside a commit (it depends only on manifests, which
// never change) and taken in by the next one, so that no append waits for it.
const (
	// mergeFan is how many manifests become one.
	mergeFan = 8
	// mergeBytesMax is the size beyond which a manifest is left alone: eight of
	// them make the 8 MiB at which Iceberg's own libraries stop merging too.
	mergeBytesMax = 1 << 20
)

// merged is a merge of manifests that is stored and waits for a commit to take it in.
type merged struct {
	inputs []iceberg.ManifestFile
	object object
	level  int
	rows   int64
	files  int32
	fields []iceberg.FieldSummary
	sent   bool // named by a commit that was sent: from then on it is never deleted here
}

// planMerge picks the manifests to merge next: of one partition spec and
// level, data only, nothing deleted in them, ours, and not large. The lowest
// level goes first.
func planMerge(manifests []iceberg.ManifestFile, version int) (inputs []iceberg.ManifestFile, level int) {
	type tier struct {
		spec  int32
		level int
	}
	tiers := map[tier][]iceberg.ManifestFile{}
	best := tier{level: math.MaxInt}
	for _, m := range manifests {
		l, ours := levelOf(m.FilePath())
		if !ours || m.ManifestContent() != iceberg.ManifestContentData || m.DeletedDataFiles() != 0 || m.Length() > mergeBytesMax ||
			len(m.KeyMetadata()) > 0 || m.Version() != version || version < 2 {
			continue
		}
		k := tier{m.PartitionSpecID(), l}
		tiers[k] = append(tiers[k], m)
		if len(tiers[k]) >= mergeFan && (l < best.level || l == best.level && k.spec < best.spec) {
			best = k
		}
	}
	if best.level == math.MaxInt {
		return nil, 0
	}
	return tiers[best], best.level
}

// prepareMerge merges and stores, off the commit's path.
func (t *Table) prepareMerge(ctx context.Context, s *state, inputs []iceberg.ManifestFile, level int, bodies map[string]*carried) (*merged, error) {
	parts := make([]splicePart, len(inputs))
	m := &merged{inputs: inputs, level: level + 1}
	for i, in := range inputs {
		body := bodies[in.FilePath()]
		if body == nil {
			read, err := s.read(ctx, in.FilePath())
			if err != nil {
				return nil, fmt.Errorf("read manifest %s: %w", in.FilePath(), err)
			}
			body = &carried{body: read}
		}
		parts[i] = splicePart{body: body.body, snapshot: in.SnapshotID(), sequence: in.SequenceNum(), firstRow: in.FirstRowID()}
		m.files += in.AddedDataFiles() + in.ExistingDataFiles()
		m.rows += in.AddedRows() + in.ExistingRows()
	}
	spec := s.meta.PartitionSpecByID(int(inputs[0].PartitionSpecID()))
	if spec == nil {
		return nil, fmt.Errorf("partition spec %d is not in the table", inputs[0].PartitionSpecID())
	}
	var err error
	if m.fields, err = mergeSummaries(inputs, spec.PartitionType(schemaFor(s.meta, *spec, -1))); err != nil {
		return nil, err
	}
	body, entries, err := splice(parts)
	if err != nil {
		return nil, err
	}
	if entries != int(m.files) {
		return nil, fmt.Errorf("%d manifests hold %d entries, their list says %d", len(inputs), entries, m.files)
	}
	m.object = object{metadataFolder(s.meta) + "/" + manifestName(m.level), body}
	if err := s.write(ctx, m.object); err != nil {
		return nil, fmt.Errorf("write %s: %w", m.object.location, err)
	}
	return m, nil
}

// leftBehindMax bounds how many manifests the first commit of a process merges.
const leftBehindMax = 8 * mergeFan

// mergeLeftBehind merges before the first commit of a process what earlier ones
// left behind: one that commits once, as --once does, never lives to take in a
// merge that it prepared beside a commit, and the list would grow for ever.
func (t *Table) mergeLeftBehind(ctx context.Context, s *state, list []iceberg.ManifestFile) {
	if t.warm || t.ready != nil {
		return
	}
	inputs, level := planMerge(list, s.meta.Version())
	if len(inputs) < 2*mergeFan {
		return
	}
	m, err := t.prepareMerge(ctx, s, inputs[:min(len(inputs), leftBehindMax)], level, nil)
	if err != nil {
		t.log.Warn("merge manifests that were left behind", zap.Int("manifests", len(inputs)), zap.Error(t.catalog.scrub.error(err)))
		return
	}
	t.ready = m
}

// takeMerge puts the prepared merge in the place of its inputs, if they all are in the list.
func (t *Table) takeMerge(st *staged, list []iceberg.ManifestFile) []iceberg.ManifestFile {
	m := t.ready
	if m == nil {
		return list
	}
	gone := map[string]bool{}
	for _, in := range m.inputs {
		gone[in.FilePath()] = true
	}
	rest := make([]iceberg.ManifestFile, 0, len(list))
	minSequence := int64(math.MaxInt64)
	for _, l := range list {
		if gone[l.FilePath()] {
			minSequence = min(minSequence, l.MinSequenceNum())
			continue
		}
		rest = append(rest, l)
	}
	if len(list)-len(rest) != len(m.inputs) {
		// Somebody else rewrote them. Nothing ever named ours, so it can go.
		if !m.sent {
			t.waste.add(m.object.location)
		}
		t.ready = nil
		return list
	}
	one := iceberg.NewManifestFile(m.inputs[0].Version(), m.object.location, int64(len(m.object.body)), m.inputs[0].PartitionSpecID(), st.snapshot.SnapshotID).
		Content(iceberg.ManifestContentData).SequenceNum(-1, minSequence).
		ExistingFiles(m.files).ExistingRows(m.rows).Partitions(m.fields).Build()
	st.merge = m
	st.added[m.object.location] = &carried{body: m.object.body}
	return append([]iceberg.ManifestFile{one}, rest...)
}

// upkeep is what a commit does beside its own work.
type upkeep struct {
	state   *state
	inputs  []iceberg.ManifestFile
	level   int
	bodies  map[string]*carried
	garbage []string

	merged *merged
	kept   []string // garbage that could not be removed
}

// planUpkeep picks what to do, from what the last commit left behind.
func (t *Table) planUpkeep() *upkeep {
	u := &upkeep{state: t.view.Load(), garbage: t.waste.take(), bodies: t.head.bodies}
	if t.ready == nil {
		u.inputs, u.level = planMerge(t.head.manifests, u.state.meta.Version())
	}
	return u
}

// run does it. Nothing here matters to the commit: what fails is tried again later.
func (u *upkeep) run(ctx context.Context, t *Table) {
	if len(u.inputs) > 0 {
		var err error
		if u.merged, err = t.prepareMerge(ctx, u.state, u.inputs, u.level, u.bodies); err != nil {
			t.log.Warn("merge manifests", zap.Int("manifests", len(u.inputs)), zap.Error(t.catalog.scrub.error(err)))
		}
	}
	for _, location := range u.garbage {
		store, err := u.state.in(ctx, location)
		if err == nil {
			err = store.Remove(location)
		}
		if err != nil && !isNotExist(err) {
			t.log.Debug("remove old metadata", zap.String("location", location), zap.Error(t.catalog.scrub.error(err)))
			u.kept = append(u.kept, location)
		}
	}
}

// finish takes note of what was done.
func (u *upkeep) finish(t *Table) {
	t.waste.giveBack(u.kept)
	if u.merged != nil {
		t.ready = u.merged
	}
}

// mergeSummaries joins the partition summaries of manifests.
func mergeSummaries(inputs []iceberg.ManifestFile, tuple *iceberg.StructType) ([]iceberg.FieldSummary, error) {
	out := make([]iceberg.FieldSummary, len(tuple.FieldList))
	for i := range out {
		never := false
		out[i].ContainsNaN = &never
	}
	for _, m := range inputs {
		fields := m.Partitions()
		if len(fields) != len(out) {
			return nil, fmt.Errorf("%s has %d partition summaries, its spec %d fields", m.FilePath(), len(fields), len(out))
		}
		for i, f := range fields {
			o, typ := &out[i], tuple.FieldList[i].Type
			o.ContainsNull = o.ContainsNull || f.ContainsNull
			if f.ContainsNaN == nil {
				o.ContainsNaN = nil // not known in one, not known in all
			} else if o.ContainsNaN != nil {
				nan := *o.ContainsNaN || *f.ContainsNaN
				o.ContainsNaN = &nan
			}
			if f.LowerBound != nil && f.UpperBound != nil {
				if err := widen(o, typ, *f.LowerBound, *f.UpperBound); err != nil {
					return nil, err
				}
			}
		}
	}
	return out, nil
}

// widen makes a summary's bounds include low and high.
func widen(o *iceberg.FieldSummary, typ iceberg.Type, low, high []byte) error {
	if o.LowerBound == nil {
		o.LowerBound, o.UpperBound = &low, &high
		return nil
	}
	below, err := compareBounds(typ, low, *o.LowerBound)
	if err != nil {
		return err
	}
	above, err := compareBounds(typ, high, *o.UpperBound)
	if err != nil {
		return err
	}
	if below < 0 {
		o.LowerBound = &low
	}
	if above > 0 {
		o.UpperBound = &high
	}
	return nil
}

var errBound = errors.New("a partition bound has the wrong length")

// compareBounds compares two values in Iceberg's single-value serialization.
//
// Source: Iceberg spec, appendix D "Single-value serialization".
func compareBounds(typ iceberg.Type, a, b []byte) (int, error) {
	switch typ.(type) {
	case iceberg.StringType, iceberg.BinaryType, iceberg.FixedType, iceberg.UUIDType, iceberg.BooleanType:
		return bytes.Compare(a, b), nil
	case iceberg.DecimalType:
		return signed(a).Cmp(signed(b)), nil
	}
	width := 8
	switch typ.(type) {
	case iceberg.Int32Type, iceberg.DateType, iceberg.Float32Type:
		width = 4
	case iceberg.Int64Type, iceberg.Float64Type, iceberg.TimeType, iceberg.TimestampType, iceberg.TimestampTzType, iceberg.TimestampNsType, iceberg.TimestampTzNsType:
	default:
		return 0, fmt.Errorf("partition values of type %s are not known here", typ)
	}
	if len(a) != width || len(b) != width {
		return 0, errBound
	}
	switch typ.(type) {
	case iceberg.Float32Type:
		return compareFloats(float64(math.Float32frombits(binary.LittleEndian.Uint32(a))), float64(math.Float32frombits(binary.LittleEndian.Uint32(b)))), nil
	case iceberg.Float64Type:
		return compareFloats(math.Float64frombits(binary.LittleEndian.Uint64(a)), math.Float64frombits(binary.LittleEndian.Uint64(b))), nil
	}
	if width == 4 {
		return cmp.Compare(int64(int32(binary.LittleEndian.Uint32(a))), int64(int32(binary.LittleEndian.Uint32(b)))), nil
	}
	return cmp.Compare(int64(binary.LittleEndian.Uint64(a)), int64(binary.LittleEndian.Uint64(b))), nil
}

// compareFloats puts -0 before 0, so that a bound covers both.
func compareFloats(a, b float64) int {
	switch {
	case a < b, a == b && math.Signbit(a) && !math.Signbit(b):
		return -1
	case a > b, a == b && !math.Signbit(a) && math.Signbit(b):
		return 1
	}
	return 0
}

// signed reads a big-endian two's complement number.
func signed(b []byte) *big.Int {
	v := new(big.Int).SetBytes(b)
	if len(b) > 0 && b[0]&0x80 != 0 {
		v.Sub(v, new(big.Int).Lsh(big.NewInt(1), uint(8*len(b))))
	}
	return v
}
