package writers

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/apache/iceberg-go"
)

// The texts of numbers are those of the standard library.
func TestAppendNumbers(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for i := range 200_000 {
		v := int64(r.Uint64()) >> r.IntN(64)
		if i < 2 {
			v = []int64{math.MinInt64, math.MaxInt64}[i]
		}
		if got, want := string(appendInteger(nil, v)), strconv.FormatInt(v, 10); got != want {
			t.Fatalf("%s, want %s", got, want)
		}
		scale := r.IntN(30)
		want := new(big.Rat).SetFrac(big.NewInt(v), new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(scale)), nil)).FloatString(scale)
		if got := string(appendDecimal(nil, v, scale)); got != want {
			t.Fatalf("%d of scale %d: %s, want %s", v, scale, got, want)
		}
		wide := new(big.Int).Rsh(new(big.Int).SetUint64(r.Uint64()), uint(r.IntN(64)))
		wide.Mul(wide, big.NewInt(v))
		var b [20]byte
		two := new(big.Int).Set(wide)
		if wide.Sign() < 0 {
			two.Add(two, new(big.Int).Lsh(big.NewInt(1), 160))
		}
		two.FillBytes(b[:])
		from := 0
		if wide.BitLen() < 8*15 {
			from = r.IntN(6)
		}
		want = new(big.Rat).SetFrac(wide, new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(scale)), nil)).FloatString(scale)
		if got, ok := appendBigEndian(nil, b[from:], scale); !ok || string(got) != want {
			t.Fatalf("%x of scale %d: %s, want %s", b, scale, got, want)
		}
	}
	if _, ok := appendBigEndian(nil, bytes.Repeat([]byte{1}, 17), 0); ok {
		t.Error("a decimal of 17 bytes has a text")
	}
}

// Floats read back as the same bits, in the shortest text.
func TestAppendFloat(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	for i := range 300_000 {
		v := math.Float64frombits(r.Uint64())
		switch i % 4 {
		case 1:
			v = float64(r.IntN(1e9)) / math.Pow10(r.IntN(8))
		case 2:
			v = -float64(float32(r.NormFloat64()))
		case 3:
			v = float64(float32(float64(r.IntN(1e7)) / math.Pow10(r.IntN(6))))
		}
		if math.IsNaN(v) || math.IsInf(v, 0) {
			continue
		}
		got := string(appendFloat(nil, v, 64))
		if back, err := strconv.ParseFloat(got, 64); err != nil || math.Float64bits(back) != math.Float64bits(v) {
			t.Fatalf("%v as %s: %v", v, got, err)
		}
		if !json.Valid([]byte(got)) {
			t.Fatalf("%s is no JSON", got)
		}
		if short := strconv.FormatFloat(v, 'e', -1, 64); digitsOf(got) > digitsOf(short) && !strings.Contains(got, "0") {
			t.Fatalf("%s is longer than %s", got, short)
		}
		if f := float32(v); !math.IsInf(float64(f), 0) {
			got := string(appendFloat(nil, float64(f), 32))
			if back, err := strconv.ParseFloat(got, 32); err != nil || math.Float32bits(float32(back)) != math.Float32bits(f) {
				t.Fatalf("float %v as %s: %v", f, got, err)
			}
		}
	}
	for v, want := range map[float64]string{0: "0", 1: "1", 0.1: "0.1", -2.5: "-2.5", 1e21: "1e+21", 1e-7: "1e-07", 100: "100", 12.34: "12.34", math.Inf(1): `"Infinity"`, math.Inf(-1): `"-Infinity"`} {
		if got := string(appendFloat(nil, v, 64)); got != want {
			t.Errorf("%v: %s, want %s", v, got, want)
		}
	}
	if got := string(appendFloat(nil, math.NaN(), 64)) + string(appendFloat(nil, math.Copysign(0, -1), 64)); got != `"NaN"-0` {
		t.Error(got)
	}
}

func digitsOf(s string) int {
	mantissa, _, _ := strings.Cut(s, "e")
	return len(strings.Trim(mantissa, "-.")) - strings.Count(mantissa, ".")
}

// Dates and times are those of package time.
func TestAppendTimes(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 8))
	forms := map[int64]outForm{}
	for _, unit := range []int64{1e6, 1e9} {
		forms[unit] = outForm{op: outStamp, unit: unit, zoned: true}
	}
	for range 200_000 {
		days := daysMin + r.Int64N(daysMax-daysMin+1)
		if got, want := string(appendDate(nil, days)), time.Unix(days*86_400, 0).UTC().Format(time.DateOnly); got != want {
			t.Fatalf("day %d: %s, want %s", days, got, want)
		}
		micros := microsMin + r.Int64N(microsMax-microsMin)
		if r.IntN(3) == 0 {
			micros -= micros % 1000
		}
		form := forms[1e6]
		got, _ := form.appendNumber(nil, micros)
		back, wrong := parseTimestamp(got, true)
		if back != micros || wrong != (refusal{}) {
			t.Fatalf("%d µs as %s: %d, %v", micros, got, back, wrong)
		}
		nanos := int64(r.Uint64()) >> 1
		form = forms[1e9]
		got, _ = form.appendNumber(nil, nanos)
		if at, err := time.Parse(time.RFC3339Nano, string(got)); err != nil || at.UnixNano() != nanos {
			t.Fatalf("%d ns as %s: %v", nanos, got, err)
		}
	}
	for days, want := range map[int64]string{daysMin - 1: "+00000-12-31", daysMax + 1: "+10000-01-01", -719_528 - 365: "-00001-01-01"} {
		if got := string(appendDate(nil, days)); got != want {
			t.Errorf("day %d: %s, want %s", days, got, want)
		}
	}
	for v, want := range map[int64]string{0: "0", 1_500: "1.5", -1: "-0.001", -1_001: "-1.001", 1_700_000_000_000_000: "1700000000000"} {
		if got := string(appendFraction(nil, v, 1000)); got != want {
			t.Errorf("%d: %s, want %s", v, got, want)
		}
	}
}

// Strings read back as they were, and are refused exactly where they are no UTF-8.
func TestAppendEscaped(t *testing.T) {
	r := rand.New(rand.NewPCG(9, 10))
	pieces := []string{"a", "abcdefgh", "\"", "\\", "\x00", "\x1f", "\n", "é", "中", "\U0001F600", "\x7f", "\xff", "\xc3", "0123456701234567", "\t\r"}
	for range 200_000 {
		s := ""
		for range r.IntN(12) {
			s += pieces[r.IntN(len(pieces))]
		}
		got, ok := appendEscaped([]byte(`"`), []byte(s))
		if ok != utf8.ValidString(s) {
			t.Fatalf("%q: %v", s, ok)
		}
		var back string
		if err := json.Unmarshal(append(got, '"'), &back); err != nil || ok && back != s {
			t.Fatalf("%q as %s: %q, %v", s, got, back, err)
		}
	}
}

// What ScanOptions say of timestamps and numbers, and maps whose keys are no texts.
func TestScanOptions(t *testing.T) {
	p := iceberg.PrimitiveTypes
	schema := iceberg.NewSchema(0, fields{
		{ID: 1, Name: "at", Type: p.TimestampTz}, {ID: 2, Name: "n", Type: p.Int64}, {ID: 3, Name: "i", Type: p.Int32}, {ID: 4, Name: "d", Type: iceberg.DecimalTypeOf(9, 2)},
		{ID: 5, Name: "m", Type: &iceberg.MapType{KeyID: 6, KeyType: p.Int64, ValueID: 7, ValueType: p.Bool}},
	}...)
	in := encodeJSON(t, schema, `{"at":"2024-01-01T00:00:00.123456Z","n":9007199254740993,"i":1,"d":0.5,"m":{"1":true,"-2":null}}`, `{"at":"2024-01-01T00:00:00Z"}`)
	wantRows(t, schema, ScanOptions{Timestamps: "epoch_millis", Numbers: "string", Nulls: "omit"}, in,
		`{"at":1704067200123.456,"n":"9007199254740993","i":1,"d":"0.50","m":{"1":true,"-2":null}}`, `{"at":1704067200000}`)
	wantRows(t, schema, ScanOptions{Timestamps: "epoch_micros", Columns: []string{"at"}}, in, `{"at":1704067200123456}`, `{"at":1704067200000000}`)
	wantRows(t, schema, ScanOptions{Hidden: []string{"at", "n", "i", "d", "m", "none"}}, in, `{}`, `{}`)
	for _, o := range []ScanOptions{{Timestamps: "x"}, {Numbers: "x"}, {Nulls: "x"}, {Columns: []string{"x"}}, {Extra: []string{"x"}}, {Extra: []string{"m.key"}}} {
		if _, err := NewScan(schema, o); err == nil || !strings.Contains(err.Error(), "scan: ") {
			t.Errorf("%+v: %v", o, err)
		}
	}
	if _, err := NewScan(iceberg.NewSchema(0, fields{{ID: 1, Name: "v", Type: iceberg.VariantType{}}}...), ScanOptions{}); err == nil || !strings.Contains(err.Error(), `column "v"`) {
		t.Errorf("variant: %v", err)
	}
}

// Maps of structs are lists of pairs.
func TestScanMapOfStructs(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	layout, err := NewLayout(iceberg.NewSchema(0, fields{{ID: 1, Name: "m", Type: &iceberg.MapType{
		KeyID: 2, KeyType: &iceberg.StructType{FieldList: fields{{ID: 3, Name: "k", Type: iceberg.PrimitiveTypes.Int32}}}, ValueID: 4, ValueType: iceberg.PrimitiveTypes.Bool}}}...))
	if err != nil {
		t.Fatal(err)
	}
	e, err := NewEncoder(layout, EncoderOptions{Codec: "none"})
	if err != nil {
		t.Fatal(err)
	}
	f, want := encodeRandomly(t, r, e, 2, 0.7)
	rows := scanJSON(t, layout.Schema, ScanOptions{}, ScanInput{Name: "x", Object: bytes.NewReader(f.Body), Size: int64(len(f.Body))})
	for i, row := range assemble(t, want) {
		text := `{"m":null}`
		if pairs, ok := row["m"].([]pair); ok {
			text = `{"m":[`
			for _, p := range pairs {
				key, value := p.Key.(map[string]any)["k"], p.Value
				text += strings.ReplaceAll(fmt.Sprintf(`{"key":{"k":%v},"value":%v},`, key, value), "<nil>", "null")
			}
			text = string(shut([]byte(text), '[', ']')) + "}"
		}
		if string(rows[i]) != text {
			t.Fatalf("row %d: %s, want %s", i, rows[i], text)
		}
	}
}

// Scanning a second file like the first takes hardly any memory of its own,
// however many rows there are.
func TestScanMemory(t *testing.T) {
	layout := eventLayout()
	r := rand.New(rand.NewPCG(1, 2))
	e, err := NewEncoder(layout, EncoderOptions{Codec: "zstd"})
	if err != nil {
		t.Fatal(err)
	}
	for range 30 {
		b := NewBatch(layout)
		fillEvents(r, b)
		e.Append(b, allRows(b.Rows))
	}
	file, err := e.Finish()
	if err != nil {
		t.Fatal(err)
	}
	s, err := NewScan(layout.Schema, ScanOptions{})
	if err != nil {
		t.Fatal(err)
	}
	f, err := s.Open(ScanInput{Name: "x", Object: bytes.NewReader(file.Body), Size: int64(len(file.Body))})
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var rows Rows
	var out []byte
	var before, after runtime.MemStats
	for batch := 0; f.Next(&rows) == nil; batch++ {
		for i := range rows.Len() {
			if out, err = rows.AppendJSON(out[:0], i); err != nil {
				t.Fatal(err)
			}
		}
		if batch == 40 {
			runtime.ReadMemStats(&before)
		}
	}
	runtime.ReadMemStats(&after)
	if bytes := after.TotalAlloc - before.TotalAlloc; before.TotalAlloc == 0 || bytes > 4<<20 {
		t.Errorf("%d bytes allocated after the first batches of a file of %d", bytes, len(file.Body))
	}
}
