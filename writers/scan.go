package writers

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/apache/iceberg-go"
	"golang.org/x/sync/errgroup"
)

// Scan reads the rows of a table's Parquet data files, its own and those of
// other writers, as JSON. It is made once for a schema and may open any number
// of files at once.
//
// Columns are found by field id, so that files from before a change of the
// schema are read as the schema is now: added columns have their default or
// null, renamed ones their new name, widened ones the wider type, dropped ones
// are not read. Files without field ids are read by the table's name mapping.
//
// Only pages are held in memory, one of each column that is asked for.
//
// Source: Iceberg spec, "Column Projection", "Schema Evolution" and appendix A
// "Parquet"; parquet-format, parquet.thrift and Encodings.md.
type Scan struct {
	options   ScanOptions
	fields    []iceberg.NestedField // of the value
	extras    []scanExtra
	omitNulls bool
}

// ScanOptions says what of a row is wanted, and how it looks.
type ScanOptions struct {
	Columns     []string            // top-level columns of the value, in the schema's order; empty: all that are not in Hidden
	Hidden      []string            // top-level columns that the value does not have, also those that the schema does not have
	Extra       []string            // columns to be read beside the value, by full names; none inside of a list or map
	NameMapping iceberg.NameMapping // of the table; nil: none
	Timestamps  string              // "" or "iso", "epoch_millis", "epoch_micros"
	Numbers     string              // "" or "json": as numbers; "string": long and decimal as strings
	Nulls       string              // "" or "write": as null; "omit": fields that are null are left out, but not elements and map values
}

// scanExtra is a column of ScanOptions.Extra: the fields that lead to it.
type scanExtra []iceberg.NestedField

// NewScan prepares reading rows of schema. It refuses options that don't exist
// and columns that are missing or can't be written as JSON, naming them.
func NewScan(schema *iceberg.Schema, o ScanOptions) (*Scan, error) {
	s := &Scan{options: o, omitNulls: o.Nulls == "omit"}
	for _, option := range []struct {
		name, value string
		known       []string
	}{
		{"timestamps", o.Timestamps, []string{"", "iso", "epoch_millis", "epoch_micros"}},
		{"numbers", o.Numbers, []string{"", "json", "string"}},
		{"nulls", o.Nulls, []string{"", "write", "omit"}},
	} {
		if !slices.Contains(option.known, option.value) {
			return nil, fmt.Errorf("scan: %s %q: must be one of %s", option.name, option.value, strings.Join(option.known[1:], ", "))
		}
	}
	for _, name := range o.Columns {
		if _, ok := fieldNamed(schema.Fields(), name); !ok {
			return nil, fmt.Errorf("scan: the table has no column %q", name)
		}
	}
	for _, f := range schema.Fields() {
		if len(o.Columns) > 0 && !slices.Contains(o.Columns, f.Name) || slices.Contains(o.Hidden, f.Name) {
			continue
		}
		if err := o.writable(f.Type, f.Name); err != nil {
			return nil, err
		}
		s.fields = append(s.fields, f)
	}
	for _, name := range o.Extra {
		x, err := findExtra(schema.Fields(), name)
		if err != nil {
			return nil, err
		}
		if err := o.writable(x[len(x)-1].Type, name); err != nil {
			return nil, err
		}
		s.extras = append(s.extras, x)
	}
	return s, nil
}

// writable tells whether a column can be written, whatever file it is in.
func (o *ScanOptions) writable(t iceberg.Type, name string) error {
	switch t := t.(type) {
	case *iceberg.StructType:
		for _, f := range t.FieldList {
			if err := o.writable(f.Type, name+"."+f.Name); err != nil {
				return err
			}
		}
		return nil
	case *iceberg.ListType:
		return o.writable(t.Element, name+".element")
	case *iceberg.MapType:
		if err := o.writable(t.KeyType, name+".key"); err != nil {
			return err
		}
		return o.writable(t.ValueType, name+".value")
	}
	if _, err := o.formOf(t, false); err != nil {
		return fmt.Errorf("column %q: %w", name, err)
	}
	return nil
}

func fieldNamed(fields []iceberg.NestedField, name string) (iceberg.NestedField, bool) {
	for _, f := range fields {
		if f.Name == name {
			return f, true
		}
	}
	return iceberg.NestedField{}, false
}

// findExtra finds a column by its full name. A name with dots wins over the
// struct that it might be a field of.
func findExtra(fields []iceberg.NestedField, name string) (scanExtra, error) {
	if f, ok := fieldNamed(fields, name); ok {
		return scanExtra{f}, nil
	}
	for at, c := range name {
		if c != '.' {
			continue
		}
		f, ok := fieldNamed(fields, name[:at])
		if !ok {
			continue
		}
		t, ok := f.Type.(*iceberg.StructType)
		if !ok {
			return nil, fmt.Errorf("scan: column %q: %q is no struct but %s", name, f.Name, f.Type)
		}
		rest, err := findExtra(t.FieldList, name[at+1:])
		if err == nil {
			return append(scanExtra{f}, rest...), nil
		}
	}
	return nil, fmt.Errorf("scan: the table has no column %q", name)
}

// ScanInput is one data file.
type ScanInput struct {
	Name      string      // its location, for errors
	Object    io.ReaderAt // its bytes; must stay until the ScanFile is closed
	Size      int64
	Constants map[int]any // values of identity partition fields, by the field id of their source, in iceberg-go's types for partition values
	Deleted   []int64     // rows that are deleted, ascending, without repetition
}

// ScanFile is a data file that is being read. It is not safe for concurrent
// use. After an error only Close may be called.
type ScanFile struct {
	name    string
	input   ScanInput
	footer  *fileFooter
	plan    *filePlan
	leaves  []*scanLeaf
	group   int   // row group that is open, or will be next
	inGroup int64 // rows of it that were not consumed; 0: it is not open
	horizon int64 // inGroup at which windows end together
	row     int64 // of the file, that comes next
	taken   int   // rows of the last batch's window
	deleted []int64
	fetches *errgroup.Group // windows of a distant object; nil: none
}

// Open reads the footer of a file and prepares its rows. Errors name the file,
// and the column where there is one.
func (s *Scan) Open(in ScanInput) (f *ScanFile, err error) {
	defer f.recovered(&err, in.Name)
	f = &ScanFile{name: in.Name, input: in, deleted: in.Deleted}
	if f.footer, err = readFooter(in.Object, in.Size); err == nil {
		var tree *fileTree
		if tree, err = newFileTree(f.footer.elements); err == nil {
			if err = f.footer.check(tree.leaves); err == nil {
				f.plan, err = s.newFilePlan(tree, in.Constants)
			}
		}
	}
	if err != nil {
		return nil, fmt.Errorf("file %s: %w", in.Name, err)
	}
	if d, ok := in.Object.(distant); ok && d.Distant() {
		f.fetches = new(errgroup.Group)
		f.fetches.SetLimit(extentsAheadMax)
	}
	for i := range f.plan.leaves {
		l, ok := scanLeaves.take()
		if !ok {
			l = new(scanLeaf)
		}
		l.plan, l.text = &f.plan.leaves[i], f.plan.texts[i]
		f.leaves = append(f.leaves, l)
	}
	return f, nil
}

// recovered makes an error of a panic: files come from anywhere, and one that
// is damaged must not end the process.
func (*ScanFile) recovered(err *error, name string) {
	if v := recover(); v != nil {
		*err = fmt.Errorf("file %s: it is damaged in a way that nobody foresaw: %v", name, v)
	}
}

// Rows returns how many rows the file has, deleted ones counted.
func (f *ScanFile) Rows() int64 { return f.footer.rows }

// SeekRow makes the row of that number in the file the next to be read. It only
// goes forward.
func (f *ScanFile) SeekRow(row int64) (err error) {
	defer f.recovered(&err, f.name)
	f.consume()
	if row < f.row || row > f.footer.rows {
		return fmt.Errorf("file %s: seek row %d: the next is %d, and the file has %d", f.name, row, f.row, f.footer.rows)
	}
	for f.row < row {
		if f.inGroup == 0 {
			if rows := f.footer.groups[f.group].rows; rows <= row-f.row {
				f.row += rows
				f.group++
				continue
			}
			if err := f.openGroup(); err != nil {
				return err
			}
		}
		n := min(f.inGroup, row-f.row)
		for _, l := range f.leaves {
			if err := l.skip(n); err != nil {
				return f.columnError(l, err)
			}
		}
		f.move(n)
	}
	return nil
}

// Next reads the next rows into to, which may be used again and again for the
// same file. It returns io.EOF behind the last row.
func (f *ScanFile) Next(to *Rows) (err error) {
	defer f.recovered(&err, f.name)
	for {
		f.consume()
		for f.inGroup == 0 {
			if f.group == len(f.footer.groups) {
				return io.EOF
			}
			if err := f.openGroup(); err != nil {
				return err
			}
		}
		if f.inGroup <= f.horizon {
			f.horizon = max(0, f.inGroup-scanRowsMax)
		}
		n := f.inGroup - f.horizon
		for _, l := range f.leaves {
			if l.avail == 0 {
				if err := l.fill(int(f.inGroup - f.horizon)); err != nil {
					return f.columnError(l, err)
				}
			}
			n = min(n, int64(l.avail))
		}
		f.taken = int(n)
		if f.pick(to); to.rows > 0 {
			return nil
		}
	}
}

// consume moves past the rows of the last batch.
func (f *ScanFile) consume() {
	if f.taken > 0 {
		for _, l := range f.leaves {
			l.advance(f.taken)
		}
		f.move(int64(f.taken))
		f.taken = 0
	}
}

// move counts rows, and leaves the row group behind its last.
func (f *ScanFile) move(rows int64) {
	f.row += rows
	f.inGroup -= rows
	if f.inGroup == 0 {
		f.group++
	}
	f.horizon = min(f.horizon, f.inGroup)
}

// openGroup begins the next row group; one without rows is passed over.
func (f *ScanFile) openGroup() error {
	g := &f.footer.groups[f.group]
	if g.rows == 0 {
		f.group++
		return nil
	}
	window := scanWindowBytes(len(f.leaves))
	for _, l := range f.leaves {
		c := &g.chunks[l.plan.column]
		if err := l.open(c, f.input.Object, f.footer.at, window, f.fetches); err != nil {
			return f.columnError(l, err)
		}
		if l.plan.maxRep == 0 && c.values != g.rows {
			return f.columnError(l, fmt.Errorf("it has %d values for %d rows", c.values, g.rows))
		}
	}
	f.inGroup, f.horizon = g.rows, g.rows
	return nil
}

// pick makes the rows of the window that are not deleted the batch.
func (f *ScanFile) pick(to *Rows) {
	to.file, to.first, to.rows, to.picked = f, f.row, f.taken, nil
	to.at, to.end = sized(to.at, len(f.leaves)), sized(to.end, len(f.leaves))
	skip, _ := slices.BinarySearch(f.deleted, f.row)
	f.deleted = f.deleted[skip:]
	end := f.row + int64(f.taken)
	if len(f.deleted) == 0 || f.deleted[0] >= end {
		return
	}
	to.pickedMemory = to.pickedMemory[:0]
	deleted := f.deleted
	for i := range int32(f.taken) {
		if len(deleted) > 0 && deleted[0] == f.row+int64(i) {
			deleted = deleted[1:]
			continue
		}
		to.pickedMemory = append(to.pickedMemory, i)
	}
	to.picked, to.rows = to.pickedMemory, len(to.pickedMemory)
}

func (f *ScanFile) columnError(l *scanLeaf, err error) error {
	return fmt.Errorf("file %s: row group %d: column %q: %w", f.name, f.group, l.plan.name, err)
}

// Close ends the reading and gives the memory back. The object stays open.
func (f *ScanFile) Close() error {
	for _, l := range f.leaves {
		l.release()
		scanLeaves.put(l)
	}
	f.leaves, f.footer = nil, &fileFooter{}
	if f.fetches != nil {
		return f.fetches.Wait() // all have settled
	}
	return nil
}

// Windows are as large as makes requests few, and keeps those of all columns
// together within scanWindowsBytesMax; of distant objects there are two each.
const (
	scanWindowsBytesMax = 16 << 20
	scanWindowMax       = 1 << 20
	scanWindowMin       = 64 << 10
)

// scanWindowBytes returns how much of a column is read at once.
func scanWindowBytes(columns int) int {
	return min(scanWindowMax, max(scanWindowMin, scanWindowsBytesMax/max(1, columns)))
}
