package writers

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/apache/iceberg-go"
	"github.com/twmb/franz-go/pkg/kgo"
)

// FuzzJSON compares the decoder with the oracle: the same documents are
// accepted with the same values, and what is refused leaves no trace.
func FuzzJSON(f *testing.F) {
	rng := rand.New(rand.NewPCG(3, 4))
	var layouts []*Layout
	for i := range fuzzSchemas() {
		layouts = append(layouts, fuzzLayout(f, i))
		for range 40 {
			g := &inventor{rng: rng, layout: layouts[i]}
			f.Add(byte(i), byte(rng.IntN(64)), g.document())
		}
	}
	f.Fuzz(func(t *testing.T, schema, options byte, value []byte) {
		checkAgainstOracle(t, layouts[int(schema)%len(layouts)], fuzzOptions(options), [][]byte{value})
	})
}

// TestJSONAgainstOracle does the same with documents made for the schemas,
// most of them right and some with a fault, many to a batch.
func TestJSONAgainstOracle(t *testing.T) {
	for i := range fuzzSchemas() {
		t.Run(fmt.Sprintf("schema=%d", i), func(t *testing.T) {
			rng := rand.New(rand.NewPCG(uint64(i), 1))
			g := &inventor{rng: rng, layout: fuzzLayout(t, i)}
			accepted := 0
			for round := range 60 {
				var values [][]byte
				for range 50 {
					values = append(values, g.document())
				}
				accepted += checkAgainstOracle(t, g.layout, fuzzOptions(byte(round)), values)
			}
			if accepted < 300 {
				t.Errorf("%d of 3000 documents accepted: too few to show anything", accepted)
			}
		})
	}
}

// TestJSONRollback mixes good and bad records at random: the batch must be the
// one that the good ones alone make.
func TestJSONRollback(t *testing.T) {
	for i := range fuzzSchemas() {
		g := &inventor{rng: rand.New(rand.NewPCG(uint64(i), 2)), layout: fuzzLayout(t, i)}
		d := newJSON(t, g.layout, JSONOptions{})
		for range 40 {
			mixed, pure := NewBatch(g.layout), NewBatch(g.layout)
			refused := 0
			for range 50 {
				r := &kgo.Record{Value: g.document(), Key: []byte("k"), Topic: "t"}
				if d.Decode(mixed, r) != nil {
					refused++
					continue
				}
				if err := newJSON(t, g.layout, JSONOptions{}).Decode(pure, r); err != nil {
					t.Fatalf("a new decoder refuses %s: %v", r.Value, err)
				}
			}
			if refused == 0 || refused == 50 {
				t.Errorf("schema %d: %d of 50 refused: nothing is mixed", i, refused)
			}
			equalBatches(t, mixed, pure)
		}
	}
}

func equalBatches(t testing.TB, got, want *Batch) {
	t.Helper()
	if got.Rows != want.Rows {
		t.Fatalf("%d rows, expected %d", got.Rows, want.Rows)
	}
	for i := range want.Columns {
		g, w := &got.Columns[i], &want.Columns[i]
		if !bytes.Equal(g.Def, w.Def) || !bytes.Equal(g.Rep, w.Rep) || !slices.Equal(g.Fixed, w.Fixed) || !bytes.Equal(g.Arena, w.Arena) ||
			!slices.Equal(g.End, w.End) || !slices.Equal(g.Entry, w.Entry) || !slices.Equal(g.Value, w.Value) {
			t.Fatalf("column %s is\n%+v, expected\n%+v", want.Layout.Leaves[i].Name, g, w)
		}
	}
}

func newJSON(t testing.TB, l *Layout, o JSONOptions) *JSON {
	t.Helper()
	d, err := NewJSON(l, o)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// checkAgainstOracle decodes values into one batch and returns how many were
// accepted.
func checkAgainstOracle(t testing.TB, l *Layout, o JSONOptions, values [][]byte) int {
	t.Helper()
	d, b := newJSON(t, l, o), NewBatch(l)
	var want []map[string]any
	for _, value := range values {
		before := b.Rows
		err := d.Decode(b, &kgo.Record{Value: value})
		row, ok := jsonOracle(l, o, value)
		if ok != (err == nil) {
			t.Fatalf("%q\ndecoder: %v\noracle accepts: %t", value, err, ok)
		}
		var refused *RecordError
		if err != nil && (!errors.As(err, &refused) || refused.Detail == "" || refused.Reason == "" || b.Rows != before) {
			t.Fatalf("%q is refused with %#v, %d rows after %d", value, err, b.Rows, before)
		}
		if ok {
			for name := range row { // no record fills these here
				if name == "_kafka_topic" {
					row[name] = ""
				}
			}
			want = append(want, row)
		}
	}
	got := assemble(t, b)
	for i := range want {
		if !reflect.DeepEqual(got[i], want[i]) {
			t.Fatalf("%q\nrow %d: %#v\nexpected: %#v", values, i, got[i], want[i])
		}
	}
	return len(want)
}

func fuzzOptions(b byte) JSONOptions {
	units := []string{"", "seconds", "millis", "micros"}
	return JSONOptions{RefuseUnknown: b&32 != 0, Timestamps: units[b&3], Times: units[b>>2&3], Dates: []string{"", "days"}[b>>4&1]}
}

func fuzzLayout(t testing.TB, i int) *Layout {
	t.Helper()
	l, err := NewLayout(fuzzSchemas()[i])
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// typer makes types with fresh field ids.
type typer struct{ id int }

func (y *typer) next() int { y.id++; return y.id }

// field makes a field; a name that ends in ! is required.
func (y *typer) field(name string, t iceberg.Type) iceberg.NestedField {
	bare, required := strings.CutSuffix(name, "!")
	return iceberg.NestedField{ID: y.next(), Name: bare, Type: t, Required: required}
}

func (y *typer) record(fields ...iceberg.NestedField) iceberg.Type {
	return &iceberg.StructType{FieldList: fields}
}

func (y *typer) list(element iceberg.Type, required bool) iceberg.Type {
	return &iceberg.ListType{ElementID: y.next(), Element: element, ElementRequired: required}
}

func (y *typer) mapping(key, value iceberg.Type, required bool) iceberg.Type {
	return &iceberg.MapType{KeyID: y.next(), KeyType: key, ValueID: y.next(), ValueType: value, ValueRequired: required}
}

func jsonPrimitives() []iceberg.Type {
	p := iceberg.PrimitiveTypes
	return []iceberg.Type{p.Bool, p.Int32, p.Int64, p.Float32, p.Float64, p.String, p.Binary, p.UUID, p.Date, p.Time, p.Timestamp, p.TimestampTz,
		iceberg.FixedTypeOf(3), iceberg.DecimalTypeOf(9, 2), iceberg.DecimalTypeOf(18, 6), iceberg.DecimalTypeOf(38, 10), iceberg.DecimalTypeOf(20, 0), iceberg.DecimalTypeOf(4, 4)}
}

// fuzzSchemas are what records are decoded for: all types, optional and
// required, in structs, lists of lists and maps, and names that need care.
func fuzzSchemas() []*iceberg.Schema {
	p, y := iceberg.PrimitiveTypes, &typer{}
	var optional, required, keyed, listed []iceberg.NestedField
	for i, t := range jsonPrimitives() {
		name := "c" + strconv.Itoa(i)
		optional = append(optional, y.field(name, t))
		if i%3 == 0 {
			required = append(required, y.field(name+"!", t))
		}
		listed = append(listed, y.field(name, y.list(t, i%2 == 0)))
		keyed = append(keyed, y.field(name, y.mapping(t, p.Int32, i%2 == 0)))
	}
	point := func(name string) iceberg.NestedField {
		return y.field(name, y.record(y.field("x!", p.Int32), y.field("y", p.Float64)))
	}
	return []*iceberg.Schema{
		iceberg.NewSchema(0, optional...),
		iceberg.NewSchema(1, append(required, point("p!"), point("q"))...),
		iceberg.NewSchema(2, listed...),
		iceberg.NewSchema(3, keyed...),
		iceberg.NewSchema(4,
			y.field("a", y.list(y.list(p.String, false), false)),
			y.field("b!", y.list(y.record(point("p"), y.field("tags", y.list(p.Int64, true))), false)),
			y.field("c", y.record(y.field("d", y.record(y.field("e", y.list(p.Bool, false)), y.field("f", p.String)))))),
		iceberg.NewSchema(5,
			y.field("m", y.mapping(p.String, y.mapping(p.Int64, y.list(p.String, false), false), false)),
			y.field("n", y.mapping(p.Date, y.record(y.field("v!", p.Int32), y.field("w", y.mapping(p.String, p.String, true))), true)),
			y.field("o", y.list(y.mapping(p.String, p.Float64, false), true))),
		iceberg.NewSchema(6,
			y.field("_kafka_topic!", p.String), y.field("a.b", p.Int32), y.field("a", y.record(y.field("b", p.Int32))),
			y.field("q\"uo\\te", p.String), y.field("größe", p.String), y.field("A", p.Int32), y.field("_kafka_timestamp", p.TimestampTz), y.field("_kafka_key", p.Binary)),
		schemaB(),
	}
}

// inventor writes random JSON for a layout, mostly right.
type inventor struct {
	rng    *rand.Rand
	layout *Layout
}

func (g *inventor) one(in int) bool { return g.rng.IntN(in) == 0 }

func (g *inventor) pick(from ...string) string { return from[g.rng.IntN(len(from))] }

// document writes a record's value, and breaks one in ten.
func (g *inventor) document() []byte {
	value := []byte(g.space() + g.value(g.layout.Root) + g.space())
	if g.one(10) {
		switch at := g.rng.IntN(len(value)); g.rng.IntN(4) {
		case 0:
			value[at] = byte(g.rng.Uint32())
		case 1:
			value = append(value[:at], value[at+1:]...)
		case 2:
			value = value[:at]
		case 3:
			value = slices.Insert(value, at, []byte(g.pick(",", "\"", "\\", "}", "]", "0", "\x00", "\xff", "null", "{}", "-"))...)
		}
	}
	return value
}

func (g *inventor) space() string {
	if g.one(8) {
		return g.pick(" ", "\n", "\t\r", "   ")
	}
	return ""
}

func (g *inventor) value(n *Node) string {
	if !n.Required && g.one(8) || g.one(2000) {
		return "null"
	}
	if g.one(1500) {
		return g.any(3)
	}
	switch n.Kind {
	case Struct:
		var parts []string
		for _, child := range n.Children {
			if !child.Required && g.one(8) || g.one(2000) {
				continue
			}
			parts = append(parts, g.member(g.name(child.Name), g.value(child)))
			if g.one(2000) {
				parts = append(parts, g.member(g.name(child.Name), g.value(child)))
			}
		}
		for g.one(6) {
			parts = append(parts, g.member(g.str(g.pick("unknown", "x", "_kafka_topic", "", "größe", "c0")), g.any(3)))
		}
		if g.one(2) {
			g.rng.Shuffle(len(parts), func(i, j int) { parts[i], parts[j] = parts[j], parts[i] })
		}
		return "{" + g.space() + strings.Join(parts, ",") + "}"
	case List:
		return "[" + g.space() + strings.Join(g.some(func() string { return g.space() + g.value(n.Children[0]) + g.space() }), ",") + "]"
	case Map:
		return "{" + g.space() + strings.Join(g.some(func() string {
			key := g.primitive(n.Children[0].Type)
			if !strings.HasPrefix(key, `"`) {
				key = g.str(key)
			}
			return g.member(key, g.value(n.Children[1]))
		}), ",") + "}"
	default:
		return g.primitive(n.Type)
	}
}

func (g *inventor) some(what func() string) (out []string) {
	for range g.rng.IntN(4) {
		out = append(out, what())
	}
	return out
}

func (g *inventor) member(name, value string) string {
	return g.space() + name + g.space() + ":" + g.space() + value + g.space()
}

func (g *inventor) name(s string) string {
	if g.one(20) {
		return g.str(s)
	}
	if strings.ContainsAny(s, `"\`) {
		return strconv.Quote(s)
	}
	return `"` + s + `"`
}

// str writes a string with random escapes.
func (g *inventor) str(s string) string {
	var b strings.Builder
	b.WriteByte('"')
	for _, r := range s {
		switch {
		case r < ' ' || r == '"' || r == '\\' || g.one(8) && r < 0x10000:
			fmt.Fprintf(&b, g.pick(`\u%04x`, `\u%04X`), r)
		case r >= 0x10000 && g.one(2):
			fmt.Fprintf(&b, `\u%04x\u%04x`, 0xD800+(r-0x10000)>>10, 0xDC00+(r-0x10000)&0x3FF)
		default:
			b.WriteRune(r)
		}
	}
	if g.one(300) {
		b.WriteString(g.pick(`\ud800`, `\udc00`, `\ud83d\u0020`, "\xc3", `\x`, `\/\b\f\n\r\t\"\\`, "\xed\xa0\x80"))
	}
	b.WriteByte('"')
	return b.String()
}

// any writes a value that no column asked for.
func (g *inventor) any(depth int) string {
	if depth == 0 {
		return g.pick("1", "true", "null", `""`, "-0.5e7", `"ü"`)
	}
	switch g.rng.IntN(5) {
	case 0:
		return "[" + strings.Join(g.some(func() string { return g.any(depth - 1) }), ",") + "]"
	case 1:
		return "{" + strings.Join(g.some(func() string { return g.member(g.str(g.pick("a", "b", "")), g.any(depth-1)) }), ",") + "}"
	case 2:
		return strings.Repeat("[", g.rng.IntN(3)*100) // broken, unless it is empty
	case 3:
		n := 199 + g.rng.IntN(3)
		return strings.Repeat("[", n) + strings.Repeat("]", n)
	}
	return g.primitive(jsonPrimitives()[g.rng.IntN(len(jsonPrimitives()))])
}

// primitive writes a value of a type, now and then on or past its edge.
func (g *inventor) primitive(t iceberg.Type) string {
	odd := g.one(40)
	switch t := t.(type) {
	case iceberg.BooleanType:
		return g.pick("true", "false")
	case iceberg.Int32Type:
		if odd {
			return g.pick("2147483648", "-2147483649", "1.5", "1e9", "1.0", "-0", "21474836470e-1", "01", "1e10", `"1"`)
		}
		return strconv.Itoa(int(int32(g.rng.Uint32())))
	case iceberg.Int64Type:
		if odd {
			return g.pick("9223372036854775808", "-9223372036854775808", "9.223372036854775807e18", "9007199254740993", "10000000001922600", "1e-1", "0e99999999999", "1.", "+1", "1000000000000000000000e-3", "123456789012345678901234e-5")
		}
		return strconv.FormatInt(int64(g.rng.Uint64())>>g.rng.IntN(64), 10)
	case iceberg.Float32Type, iceberg.Float64Type:
		if odd {
			return g.pick("1e400", "-1e400", "3.4028236e38", "1e-400", "-0.0", "0.1", "NaN", "Infinity", "16777217", "9007199254740993", "1e23", "8.5e-45", "3.40282357e38", "179769313486231580793728971405303415079934132710037826936173778980444968292764750946649017977587207096330286416692887910946555547851940402630657488671505820681908902000708383676273854845817711531764475730270069855571366959622842914819860834936475292719074168444365510704342711559699508093042880")
		}
		return strconv.FormatFloat(g.rng.NormFloat64()*1000, g.pick("e", "f", "g")[0], g.rng.IntN(20)-1, 64)
	case iceberg.DecimalType:
		return g.decimal(t, odd)
	case iceberg.StringType:
		return g.str(g.pick("", "plain", "exactly8", "a longer text of more than thirty-two bytes, so that all loops run", "quote\"back\\slash", "naïve", "東京都", "😀 and more", "nul\x00", "\u2028"))
	case iceberg.UUIDType:
		return g.pick(`"123e4567-E89B-12d3-a456-426614174000"`, `"00000000-0000-0000-0000-000000000000"`, fmt.Sprintf(`"%08x-0000-0000-0000-00000000000%s"`, g.rng.Uint32(), g.pick("1", "2", "f", "A")))
	case iceberg.BinaryType, iceberg.FixedType:
		if odd {
			return g.pick(`"AAEC\n"`, `"AAE"`, `"AAF="`, `"-_-_"`, `"AAECAw=="`, `"A==="`, `"=AAA"`, `""`)
		}
		return g.pick(`"AAEC"`, `"////"`, `"+/+/"`)
	}
	return g.moment(t, odd)
}

func (g *inventor) decimal(t iceberg.DecimalType, odd bool) string {
	if odd {
		return g.pick("-0.05", `"-0.05"`, "0.000000000000", "1e-2", "1e37", "1e38", "9999999.99", "10000000.00", "12.3400", "12.345", `"1_0"`, `" 1"`, `"+1"`, `""`, "0.12345", "1e-999999999999", "1e999999999999", "0e999999999999", "99999999999999999999999999999999999999", "999999999999999999999999999999999999990e-1", "0.00000000000000000000000000000000000000000001e44")
	}
	digits := ""
	for range 1 + g.rng.IntN(t.Precision()) {
		digits += string(rune('0' + g.rng.IntN(10)))
	}
	for len(digits) <= t.Scale() {
		digits = "0" + digits
	}
	s := strings.TrimLeft(digits[:len(digits)-t.Scale()], "0")
	if s == "" {
		s = "0"
	}
	if t.Scale() > 0 {
		s += "." + digits[len(digits)-t.Scale():]
	}
	if s = g.pick("", "-") + s; g.one(3) {
		return `"` + s + `"`
	}
	return s
}

func (g *inventor) moment(t iceberg.Type, odd bool) string {
	date := fmt.Sprintf("%04d-%02d-%02d", 1+g.rng.IntN(9999), 1+g.rng.IntN(12), 1+g.rng.IntN(28))
	clock := fmt.Sprintf("%02d:%02d", g.rng.IntN(24), g.rng.IntN(60))
	if !g.one(4) {
		clock += fmt.Sprintf(":%02d", g.rng.IntN(60)) + g.pick("", "", ".1", ".123456", ".000001", ".120000000", ".0")
	}
	zone := g.pick("Z", "+00:00", "-0000", "+00")
	if odd {
		date = g.pick(date, "2024-02-29", "2023-02-29", "1900-02-29", "2000-02-29", "0000-01-01", "0001-01-01", "9999-12-31", "2024-13-01", "2024-00-10", "2024-04-31", "20240401", "24-04-01", "+2024-01-01")
		clock = g.pick(clock, "24:00:00", "23:59:60", "12:60:00", "12:00:00.", "12:00:00.1234567", "12:00:00.1234560", "12", "12:0", "12:00:0", "12:00.5", "23:59:59.999999", "00:00:00")
		zone = g.pick(zone, "", "+01:00", "-23:59", "+24:00", "+0530", "-08", "+1", " Z", "+01:0", "z", "+01:60")
		if g.one(3) {
			return g.pick("0", "-1", "1731508712", "1731508712.229224", "1731508712229.224", "1731508712229224", "-0.5", "1e3", "253402300799999999", "253402300800000000", "253402300799.9999999", "-62135596800", "-62135596801", "86399.999999", "86400", "-719162", "-719163", "2932896", "2932897", "0.0000001", "1.5e-3")
		}
	}
	switch t.(type) {
	case iceberg.DateType:
		return `"` + date + `"`
	case iceberg.TimeType:
		return `"` + clock + `"`
	case iceberg.TimestampType:
		if !odd && g.one(2) {
			zone = ""
		}
	default:
		if !odd && g.one(2) {
			zone = g.pick("+01:00", "-23:59", "+0530", "-08")
		}
	}
	return `"` + date + g.pick("T", " ", "t") + clock + zone + `"`
}
