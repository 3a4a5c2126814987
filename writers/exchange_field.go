package writers

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"

	"github.com/apache/arrow-go/v18/arrow/decimal128"
	"github.com/apache/iceberg-go"
	"github.com/google/uuid"
)

// partitionField is one field of a partition spec, made ready for a layout.
//
// Its values are either numbers or bytes. Numbers are everything that an int64
// holds exactly: buckets, times, ints, longs, short decimals, booleans and the
// bits of floats.
type partitionField struct {
	id        int
	void      bool
	column    int // index into Layout.Leaves
	maxDef    uint8
	transform iceberg.Transform
	source    iceberg.Type
	result    iceberg.Type
	buckets   int // of a bucket transform; else 0

	// number computes the partition value of value i of c; false when the result type can't hold it.
	number func(c *Column, i int) (int64, bool)
	// value gives a number the Go type that iceberg-go takes.
	value func(n int64) any

	// piece and bytes are the same for values that are bytes. piece appends to key.
	piece func(key []byte, c *Column, i int) ([]byte, bool)
	bytes func(b []byte) any
}

// newPartitionField prepares a field of a spec.
func newPartitionField(l *Layout, f iceberg.PartitionField) (partitionField, error) {
	p := partitionField{id: f.FieldID, transform: f.Transform}
	if _, ok := f.Transform.(iceberg.VoidTransform); ok {
		p.void = true // its source may be gone, and it is null in any case
		return p, nil
	}
	if len(f.SourceIDs) != 1 {
		return p, fmt.Errorf("transform %s of %d columns is not supported", f.Transform, len(f.SourceIDs))
	}
	leaf, err := sourceLeaf(l, f.SourceID())
	if err != nil {
		return p, err
	}
	if !f.Transform.CanTransform(leaf.Type) {
		return p, fmt.Errorf("column %q: transform %s can't be used on type %s", leaf.Name, f.Transform, leaf.Type)
	}
	p.column, p.maxDef, p.source = leaf.Index, leaf.MaxDef, leaf.Type
	p.result = f.Transform.ResultType(leaf.Type)
	switch t := f.Transform.(type) {
	case iceberg.IdentityTransform:
		p.identity(leaf)
	case iceberg.BucketTransform:
		if t.NumBuckets <= 0 || t.NumBuckets > math.MaxInt32 {
			return p, fmt.Errorf("column %q: %d buckets: must be from 1 to %d", leaf.Name, t.NumBuckets, math.MaxInt32)
		}
		p.bucket(leaf, t.NumBuckets)
	case iceberg.TruncateTransform:
		if t.Width <= 0 || t.Width > math.MaxInt32 {
			return p, fmt.Errorf("column %q: truncate width %d: must be from 1 to %d", leaf.Name, t.Width, math.MaxInt32)
		}
		p.truncate(leaf, t.Width)
	case iceberg.YearTransform:
		p.calendar(leaf, yearOfDay)
	case iceberg.MonthTransform:
		p.calendar(leaf, monthOfDay)
	case iceberg.DayTransform:
		p.calendar(leaf, func(day int64) int64 { return day })
		p.value = func(n int64) any { return iceberg.Date(n) }
	case iceberg.HourTransform:
		p.number = hours
		p.value = int32Value
	default:
		return p, fmt.Errorf("column %q: transform %s is not supported", leaf.Name, f.Transform)
	}
	return p, nil
}

// sourceLeaf finds the leaf column with a field id.
func sourceLeaf(l *Layout, id int) (*Leaf, error) {
	for i := range l.Leaves {
		leaf := &l.Leaves[i]
		if leaf.ID != id {
			continue
		}
		if leaf.MaxRep > 0 {
			return nil, fmt.Errorf("column %q: lies in a list or a map, so that a row has no single value to partition by", leaf.Name)
		}
		return leaf, nil
	}
	if name, ok := l.Schema.FindColumnName(id); ok {
		return nil, fmt.Errorf("column %q: is not primitive, so that it can't be partitioned by", name)
	}
	return nil, fmt.Errorf("no column has the field id %d", id)
}

// has reports whether the field's column has a value in a row.
func (p *partitionField) has(b *Batch, row int) bool {
	return p.maxDef == 0 || b.Columns[p.column].Def[row] == p.maxDef
}

// holds reports whether a partition can hold value i of c.
func (p *partitionField) holds(c *Column, i int) bool {
	if p.number != nil {
		_, ok := p.number(c, i)
		return ok
	}
	_, ok := p.piece(nil, c, i)
	return ok
}

// encode appends the partition value of value i of c, in a form that decode
// reads and that no other value has.
func (p *partitionField) encode(key []byte, c *Column, i int) ([]byte, bool) {
	if p.number != nil {
		n, ok := p.number(c, i)
		return binary.BigEndian.AppendUint64(key, uint64(n)), ok
	}
	start := len(key)
	key = append(key, 0, 0, 0, 0)
	key, ok := p.piece(key, c, i)
	binary.BigEndian.PutUint32(key[start:], uint32(len(key)-start-4))
	return key, ok
}

// decode reads what encode appended and returns the rest.
func (p *partitionField) decode(key []byte) (any, []byte) {
	if p.number != nil {
		return p.value(int64(binary.BigEndian.Uint64(key))), key[8:]
	}
	end := 4 + binary.BigEndian.Uint32(key)
	return p.bytes(key[4:end]), key[end:]
}

// quote shows value i of c to people, in at most 40 bytes.
func (p *partitionField) quote(c *Column, i int) string {
	var s string
	switch t := p.source.(type) {
	case iceberg.DecimalType:
		value, err := decimalOf(c, i, len(c.End) > 0)
		if err != nil {
			return "the value"
		}
		s = value.ToString(int32(t.Scale()))
	case iceberg.TimestampType, iceberg.TimestampTzType:
		s = iceberg.Timestamp(c.Fixed[i]).ToTime().Format("2006-01-02T15:04:05.999999")
	default:
		s = fmt.Sprint(c.Fixed[i])
	}
	if len(s) > 40 {
		s = s[:37] + "..."
	}
	return s
}

// identity takes the value itself.
func (p *partitionField) identity(leaf *Leaf) {
	if leaf.Kind == Bytes || leaf.Kind == Fixed {
		p.piece = func(key []byte, c *Column, i int) ([]byte, bool) { return append(key, c.Bytes(i)...), true }
		p.bytes = bytesValue(leaf.Type)
		return
	}
	p.value = numberValue(leaf.Type)
	switch leaf.Kind {
	case Float: // every NaN is the same partition
		p.number = func(c *Column, i int) (int64, bool) {
			if v := math.Float32frombits(uint32(c.Fixed[i])); v != v {
				return int64(math.Float32bits(float32(math.NaN()))), true
			}
			return int64(uint32(c.Fixed[i])), true
		}
	case Double:
		p.number = func(c *Column, i int) (int64, bool) {
			if v := math.Float64frombits(uint64(c.Fixed[i])); v != v {
				return int64(math.Float64bits(math.NaN())), true
			}
			return c.Fixed[i], true
		}
	default:
		p.number = func(c *Column, i int) (int64, bool) { return c.Fixed[i], true }
	}
}

// numberValue returns what gives numbers the Go type of t.
func numberValue(t iceberg.Type) func(int64) any {
	switch t := t.(type) {
	case iceberg.BooleanType:
		return func(n int64) any { return n != 0 }
	case iceberg.Int32Type:
		return int32Value
	case iceberg.Int64Type:
		return func(n int64) any { return n }
	case iceberg.Float32Type:
		return func(n int64) any { return math.Float32frombits(uint32(n)) }
	case iceberg.Float64Type:
		return func(n int64) any { return math.Float64frombits(uint64(n)) }
	case iceberg.DateType:
		return func(n int64) any { return iceberg.Date(n) }
	case iceberg.TimeType:
		return func(n int64) any { return iceberg.Time(n) }
	case iceberg.TimestampType, iceberg.TimestampTzType:
		return func(n int64) any { return iceberg.Timestamp(n) }
	case iceberg.DecimalType:
		scale := t.Scale()
		return func(n int64) any { return iceberg.Decimal{Val: decimal128.FromI64(n), Scale: scale} }
	}
	panic(fmt.Sprintf("partition value of type %s is not a number", t))
}

// bytesValue returns what gives bytes the Go type of t. It copies.
func bytesValue(t iceberg.Type) func([]byte) any {
	switch t := t.(type) {
	case iceberg.StringType:
		return func(b []byte) any { return string(b) }
	case iceberg.UUIDType:
		return func(b []byte) any { return uuid.UUID(b) }
	case iceberg.DecimalType:
		scale := t.Scale()
		return func(b []byte) any {
			v, err := decimalOfBytes(b)
			if err != nil {
				panic(err) // it was read before it was encoded
			}
			return iceberg.Decimal{Val: v, Scale: scale}
		}
	case iceberg.BinaryType, iceberg.FixedType:
		return func(b []byte) any { return append(make([]byte, 0, len(b)), b...) }
	}
	panic(fmt.Sprintf("partition value of type %s is not bytes", t))
}

// int32Value is the Go type of buckets, years, months, hours and ints.
func int32Value(n int64) any { return int32(n) }

// decimalOf reads a decimal in any of its physical forms.
func decimalOf(c *Column, i int, fixed bool) (decimal128.Num, error) {
	if fixed {
		return decimalOfBytes(c.Bytes(i))
	}
	return decimal128.FromI64(c.Fixed[i]), nil
}

// decimalOfBytes reads big-endian two's complement of at most 16 bytes.
func decimalOfBytes(b []byte) (decimal128.Num, error) {
	if len(b) == 0 || len(b) > 16 {
		return decimal128.Num{}, errors.New("a decimal has from 1 to 16 bytes")
	}
	var wide [16]byte
	if b[0]&0x80 != 0 {
		for i := range wide {
			wide[i] = 0xff
		}
	}
	copy(wide[16-len(b):], b)
	return decimal128.New(int64(binary.BigEndian.Uint64(wide[:8])), binary.BigEndian.Uint64(wide[8:])), nil
}
