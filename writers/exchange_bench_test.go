package writers

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/apache/arrow-go/v18/arrow/decimal128"
	"github.com/apache/iceberg-go"
	"github.com/google/uuid"
)

func BenchmarkExchange(b *testing.B) {
	for _, c := range []struct {
		name   string
		typ    iceberg.Type
		random func(*rand.Rand) iceberg.Literal
		trs    []iceberg.Transform
	}{
		{"bucket-long", iceberg.Int64Type{}, func(r *rand.Rand) iceberg.Literal { return iceberg.NewLiteral(r.Int64()) }, []iceberg.Transform{iceberg.BucketTransform{NumBuckets: 64}}},
		{"bucket-string", iceberg.StringType{}, func(r *rand.Rand) iceberg.Literal { return iceberg.NewLiteral(fmt.Sprintf("%036d", r.Int64())) }, []iceberg.Transform{iceberg.BucketTransform{NumBuckets: 64}}},
		{"bucket-uuid", iceberg.UUIDType{}, func(r *rand.Rand) iceberg.Literal { return iceberg.NewLiteral(uuid.UUID(randomRaw(r, 16))) }, []iceberg.Transform{iceberg.BucketTransform{NumBuckets: 64}}},
		{"identity-int", iceberg.Int32Type{}, func(r *rand.Rand) iceberg.Literal { return iceberg.NewLiteral(r.Int32N(100)) }, []iceberg.Transform{iceberg.IdentityTransform{}}},
		{"day", iceberg.TimestampTzType{}, func(r *rand.Rand) iceberg.Literal {
			return iceberg.NewLiteral(iceberg.Timestamp(1.7e15 + r.Int64N(1e9)))
		}, []iceberg.Transform{iceberg.DayTransform{}}},
		{"month", iceberg.TimestampTzType{}, func(r *rand.Rand) iceberg.Literal {
			return iceberg.NewLiteral(iceberg.Timestamp(1.7e15 + r.Int64N(1e9)))
		}, []iceberg.Transform{iceberg.MonthTransform{}}},
		{"identity-string", iceberg.StringType{}, func(r *rand.Rand) iceberg.Literal { return iceberg.NewLiteral(fmt.Sprint("region-", r.IntN(50))) }, []iceberg.Transform{iceberg.IdentityTransform{}}},
		{"day-bucket", iceberg.TimestampTzType{}, func(r *rand.Rand) iceberg.Literal {
			return iceberg.NewLiteral(iceberg.Timestamp(1.7e15 + r.Int64N(1e9)))
		}, []iceberg.Transform{iceberg.DayTransform{}, iceberg.BucketTransform{NumBuckets: 16}}},
		{"truncate-decimal38", iceberg.DecimalTypeOf(38, 2), func(r *rand.Rand) iceberg.Literal {
			return iceberg.NewLiteral(iceberg.Decimal{Val: decimal128.FromI64(r.Int64N(5000)), Scale: 2})
		}, []iceberg.Transform{iceberg.TruncateTransform{Width: 100}}},
	} {
		b.Run("spec="+c.name, func(b *testing.B) {
			l, x := exchangeOf(b, c.typ, false, c.trs...)
			r, batch := rand.New(rand.NewPCG(1, 1)), NewBatch(l)
			for range BatchRowsMax {
				appendLiteral(batch, 0, c.random(r))
				batch.Rows++
			}
			col := &batch.Columns[0]
			b.SetBytes(int64(len(col.Fixed)*8 + len(col.Arena)))
			b.ReportAllocs()
			out := x.Addresses(batch, nil)
			for b.Loop() {
				out = x.Addresses(batch, out)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/BatchRowsMax, "ns/row")
		})
	}
}
