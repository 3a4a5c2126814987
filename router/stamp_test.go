package router

import (
	"bytes"
	"encoding/json"
	"reflect"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/iceberg-go/table"
	"github.com/twmb/franz-go/pkg/kgo"
)

// A row says all that its record was besides its value: key, headers and time
// come back as they were sent, what is missing apart from what is empty.
func TestRecordInColumns(t *testing.T) {
	w := newStage(t, map[string]int32{"a": 1, "dead": 1})
	w.ingest("t", func(c *IngestConfig) {
		c.OnBadRecord, c.DeadLetterTopic = policyDeadLetter, "dead"
		c.Create.Schema = append(c.Create.Schema,
			ColumnConfig{Name: "_kafka_timestamp", Type: "timestamptz"}, ColumnConfig{Name: "_kafka_key", Type: "binary"},
			ColumnConfig{Name: "_kafka_headers", Type: "list<struct<key: string, value: binary>>"})
		c.Create.Partition = nil
	}, "a")
	at := time.UnixMilli(1731508712229).UTC()
	value := []byte(`{"id":1}`)
	w.send(
		&kgo.Record{Topic: "a", Value: value, Timestamp: at, Key: []byte("\xff\x00"), Headers: []kgo.RecordHeader{{Key: "k", Value: []byte("1")}, {Key: "", Value: nil}, {Key: "k", Value: []byte{}}, {Key: "k", Value: []byte("\xff")}}},
		&kgo.Record{Topic: "a", Value: value, Timestamp: at.Add(time.Millisecond), Key: []byte{}},
		&kgo.Record{Topic: "a", Value: value, Timestamp: at, Headers: []kgo.RecordHeader{{Key: "fine"}, {Key: "\xff", Value: []byte("v")}}},
		&kgo.Record{Topic: "a", Value: value, Timestamp: time.UnixMilli(-2), Headers: []kgo.RecordHeader{{Key: "last", Value: []byte{}}}},
	)
	if err := w.once(); err != nil {
		t.Fatal(err)
	}
	_, batches, err := w.load("t").Scan(table.WithSelectedFields("_kafka_offset", "_kafka_timestamp", "_kafka_key", "_kafka_headers")).ToArrowRecords(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var got []map[string]any
	for batch, err := range batches {
		if err != nil {
			t.Fatal(err)
		}
		var out bytes.Buffer
		if err := array.RecordToJSON(batch, &out); err != nil {
			t.Fatal(err)
		}
		for lines := json.NewDecoder(&out); lines.More(); {
			var row map[string]any
			if err := lines.Decode(&row); err != nil {
				t.Fatal(err)
			}
			got = append(got, row)
		}
	}
	header := func(key string, value any) map[string]any { return map[string]any{"key": key, "value": value} }
	row := func(offset int, at string, key any, headers ...any) map[string]any {
		if headers == nil {
			headers = []any{}
		}
		return map[string]any{"_kafka_offset": float64(offset), "_kafka_timestamp": at, "_kafka_key": key, "_kafka_headers": headers}
	}
	want := []map[string]any{
		row(0, at.Format(time.RFC3339Nano), "/wA=", header("k", "MQ=="), header("", nil), header("k", ""), header("k", "/w==")),
		row(1, at.Add(time.Millisecond).Format(time.RFC3339Nano), ""),
		row(3, "1969-12-31T23:59:59.998Z", nil, header("last", "")),
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %v\nwant %v", got, want)
	}
	dead := w.consume("dead", 1)[0]
	if i := len(dead.Headers) - 8; i != 2 || string(dead.Headers[1].Key) != "\xff" || string(dead.Headers[i+4].Value) != "_kafka_headers.element.key" || string(dead.Headers[i+5].Value) != "utf8" {
		t.Errorf("dead letter of a header key that is no UTF-8: %v", dead.Headers)
	}
}
