package writers

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/apache/iceberg-go"
	"github.com/twmb/franz-go/pkg/kgo"
)

// BenchmarkJSON decodes hot records of three kinds into batches:
//
//	A      {"logStreamId": 1234567, "message": "<962 random letters and digits>"}
//	B      an event of 25 leaves in 5 structs and a list, escapes and non-ASCII in 5 % of its texts
//	B-any  the same with its fields in another order in each record, which defeats prediction
func BenchmarkJSON(b *testing.B) {
	rng := rand.New(rand.NewPCG(1, 2))
	for _, set := range []struct {
		name    string
		schema  *iceberg.Schema
		records []*kgo.Record
	}{
		{"A", schemaA(), recordsA(rng, 256)},
		{"B", schemaB(), recordsB(rng, 256)},
		{"B-any", schemaB(), shuffled(rng, recordsB(rng, 256))},
	} {
		b.Run("record="+set.name, func(b *testing.B) {
			layout, err := NewLayout(set.schema)
			if err != nil {
				b.Fatal(err)
			}
			d, err := NewJSON(layout, JSONOptions{})
			if err != nil {
				b.Fatal(err)
			}
			batch, size := NewBatch(layout), 0
			for _, r := range set.records { // grows the batch
				size += len(r.Value)
				if err := d.Decode(batch, r); err != nil {
					b.Fatal(err)
				}
			}
			b.SetBytes(int64(size / len(set.records)))
			b.ReportAllocs()
			b.ResetTimer()
			for i := range b.N {
				if i%256 == 0 {
					batch.Reset()
				}
				if err := d.Decode(batch, set.records[i%256]); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func schemaA() *iceberg.Schema {
	return iceberg.NewSchema(0,
		iceberg.NestedField{ID: 1, Name: "logStreamId", Type: iceberg.PrimitiveTypes.Int64, Required: true},
		iceberg.NestedField{ID: 2, Name: "message", Type: iceberg.PrimitiveTypes.String, Required: true})
}

func recordsA(rng *rand.Rand, n int) []*kgo.Record {
	records := make([]*kgo.Record, n)
	for i := range records {
		text := make([]byte, 962)
		for j := range text {
			text[j] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"[rng.IntN(62)]
		}
		records[i] = &kgo.Record{Value: fmt.Appendf(nil, `{"logStreamId": %d, "message": "%s"}`, 1000000+rng.IntN(9000000), text)}
	}
	return records
}

// eventB is a record of kind B; schemaB says the same in Iceberg's words.
type eventB struct {
	ID      string   `json:"id"`
	At      string   `json:"at"`
	Kind    string   `json:"kind"`
	Seq     int64    `json:"seq"`
	User    userB    `json:"user"`
	Device  deviceB  `json:"device"`
	Page    pageB    `json:"page"`
	Geo     geoB     `json:"geo"`
	Order   orderB   `json:"order"`
	Tags    []string `json:"tags"`
	Message string   `json:"message"`
}

type userB struct {
	ID      int64  `json:"id"`
	Name    string `json:"name"`
	Email   string `json:"email"`
	Premium bool   `json:"premium"`
}

type deviceB struct {
	OS      string `json:"os"`
	Model   string `json:"model"`
	Version string `json:"version"`
}

type pageB struct {
	URL      string  `json:"url"`
	Referrer *string `json:"referrer"`
	Millis   int32   `json:"millis"`
}

type geoB struct {
	Country string  `json:"country"`
	City    string  `json:"city"`
	Lat     float64 `json:"lat"`
	Lon     float64 `json:"lon"`
}

type orderB struct {
	Number   int64       `json:"number"`
	Amount   json.Number `json:"amount"`
	Currency string      `json:"currency"`
	Items    int32       `json:"items"`
	Rate     float64     `json:"rate"`
}

func schemaB() *iceberg.Schema {
	id := 0
	field := func(name string, t iceberg.Type) iceberg.NestedField {
		id++
		return iceberg.NestedField{ID: id, Name: name, Type: t}
	}
	fields := func(parts ...any) []iceberg.NestedField {
		var out []iceberg.NestedField
		for i := 0; i < len(parts); i += 2 {
			out = append(out, field(parts[i].(string), parts[i+1].(iceberg.Type)))
		}
		return out
	}
	structOf := func(parts ...any) iceberg.Type { return &iceberg.StructType{FieldList: fields(parts...)} }
	p := iceberg.PrimitiveTypes
	return iceberg.NewSchema(0, fields(
		"id", p.UUID, "at", p.TimestampTz, "kind", p.String, "seq", p.Int64,
		"user", structOf("id", p.Int64, "name", p.String, "email", p.String, "premium", p.Bool),
		"device", structOf("os", p.String, "model", p.String, "version", p.String),
		"page", structOf("url", p.String, "referrer", p.String, "millis", p.Int32),
		"geo", structOf("country", p.String, "city", p.String, "lat", p.Float64, "lon", p.Float64),
		"order", structOf("number", p.Int64, "amount", iceberg.DecimalTypeOf(18, 2), "currency", p.String, "items", p.Int32, "rate", p.Float64),
		"tags", &iceberg.ListType{ElementID: 1000, Element: p.String},
		"message", p.String)...)
}

func recordsB(rng *rand.Rand, n int) []*kgo.Record {
	pick := func(from ...string) string { return from[rng.IntN(len(from))] }
	words := strings.Fields("checkout failed because the payment provider answered too late after retry number one of the upstream gateway while user session was still open and the cart held several items from warehouse north")
	prose := func(n int) string {
		s := make([]string, n)
		for i := range s {
			s[i] = words[rng.IntN(len(words))]
		}
		if rng.IntN(20) == 0 {
			s[rng.IntN(n)] = pick("\"quoted\"", "tab\there", "größer", "naïve café", "東京都", "line\nend")
		}
		return strings.Join(s, " ")
	}
	records := make([]*kgo.Record, n)
	for i := range records {
		referrer := "https://search.example.com/?q=" + pick("shoes", "lamps", "books")
		e := eventB{
			ID:     fmt.Sprintf("%08x-%04x-4%03x-8%03x-%012x", rng.Uint32(), rng.IntN(1<<16), rng.IntN(1<<12), rng.IntN(1<<12), rng.Int64N(1<<48)),
			At:     time.UnixMicro(1_731_508_712_000_000 + rng.Int64N(1e12)).UTC().Format("2006-01-02T15:04:05.000000Z"),
			Kind:   pick("click", "view", "purchase", "refund"),
			Seq:    rng.Int64N(1e12),
			User:   userB{rng.Int64N(1e10), prose(2), fmt.Sprintf("user%d@example.com", rng.IntN(1e6)), rng.IntN(2) == 0},
			Device: deviceB{pick("android", "ios", "linux"), pick("Pixel 9 Pro", "iPhone 17", "ThinkPad X1"), fmt.Sprintf("%d.%d.%d", rng.IntN(20), rng.IntN(9), rng.IntN(99))},
			Page:   pageB{fmt.Sprintf("https://shop.example.com/products/%d?ref=%s", rng.IntN(1e6), pick("home", "mail", "ad")), &referrer, int32(rng.IntN(5000))},
			Geo:    geoB{pick("DE", "JP", "BR", "US"), pick("Berlin", "Tokyo", "Recife", "Austin"), float64(rng.IntN(180e6))/1e6 - 90, float64(rng.IntN(360e6))/1e6 - 180},
			Order:  orderB{rng.Int64N(1e9), json.Number(fmt.Sprintf("%d.%02d", rng.IntN(1000), rng.IntN(100))), pick("EUR", "JPY", "USD"), int32(rng.IntN(20)), rng.Float64()},
			Tags:   []string{prose(1), prose(1), prose(1)}, Message: prose(34),
		}
		if rng.IntN(5) == 0 {
			e.Page.Referrer = nil
		}
		value, err := json.Marshal(e)
		if err != nil {
			panic(err)
		}
		records[i] = &kgo.Record{Value: value}
	}
	return records
}

// shuffled gives the top-level fields of each record another order.
func shuffled(rng *rand.Rand, records []*kgo.Record) []*kgo.Record {
	for _, r := range records {
		var fields map[string]json.RawMessage
		if err := json.Unmarshal(r.Value, &fields); err != nil {
			panic(err)
		}
		var parts []string
		for name, value := range fields {
			parts = append(parts, fmt.Sprintf("%q:%s", name, value))
		}
		rng.Shuffle(len(parts), func(i, j int) { parts[i], parts[j] = parts[j], parts[i] })
		r.Value = []byte("{" + strings.Join(parts, ",") + "}")
	}
	return records
}
