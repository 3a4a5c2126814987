package writers

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/apache/iceberg-go"
	"github.com/twmb/franz-go/pkg/kgo"
)

// TestJSONDocuments goes through what concerns the whole document, for a table
// of id (required), a, and p (a struct of a required x).
func TestJSONDocuments(t *testing.T) {
	y := &typer{}
	l, err := NewLayout(iceberg.NewSchema(0, y.field("id!", iceberg.PrimitiveTypes.Int64), y.field("a", iceberg.PrimitiveTypes.String),
		y.field("p", y.record(y.field("x!", iceberg.PrimitiveTypes.Int32), y.field("y", iceberg.PrimitiveTypes.Int32)))))
	if err != nil {
		t.Fatal(err)
	}
	var o JSONOptions
	accepted := func(value string, want string) {
		t.Helper()
		row, refused := decodeJSON(t, l, o, &kgo.Record{Value: []byte(value)})
		if got := fmt.Sprintf("%v %v %v", row["id"], row["a"], row["p"]); refused != nil || got != want {
			t.Errorf("%.100q is %s (%v), expected %s", value, got, refused, want)
		}
	}
	refused := func(value string, reason Reason, field, words string) {
		t.Helper()
		_, err := decodeJSON(t, l, o, &kgo.Record{Value: []byte(value)})
		if err == nil || err.Reason != reason || err.Field != field || !strings.Contains(err.Detail, words) {
			t.Errorf("%.100q is refused by %v, expected %s of column %q: %s", value, err, reason, field, words)
		}
	}
	nest := func(n int) string { return `{"id":1,"z":` + strings.Repeat("[", n) + strings.Repeat("]", n) + "}" }

	accepted(`{"id":1}`, "1 <nil> <nil>")
	accepted(" \t\r\n{ \"a\" : \"b\" ,\n\"id\":\t1 , \"p\" : { \"y\" : null , \"x\":2 } } \n", "1 b map[x:2 y:<nil>]")
	accepted(`{"id":1,"z":{"a":[1,{"a":1,"a":2}]},"ID":"x","a":null,"p":null}`, "1 <nil> <nil>")
	accepted(`{"\u0069d":1,"p":{"z":0,"x":-1}}`, "1 <nil> map[x:-1 y:<nil>]")
	accepted(nest(JSONDepthMax), "1 <nil> <nil>")
	refused(nest(JSONDepthMax+1), ReasonDepth, "", "200")
	refused(strings.Repeat("[", 100_000), ReasonType, "", "")
	refused(`{"id":1,"z":`+strings.Repeat(`{"a":`, 100_000), ReasonDepth, "", "")

	refused("", ReasonSyntax, "", "empty value")
	refused("  ", ReasonSyntax, "", "white space")
	refused("null", ReasonType, "", "null")
	refused("[]", ReasonType, "", "expected an object")
	refused(`"{}"`, ReasonType, "", "a string")
	refused("x", ReasonSyntax, "", "")
	refused("\x00\x00\x00\x00\x01{}", ReasonSyntax, "", "schema registry")
	refused("\xef\xbb\xbf{}", ReasonSyntax, "", "byte order mark")
	refused(`{"id":1}{"id":2}`, ReasonSyntax, "", "after the object")
	refused(`{"id":1},`, ReasonSyntax, "", "at byte 8")
	refused(`{"id":1`, ReasonSyntax, "", "ends")
	refused(`{"id":1,}`, ReasonSyntax, "", "name in quotes")
	refused(`{"id":1 "a":"b"}`, ReasonSyntax, "", "comma")
	refused(`{"id" 1}`, ReasonSyntax, "", "colon")
	refused(`{id:1}`, ReasonSyntax, "", "name in quotes")
	refused(`{"id":1,"z":[1,]}`, ReasonSyntax, "", "a value")
	refused(`{"id":1,"z":{"a"}}`, ReasonSyntax, "", "colon")
	refused(`{"id":1,"z":nul}`, ReasonSyntax, "", "")
	refused(`{"id":1,"z":01}`, ReasonSyntax, "", "")
	refused("{\"id\":1,\"z\":\"\xff\"}", ReasonUTF8, "", "0xFF")
	refused("{\"id\":1,\"z\xff\":0}", ReasonUTF8, "", "0xFF")
	refused("{\"id\":1,\"z\":{\"\xff\":0}}", ReasonUTF8, "", "")
	refused(`{"id":1,"z":"\ud800"}`, ReasonUTF8, "", "half")
	refused(`{"id":1,"p":{"x":1,}}`, ReasonSyntax, "p", "")

	refused(`{}`, ReasonRequired, "id", "absent")
	refused(`{"a":"b"}`, ReasonRequired, "id", "absent")
	refused(`{"id":null}`, ReasonRequired, "id", "null")
	refused(`{"id":1,"p":{}}`, ReasonRequired, "p.x", "absent")
	refused(`{"id":1,"p":{"x":null}}`, ReasonRequired, "p.x", "null")
	refused(`{"id":1,"p":{"x":"1"}}`, ReasonType, "p.x", "a string")
	refused(`{"id":1,"p":[]}`, ReasonType, "p", "a list")
	refused(`{"ID":1}`, ReasonRequired, "id", "")

	refused(`{"id":1,"a":"1","a":"2"}`, ReasonDuplicate, "a", "twice")
	refused(`{"id":1,"id":1}`, ReasonDuplicate, "id", "twice")
	refused(`{"id":1,"\u0069\u0064":1}`, ReasonDuplicate, "id", "twice")
	refused(`{"id":1,"z":1,"y":2,"z":1}`, ReasonDuplicate, "", `"z"`)
	refused(`{"id":1,"p":{"x":1,"q":0,"\u0071":0}}`, ReasonDuplicate, "p", `"q"`)
	accepted(`{"id":1,"z":1,"p":{"x":1,"z":1}}`, "1 <nil> map[x:1 y:<nil>]")

	o.RefuseUnknown = true
	accepted(`{"id":1,"a":"b","p":{"x":1}}`, "1 b map[x:1 y:<nil>]")
	refused(`{"id":1,"ID":1}`, ReasonUnknown, "ID", `"ID"`)
	refused(`{"id":1,"p":{"x":1,"zz":null}}`, ReasonUnknown, "p.zz", `"zz"`)
	refused(`{"id":1,"_kafka_offset":1}`, ReasonUnknown, "_kafka_offset", "_kafka_offset")

	if _, err := decodeJSON(t, l, o, &kgo.Record{}); err == nil || !strings.Contains(err.Detail, "tombstone") {
		t.Errorf("a null value is refused by %v", err)
	}
}

// TestJSONMaps goes through the types of keys and what makes two of them one.
func TestJSONMaps(t *testing.T) {
	p := iceberg.PrimitiveTypes
	var o JSONOptions
	decode := func(key iceberg.Type, value string) (any, *RecordError) {
		t.Helper()
		row, err := decodeJSON(t, jsonColumn(t, (&typer{id: 1}).mapping(key, p.Int32, false)), o, &kgo.Record{Value: []byte(`{"v":` + value + `}`)})
		return row["v"], err
	}
	accepted := func(key iceberg.Type, value string, want ...pair) {
		t.Helper()
		if got, err := decode(key, value); err != nil || !reflect.DeepEqual(got, append([]pair{}, want...)) {
			t.Errorf("%s of %s is %#v (%v), expected %#v", key, value, got, err, want)
		}
	}
	refused := func(key iceberg.Type, value string, reason Reason, field string) {
		t.Helper()
		if got, err := decode(key, value); err == nil || err.Reason != reason || err.Field != field {
			t.Errorf("%s of %s is %#v (%v), expected a refusal: %s of %s", key, value, got, err, reason, field)
		}
	}
	accepted(p.String, `{}`)
	accepted(p.String, `{"a":1,"":null,"\u0062":2}`, pair{"a", int64(1)}, pair{"", nil}, pair{"b", int64(2)})
	accepted(p.Int32, `{"-1":1,"1e2":2}`, pair{int64(-1), int64(1)}, pair{int64(100), int64(2)})
	accepted(p.Int64, `{"9007199254740993":1}`, pair{int64(9007199254740993), int64(1)})
	accepted(p.Bool, `{"true":1,"false":0}`, pair{true, int64(1)}, pair{false, int64(0)})
	accepted(p.Float64, `{"0.5":1}`, pair{0.5, int64(1)})
	accepted(p.Date, `{"1970-01-02":1}`, pair{int64(1), int64(1)})
	accepted(p.Timestamp, `{"1970-01-01T00:00:01":1}`, pair{int64(1e6), int64(1)})
	accepted(iceberg.DecimalTypeOf(4, 2), `{"-0.5":1}`, pair{numeral("-0.50"), int64(1)})
	accepted(p.UUID, `{"00000000-0000-0000-0000-000000000041":1}`, pair{octets(strings.Repeat("\x00", 15) + "A"), int64(1)})
	refused(p.String, `{"a":1,"b":2,"a":3}`, ReasonDuplicate, "v.key")
	refused(p.Int32, `{"1":1,"1.0":2}`, ReasonDuplicate, "v.key")
	refused(p.Float64, `{"0.0":1,"-0.0":2}`, ReasonDuplicate, "v.key")
	refused(p.Float32, `{"0.0":1,"-0.0":2}`, ReasonDuplicate, "v.key")
	refused(p.UUID, `{"00000000-0000-0000-0000-00000000000a":1,"00000000-0000-0000-0000-00000000000A":1}`, ReasonDuplicate, "v.key")
	refused(p.Int32, `{"":1}`, ReasonType, "v.key")
	refused(p.Int32, `{" 1":1}`, ReasonType, "v.key")
	refused(p.Int32, `{"3000000000":1}`, ReasonRange, "v.key")
	refused(p.Bool, `{"True":1}`, ReasonType, "v.key")
	refused(p.Timestamp, `{"0":1}`, ReasonType, "v.key")
	refused(p.String, `{"a":"x"}`, ReasonType, "v.value")
	refused(p.String, `[["a",1]]`, ReasonType, "v")
	o = JSONOptions{Timestamps: "seconds"}
	accepted(p.Timestamp, `{"1":1}`, pair{int64(1e6), int64(1)})

	var many []string
	for i := range 5000 {
		many = append(many, fmt.Sprintf(`"%d":1`, i))
	}
	if got, err := decode(p.Int32, "{"+strings.Join(many, ",")+"}"); err != nil || len(got.([]pair)) != 5000 {
		t.Errorf("5000 keys: %v", err)
	}
	refused(p.Int32, "{"+strings.Join(append(many, `"4321.0":1`), ",")+"}", ReasonDuplicate, "v.key")
	refused(p.String, "{"+strings.Join(append(many, `"17":1`), ",")+"}", ReasonDuplicate, "v.key")
}

// TestJSONStamps checks the columns that come from the record.
func TestJSONStamps(t *testing.T) {
	p, y := iceberg.PrimitiveTypes, &typer{}
	l, err := NewLayout(iceberg.NewSchema(0, y.field("_kafka_topic!", p.String), y.field("_kafka_partition!", p.Int32), y.field("a", p.Int32),
		y.field("_kafka_offset!", p.Int64), y.field("_kafka_timestamp", p.TimestampTz), y.field("_kafka_key", p.String),
		y.field("s", y.record(y.field("_kafka_offset", p.Int64)))))
	if err != nil {
		t.Fatal(err)
	}
	r := &kgo.Record{Topic: "orders", Partition: 7, Offset: 1 << 40, Timestamp: time.UnixMilli(1731508712229), Key: []byte("ü"),
		Value: []byte(`{"a":1,"_kafka_topic":"other","_kafka_offset":[],"s":{"_kafka_offset":5}}`)}
	want := map[string]any{"_kafka_topic": "orders", "_kafka_partition": int64(7), "_kafka_offset": int64(1 << 40), "_kafka_timestamp": int64(1731508712229000),
		"_kafka_key": "ü", "a": int64(1), "s": map[string]any{"_kafka_offset": int64(5)}}
	if got, refused := decodeJSON(t, l, JSONOptions{}, r); !reflect.DeepEqual(got, want) {
		t.Errorf("%v (%v), expected %v", got, refused, want)
	}

	r.Key, r.Timestamp, r.Value = nil, time.UnixMilli(-1), []byte("{}")
	want["_kafka_key"], want["_kafka_timestamp"], want["a"], want["s"] = nil, nil, nil, nil
	if got, refused := decodeJSON(t, l, JSONOptions{}, r); !reflect.DeepEqual(got, want) {
		t.Errorf("without key and timestamp: %v (%v), expected %v", got, refused, want)
	}

	r.Key = []byte{}
	if got, _ := decodeJSON(t, l, JSONOptions{}, r); got["_kafka_key"] != "" {
		t.Errorf("an empty key is %v", got["_kafka_key"])
	}
	r.Key = []byte("\xff")
	if _, refused := decodeJSON(t, l, JSONOptions{}, r); refused == nil || refused.Reason != ReasonUTF8 || refused.Field != "_kafka_key" {
		t.Errorf("a key that is no UTF-8: %v", refused)
	}
	r.Key, r.Timestamp = nil, time.UnixMilli(1731508712229000000)
	if _, refused := decodeJSON(t, l, JSONOptions{}, r); refused == nil || refused.Reason != ReasonRange || refused.Field != "_kafka_timestamp" {
		t.Errorf("a timestamp in the far future: %v", refused)
	}
}

// TestJSONStampsKey holds every key apart from every other: none, empty, text
// and bytes that are no text.
func TestJSONStampsKey(t *testing.T) {
	p, y := iceberg.PrimitiveTypes, &typer{}
	for _, typ := range []iceberg.Type{p.Binary, p.String} {
		l, err := NewLayout(iceberg.NewSchema(0, y.field("_kafka_key", typ), y.field("a", p.Int32)))
		if err != nil {
			t.Fatal(err)
		}
		for _, key := range [][]byte{nil, {}, []byte("k"), []byte("\x00"), []byte("\xff\x00\xfe")} {
			got, refused := decodeJSON(t, l, JSONOptions{}, &kgo.Record{Key: key, Value: []byte("{}")})
			switch {
			case typ.Equals(p.String) && !utf8.Valid(key):
				if refused == nil || refused.Reason != ReasonUTF8 {
					t.Errorf("key %q in a string column: %v", key, refused)
				}
			case key == nil:
				if v, ok := got["_kafka_key"]; !ok || v != nil {
					t.Errorf("no key in a %s column is %#v", typ, v)
				}
			default:
				var want any = octets(key)
				if typ.Equals(p.String) {
					want = string(key)
				}
				if v := got["_kafka_key"]; !reflect.DeepEqual(v, want) {
					t.Errorf("key %q in a %s column is %#v", key, typ, v)
				}
			}
		}
	}
}

// TestJSONStampsHeaders checks that all headers are kept as they were: order,
// keys that come twice, values that are empty, missing or no text.
func TestJSONStampsHeaders(t *testing.T) {
	p, y := iceberg.PrimitiveTypes, &typer{}
	type header = kgo.RecordHeader
	layout := func(column iceberg.NestedField) *Layout {
		t.Helper()
		l, err := NewLayout(iceberg.NewSchema(0, y.field("a", p.Int32), column, y.field("b", y.list(p.Int32, false))))
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
	records := [][]header{
		{{Key: "k", Value: []byte("1")}, {Key: "", Value: nil}, {Key: "k", Value: []byte{}}, {Key: "k", Value: []byte("\xff\x00")}, {Key: "ü", Value: []byte("2")}},
		nil,
		{{Key: "only"}},
		{},
		{{Key: "x", Value: []byte("3")}},
	}
	wants := [][]any{{}, {}, {}, {}, {}}
	for i, r := range records {
		for _, h := range r {
			var value any
			if h.Value != nil {
				value = octets(h.Value)
			}
			wants[i] = append(wants[i], map[string]any{"key": h.Key, "value": value})
		}
	}
	for _, l := range []*Layout{
		layout(y.field("_kafka_headers", y.list(y.record(y.field("key", p.String), y.field("value", p.Binary)), false))),
		layout(y.field("_kafka_headers!", y.list(y.record(y.field("value", p.Binary), y.field("key!", p.String)), true))),
	} {
		d, b := newJSON(t, l, JSONOptions{}), NewBatch(l)
		for i, headers := range records {
			if err := d.Decode(b, &kgo.Record{Headers: headers, Value: []byte(`{"a":1,"_kafka_headers":7,"b":[1,2]}`)}); err != nil {
				t.Fatalf("record %d: %v", i, err)
			}
			bad := &kgo.Record{Headers: []header{{Key: "fine"}, {Key: "\xff"}}, Value: []byte(`{"a":1,"b":[3]}`)}
			var refused *RecordError
			if err := d.Decode(b, bad); !errors.As(err, &refused) || refused.Reason != ReasonUTF8 || refused.Field != "_kafka_headers.element.key" {
				t.Fatalf("a header whose key is no UTF-8: %v", err)
			}
		}
		for i, row := range assemble(t, b) {
			if want := map[string]any{"a": int64(1), "_kafka_headers": wants[i], "b": []any{int64(1), int64(2)}}; !reflect.DeepEqual(row, want) {
				t.Errorf("record %d: %v, expected %v", i, row, want)
			}
		}
	}

	strict := layout(y.field("_kafka_headers", y.list(y.record(y.field("key", p.String), y.field("value!", p.Binary)), false)))
	_, refused := decodeJSON(t, strict, JSONOptions{}, &kgo.Record{Headers: records[0], Value: []byte("{}")})
	if refused == nil || refused.Reason != ReasonRequired || refused.Field != "_kafka_headers.element.value" {
		t.Errorf("no value where one is required: %v", refused)
	}
}

// TestNewJSONRefuses checks that what can't work is said at the start.
func TestNewJSONRefuses(t *testing.T) {
	p, y := iceberg.PrimitiveTypes, &typer{}
	f := func(o JSONOptions, words string, fields ...iceberg.NestedField) {
		t.Helper()
		l, err := NewLayout(iceberg.NewSchema(0, fields...))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := NewJSON(l, o); err == nil || !strings.Contains(err.Error(), words) {
			t.Errorf("%v, expected %q", err, words)
		}
	}
	f(JSONOptions{Timestamps: "nanos"}, `"nanos"`, y.field("a", p.Int32))
	f(JSONOptions{Times: "hours"}, `"hours"`, y.field("a", p.Int32))
	f(JSONOptions{Dates: "weeks"}, `"weeks"`, y.field("a", p.Int32))
	f(JSONOptions{}, `"_kafka_offset": filled from the record, so its type must be long, not int`, y.field("_kafka_offset", p.Int32))
	f(JSONOptions{}, "string or binary", y.field("_kafka_key", p.Int64))
	for _, typ := range []iceberg.Type{p.String, y.mapping(p.String, p.Binary, false), y.list(p.String, false), y.list(y.record(y.field("key", p.String)), false),
		y.list(y.record(y.field("key", p.String), y.field("value", p.String)), false), y.list(y.record(y.field("key", p.String), y.field("value", iceberg.FixedTypeOf(3))), false),
		y.list(y.record(y.field("key", p.String), y.field("value", p.Binary), y.field("more", p.Binary)), false)} {
		f(JSONOptions{}, `"_kafka_headers": filled from the record, so its type must be list<struct<key: string, value: binary>>, not `, y.field("_kafka_headers", typ))
	}
	f(JSONOptions{}, `"m"`, y.field("m", y.mapping(y.record(y.field("a", p.Int32)), p.Int32, false)))
}

// TestJSONPrediction changes the order of fields from record to record, since
// the decoder expects the order of the last one.
func TestJSONPrediction(t *testing.T) {
	p, y := iceberg.PrimitiveTypes, &typer{}
	l, err := NewLayout(iceberg.NewSchema(0, y.field("a", p.Int32), y.field("b", p.Int32), y.field("c", p.Int32)))
	if err != nil {
		t.Fatal(err)
	}
	d, b := newJSON(t, l, JSONOptions{}), NewBatch(l)
	var want []map[string]any
	for _, order := range []string{"abc", "cba", "cba", "a", "ba", "", "c", "acb", "bzac", "zzc", "abca", "cab"} {
		parts, row := []string{}, map[string]any{"a": nil, "b": nil, "c": nil}
		for i, name := range order {
			parts = append(parts, fmt.Sprintf(`"%c":%d`, name, i))
			if name != 'z' {
				row[string(name)] = int64(i)
			}
		}
		err := d.Decode(b, &kgo.Record{Value: []byte("{" + strings.Join(parts, ",") + "}")})
		if twice := order == "zzc" || order == "abca"; twice != (err != nil) {
			t.Fatalf("order %q: %v", order, err)
		}
		if err == nil {
			want = append(want, row)
		}
	}
	if got := assemble(t, b); !reflect.DeepEqual(got, want) {
		t.Errorf("%v, expected %v", got, want)
	}
}

// TestJSONAllocatesNothing holds for records that use every part of the
// decoder, once the batch has grown.
func TestJSONAllocatesNothing(t *testing.T) {
	l := fuzzLayout(t, 5)
	d, b := newJSON(t, l, JSONOptions{}), NewBatch(l)
	r := &kgo.Record{Value: []byte(`{"m":{"a\n":{"1":["x\ty","ü"],"2":null}},"z":{"k":[1,2.5e3,"\u00fc"]},"zz":1,"n":{"2024-01-01":{"v":1,"w":{}}},"o":[{"a":1.5e300},{}]}`)}
	decode := func() {
		b.Reset()
		if err := d.Decode(b, r); err != nil {
			t.Fatal(err)
		}
	}
	decode()
	if n := testing.AllocsPerRun(100, decode); n != 0 {
		t.Errorf("%v allocations a record", n)
	}
}
