package writers

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/apache/iceberg-go"
	"github.com/twmb/franz-go/pkg/kgo"
)

// jsonColumn is a layout of one optional column v.
func jsonColumn(t testing.TB, of iceberg.Type) *Layout {
	t.Helper()
	l, err := NewLayout(iceberg.NewSchema(0, iceberg.NestedField{ID: 1, Name: "v", Type: of}))
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// decodeJSON decodes one record into a batch that already has a row, and checks
// that a refusal leaves it as it was.
func decodeJSON(t testing.TB, l *Layout, o JSONOptions, r *kgo.Record) (map[string]any, *RecordError) {
	t.Helper()
	b := NewBatch(l)
	err := newJSON(t, l, o).Decode(b, r)
	if err == nil {
		rows := assemble(t, b)
		if len(rows) != 1 {
			t.Fatalf("%d rows for one record", len(rows))
		}
		return rows[0], nil
	}
	equalBatches(t, b, NewBatch(l))
	var refused *RecordError
	if !errors.As(err, &refused) {
		t.Fatalf("%T: %v", err, err)
	}
	if quoted := refused.Detail; len(quoted) > 300 || !utf8.ValidString(quoted) {
		t.Errorf("detail %q", quoted)
	}
	return nil, refused
}

// TestJSONValues goes through the types and their rules: accepted says what a
// value becomes, refused why it can't.
func TestJSONValues(t *testing.T) {
	p := iceberg.PrimitiveTypes
	var of iceberg.Type
	var o JSONOptions
	accepted := func(json string, want any) {
		t.Helper()
		row, refused := decodeJSON(t, jsonColumn(t, of), o, &kgo.Record{Value: []byte(`{"v":` + json + `}`)})
		if refused != nil {
			t.Errorf("%s of %s is refused: %v", of, json, refused)
		} else if !reflect.DeepEqual(row["v"], want) {
			t.Errorf("%s of %s is %#v, expected %#v", of, json, row["v"], want)
		}
	}
	refused := func(json string, want Reason, words ...string) {
		t.Helper()
		row, err := decodeJSON(t, jsonColumn(t, of), o, &kgo.Record{Value: []byte(`{"v":` + json + `}`)})
		if err == nil {
			t.Errorf("%s of %s is %#v, expected a refusal: %s", of, json, row["v"], want)
			return
		}
		if err.Reason != want || err.Field != "v" && want != ReasonSyntax {
			t.Errorf("%s of %s is refused by %q, expected %s of column v", of, json, err, want)
		}
		for _, w := range words {
			if !strings.Contains(err.Detail, w) {
				t.Errorf("%s of %s is refused by %q, which doesn't say %q", of, json, err, w)
			}
		}
	}

	of = p.Bool
	accepted("true", true)
	accepted("false", false)
	accepted("null", nil)
	refused("1", ReasonType, "true or false")
	refused(`"true"`, ReasonType)
	refused("True", ReasonSyntax)
	refused("tru", ReasonSyntax)
	refused("truely", ReasonSyntax)

	of = p.Int32
	accepted("0", int64(0))
	accepted("-0", int64(0))
	accepted("1e3", int64(1000))
	accepted("1.0", int64(1))
	accepted("120e-1", int64(12))
	accepted("2147483647", int64(2147483647))
	accepted("-2147483648", int64(-2147483648))
	refused("2147483648", ReasonRange, "2147483648")
	refused("-2147483649", ReasonRange)
	refused("1e10", ReasonRange)
	refused("1.5", ReasonRange, "whole")
	refused(`"1"`, ReasonType, "a string", "whole number")
	refused("true", ReasonType, "boolean")
	refused("[1]", ReasonType, "a list")
	refused("{}", ReasonType, "an object")
	refused("01", ReasonSyntax)
	refused("+1", ReasonSyntax)
	refused("-", ReasonSyntax)
	refused("1.", ReasonSyntax)
	refused(".5", ReasonSyntax)
	refused("1e", ReasonSyntax)
	refused("0x1", ReasonSyntax)
	refused("NaN", ReasonSyntax)
	refused("-Infinity", ReasonSyntax)

	of = p.Int64
	accepted("9007199254740993", int64(9007199254740993))
	accepted("10000000001922600", int64(10000000001922600))
	accepted("73314510714175488", int64(73314510714175488))
	accepted("9223372036854775807", int64(9223372036854775807))
	accepted("-9223372036854775808", int64(-9223372036854775808))
	accepted("9.223372036854775807e18", int64(9223372036854775807))
	accepted("0.0000000000000000000000001e25", int64(1))
	accepted("0e99999999999999999999", int64(0))
	refused("9223372036854775808", ReasonRange)
	refused("-9223372036854775809", ReasonRange)
	refused("9223372036854775807.5", ReasonRange)
	refused("1e99999999999999999999", ReasonRange)
	refused("1e-99999999999999999999", ReasonRange)

	of = p.Float64
	accepted("0.1", 0.1)
	accepted("-1.5e-7", -1.5e-7)
	accepted("9007199254740993", 9007199254740992.0)
	accepted("1e23", 1e23)
	accepted("1e-400", 0.0)
	accepted("1.7976931348623157e308", 1.7976931348623157e308)
	refused("1e309", ReasonRange)
	refused("-1e309", ReasonRange)
	refused("NaN", ReasonSyntax)
	refused(`"0.1"`, ReasonType)
	of = p.Float32
	accepted("0.1", float32(0.1))
	accepted("16777217", float32(16777216))
	accepted("3.4028234e38", float32(3.4028234e38))
	refused("3.4028236e38", ReasonRange)

	of = iceberg.DecimalTypeOf(9, 2)
	accepted("-0.05", numeral("-0.05"))
	accepted(`"-0.05"`, numeral("-0.05"))
	accepted("1e2", numeral("100.00"))
	accepted("1.2300", numeral("1.23"))
	accepted("9999999.99", numeral("9999999.99"))
	accepted("-9999999.99", numeral("-9999999.99"))
	refused("10000000", ReasonRange, "precision")
	refused("-10000000.00", ReasonRange, "precision")
	refused("0.001", ReasonRange, "2 digits")
	refused(`"1,5"`, ReasonType)
	refused(`""`, ReasonType)
	refused(`" 1"`, ReasonType)
	of = iceberg.DecimalTypeOf(38, 10)
	accepted("-0.0000000001", numeral("-0.0000000001"))
	accepted("-1.00", numeral("-1.0000000000"))
	accepted("9999999999999999999999999999.9999999999", numeral("9999999999999999999999999999.9999999999"))
	accepted(`"-9999999999999999999999999999.9999999999"`, numeral("-9999999999999999999999999999.9999999999"))
	refused("10000000000000000000000000000", ReasonRange)
	of = iceberg.DecimalTypeOf(18, 0)
	accepted("999999999999999999", numeral("999999999999999999"))
	refused("1000000000000000000", ReasonRange)

	of = p.String
	accepted(`""`, "")
	accepted(`"\u0000\"\\\/\b\f\n\r\t\u00fc\ud83d\uDE00"`, "\x00\"\\/\b\f\n\r\tü😀")
	accepted(`"2024-01-01"`, "2024-01-01")
	refused("1", ReasonType, "a number")
	refused("{}", ReasonType)
	refused("\"a\xffb\"", ReasonUTF8, "0xFF")
	refused("\"\xed\xa0\x80\"", ReasonUTF8)
	refused("\"\xc0\x80\"", ReasonUTF8)
	refused("\"\xf4\x90\x80\x80\"", ReasonUTF8)
	refused("\"12345678\xc3\"", ReasonUTF8)
	refused(`"\ud800"`, ReasonUTF8, `\ud800`)
	refused(`"\ud800\ud800"`, ReasonUTF8)
	refused(`"\ud800\n"`, ReasonUTF8)
	refused(`"\udc00"`, ReasonUTF8)
	refused(`"\udc00\udc00"`, ReasonUTF8)
	refused(`"\u12g4"`, ReasonSyntax)
	refused(`"\x"`, ReasonSyntax)
	refused("\"a\nb\"", ReasonSyntax, "control")
	refused("\"a", ReasonSyntax, "ends")

	of = p.UUID
	accepted(`"123e4567-E89B-12d3-a456-42661417400f"`, octets("\x12\x3e\x45\x67\xe8\x9b\x12\xd3\xa4\x56\x42\x66\x14\x17\x40\x0f"))
	refused(`"{123e4567-e89b-12d3-a456-426614174000}"`, ReasonType)
	refused(`"123e4567e89b12d3a456426614174000"`, ReasonType)
	refused(`"123e4567-e89b-12d3-a456-42661417400g"`, ReasonType, "UUID")

	of = p.Binary
	accepted(`""`, octets(""))
	accepted(`"AP8+"`, octets("\x00\xff\x3e"))
	accepted(`"AA=="`, octets("\x00"))
	refused(`"AA"`, ReasonType, "base64")
	refused(`"AB=="`, ReasonType)
	refused(`"AP8-"`, ReasonType)
	refused(`"AP8+\n"`, ReasonType)
	of = iceberg.FixedTypeOf(3)
	accepted(`"AP8+"`, octets("\x00\xff\x3e"))
	refused(`"AA=="`, ReasonRange, "1 bytes", "have 3")
}

// TestJSONTimes goes through dates and times, as text and as numbers.
func TestJSONTimes(t *testing.T) {
	p := iceberg.PrimitiveTypes
	var of iceberg.Type
	var o JSONOptions
	micros := func(text string) int64 {
		at, err := time.Parse(time.RFC3339Nano, text)
		if err != nil {
			t.Fatal(err)
		}
		return at.UnixMicro()
	}
	accepted := func(json string, want int64) {
		t.Helper()
		row, refused := decodeJSON(t, jsonColumn(t, of), o, &kgo.Record{Value: []byte(`{"v":` + json + `}`)})
		if refused != nil || row["v"] != want {
			t.Errorf("%s of %s is %v (%v), expected %d", of, json, row["v"], refused, want)
		}
	}
	refused := func(json string, want Reason, words string) {
		t.Helper()
		row, err := decodeJSON(t, jsonColumn(t, of), o, &kgo.Record{Value: []byte(`{"v":` + json + `}`)})
		if err == nil || err.Reason != want || !strings.Contains(err.Detail, words) {
			t.Errorf("%s of %s is %v (%v), expected a refusal: %s, %s", of, json, row["v"], err, want, words)
		}
	}

	of = p.Date
	accepted(`"1970-01-01"`, 0)
	accepted(`"1969-12-31"`, -1)
	accepted(`"2024-02-29"`, 19782)
	accepted(`"0001-01-01"`, -719162)
	accepted(`"9999-12-31"`, 2932896)
	refused(`"2023-02-29"`, ReasonRange, "calendar")
	refused(`"0000-12-31"`, ReasonRange, "year 0")
	refused(`"2024-1-1"`, ReasonType, "2006-01-02")
	refused(`"2024-01-01T00:00"`, ReasonType, "")
	refused(`"10000-01-01"`, ReasonType, "")
	refused("1", ReasonType, "date_unit")
	o.Dates = "days"
	accepted("-1", -1)
	accepted("2932896", 2932896)
	refused("2932897", ReasonRange, "9999")
	refused("1.5", ReasonRange, "whole")
	refused(`"1"`, ReasonType, "")

	of = p.Time
	accepted(`"00:00:00"`, 0)
	accepted(`"10:15"`, (10*60+15)*60e6)
	accepted(`"23:59:59.999999"`, 86_400e6-1)
	accepted(`"00:00:00.5000000000"`, 500_000)
	refused(`"24:00:00"`, ReasonRange, "clock")
	refused(`"23:59:60"`, ReasonRange, "leap second")
	refused(`"12:00:00.0000001"`, ReasonRange, "microsecond")
	refused(`"12:00:00."`, ReasonType, "")
	refused(`"12:00:00Z"`, ReasonType, "zone")
	refused("1", ReasonType, "time_unit")
	o.Times = "millis"
	accepted("86399999.999", 86_400e6-1)
	refused("86400000", ReasonRange, "within a day")
	refused("-1", ReasonRange, "within a day")

	of = p.Timestamp
	accepted(`"2024-11-13T14:38:32.229224"`, micros("2024-11-13T14:38:32.229224Z"))
	accepted(`"2024-11-13 14:38:32.229224Z"`, micros("2024-11-13T14:38:32.229224Z"))
	accepted(`"2024-11-13T14:38:32+00:00"`, micros("2024-11-13T14:38:32Z"))
	accepted(`"2024-11-13T14:38"`, micros("2024-11-13T14:38:00Z"))
	accepted(`"1969-12-31T23:59:59.999999"`, -1)
	accepted(`"0001-01-01T00:00:00"`, micros("0001-01-01T00:00:00Z"))
	refused(`"2024-11-13T14:38:32+01:00"`, ReasonType, "offset")
	refused(`"2024-11-13"`, ReasonType, "")
	refused(`"2024-11-13T14:38:60"`, ReasonRange, "leap")
	refused(`"20241113T143832"`, ReasonType, "")
	refused("1731508712229224", ReasonType, "timestamp_unit")
	refused(`"1731508712229224"`, ReasonType, "")
	o.Timestamps = "micros"
	accepted("1731508712229224", 1731508712229224)
	refused("0.5", ReasonRange, "microsecond")
	refused("253402300800000000", ReasonRange, "9999")
	o.Timestamps = "millis"
	accepted("1731508712229.224", 1731508712229224)
	accepted("-0.001", -1)
	refused("1731508712229224", ReasonRange, "9999") // microseconds by mistake
	o.Timestamps = "seconds"
	accepted("1731508712.229224", 1731508712229224)
	accepted("-62135596800", micros("0001-01-01T00:00:00Z"))
	accepted("1.731508712e9", 1731508712000000)
	refused("-62135596801", ReasonRange, "0001")
	refused("1e18", ReasonRange, "9999")

	of, o = p.TimestampTz, JSONOptions{}
	accepted(`"2024-11-13T14:38:32Z"`, micros("2024-11-13T14:38:32Z"))
	accepted(`"2024-11-13T14:38:32.5+05:30"`, micros("2024-11-13T14:38:32.5+05:30"))
	accepted(`"2024-11-13T14:38:32-0800"`, micros("2024-11-13T14:38:32-08:00"))
	accepted(`"2024-11-13 14:38:32+00"`, micros("2024-11-13T14:38:32Z"))
	accepted(`"1970-01-01T00:00:00+01:00"`, -3600e6)
	accepted(`"\u0031970-01-01T00:00:00Z"`, 0)
	refused(`"2024-11-13T14:38:32"`, ReasonType, "zone")
	refused(`"2024-11-13T14:38:32+24:00"`, ReasonRange, "offset")
	refused(`"0001-01-01T00:00:00+01:00"`, ReasonRange, "0001")
	refused(`"9999-12-31T23:59:59-01:00"`, ReasonRange, "9999")
	refused(`"2024-11-13T14:38:32 Z"`, ReasonType, "")
	refused("0", ReasonType, "timestamp_unit")
}

// TestJSONPlain tries each byte at each place of a word, before and after all
// others.
func TestJSONPlain(t *testing.T) {
	for size := range 70 {
		for at := range size {
			for c := range 256 {
				text := []byte(strings.Repeat("~", size))
				text[at] = byte(c)
				want := size
				if c < ' ' || c >= 0x80 || c == '"' || c == '\\' {
					want = at
				}
				if got := plain(text, 0); got != want {
					t.Fatalf("byte 0x%02X at %d of %d: %d, expected %d", c, at, size, got, want)
				}
			}
		}
	}
}

// TestJSONFloats compares numbers around the limits of the short way with
// strconv, bit by bit.
func TestJSONFloats(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	var n number
	for range 200_000 {
		text := fmt.Sprintf("%d.%de%d", rng.Uint64()>>(rng.IntN(63)+1), rng.IntN(1000), rng.IntN(60)-30)
		if rng.IntN(2) == 0 {
			text = fmt.Sprintf("-%de%d", rng.Uint64()>>(rng.IntN(63)+1), rng.IntN(30)-15)
		}
		if n.scan([]byte(text), 0) != len(text) {
			t.Fatalf("%s is no number", text)
		}
		want64, _ := strconv.ParseFloat(text, 64)
		if got, ok := n.float64(); !ok || math.Float64bits(got) != math.Float64bits(want64) {
			t.Fatalf("%s is the double %v (%t), expected %v", text, got, ok, want64)
		}
		want32, err := strconv.ParseFloat(text, 32)
		if got, ok := n.float32(); ok != (err == nil) || ok && math.Float32bits(got) != math.Float32bits(float32(want32)) {
			t.Fatalf("%s is the float %v (%t), expected %v", text, got, ok, want32)
		}
	}
}
