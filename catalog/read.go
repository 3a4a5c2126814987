package catalog

import (
	"context"
	"errors"
	"fmt"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	icebergio "github.com/apache/iceberg-go/io"
	"github.com/apache/iceberg-go/table"
)

// Read visits all rows of the table as it is now, in no particular order: how
// many and, in the order asked for, the named columns, which must be of the
// types int, long or string. Batches come one at a time. An error of visit ends
// the reading and is returned. Memory: some batches of readRowsMax rows.
//
// The Iceberg library plans and Arrow's Parquet reader reads: nothing is shared
// with the code that writes data files, so what is seen here is a second
// opinion on what was written.
func (t *Table) Read(ctx context.Context, columns []string, visit func(rows int, columns []Values) error) error {
	s, err := t.reload(ctx)
	if err != nil {
		return t.catalog.scrub.error(fmt.Errorf("read %s: %w", t.name, err))
	}
	t.view.Store(s)
	open := func(ctx context.Context) (icebergio.IO, error) { return &reach{ctx, s}, nil }
	if err := readRows(ctx, table.New(t.ident, s.meta, s.location, open, nil), columns, visit); err != nil {
		return t.catalog.scrub.error(fmt.Errorf("read %s: %w", t.name, err))
	}
	return nil
}

// Location returns the table's folder.
func (t *Table) Location() string { return t.view.Load().meta.Location() }

// MetadataLocation returns the metadata file of the last load. It is the table's
// present one only while nobody commits.
func (t *Table) MetadataLocation() string { return t.view.Load().location }

const (
	readRowsMax = 4096 // rows a batch: a wide batch of them fits the processor's cache
	readFiles   = 2    // data files read at a time
)

// readRows is Read of the current snapshot of t.
func readRows(ctx context.Context, t *table.Table, columns []string, visit func(rows int, columns []Values) error) error {
	ctx, cancel := context.WithCancel(ctx) // ends the readers when visit has seen enough
	defer cancel()
	scan := t.Scan(table.WithSelectedFields(columns...), table.WithArrowBatchSize(readRowsMax), table.WithMaxConcurrency(readFiles))
	_, batches, err := scan.ToArrowRecords(ctx)
	if err != nil {
		return fmt.Errorf("plan scan: %w", err)
	}
	for batch, err := range batches {
		if err != nil {
			return fmt.Errorf("read data files: %w", err)
		}
		err := visitBatch(batch, columns, visit)
		batch.Release()
		if err != nil {
			return err
		}
	}
	return nil
}

// visitBatch hands one batch to visit.
func visitBatch(batch arrow.RecordBatch, columns []string, visit func(rows int, columns []Values) error) error {
	values := make([]Values, len(columns))
	for i, name := range columns {
		at := batch.Schema().FieldIndices(name)
		if len(at) != 1 {
			return fmt.Errorf("column %q: the table has %d of that name", name, len(at))
		}
		var err error
		if values[i], err = valuesOf(batch.Column(at[0])); err != nil {
			return fmt.Errorf("column %q: %w", name, err)
		}
	}
	return visit(int(batch.NumRows()), values)
}

// Values are one column of a batch of rows. They are valid only during the call
// that brings them.
type Values struct {
	array arrow.Array
	ints  func(row int) int64
	texts func(row int) string
}

// valuesOf wraps an Arrow column.
func valuesOf(a arrow.Array) (Values, error) {
	v := Values{array: a}
	switch a := a.(type) {
	case *array.Int32:
		v.ints = func(row int) int64 { return int64(a.Value(row)) }
	case *array.Int64:
		v.ints = a.Value
	case *array.String:
		v.texts = a.Value
	case *array.LargeString:
		v.texts = a.Value
	default:
		return v, errors.New("int, long and string columns can be read here, not " + a.DataType().String())
	}
	return v, nil
}

// Null reports whether the column is null in that row.
func (v Values) Null(row int) bool { return v.array.IsNull(row) }

// Int returns the number of an int or long column in that row.
func (v Values) Int(row int) int64 { return v.ints(row) }

// Text returns the text of a string column in that row. It shares the batch's
// memory: clone it to keep it.
func (v Values) Text(row int) string { return v.texts(row) }
