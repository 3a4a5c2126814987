package writers

import (
	"encoding/hex"
	"fmt"
	"math"
	"math/big"
	"strings"

	"github.com/apache/arrow-go/v18/arrow/decimal128"
	"github.com/apache/iceberg-go"
	"github.com/google/uuid"
)

// scanConstant is a value that every row of a file has: a partition's, or the
// default of a column that is younger than the file.
type scanConstant struct {
	null    bool
	inBytes bool
	number  int64
	bytes   []byte
}

// newConstant reads a value of a primitive type in the Go types that iceberg-go
// has for partition values, or as its metadata's JSON gives it.
//
// Source: Iceberg spec, appendix C "JSON single-value serialization".
func newConstant(t iceberg.Type, v any) (scanConstant, error) {
	if v == nil {
		return scanConstant{null: true}, nil
	}
	if text, ok := v.(string); ok {
		return textConstant(t, text)
	}
	number, isNumber := wholeOf(v)
	switch t := t.(type) {
	case iceberg.BooleanType:
		if b, ok := v.(bool); ok {
			return scanConstant{number: map[bool]int64{true: 1}[b]}, nil
		}
	case iceberg.Int32Type, iceberg.Int64Type, iceberg.DateType, iceberg.TimeType, iceberg.TimestampType, iceberg.TimestampTzType,
		iceberg.TimestampNsType, iceberg.TimestampTzNsType:
		if isNumber {
			return scanConstant{number: number}, nil
		}
	case iceberg.Float32Type:
		if f, ok := realOf(v); ok {
			return scanConstant{number: int64(math.Float32bits(float32(f)))}, nil
		}
	case iceberg.Float64Type:
		if f, ok := realOf(v); ok {
			return scanConstant{number: int64(math.Float64bits(f))}, nil
		}
	case iceberg.DecimalType:
		if d, ok := decimalValue(v); ok && d.Scale == t.Scale() {
			return bigConstant(d.Val.BigInt()), nil
		}
	case iceberg.UUIDType:
		if id, ok := v.(uuid.UUID); ok {
			return scanConstant{inBytes: true, bytes: id[:]}, nil
		}
		if b, ok := v.([]byte); ok && len(b) == 16 {
			return scanConstant{inBytes: true, bytes: b}, nil
		}
	case iceberg.BinaryType, iceberg.FixedType, iceberg.StringType:
		switch b := v.(type) {
		case []byte:
			return scanConstant{inBytes: true, bytes: b}, nil
		case iceberg.BinaryLiteral:
			return scanConstant{inBytes: true, bytes: b}, nil
		case iceberg.FixedLiteral:
			return scanConstant{inBytes: true, bytes: b}, nil
		}
	}
	return scanConstant{}, fmt.Errorf("the constant %v (%T) is no %s", v, v, t)
}

// textConstant reads a value from its text.
func textConstant(t iceberg.Type, text string) (scanConstant, error) {
	wrong := func() (scanConstant, error) {
		return scanConstant{}, fmt.Errorf("the constant %q is no %s", text, t)
	}
	var n int64
	var r refusal
	switch t := t.(type) {
	case iceberg.StringType:
		return scanConstant{inBytes: true, bytes: []byte(text)}, nil
	case iceberg.UUIDType:
		id, err := uuid.Parse(text)
		if err != nil {
			return wrong()
		}
		return scanConstant{inBytes: true, bytes: id[:]}, nil
	case iceberg.BinaryType, iceberg.FixedType:
		b, err := hex.DecodeString(text)
		if err != nil {
			return wrong()
		}
		return scanConstant{inBytes: true, bytes: b}, nil
	case iceberg.DecimalType:
		d, err := decimal128.FromString(text, int32(t.Precision()), int32(t.Scale()))
		if err != nil {
			return wrong()
		}
		return bigConstant(d.BigInt()), nil
	case iceberg.DateType:
		n, r = parseDate([]byte(text))
	case iceberg.TimeType:
		n, r = parseClock([]byte(text))
	case iceberg.TimestampType:
		n, r = parseTimestamp([]byte(text), false)
	case iceberg.TimestampTzType:
		n, r = parseTimestamp([]byte(text), true)
	default:
		return wrong()
	}
	if r != (refusal{}) {
		return wrong()
	}
	return scanConstant{number: n}, nil
}

// bigConstant keeps a decimal as big-endian two's complement.
func bigConstant(v *big.Int) scanConstant {
	var b [16]byte
	if v.Sign() < 0 {
		v = new(big.Int).Add(v, new(big.Int).Lsh(big.NewInt(1), 128))
	}
	v.FillBytes(b[:])
	return scanConstant{inBytes: true, bytes: b[:]}
}

func decimalValue(v any) (iceberg.Decimal, bool) {
	switch d := v.(type) {
	case iceberg.Decimal:
		return d, true
	case iceberg.DecimalLiteral:
		return iceberg.Decimal(d), true
	}
	return iceberg.Decimal{}, false
}

// wholeOf returns a whole number of any of the Go types that have them.
func wholeOf(v any) (int64, bool) {
	switch n := v.(type) {
	case int:
		return int64(n), true
	case int32:
		return int64(n), true
	case int64:
		return n, true
	case iceberg.Date:
		return int64(n), true
	case iceberg.Time:
		return int64(n), true
	case iceberg.Timestamp:
		return int64(n), true
	case iceberg.TimestampNano:
		return int64(n), true
	case float64:
		return int64(n), n == math.Trunc(n) && math.Abs(n) < 1<<53
	}
	return 0, false
}

func realOf(v any) (float64, bool) {
	switch f := v.(type) {
	case float32:
		return float64(f), true
	case float64:
		return f, true
	}
	n, ok := wholeOf(v)
	return float64(n), ok
}

// form is the form of a constant's text.
func (o *ScanOptions) constantText(t iceberg.Type, c scanConstant) ([]byte, outForm, error) {
	form, err := o.formOf(t, c.inBytes)
	if err != nil || c.null {
		return nil, form, err
	}
	var text []byte
	ok := false
	if c.inBytes {
		text, ok = form.textOfBytes(nil, c.bytes)
	} else {
		text, ok = form.textOfNumber(nil, c.number)
	}
	if !ok {
		return nil, form, fmt.Errorf("the constant %s can't be written as JSON", strings.ToValidUTF8(string(text), "�"))
	}
	return text, form, nil
}
