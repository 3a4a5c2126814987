package writers

import (
	"fmt"
	"math"

	"github.com/apache/iceberg-go"
)

// change turns numbers as a file has them into those of the table's type.
type change uint8

const (
	same         change = iota
	fromUint32          // an unsigned number
	fromFloat           // to double
	thousandfold        // milliseconds to microseconds, microseconds to nanoseconds
	millionfold         // milliseconds to nanoseconds
	thousandth          // nanoseconds to microseconds
	daysToMicros        // date to timestamp
	daysToNanos         // date to timestamp_ns
)

// apply changes all numbers.
func (c change) apply(to []int64) error {
	switch c {
	case same:
	case fromUint32:
		for i, v := range to {
			to[i] = int64(uint32(v))
		}
	case fromFloat:
		for i, v := range to {
			to[i] = int64(math.Float64bits(float64(math.Float32frombits(uint32(v)))))
		}
	case thousandfold:
		return times(to, 1000)
	case millionfold:
		return times(to, 1_000_000)
	case thousandth:
		for i, v := range to {
			if v%1000 != 0 {
				return fmt.Errorf("a time of %d ns is finer than the column's microseconds", v)
			}
			to[i] = v / 1000
		}
	case daysToMicros:
		return times(to, microsPerDay)
	case daysToNanos:
		return times(to, 1000*microsPerDay)
	}
	return nil
}

func times(to []int64, factor int64) error {
	most := math.MaxInt64 / factor
	for i, v := range to {
		if v > most || v < -most {
			return fmt.Errorf("a time of %d times %d is out of range", v, factor)
		}
		to[i] = v * factor
	}
	return nil
}

// physicalPlan says how a column of a file is read as a table's type, or why it
// can't be.
//
// Source: Iceberg spec, appendix A "Parquet" and "Schema Evolution" for types
// that were widened; LogicalTypes.md for what other writers make of a type.
func physicalPlan(t iceberg.Type, n *fileNode) (p leafPlan, err error) {
	e := n.element
	p = leafPlan{column: n.leaf, name: n.name, physical: e.physical, maxDef: n.def, maxRep: n.maxRep}
	switch e.physical {
	case physicalBool:
	case physicalInt32, physicalFloat:
		p.width = 4
	case physicalInt64, physicalDouble:
		p.width = 8
	case physicalInt96:
		p.width = 12
	case physicalBytes:
		p.bytes = true
	case physicalFixed:
		p.bytes, p.width = true, int(e.width)
		if e.width < 1 || e.width > 1<<20 {
			return p, fmt.Errorf("values of %d bytes make no sense", e.width)
		}
	default:
		return p, fmt.Errorf("physical type %d is unknown", e.physical)
	}
	ok := false
	if p.change, ok = changeTo(t, e); !ok {
		return p, fmt.Errorf("the file has %s, which can't be read as %s", e, t)
	}
	p.nanos = e.physical == physicalInt96 && isNanos(t)
	return p, nil
}

// changeTo returns what makes a table's type of a file's, if anything does.
func changeTo(t iceberg.Type, e *fileElement) (change, bool) {
	is := func(physical int32) bool { return e.physical == physical }
	whole := e.logical == 0 && (e.converted == -1 || e.converted > 10 && e.converted != convertedUint64) ||
		e.logical == logicalInteger && !(e.unsigned && e.bits == 64)
	unsigned := e.converted == convertedUint32 || e.unsigned && e.bits == 32
	switch t := t.(type) {
	case iceberg.BooleanType:
		return same, is(physicalBool)
	case iceberg.Int32Type:
		return same, is(physicalInt32) && whole && !unsigned
	case iceberg.Int64Type:
		if is(physicalInt32) && unsigned {
			return fromUint32, true
		}
		return same, (is(physicalInt32) || is(physicalInt64)) && whole
	case iceberg.Float32Type:
		return same, is(physicalFloat)
	case iceberg.Float64Type:
		if is(physicalFloat) {
			return fromFloat, true
		}
		return same, is(physicalDouble)
	case iceberg.DecimalType:
		annotated := e.logical == logicalDecimal || e.converted == convertedDecimal
		return same, annotated && int(e.scale) == t.Scale() && !is(physicalBool) && !is(physicalInt96) && !is(physicalFloat) && !is(physicalDouble)
	case iceberg.DateType:
		return same, is(physicalInt32) && (e.logical == logicalDate || e.converted == convertedDate || e.logical == 0 && e.converted == -1)
	case iceberg.TimeType:
		return e.clockChange()
	case iceberg.TimestampType, iceberg.TimestampTzType:
		return e.stampChange(1)
	case iceberg.TimestampNsType, iceberg.TimestampTzNsType:
		return e.stampChange(1000)
	case iceberg.StringType:
		return same, is(physicalBytes) && e.logical != logicalDecimal
	case iceberg.BinaryType:
		return same, is(physicalBytes) || is(physicalFixed)
	case iceberg.UUIDType:
		return same, is(physicalFixed) && e.width == 16
	case iceberg.FixedType:
		return same, is(physicalFixed) && int(e.width) == t.Len()
	}
	return same, false
}

// clockChange makes a time of day.
func (e *fileElement) clockChange() (change, bool) {
	unit := e.unit
	if e.converted == convertedTimeMillis {
		unit = 1
	}
	switch {
	case e.physical == physicalInt32:
		return thousandfold, unit == 1
	case e.physical != physicalInt64 || e.logical != logicalTime && e.logical != 0:
		return same, false
	case unit == 3:
		return thousandth, true
	}
	return same, true
}

// stampChange makes a timestamp with perMicro units a microsecond.
func (e *fileElement) stampChange(perMicro int) (change, bool) {
	unit := e.unit
	if e.converted == convertedStampMillis {
		unit = 1
	}
	switch {
	case e.physical == physicalInt96:
		return same, true
	case e.physical == physicalInt32 && (e.logical == logicalDate || e.converted == convertedDate):
		if perMicro == 1 {
			return daysToMicros, true
		}
		return daysToNanos, true
	case e.physical != physicalInt64 || e.logical != logicalTimestamp && e.logical != 0:
		return same, false
	case unit == 1 && perMicro == 1:
		return thousandfold, true
	case unit == 1:
		return millionfold, true
	case unit == 3 && perMicro == 1:
		return thousandth, true
	case unit == 2 && perMicro == 1000:
		return thousandfold, true
	}
	return same, unit != 0 || perMicro == 1 // without a unit, numbers are microseconds
}

func isNanos(t iceberg.Type) bool {
	switch t.(type) {
	case iceberg.TimestampNsType, iceberg.TimestampTzNsType:
		return true
	}
	return false
}

// String describes a field of a file to people.
func (e *fileElement) String() string {
	names := [...]string{"BOOLEAN", "INT32", "INT64", "INT96", "FLOAT", "DOUBLE", "BYTE_ARRAY", "FIXED_LEN_BYTE_ARRAY"}
	s := "a group"
	if e.physical >= 0 && int(e.physical) < len(names) {
		s = names[e.physical]
	}
	if e.physical == physicalFixed {
		s += fmt.Sprintf("(%d)", e.width)
	}
	logical := map[int16]string{
		logicalString: "STRING", logicalDecimal: fmt.Sprintf("DECIMAL(%d, %d)", e.precision, e.scale), logicalDate: "DATE", logicalTime: "TIME",
		logicalTimestamp: "TIMESTAMP", logicalInteger: fmt.Sprintf("INTEGER(%d)", e.bits), logicalUUID: "UUID",
	}
	converted := map[int32]int16{0: logicalString, convertedDecimal: logicalDecimal, convertedDate: logicalDate, convertedTimeMillis: logicalTime,
		convertedTime: logicalTime, convertedStampMillis: logicalTimestamp, convertedTimestamp: logicalTimestamp}
	if name := logical[max(e.logical, converted[e.converted])]; name != "" {
		s += " of " + name
	} else if e.converted >= 0 {
		s += fmt.Sprintf(" of converted type %d", e.converted)
	}
	return s
}
