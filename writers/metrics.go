package writers

import (
	"fmt"

	"github.com/apache/iceberg-go"
)

// File is a complete Parquet file in memory, with what a table's manifest says
// about it. The caller owns Body and may give it back with Free.
type File struct {
	Body    []byte
	Rows    int64
	metrics metrics
}

// Free takes Body back for another file; nobody may read it any more. Without
// it the garbage collector takes it.
func (f *File) Free() {
	if cap(f.Body) <= bodyKeepBytes {
		bodies.put(f.Body)
	}
	f.Body = nil
}

// metrics are what Iceberg keeps of a file's columns, by field id.
//
// Source: Iceberg spec, "Manifests", fields 108 to 128.
type metrics struct {
	layout       *Layout
	sizes        map[int]int64 // bytes in the file
	values       map[int]int64 // entries, with nulls
	nulls, nans  map[int]int64
	lower, upper map[int][]byte
}

// metrics sums up the closed pages. Leaves in lists and maps are counted but
// have no bounds, as a row holds any number of their values.
func (e *Encoder) metrics() metrics {
	n := len(e.columns)
	m := metrics{
		layout: e.layout,
		sizes:  make(map[int]int64, n), values: make(map[int]int64, n), nulls: make(map[int]int64, n), nans: map[int]int64{},
		lower: make(map[int][]byte, n), upper: make(map[int][]byte, n),
	}
	for i := range e.columns {
		c := &e.columns[i]
		id := c.leaf.ID
		m.sizes[id], m.values[id], m.nulls[id] = c.stored, c.entries, c.nulls
		if c.leaf.Kind == Float || c.leaf.Kind == Double {
			m.nans[id] = c.total.nans
		}
		if c.leaf.MaxRep > 0 {
			continue
		}
		lower, upper := c.total.iceberg(c.leaf)
		if lower != nil {
			m.lower[id] = lower
		}
		if upper != nil {
			m.upper[id] = upper
		}
	}
	return m
}

// DataFile returns the file as a manifest describes it, once it lies at
// location. partition holds a value for each field of spec by the field's id,
// in the Go type that the field's result type demands.
func (f *File) DataFile(location string, spec iceberg.PartitionSpec, partition map[int]any) (iceberg.DataFile, error) {
	logical := map[int]string{}
	for _, field := range spec.Fields() {
		if _, ok := partition[field.FieldID]; !ok {
			return nil, fmt.Errorf("describe file %s: partition field %s (%d) has no value", location, field.Name, field.FieldID)
		}
		if source, ok := f.metrics.layout.Schema.FindFieldByID(field.SourceID()); ok {
			if name := avroLogical(field.Transform.ResultType(source.Type)); name != "" {
				logical[field.FieldID] = name
			}
		}
	}
	b, err := iceberg.NewDataFileBuilder(spec, iceberg.EntryContentData, location, iceberg.ParquetFile,
		partition, logical, nil, f.Rows, int64(len(f.Body)))
	if err != nil {
		return nil, fmt.Errorf("describe file %s: %w", location, err)
	}
	m := &f.metrics
	b.ColumnSizes(m.sizes).ValueCounts(m.values).NullValueCounts(m.nulls)
	if len(m.nans) > 0 {
		b.NaNValueCounts(m.nans)
	}
	if len(m.lower) > 0 {
		b.LowerBoundValues(m.lower)
	}
	if len(m.upper) > 0 {
		b.UpperBoundValues(m.upper)
	}
	if f.Rows > 0 {
		b.SplitOffsets([]int64{int64(len(magic))})
	}
	return b.SortOrderID(0).Build(), nil
}

// avroLogical returns the Avro logical type under which a manifest stores
// partition values of a type; "": none.
//
// Source: Iceberg spec, appendix A "Avro".
func avroLogical(t iceberg.Type) string {
	switch t.(type) {
	case iceberg.DateType:
		return "date"
	case iceberg.TimeType:
		return "time-micros"
	case iceberg.TimestampType, iceberg.TimestampTzType:
		return "timestamp-micros"
	case iceberg.DecimalType:
		return "decimal"
	case iceberg.UUIDType:
		return "uuid"
	}
	return ""
}
