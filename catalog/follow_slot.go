package catalog

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"

	"github.com/apache/iceberg-go"
	"github.com/google/uuid"
	"github.com/twmb/murmur3"
)

// Slots is the number of slots that data files are dealt to by their partition
// tuple. Files of one slot belong together: their rows must stay in order.
//
// The slot of a file is a function of its partition values alone. It never
// changes from one version of this program to the next, as positions depend on it:
//
//   - No partition fields, or only void ones: slot 0. All rows are one order.
//   - If the spec has bucket fields, only those count: a bucket is one order,
//     on whichever day its rows are. One bucket field: its value modulo 256, so
//     that buckets spread evenly.
//   - Otherwise, and with several bucket fields: the 32-bit murmur3 hash (x86,
//     seed 0) of the fields that count, modulo 256.
//
// A field counts by its source column and its transform, not by its name, place
// or spec: adding a field beside a bucket, removing one, renaming, and widening
// a column's type leave each bucket's slot as it is. Another number of buckets,
// or other fields where there are no buckets, is another order.
const Slots = 256

// tuple is a partition tuple of one spec, shared by the files that have it.
type tuple struct {
	text          string
	slot          uint16
	unpartitioned bool
	constants     map[int]any
}

// tuple returns the tuple of values, the same pointer for the same spec and values.
func (l *listing) tuple(spec *iceberg.PartitionSpec, values map[int]any) (*tuple, error) {
	l.key = binary.AppendVarint(l.key[:0], int64(spec.ID()))
	var err error
	for i := range spec.NumFields() {
		f := spec.Field(i)
		if l.key, err = appendPartitionValue(l.key, values[f.FieldID]); err != nil {
			return nil, fmt.Errorf("partition field %s: %w", f.Name, err)
		}
	}
	if t := l.tuples[string(l.key)]; t != nil {
		return t, nil
	}
	t := &tuple{unpartitioned: true}
	var text []string
	for i := range spec.NumFields() {
		f := spec.Field(i)
		if _, void := f.Transform.(iceberg.VoidTransform); void {
			continue
		}
		t.unpartitioned = false
		text = append(text, f.Name+"="+f.Transform.ToHumanStrType(nil, values[f.FieldID]))
		if _, identity := f.Transform.(iceberg.IdentityTransform); identity {
			if t.constants == nil {
				t.constants = map[int]any{}
			}
			t.constants[f.SourceID()] = plainPartitionValue(values[f.FieldID])
		}
	}
	t.text = strings.Join(text, "/")
	if t.slot, err = slotOf(spec, values); err != nil {
		return nil, err
	}
	l.tuples[string(l.key)] = t
	return t, nil
}

// slotOf is the rule of Slots.
func slotOf(spec *iceberg.PartitionSpec, values map[int]any) (uint16, error) {
	var counting []iceberg.PartitionField
	buckets := 0
	for i := range spec.NumFields() {
		f := spec.Field(i)
		switch f.Transform.(type) {
		case iceberg.VoidTransform:
			continue
		case iceberg.BucketTransform:
			buckets++
		}
		counting = append(counting, f)
	}
	if buckets > 0 {
		counting = slices.DeleteFunc(counting, func(f iceberg.PartitionField) bool {
			_, bucket := f.Transform.(iceberg.BucketTransform)
			return !bucket
		})
	}
	if len(counting) == 0 {
		return 0, nil
	}
	if buckets == 1 {
		if n, ok := values[counting[0].FieldID].(int32); ok && n >= 0 {
			return uint16(n % Slots), nil
		}
	}
	slices.SortFunc(counting, func(a, b iceberg.PartitionField) int {
		return cmp.Or(slices.Compare(a.SourceIDs, b.SourceIDs), strings.Compare(a.Transform.String(), b.Transform.String()))
	})
	var key []byte
	var err error
	for _, f := range counting {
		for _, id := range f.SourceIDs {
			key = binary.LittleEndian.AppendUint32(key, uint32(id))
		}
		key = append(append(key, f.Transform.String()...), 0)
		if key, err = appendPartitionValue(key, values[f.FieldID]); err != nil {
			return 0, fmt.Errorf("partition field %s: %w", f.Name, err)
		}
	}
	return uint16(murmur3.Sum32(key) % Slots), nil
}

// Kinds of partition values. They are part of the slot's definition.
const (
	valueNull = iota
	valueInt
	valueFloat
	valueBytes
	valueDecimal
)

// appendPartitionValue appends a value so that equal values, and only those, have equal
// bytes, whatever the width of their type: int and long, float and double are the same.
func appendPartitionValue(key []byte, value any) ([]byte, error) {
	integer := func(n int64) []byte { return binary.LittleEndian.AppendUint64(append(key, valueInt), uint64(n)) }
	text := func(s string) []byte {
		return append(binary.LittleEndian.AppendUint32(append(key, valueBytes), uint32(len(s))), s...)
	}
	decimal := func(d iceberg.Decimal) []byte {
		return binary.LittleEndian.AppendUint64(binary.LittleEndian.AppendUint64(append(key, valueDecimal), uint64(d.Val.HighBits())), d.Val.LowBits())
	}
	float := func(f float64) []byte {
		if math.IsNaN(f) {
			f = math.NaN()
		}
		return binary.LittleEndian.AppendUint64(append(key, valueFloat), math.Float64bits(f))
	}
	switch v := plainPartitionValue(value).(type) {
	case nil:
		return append(key, valueNull), nil
	case bool:
		if v {
			return integer(1), nil
		}
		return integer(0), nil
	case int32:
		return integer(int64(v)), nil
	case int64:
		return integer(v), nil
	case iceberg.Date:
		return integer(int64(v)), nil
	case iceberg.Time:
		return integer(int64(v)), nil
	case iceberg.Timestamp:
		return integer(int64(v)), nil
	case iceberg.TimestampNano:
		return integer(int64(v)), nil
	case float32:
		return float(float64(v)), nil
	case float64:
		return float(v), nil
	case string:
		return text(v), nil
	case []byte:
		return text(string(v)), nil
	case uuid.UUID:
		return text(string(v[:])), nil
	case iceberg.Decimal:
		return decimal(v), nil
	}
	return key, fmt.Errorf("a value of type %T is not known here", value)
}

// plainPartitionValue turns what a manifest's reader returns into the types that DataFile.Constants names.
func plainPartitionValue(value any) any {
	switch v := value.(type) {
	case iceberg.DecimalLiteral:
		return iceberg.Decimal(v)
	case []byte:
		return bytes.Clone(v)
	case int:
		return int64(v)
	case nil, bool, int32, int64, float32, float64, string, uuid.UUID:
		return v
	}
	if r := reflect.ValueOf(value); r.Kind() == reflect.Array && r.Type().Elem().Kind() == reflect.Uint8 { // fixed
		out := make([]byte, r.Len())
		reflect.Copy(reflect.ValueOf(out), r)
		return out
	}
	return value
}
