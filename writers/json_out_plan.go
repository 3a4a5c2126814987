package writers

import (
	"fmt"
	"math"

	"github.com/apache/iceberg-go"
)

// outOp is how a value is written, chosen once for a column.
type outOp uint8

const (
	outBool outOp = iota
	outInteger
	outFloat
	outDouble
	outDecimal    // of a number
	outBigDecimal // of big-endian bytes
	outString
	outUUID
	outBase64
	outDate
	outTime  // of microseconds
	outStamp // of scaled units, see unit
	outEpoch // the same as a number
)

// outForm is how a leaf's values look in JSON.
type outForm struct {
	op     outOp
	quoted bool  // in quotes, where op gives none: map keys, and numbers as strings
	zoned  bool  // outStamp: Z at the end
	scale  int   // outDecimal
	unit   int64 // outStamp: units a second; outEpoch: units of the column a unit of the text
}

// outNode is one field of a row as it is written. Nodes are immutable and
// belong to the schema of a file.
type outNode struct {
	kind   outKind
	name   string // full name
	prefix []byte // "name": or nothing, in lists and maps
	null   []byte // all of the field when it is null, with the comma; nothing when nulls are left out
	text   []byte // outConstant: all of the field, with the comma

	constant *scanConstant // outConstant of a primitive type

	form outForm // outLeaf
	leaf int     // outLeaf: the leaf; else the first leaf below, whose levels tell what is there

	// Definition levels from which on the node is there, and has an entry. The
	// first entry of a list repeats at any level, the others at rep.
	def, entry, rep uint8
	leaves          []int // all leaves at and below the node
	children        []*outNode
}

type outKind uint8

const (
	outLeaf outKind = iota
	outConstant
	outStruct
	outList
	outMap // its keys are texts; others are lists of structs
)

// formOf chooses how values of a type look. text tells that the file has
// bytes, not numbers.
func (o *ScanOptions) formOf(t iceberg.Type, inBytes bool) (outForm, error) {
	switch t := t.(type) {
	case iceberg.BooleanType:
		return outForm{op: outBool}, nil
	case iceberg.Int32Type:
		return outForm{op: outInteger}, nil
	case iceberg.Int64Type:
		return outForm{op: outInteger, quoted: o.Numbers == "string"}, nil
	case iceberg.Float32Type:
		return outForm{op: outFloat}, nil
	case iceberg.Float64Type:
		return outForm{op: outDouble}, nil
	case iceberg.DecimalType:
		f := outForm{op: outDecimal, scale: t.Scale(), quoted: o.Numbers == "string"}
		if inBytes {
			f.op = outBigDecimal
		}
		return f, nil
	case iceberg.StringType:
		return outForm{op: outString}, nil
	case iceberg.UUIDType:
		return outForm{op: outUUID}, nil
	case iceberg.BinaryType, iceberg.FixedType:
		return outForm{op: outBase64}, nil
	case iceberg.DateType:
		return outForm{op: outDate}, nil
	case iceberg.TimeType:
		return outForm{op: outTime, unit: 1e6}, nil
	case iceberg.TimestampType:
		return o.stampForm(1e6, false), nil
	case iceberg.TimestampTzType:
		return o.stampForm(1e6, true), nil
	case iceberg.TimestampNsType:
		return o.stampForm(1e9, false), nil
	case iceberg.TimestampTzNsType:
		return o.stampForm(1e9, true), nil
	}
	return outForm{}, fmt.Errorf("type %s can't be written as JSON", t)
}

// stampForm is the form of timestamps of so many units a second.
func (o *ScanOptions) stampForm(perSecond int64, zoned bool) outForm {
	switch o.Timestamps {
	case "epoch_millis":
		return outForm{op: outEpoch, unit: perSecond / 1e3}
	case "epoch_micros":
		return outForm{op: outEpoch, unit: perSecond / 1e6}
	}
	return outForm{op: outStamp, unit: perSecond, zoned: zoned}
}

// bare tells whether values have quotes already.
func (f *outForm) bare() bool {
	switch f.op {
	case outBool, outInteger, outFloat, outDouble, outDecimal, outBigDecimal, outEpoch:
		return true
	}
	return false
}

// appendNumber appends the text of a number, without quotes. It is false when
// the number has no text.
func (f *outForm) appendNumber(to []byte, v int64) ([]byte, bool) {
	switch f.op {
	case outBool:
		if v != 0 {
			return append(to, "true"...), true
		}
		return append(to, "false"...), true
	case outInteger:
		return appendInteger(to, v), true
	case outFloat:
		return appendFloat(to, float64(math.Float32frombits(uint32(v))), 32), true
	case outDouble:
		return appendFloat(to, math.Float64frombits(uint64(v)), 64), true
	case outDecimal:
		return appendDecimal(to, v, f.scale), true
	case outDate:
		return appendDate(to, v), true
	case outTime:
		if v < 0 || v >= microsPerDay {
			return to, false
		}
		return appendClock(to, v*1000), true
	case outEpoch:
		return appendFraction(to, v, f.unit), true
	case outStamp:
		perDay := 86_400 * f.unit
		days, rest := v/perDay, v%perDay
		if rest < 0 {
			days, rest = days-1, rest+perDay
		}
		to = appendClock(append(appendDate(to, days), 'T'), rest*(1e9/f.unit))
		if f.zoned {
			to = append(to, 'Z')
		}
		return to, true
	}
	return to, false
}

// appendBytes appends the text of a value that is bytes, without quotes. It is
// false when the bytes have no text.
func (f *outForm) appendBytes(to, b []byte) ([]byte, bool) {
	switch f.op {
	case outString:
		return appendEscaped(to, b)
	case outUUID:
		return appendUUID(to, b), true
	case outBase64:
		return appendBase64(to, b), true
	case outBigDecimal:
		return appendBigEndian(to, b, f.scale)
	}
	return to, false
}

// quotes tells whether the text goes between quotes. Floats that are no numbers
// bring their own.
func (f *outForm) quotes() bool { return f.quoted || !f.bare() }
