package catalog

import (
	"cmp"
	"slices"
	"strings"

	"github.com/apache/iceberg-go"
)

// pathFieldID is the column of a position delete file that names the data file.
//
// Source: Iceberg spec, "Reserved Field IDs".
const pathFieldID = 2147483546

// deleteIndex finds the delete files that apply to a data file.
//
// Source: Iceberg spec, "Scan Planning".
type deleteIndex struct {
	byFile   map[string][]*DeleteFile // by position, of one known file
	byTuple  map[*tuple][]*DeleteFile // by position
	equality map[*tuple][]*DeleteFile
	global   []*DeleteFile // equality deletes of an unpartitioned spec: they apply to every file
}

func newDeleteIndex() *deleteIndex {
	return &deleteIndex{byFile: map[string][]*DeleteFile{}, byTuple: map[*tuple][]*DeleteFile{}, equality: map[*tuple][]*DeleteFile{}}
}

// add takes in the delete file of a manifest entry.
func (x *deleteIndex) add(t *tuple, e iceberg.ManifestEntry) {
	f := e.DataFile()
	d := &DeleteFile{
		Path: f.FilePath(), Format: iceberg.FileFormat(strings.ToUpper(string(f.FileFormat()))), Size: f.FileSizeBytes(), Rows: f.Count(), Sequence: e.SequenceNum(),
		Offset: deref(f.ContentOffset()), Length: deref(f.ContentSizeInBytes()),
	}
	if f.ContentType() == iceberg.EntryContentEqDeletes {
		d.Equality = append([]int{}, f.EqualityFieldIDs()...)
		if t.unpartitioned {
			x.global = append(x.global, d)
		} else {
			x.equality[t] = append(x.equality[t], d)
		}
		return
	}
	low, lowOK := f.LowerBoundValues()[pathFieldID]
	high, highOK := f.UpperBoundValues()[pathFieldID]
	d.low, d.high, d.bounded = string(low), string(high), lowOK && highOK
	one := f.ReferencedDataFile()
	switch {
	case one != nil:
		x.byFile[*one] = append(x.byFile[*one], d)
	case d.bounded && d.low == d.high:
		x.byFile[d.low] = append(x.byFile[d.low], d)
	default:
		x.byTuple[t] = append(x.byTuple[t], d)
	}
}

func (x *deleteIndex) sort() {
	older := func(a, b *DeleteFile) int {
		return cmp.Or(cmp.Compare(a.Sequence, b.Sequence), cmp.Compare(a.Path, b.Path), cmp.Compare(a.Offset, b.Offset))
	}
	for _, lists := range []map[*tuple][]*DeleteFile{x.byTuple, x.equality} {
		for _, l := range lists {
			slices.SortFunc(l, older)
		}
	}
	for _, l := range x.byFile {
		slices.SortFunc(l, older)
	}
	slices.SortFunc(x.global, older)
}

// of returns the deletes that apply to f, oldest first: by position those that
// are not older than the file, by equality those that are younger. A deletion
// vector stands for all position deletes.
func (x *deleteIndex) of(f *DataFile, t *tuple) (out []*DeleteFile) {
	for _, d := range x.byFile[f.Path] {
		if d.Sequence < f.Sequence {
			continue
		}
		if d.Format == iceberg.PuffinFile {
			out = []*DeleteFile{d}
			break
		}
		out = append(out, d)
	}
	if len(out) == 0 || out[0].Format != iceberg.PuffinFile {
		for _, d := range x.byTuple[t] {
			if d.Sequence >= f.Sequence && d.speaksOf(f.Path) {
				out = append(out, d)
			}
		}
	}
	for _, l := range [][]*DeleteFile{x.equality[t], x.global} {
		for _, d := range l {
			if d.Sequence > f.Sequence {
				out = append(out, d)
			}
		}
	}
	return out
}

// speaksOf tells whether a position delete file may name the data file at path.
// Bounds may be cut short: the lower one is then less, the upper one greater.
func (d *DeleteFile) speaksOf(path string) bool {
	return !d.bounded || d.low <= path && path <= d.high
}
