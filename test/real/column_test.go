//go:build real

package real_test

import (
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"math"
	"math/bits"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// column is a column of a table and what its rows hold: value gives row i's
// JSON for the record (empty: the field is left out) and, computed apart from
// it, the JSON that every reader must print.
type column struct {
	name, typ string
	required  bool
	value     func(i int) (record, row string)
}

// pick makes a column's value of a list of pairs, over and over.
func pick(pairs ...[2]string) func(int) (string, string) {
	return func(i int) (string, string) { p := pairs[i%len(pairs)]; return p[0], p[1] }
}

// same makes a column's value of texts that are equal in the record and in the row.
func same(texts ...string) func(int) (string, string) {
	return func(i int) (string, string) { s := texts[i%len(texts)]; return s, s }
}

var epoch = time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)

// rowID, rowName and rowTime are what the filters are about: row i has a known one.
func rowID(i int) int64    { return int64(i)*7919 - 3 }
func rowName(i int) string { return fmt.Sprintf("row-%05d-é", i) }
func rowTime(i int) time.Time {
	return epoch.Add(time.Duration(i) * 61 * time.Second).Add(123456 * time.Microsecond)
}

const (
	microsFormat = "2006-01-02T15:04:05.000000"
)

// keyColumns are the three columns that filters ask for.
func keyColumns() []column {
	return []column{
		{"id", "long", true, func(i int) (string, string) {
			s := strconv.FormatInt(rowID(i), 10)
			return s, s
		}},
		{"name", "string", false, func(i int) (string, string) { return quote(rowName(i)), quote(rowName(i)) }},
		{"moment", "timestamptz", false, func(i int) (string, string) {
			// Written with another zone in the record, in UTC in the row.
			zone := time.FixedZone("", 2*3600)
			return quote(rowTime(i).In(zone).Format("2006-01-02T15:04:05.000000-07:00")), quote(rowTime(i).Format(microsFormat) + "+00:00")
		}},
	}
}

// everyColumn has all types but time, nested ones too, with the values that are easily got wrong.
func everyColumn() []column {
	columns := append(keyColumns(),
		column{"yes", "boolean", false, same("true", "false", "null")},
		column{"small", "int", false, same("0", "2147483647", "-2147483648", "null")},
		column{"large", "long", false, same("9223372036854775807", "-9223372036854775808", "9007199254740993", "null")},
		column{"single", "float", false, pick([2]string{"1.5", "1.5"}, [2]string{"0.1", double(float64(float32(0.1)))},
			[2]string{"-3.4028235e38", double(-math.MaxFloat32)}, [2]string{"", "null"})},
		column{"twice", "double", false, pick([2]string{"0.1", "0.1"}, [2]string{"1.7976931348623157e308", double(math.MaxFloat64)},
			[2]string{"5e-324", double(math.SmallestNonzeroFloat64)}, [2]string{"3", "3.0"}, [2]string{"null", "null"})},
		column{"price", "decimal(18, 4)", false, pick([2]string{"12.5", `"12.5000"`}, [2]string{`"-99999999999999.9999"`, `"-99999999999999.9999"`},
			[2]string{"0.0001", `"0.0001"`}, [2]string{"null", "null"})},
		column{"cents", "decimal(9, 2)", false, pick([2]string{"1234567.89", `"1234567.89"`}, [2]string{"-0.01", `"-0.01"`}, [2]string{"7", `"7.00"`})},
		column{"huge", "decimal(38, 10)", false, pick([2]string{`"9999999999999999999999999999.9999999999"`, `"9999999999999999999999999999.9999999999"`},
			[2]string{`"-1.0000000001"`, `"-1.0000000001"`}, [2]string{"null", "null"})},
		column{"day", "date", false, same(`"2026-02-28"`, `"1969-12-31"`, `"0001-01-01"`, `"9999-12-31"`, "null")},
		column{"local", "timestamp", false, pick([2]string{`"2026-01-31T12:00:00.000001"`, `"2026-01-31T12:00:00.000001"`},
			[2]string{`"1969-12-31T23:59:59.999999"`, `"1969-12-31T23:59:59.999999"`}, [2]string{`"1900-01-01T00:00:00"`, `"1900-01-01T00:00:00.000000"`}, [2]string{"null", "null"})},
		column{"text", "string", false, same(`""`, `"a \"quoted\" line\nand \\ more"`, `"žluťoučký 🐎"`, `"\u0000"`, "null")},
		column{"ident", "uuid", false, same(`"00000000-0000-0000-0000-000000000000"`, `"f79c3e09-677c-4bbd-a479-3f349cb785e7"`, "null")},
		column{"four", "fixed[4]", false, bytesValue([]byte{0, 0, 0, 0}, []byte{0xff, 0x00, 0x80, 0x7f}, nil)},
		column{"raw", "binary", false, bytesValue([]byte{}, []byte("bytes\x00\xff"), nil)},
		column{"place", "struct<city: string, at: struct<lat: double, lon: double>, codes: list<int>>", false, pick(
			[2]string{`{"city":"Brno","at":{"lat":49.2,"lon":16.6},"codes":[1,2,3]}`, `{"at":{"lat":49.2,"lon":16.6},"city":"Brno","codes":[1,2,3]}`},
			[2]string{`{"at":null,"codes":[]}`, `{"at":null,"city":null,"codes":[]}`},
			[2]string{`{"city":"","at":{},"codes":[null,5]}`, `{"at":{"lat":null,"lon":null},"city":"","codes":[null,5]}`},
			[2]string{"null", "null"})},
		column{"tags", "list<string>", false, same(`["a","b"]`, `[]`, `[null,""]`, "null")},
		column{"deep", "list<list<long>>", false, same(`[[1,2],[],[9223372036854775807]]`, `[]`, `[null,[3]]`, "null")},
		column{"count", "map<string, long>", false, pick([2]string{`{"b":2,"a":1}`, `[["a",1],["b",2]]`}, [2]string{`{}`, `[]`},
			[2]string{`{"":null}`, `[["",null]]`}, [2]string{"null", "null"})},
	)
	return columns
}

// timeColumn is the type that Spark can't read: a table with it is not for Spark.
func timeColumn() column {
	return column{"clock", "time", false, pick([2]string{`"12:34:56.789012"`, `"12:34:56.789012"`}, [2]string{`"00:00:00"`, `"00:00:00.000000"`},
		[2]string{`"23:59:59.999999"`, `"23:59:59.999999"`}, [2]string{"null", "null"})}
}

// indexColumn is a nullable map of structs, which PyIceberg reads as an empty map where it is null.
func indexColumn() column {
	return column{"index", "map<string, struct<n: int, t: list<string>>>", false, pick([2]string{`{"k":{"n":1,"t":["x"]}}`, `[["k",{"n":1,"t":["x"]}]]`},
		[2]string{`{"k":null,"l":{}}`, `[["k",null],["l",{"n":null,"t":null}]]`}, [2]string{"null", "null"})}
}

// structsColumn is a nullable list of structs, likewise.
func structsColumn() column {
	return column{"items", "list<struct<sku: string, n: int>>", false, pick(
		[2]string{`[{"sku":"a","n":1},{"sku":"b"}]`, `[{"n":1,"sku":"a"},{"n":null,"sku":"b"}]`}, [2]string{"[]", "[]"},
		[2]string{"[null]", "[null]"}, [2]string{"null", "null"})}
}

// bytesValue is a column's value of bytes: base64 in the record, as in the row.
func bytesValue(values ...[]byte) func(int) (string, string) {
	return func(i int) (string, string) {
		v := values[i%len(values)]
		if v == nil {
			return "null", "null"
		}
		s := quote(base64.StdEncoding.EncodeToString(v))
		return s, s
	}
}

func quote(s string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`).Replace(s) + `"`
}

func double(f float64) string { return strconv.FormatFloat(f, 'e', -1, 64) }

// record returns row i of columns as the JSON of a record.
func record(columns []column, i int) string {
	var fields []string
	for _, c := range columns {
		if value, _ := c.value(i); value != "" {
			fields = append(fields, quote(c.name)+":"+value)
		}
	}
	return "{" + strings.Join(fields, ",") + "}"
}

// recordsOf returns rows 0 to n-1.
func recordsOf(columns []column, n int) []string {
	lines := make([]string, n)
	for i := range lines {
		lines[i] = record(columns, i)
	}
	return lines
}

// rows returns the lines that a reader must print of the rows that are chosen, in order.
func rows(t *testing.T, columns []column, n int, chosen func(i int) bool) []string {
	t.Helper()
	lines := []string{}
	for i := range n {
		if chosen != nil && !chosen(i) {
			continue
		}
		var fields []string
		for _, c := range columns {
			_, row := c.value(i)
			fields = append(fields, quote(c.name)+":"+row)
		}
		lines = append(lines, canonical(t, "{"+strings.Join(fields, ",")+"}"))
	}
	slices.Sort(lines)
	return lines
}

// bucketOf is Iceberg's bucket transform of a long, from the specification
// (appendix B), and nothing that the router has: murmur3 x86 32 of the eight
// little-endian bytes, without the sign, modulo n.
func bucketOf(v int64, n int32) int32 {
	var raw [8]byte
	binary.LittleEndian.PutUint64(raw[:], uint64(v))
	h := uint32(0)
	for i := 0; i < 8; i += 4 {
		k := binary.LittleEndian.Uint32(raw[i:]) * 0xcc9e2d51
		h ^= bits.RotateLeft32(k, 15) * 0x1b873593
		h = bits.RotateLeft32(h, 13)*5 + 0xe6546b64
	}
	h ^= 8
	h ^= h >> 16
	h *= 0x85ebca6b
	h ^= h >> 13
	h *= 0xc2b2ae35
	h ^= h >> 16
	return int32(h&math.MaxInt32) % n
}

// The specification's own example: 34 hashes to 2017239379.
func TestBucketOf(t *testing.T) {
	if got, want := bucketOf(34, math.MaxInt32), int32(2017239379); got != want {
		t.Errorf("hash of 34: %d, want %d (%s)", got, want, hex.EncodeToString([]byte{34}))
	}
}
