package writers

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow/decimal128"
	"github.com/apache/iceberg-go"
	"github.com/google/uuid"
)

// exchangeOf makes an exchange of a one-column table. It fails the test when
// the spec is refused.
func exchangeOf(t testing.TB, typ iceberg.Type, required bool, transforms ...iceberg.Transform) (*Layout, *Exchange) {
	t.Helper()
	l := layoutOf(t, iceberg.NestedField{ID: 1, Name: "c", Type: typ, Required: required})
	x, err := NewExchange(l, specOf(1, transforms...))
	if err != nil {
		t.Fatal(err)
	}
	return l, x
}

func layoutOf(t testing.TB, fields ...iceberg.NestedField) *Layout {
	t.Helper()
	l, err := NewLayout(iceberg.NewSchema(0, fields...))
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// specOf makes a spec whose fields 1000, 1001, … all have the same source.
func specOf(source int, transforms ...iceberg.Transform) iceberg.PartitionSpec {
	var fields []iceberg.PartitionField
	for i, tr := range transforms {
		fields = append(fields, iceberg.PartitionField{SourceIDs: []int{source}, FieldID: 1000 + i, Name: fmt.Sprint("p", i), Transform: tr})
	}
	return iceberg.NewPartitionSpec(fields...)
}

// appendLiteral appends one value of a leaf to the batch's column; nil is null.
func appendLiteral(b *Batch, leaf int, lit iceberg.Literal) {
	l, c := &b.Layout.Leaves[leaf], &b.Columns[leaf]
	if lit == nil {
		c.Def = append(c.Def, l.MaxDef-1)
		return
	}
	if l.MaxDef > 0 {
		c.Def = append(c.Def, l.MaxDef)
	}
	var raw []byte
	switch v := lit.Any().(type) {
	case bool:
		n := int64(0)
		if v {
			n = 1
		}
		c.Fixed = append(c.Fixed, n)
		return
	case int32:
		c.Fixed = append(c.Fixed, int64(v))
		return
	case int64:
		c.Fixed = append(c.Fixed, v)
		return
	case float32:
		c.Fixed = append(c.Fixed, int64(math.Float32bits(v)))
		return
	case float64:
		c.Fixed = append(c.Fixed, int64(math.Float64bits(v)))
		return
	case iceberg.Date:
		c.Fixed = append(c.Fixed, int64(v))
		return
	case iceberg.Time:
		c.Fixed = append(c.Fixed, int64(v))
		return
	case iceberg.Timestamp:
		c.Fixed = append(c.Fixed, int64(v))
		return
	case iceberg.Decimal:
		if l.Kind != Fixed {
			c.Fixed = append(c.Fixed, v.Val.BigInt().Int64())
			return
		}
		var wide [16]byte
		binary.BigEndian.PutUint64(wide[:8], uint64(v.Val.HighBits()))
		binary.BigEndian.PutUint64(wide[8:], v.Val.LowBits())
		raw = wide[16-l.Width:]
	case string:
		raw = []byte(v)
	case []byte:
		raw = v
	case uuid.UUID:
		raw = v[:]
	default:
		panic(fmt.Sprintf("%T", v))
	}
	c.Arena = append(c.Arena, raw...)
	c.End = append(c.End, uint32(len(c.Arena)))
}

// near returns an integer of any magnitude, so that small and edge values come often.
func near(r *rand.Rand, bits int) int64 {
	v := r.Int64() >> (r.IntN(bits) + 64 - bits)
	if r.IntN(2) == 0 {
		return -v - 1
	}
	return v
}

func randomText(r *rand.Rand) string {
	alphabet := []rune("abcé日本語😀 /%=\x00ÿ")
	var s strings.Builder
	for range r.IntN(14) {
		s.WriteRune(alphabet[r.IntN(len(alphabet))])
	}
	return s.String()
}

func randomDecimal(r *rand.Rand, precision, scale int) iceberg.Decimal {
	limit := new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(1+r.IntN(precision))), nil)
	v := new(big.Int).SetUint64(r.Uint64())
	v.Lsh(v, 64).Or(v, new(big.Int).SetUint64(r.Uint64())).Mod(v, limit)
	if r.IntN(2) == 0 {
		v.Neg(v)
	}
	return iceberg.Decimal{Val: decimal128.FromBigInt(v), Scale: scale}
}

func randomRaw(r *rand.Rand, n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(r.Uint32())
	}
	return b
}

var literalsOf = []struct {
	typ    iceberg.Type
	random func(r *rand.Rand) iceberg.Literal
}{
	{iceberg.BooleanType{}, func(r *rand.Rand) iceberg.Literal { return iceberg.NewLiteral(r.IntN(2) == 0) }},
	{iceberg.Int32Type{}, func(r *rand.Rand) iceberg.Literal { return iceberg.NewLiteral(int32(near(r, 32))) }},
	{iceberg.Int64Type{}, func(r *rand.Rand) iceberg.Literal { return iceberg.NewLiteral(near(r, 64)) }},
	{iceberg.Float32Type{}, func(r *rand.Rand) iceberg.Literal { return iceberg.NewLiteral(float32(r.NormFloat64())) }},
	{iceberg.Float64Type{}, func(r *rand.Rand) iceberg.Literal { return iceberg.NewLiteral(r.NormFloat64()) }},
	{iceberg.DateType{}, func(r *rand.Rand) iceberg.Literal { return iceberg.NewLiteral(iceberg.Date(near(r, 32))) }},
	{iceberg.TimeType{}, func(r *rand.Rand) iceberg.Literal { return iceberg.NewLiteral(iceberg.Time(r.Int64N(86400000000))) }},
	{iceberg.TimestampType{}, func(r *rand.Rand) iceberg.Literal { return iceberg.NewLiteral(iceberg.Timestamp(near(r, 64))) }},
	{iceberg.TimestampTzType{}, func(r *rand.Rand) iceberg.Literal { return iceberg.NewLiteral(iceberg.Timestamp(near(r, 55))) }},
	{iceberg.StringType{}, func(r *rand.Rand) iceberg.Literal { return iceberg.NewLiteral(randomText(r)) }},
	{iceberg.BinaryType{}, func(r *rand.Rand) iceberg.Literal { return iceberg.NewLiteral(randomRaw(r, r.IntN(40))) }},
	{iceberg.FixedTypeOf(7), func(r *rand.Rand) iceberg.Literal { return iceberg.FixedLiteral(randomRaw(r, 7)) }},
	{iceberg.UUIDType{}, func(r *rand.Rand) iceberg.Literal { return iceberg.NewLiteral(uuid.UUID(randomRaw(r, 16))) }},
	{iceberg.DecimalTypeOf(9, 2), func(r *rand.Rand) iceberg.Literal { return iceberg.NewLiteral(randomDecimal(r, 9, 2)) }},
	{iceberg.DecimalTypeOf(18, 4), func(r *rand.Rand) iceberg.Literal { return iceberg.NewLiteral(randomDecimal(r, 18, 4)) }},
	{iceberg.DecimalTypeOf(19, 0), func(r *rand.Rand) iceberg.Literal { return iceberg.NewLiteral(randomDecimal(r, 19, 0)) }},
	{iceberg.DecimalTypeOf(38, 10), func(r *rand.Rand) iceberg.Literal { return iceberg.NewLiteral(randomDecimal(r, 38, 10)) }},
}
