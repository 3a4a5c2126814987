//go:build synctests

package sim

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/iceberg-go"
)

// facts are what a data file holds, as a reader that is not the product's finds
// it.
type facts struct {
	size    int64
	rows    []row
	columns map[int][]any // values by field id, nil for null
	origins string        // what its footer says of where its rows come from
}

// fieldID is the Iceberg id of a column, 0 if the file doesn't tell.
func fieldID(f arrow.Field) int {
	text, _ := f.Metadata.GetValue("PARQUET:field_id")
	id, _ := strconv.Atoi(text)
	return id
}

// valueAt is a value of one of the types that the table has.
func valueAt(values arrow.Array, i int) any {
	if values.IsNull(i) {
		return nil
	}
	switch v := values.(type) {
	case *array.Int64:
		return v.Value(i)
	case *array.Int32:
		return v.Value(i)
	case interface{ Value(int) string }:
		return strings.Clone(v.Value(i))
	}
	panic(fmt.Sprintf("%T is not read here", values))
}

// proveFile compares a data file with its entry and with what was produced.
// REQUIRES: a.mu is held.
func (a *auditor) proveFile(path string, f *facts) {
	k, ok := a.known[path]
	if !ok {
		a.report("data file %s: no manifest has added it", path)
		return
	}
	if k.file.Count() != int64(len(f.rows)) || k.file.FileSizeBytes() != f.size {
		a.report("data file %s: it has %d rows and %d bytes, its manifest says %d and %d", path, len(f.rows), f.size, k.file.Count(), k.file.FileSizeBytes())
	}
	a.provePartition(path, k.file, f)
	if name := path[strings.LastIndexByte(path, '/')+1:]; strings.HasPrefix(name, "router-") {
		if !strings.Contains(name, "-again") { // a copy is entered without statistics
			a.proveStatistics(path, k.file, f)
		}
		a.proveOrigins(path, f)
		a.proveTexts(path, f)
	}
}

// proveTexts compares what the rows say with what was produced. REQUIRES: a.mu is held.
func (a *auditor) proveTexts(path string, f *facts) {
	texts := f.columns[a.textID()]
	a.truth.mu.Lock()
	defer a.truth.mu.Unlock()
	for n, r := range f.rows {
		rec := a.truth.records[r.id]
		if rec == nil {
			continue // that is told elsewhere
		}
		if is, _ := texts[n].(string); rec.text == nil && texts[n] != nil || rec.text != nil && (texts[n] == nil || is != *rec.text) {
			a.report("data file %s: the text of record %d of %v is %q", path, r.id, r.origin, texts[n])
			return
		}
	}
}

// textID is the id of the column text. REQUIRES: a.mu is held.
func (a *auditor) textID() int {
	f, _ := a.meta.CurrentSchema().FindFieldByName("text")
	return f.ID
}

// provePartition sees that each row belongs where the file says.
func (a *auditor) provePartition(path string, file iceberg.DataFile, f *facts) {
	spec := a.meta.PartitionSpecByID(int(file.SpecID()))
	if spec == nil {
		a.report("data file %s: the table has no partition spec %d", path, file.SpecID())
		return
	}
	for i := range spec.NumFields() {
		field := spec.Field(i)
		said := file.Partition()[field.FieldID]
		checked := map[any]bool{}
		for n := range f.rows {
			var value any
			if column := f.columns[field.SourceID()]; column != nil {
				value = column[n]
			}
			if checked[value] {
				continue
			}
			checked[value] = true
			if is := transformed(field.Transform, value); is != said {
				a.report("data file %s: %s is %v in its manifest, and %v in row %d, of %v", path, field.Name, said, is, n, f.rows[n].origin)
				return
			}
		}
	}
}

// transformed is a partition value.
func transformed(t iceberg.Transform, value any) any {
	var in iceberg.Optional[iceberg.Literal]
	switch v := value.(type) {
	case int64:
		in = iceberg.Optional[iceberg.Literal]{Val: iceberg.NewLiteral(v), Valid: true}
	case int32:
		in = iceberg.Optional[iceberg.Literal]{Val: iceberg.NewLiteral(v), Valid: true}
	case string:
		in = iceberg.Optional[iceberg.Literal]{Val: iceberg.NewLiteral(v), Valid: true}
	}
	out := t.Apply(in)
	if !out.Valid {
		return nil
	}
	return out.Val.Any()
}

// proveStatistics sees that what readers prune by is true. REQUIRES: a.mu is held.
func (a *auditor) proveStatistics(path string, file iceberg.DataFile, f *facts) {
	for id, column := range f.columns {
		nulls := int64(0)
		var low, high any
		for _, v := range column {
			switch {
			case v == nil:
				nulls++
			case low == nil:
				low, high = v, v
			case compare(v, low) < 0:
				low = v
			case compare(v, high) > 0:
				high = v
			}
		}
		if got, there := file.ValueCounts()[id]; !there || got != int64(len(column)) {
			a.report("data file %s: column %d has %d values, its manifest says %d (there: %t)", path, id, len(column), got, there)
		}
		if got, there := file.NullValueCounts()[id]; !there || got != nulls {
			a.report("data file %s: column %d has %d nulls, its manifest says %d (there: %t)", path, id, nulls, got, there)
		}
		if low == nil {
			continue
		}
		lower, upper, err := bounds(file, id, low)
		if err != nil {
			a.report("data file %s: column %d: %v", path, id, err)
			continue
		}
		if compare(lower, low) > 0 || compare(upper, high) < 0 {
			a.report("data file %s: column %d reaches from %v to %v, its manifest says %v to %v", path, id, low, high, lower, upper)
		}
		if _, text := low.(string); !text && (lower != low || upper != high) {
			a.report("data file %s: column %d reaches from %v to %v, its manifest says as much as %v to %v", path, id, low, high, lower, upper)
		}
	}
}

// bounds are the bounds of a column as the manifest has them; like has its type.
func bounds(file iceberg.DataFile, id int, like any) (lower, upper any, err error) {
	var typ iceberg.Type = iceberg.PrimitiveTypes.String
	switch like.(type) {
	case int64:
		typ = iceberg.PrimitiveTypes.Int64
	case int32:
		typ = iceberg.PrimitiveTypes.Int32
	}
	l, err := iceberg.LiteralFromBytes(typ, file.LowerBoundValues()[id])
	if err != nil {
		return nil, nil, fmt.Errorf("lower bound: %w", err)
	}
	u, err := iceberg.LiteralFromBytes(typ, file.UpperBoundValues()[id])
	if err != nil {
		return nil, nil, fmt.Errorf("upper bound: %w", err)
	}
	return l.Any(), u.Any(), nil
}

// proveOrigins sees that the footer says just which records the rows are, in
// the order of their partitions. REQUIRES: a.mu is held.
func (a *auditor) proveOrigins(path string, f *facts) {
	var said struct {
		Ingest, Cut string
		Topics      map[string]struct {
			ID      string
			Offsets [][4]int64
		}
	}
	if err := json.Unmarshal([]byte(f.origins), &said); err != nil || said.Ingest != a.ingest || said.Cut == "" {
		a.report("data file %s: router.origins is %q: %v", path, f.origins, err)
		return
	}
	is := map[origin][3]int64{}
	for _, r := range f.rows {
		at := origin{r.origin.topic, r.origin.partition, 0}
		s, there := is[at]
		switch {
		case !there:
			s = [3]int64{r.origin.offset, r.origin.offset, 0}
		case r.origin.offset <= s[1]:
			a.report("data file %s: the row of %v stands behind that of offset %d", path, r.origin, s[1])
		}
		s[1], s[2] = r.origin.offset, s[2]+1
		is[at] = s
	}
	told := map[origin][3]int64{}
	for topic, t := range said.Topics {
		for _, o := range t.Offsets {
			told[origin{topic, int32(o[0]), 0}] = [3]int64{o[1], o[2], o[3]}
		}
	}
	if fmt.Sprint(is) != fmt.Sprint(told) {
		a.report("data file %s: its rows are of %v, its footer says %v (first, last, rows)", path, is, told)
	}
	a.truth.mu.Lock()
	defer a.truth.mu.Unlock()
	for _, r := range f.rows {
		if rec := a.truth.records[r.id]; rec != nil && said.Topics[rec.origin.topic].ID != rec.log {
			a.report("data file %s: its footer says that topic %s has the id %q, it has %q", path, rec.origin.topic, said.Topics[rec.origin.topic].ID, rec.log)
			return
		}
	}
}
