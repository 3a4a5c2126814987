package writers

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"reflect"
	"strings"
	"sync"
	"testing"

	"github.com/apache/arrow-go/v18/arrow/decimal128"
	"github.com/apache/iceberg-go"
	"github.com/google/uuid"
	"github.com/twmb/murmur3"
)

var everyTransform = []iceberg.Transform{
	iceberg.IdentityTransform{}, iceberg.VoidTransform{},
	iceberg.BucketTransform{NumBuckets: 1}, iceberg.BucketTransform{NumBuckets: 64}, iceberg.BucketTransform{NumBuckets: math.MaxInt32},
	iceberg.TruncateTransform{Width: 1}, iceberg.TruncateTransform{Width: 10}, iceberg.TruncateTransform{Width: 7919},
	iceberg.YearTransform{}, iceberg.MonthTransform{}, iceberg.DayTransform{}, iceberg.HourTransform{},
}

// appliedByIceberg applies a transform as iceberg-go does.
func appliedByIceberg(tr iceberg.Transform, lit iceberg.Literal) any {
	if lit == nil {
		return nil
	}
	out := tr.Apply(iceberg.Optional[iceberg.Literal]{Valid: true, Val: lit})
	if !out.Valid {
		return nil
	}
	return out.Val.Any()
}

// overflows reports what iceberg-go does not: that no value of the result type
// is the right one.
func overflows(typ iceberg.Type, tr iceberg.Transform, lit iceberg.Literal) bool {
	if lit == nil {
		return false
	}
	floor := func(v *big.Int, width int) *big.Int {
		w := big.NewInt(int64(width))
		return new(big.Int).Sub(v, new(big.Int).Mod(v, w)) // Mod is Euclidean
	}
	switch tr := tr.(type) {
	case iceberg.HourTransform:
		h := floor(big.NewInt(int64(lit.Any().(iceberg.Timestamp))), 3600000000)
		h.Div(h, big.NewInt(3600000000))
		return h.Cmp(big.NewInt(math.MaxInt32)) > 0 || h.Cmp(big.NewInt(math.MinInt32)) < 0
	case iceberg.TruncateTransform:
		switch v := lit.Any().(type) {
		case int32:
			return floor(big.NewInt(int64(v)), tr.Width).Cmp(big.NewInt(math.MinInt32)) < 0
		case int64:
			return floor(big.NewInt(v), tr.Width).Cmp(big.NewInt(math.MinInt64)) < 0
		case iceberg.Decimal:
			limit := new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(typ.(iceberg.DecimalType).Precision())), nil)
			return floor(v.Val.BigInt(), tr.Width).CmpAbs(limit) >= 0
		}
	}
	return false
}

// TestExchangeAgreesWithIceberg compares addresses and partitions with
// iceberg-go's own transforms, for every type and transform that go together,
// alone and with a second field beside it.
func TestExchangeAgreesWithIceberg(t *testing.T) {
	for _, kind := range literalsOf {
		for _, tr := range everyTransform {
			if !tr.CanTransform(kind.typ) {
				continue
			}
			for _, second := range []iceberg.Transform{nil, iceberg.IdentityTransform{}} {
				for _, required := range []bool{true, false} {
					name := fmt.Sprintf("type=%s/transform=%s/fields=%v/required=%v", kind.typ, tr, second != nil, required)
					t.Run(name, func(t *testing.T) {
						agree(t, kind.typ, required, kind.random, tr, second)
					})
				}
			}
		}
	}
}

func agree(t *testing.T, typ iceberg.Type, required bool, random func(*rand.Rand) iceberg.Literal, tr, second iceberg.Transform) {
	transforms := []iceberg.Transform{tr}
	if second != nil {
		transforms = append(transforms, second)
	}
	l, x := exchangeOf(t, typ, required, transforms...)
	seed := rand.Uint64()
	r := rand.New(rand.NewPCG(seed, 1))
	seen := map[string]int32{} // the oracle's tuple → its address
	var out []int32
	for range 3 {
		b := NewBatch(l)
		var lits []iceberg.Literal
		for range 200 {
			var lit iceberg.Literal
			if required || r.IntN(8) > 0 {
				lit = random(r)
			}
			lits = append(lits, lit)
			appendLiteral(b, 0, lit)
			b.Rows++
		}
		out = x.Addresses(b, out)
		if len(out) != len(lits) {
			t.Fatalf("%d addresses for %d rows", len(out), len(lits))
		}
		for row, lit := range lits {
			refusal := x.Refusal(b, row)
			if overflows(typ, tr, lit) {
				if out[row] != -1 || refusal == nil || refusal.Reason != ReasonPartition || refusal.Field != "c" {
					t.Fatalf("seed %d: %v has address %d, refusal %v", seed, lit, out[row], refusal)
				}
				continue
			}
			if refusal != nil {
				t.Fatalf("seed %d: %v has refusal %v", seed, lit, refusal)
			}
			want := map[int]any{1000: appliedByIceberg(tr, lit)}
			if second != nil {
				want[1001] = appliedByIceberg(second, lit)
			}
			if got := x.Partition(out[row]); !reflect.DeepEqual(got, want) {
				t.Fatalf("seed %d: partition of %v is %#v, want %#v", seed, lit, got, want)
			}
			tuple := fmt.Sprintf("%#v", want)
			if address, known := seen[tuple]; known && address != out[row] {
				t.Fatalf("seed %d: %v has address %d after %d", seed, lit, out[row], address)
			} else if !known && int(out[row]) != len(seen) {
				t.Fatalf("seed %d: new %v has address %d, want %d", seed, lit, out[row], len(seen))
			}
			seen[tuple] = out[row]
		}
	}
	if x.Len() != len(seen) {
		t.Fatalf("seed %d: Len is %d, want %d", seed, x.Len(), len(seen))
	}
}

// TestExchangeSpecVectors are the hashes that the Iceberg spec prints.
func TestExchangeSpecVectors(t *testing.T) {
	u := uuid.MustParse("f79c3e09-677c-4bbd-a479-3f349cb785e7")
	for _, v := range []struct {
		typ  iceberg.Type
		lit  iceberg.Literal
		hash int32
	}{
		{iceberg.Int32Type{}, iceberg.NewLiteral(int32(34)), 2017239379},
		{iceberg.Int64Type{}, iceberg.NewLiteral(int64(34)), 2017239379},
		{iceberg.DecimalTypeOf(9, 2), iceberg.NewLiteral(iceberg.Decimal{Val: decimal128.FromI64(1420), Scale: 2}), -500754589},
		{iceberg.DecimalTypeOf(38, 2), iceberg.NewLiteral(iceberg.Decimal{Val: decimal128.FromI64(1420), Scale: 2}), -500754589},
		{iceberg.DateType{}, iceberg.NewLiteral(iceberg.Date(17486)), -653330422},
		{iceberg.TimeType{}, iceberg.NewLiteral(iceberg.Time(81068000000)), -662762989},
		{iceberg.TimestampType{}, iceberg.NewLiteral(iceberg.Timestamp(1510871468000000)), -2047944441},
		{iceberg.TimestampTzType{}, iceberg.NewLiteral(iceberg.Timestamp(1510871468000000)), -2047944441},
		{iceberg.StringType{}, iceberg.NewLiteral("iceberg"), 1210000089},
		{iceberg.UUIDType{}, iceberg.NewLiteral(u), 1488055340},
		{iceberg.BinaryType{}, iceberg.NewLiteral([]byte{0, 1, 2, 3}), -188683207},
		{iceberg.FixedTypeOf(4), iceberg.FixedLiteral([]byte{0, 1, 2, 3}), -188683207},
	} {
		l, x := exchangeOf(t, v.typ, true, iceberg.BucketTransform{NumBuckets: math.MaxInt32})
		b := NewBatch(l)
		appendLiteral(b, 0, v.lit)
		b.Rows = 1
		got := x.Partition(x.Addresses(b, nil)[0])[1000]
		if want := (v.hash & math.MaxInt32) % math.MaxInt32; got != want {
			t.Errorf("%s %v: bucket %v, want %d", v.typ, v.lit, got, want)
		}
	}
}

// TestExchangeEdges are values at which arithmetic goes wrong first.
func TestExchangeEdges(t *testing.T) {
	const micros = int64(1)
	stamp := func(v int64) iceberg.Literal { return iceberg.NewLiteral(iceberg.Timestamp(v)) }
	dec := func(s string, scale int) iceberg.Literal {
		v, ok := new(big.Int).SetString(s, 10)
		if !ok {
			panic(s)
		}
		return iceberg.NewLiteral(iceberg.Decimal{Val: decimal128.FromBigInt(v), Scale: scale})
	}
	refused := "refused"
	for _, v := range []struct {
		typ  iceberg.Type
		tr   iceberg.Transform
		lit  iceberg.Literal
		want any
	}{
		{iceberg.TimestampType{}, iceberg.DayTransform{}, stamp(-micros), iceberg.Date(-1)},
		{iceberg.TimestampType{}, iceberg.MonthTransform{}, stamp(-micros), int32(-1)},
		{iceberg.TimestampType{}, iceberg.YearTransform{}, stamp(-micros), int32(-1)},
		{iceberg.TimestampType{}, iceberg.HourTransform{}, stamp(-micros), int32(-1)},
		{iceberg.DateType{}, iceberg.MonthTransform{}, iceberg.NewLiteral(iceberg.Date(-1)), int32(-1)},
		{iceberg.DateType{}, iceberg.YearTransform{}, iceberg.NewLiteral(iceberg.Date(-366)), int32(-2)},
		{iceberg.TimestampType{}, iceberg.HourTransform{}, stamp(math.MaxInt64), refused},
		{iceberg.TimestampType{}, iceberg.HourTransform{}, stamp(math.MinInt64), refused},
		{iceberg.TimestampType{}, iceberg.HourTransform{}, stamp(int64(math.MaxInt32)*3600000000 + 3599999999), int32(math.MaxInt32)},
		{iceberg.TimestampType{}, iceberg.YearTransform{}, stamp(math.MinInt64), int32(-292278)},
		{iceberg.Int64Type{}, iceberg.TruncateTransform{Width: 10}, iceberg.NewLiteral(int64(math.MinInt64)), refused},
		{iceberg.Int64Type{}, iceberg.TruncateTransform{Width: 8}, iceberg.NewLiteral(int64(math.MinInt64)), int64(math.MinInt64)},
		{iceberg.Int64Type{}, iceberg.TruncateTransform{Width: 10}, iceberg.NewLiteral(int64(-1)), int64(-10)},
		{iceberg.Int32Type{}, iceberg.TruncateTransform{Width: math.MaxInt32}, iceberg.NewLiteral(int32(math.MinInt32)), refused},
		{iceberg.Int32Type{}, iceberg.TruncateTransform{Width: math.MaxInt32}, iceberg.NewLiteral(int32(-1)), int32(-math.MaxInt32)},
		{iceberg.DecimalTypeOf(4, 2), iceberg.TruncateTransform{Width: 50}, dec("1065", 2), dec("1050", 2).Any()},
		{iceberg.DecimalTypeOf(4, 2), iceberg.TruncateTransform{Width: 50}, dec("-9999", 2), refused},
		{iceberg.DecimalTypeOf(38, 0), iceberg.TruncateTransform{Width: 10}, dec("-"+strings.Repeat("9", 38), 0), refused},
		{iceberg.DecimalTypeOf(38, 0), iceberg.TruncateTransform{Width: 10}, dec(strings.Repeat("9", 38), 0), dec(strings.Repeat("9", 37)+"0", 0).Any()},
		{iceberg.StringType{}, iceberg.TruncateTransform{Width: 2}, iceberg.NewLiteral("日本語"), "日本"},
		{iceberg.StringType{}, iceberg.TruncateTransform{Width: 3}, iceberg.NewLiteral("a😀b😀"), "a😀b"},
		{iceberg.StringType{}, iceberg.IdentityTransform{}, iceberg.NewLiteral("x%2Fy=/"), "x%2Fy=/"},
		{iceberg.BinaryType{}, iceberg.TruncateTransform{Width: 2}, iceberg.NewLiteral([]byte{0xe6, 0x97, 0xa5}), []byte{0xe6, 0x97}},
		{iceberg.BinaryType{}, iceberg.IdentityTransform{}, iceberg.NewLiteral([]byte{}), []byte{}},
	} {
		l, x := exchangeOf(t, v.typ, true, v.tr)
		b := NewBatch(l)
		appendLiteral(b, 0, v.lit)
		b.Rows = 1
		address := x.Addresses(b, nil)[0]
		if v.want == refused {
			if e := x.Refusal(b, 0); address != -1 || e == nil || !strings.Contains(e.Error(), v.tr.String()) {
				t.Errorf("%s(%v): address %d, refusal %v", v.tr, v.lit, address, e)
			}
			continue
		}
		if got := x.Partition(address)[1000]; !reflect.DeepEqual(got, v.want) {
			t.Errorf("%s(%v) is %#v, want %#v", v.tr, v.lit, got, v.want)
		}
	}
}

// TestExchangeNaN: all NaNs share a partition, and zero's two signs do not.
func TestExchangeNaN(t *testing.T) {
	l, x := exchangeOf(t, iceberg.Float64Type{}, true, iceberg.IdentityTransform{})
	b := NewBatch(l)
	for _, v := range []uint64{0x7ff8000000000001, 0xfff8000000000007, 0, 1 << 63} {
		b.Columns[0].Fixed = append(b.Columns[0].Fixed, int64(v))
		b.Rows++
	}
	if got := fmt.Sprint(x.Addresses(b, nil)); got != "[0 0 1 2]" {
		t.Errorf("addresses %s", got)
	}
}

// TestExchangeNested partitions by a column inside of optional structs: the
// field is null when any of them is.
func TestExchangeNested(t *testing.T) {
	inner := &iceberg.StructType{FieldList: []iceberg.NestedField{{ID: 3, Name: "b", Type: iceberg.Int64Type{}}}}
	l := layoutOf(t, iceberg.NestedField{ID: 2, Name: "a", Type: inner})
	x, err := NewExchange(l, specOf(3, iceberg.TruncateTransform{Width: 10}, iceberg.BucketTransform{NumBuckets: 16}))
	if err != nil {
		t.Fatal(err)
	}
	b := NewBatch(l)
	b.Columns[0].Def = []uint8{0, 2, 1, 2, 2, 0}
	b.Columns[0].Fixed = []int64{17, math.MinInt64, 12}
	b.Rows = 6
	if got := fmt.Sprint(x.Addresses(b, nil)); got != "[0 1 0 -1 2 0]" {
		t.Errorf("addresses %s", got)
	}
	if got := x.Partition(0); !reflect.DeepEqual(got, map[int]any{1000: nil, 1001: nil}) {
		t.Errorf("null partition %v", got)
	}
	if e := x.Refusal(b, 3); e == nil || e.Field != "a.b" {
		t.Errorf("refusal %v", e)
	}
}

func TestExchangeUnpartitioned(t *testing.T) {
	l := layoutOf(t, iceberg.NestedField{ID: 1, Name: "c", Type: iceberg.Int64Type{}, Required: true})
	x, err := NewExchange(l, *iceberg.UnpartitionedSpec)
	if err != nil {
		t.Fatal(err)
	}
	b := NewBatch(l)
	b.Columns[0].Fixed, b.Rows = []int64{1, 2}, 2
	if got := x.Addresses(b, nil); !reflect.DeepEqual(got, []int32{0, 0}) || len(x.Partition(0)) != 0 || x.Partition(0) == nil {
		t.Errorf("addresses %v, partition %v", got, x.Partition(0))
	}
}

func TestExchangeRefusesSpecs(t *testing.T) {
	l := layoutOf(t,
		iceberg.NestedField{ID: 1, Name: "f", Type: iceberg.Float32Type{}},
		iceberg.NestedField{ID: 2, Name: "tags", Type: &iceberg.ListType{ElementID: 3, Element: iceberg.StringType{}}},
		iceberg.NestedField{ID: 4, Name: "s", Type: &iceberg.StructType{FieldList: []iceberg.NestedField{{ID: 5, Name: "d", Type: iceberg.DateType{}}}}})
	unknown, err := iceberg.ParseTransform("zorder[3]")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		source int
		tr     iceberg.Transform
		want   string
	}{
		{1, iceberg.BucketTransform{NumBuckets: 4}, `column "f": transform bucket[4] can't be used on type float`},
		{3, iceberg.IdentityTransform{}, `column "tags.element": lies in a list`},
		{4, iceberg.IdentityTransform{}, `column "s": is not primitive`},
		{9, iceberg.IdentityTransform{}, "no column has the field id 9"},
		{5, iceberg.HourTransform{}, `column "s.d": transform hour can't be used on type date`},
		{5, iceberg.BucketTransform{}, `column "s.d": 0 buckets`},
		{1, unknown, `column "f": transform zorder[3] is not supported`},
	} {
		if _, err := NewExchange(l, specOf(c.source, c.tr)); err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), `"p0"`) {
			t.Errorf("%s of %d: %v", c.tr, c.source, err)
		}
	}
	// A dropped field stays in the spec as void; its source may be gone.
	if _, err := NewExchange(l, specOf(0, iceberg.VoidTransform{})); err != nil {
		t.Error(err)
	}
}

func TestHashLong(t *testing.T) {
	r := rand.New(rand.NewPCG(rand.Uint64(), 2))
	for range 10000 {
		v := near(r, 64)
		if got, want := hashLong(v), murmur3.Sum32(binary.LittleEndian.AppendUint64(nil, uint64(v))); got != want {
			t.Fatalf("hash of %d is %d, want %d", v, got, want)
		}
	}
}

// TestExchangeShared lets goroutines meet the same new partitions at once, on
// each road.
func TestExchangeShared(t *testing.T) {
	for _, transforms := range [][]iceberg.Transform{
		{iceberg.BucketTransform{NumBuckets: 64}},
		{iceberg.IdentityTransform{}},
		{iceberg.TruncateTransform{Width: 3}, iceberg.BucketTransform{NumBuckets: 8}},
	} {
		l, x := exchangeOf(t, iceberg.Int64Type{}, false, transforms...)
		results := make([]map[int64]int32, 4)
		var all sync.WaitGroup
		for g := range results {
			all.Go(func() {
				r, got := rand.New(rand.NewPCG(uint64(g), 3)), map[int64]int32{}
				var out []int32
				for range 50 {
					b, vals := NewBatch(l), []int64{}
					for range 64 {
						v := r.Int64N(500)
						vals = append(vals, v)
						if v == 0 {
							appendLiteral(b, 0, nil)
						} else {
							appendLiteral(b, 0, iceberg.NewLiteral(v))
						}
						b.Rows++
					}
					out = x.Addresses(b, out)
					for i, v := range vals {
						got[v] = out[i]
						x.Partition(out[i])
					}
				}
				results[g] = got
			})
		}
		all.Wait()
		for v, address := range results[0] {
			for g := range results {
				if other, ok := results[g][v]; ok && other != address {
					t.Fatalf("%v: %d has addresses %d and %d", transforms, v, address, other)
				}
			}
		}
		for address := range x.Len() {
			if x.Partition(int32(address)) == nil {
				t.Fatalf("%v: address %d of %d has no partition", transforms, address, x.Len())
			}
		}
	}
}

// TestExchangeKeepsNothing: partitions don't alias the batch.
func TestExchangeKeepsNothing(t *testing.T) {
	l, x := exchangeOf(t, iceberg.BinaryType{}, true, iceberg.IdentityTransform{})
	b := NewBatch(l)
	appendLiteral(b, 0, iceberg.NewLiteral([]byte("abc")))
	b.Rows = 1
	address := x.Addresses(b, nil)[0]
	copy(b.Columns[0].Arena, "xyz")
	if got := x.Partition(address)[1000].([]byte); !bytes.Equal(got, []byte("abc")) {
		t.Errorf("partition became %q", got)
	}
}
