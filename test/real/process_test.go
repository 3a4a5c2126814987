//go:build real

package real_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// SIGTERM cuts what was read, commits it and ends well, long before the trigger.
func TestStopDrains(t *testing.T) {
	t.Parallel()
	c := client(t)
	l := apache(t)
	topic := makeTopic(t, c, "drained", 3)
	table := unique("drain") + ".records"
	in := auditIngest("drained", table, topic)
	in.trigger = "1h"
	listen := fmt.Sprint("127.0.0.1:", freePort(t))
	produce(t, c, topic, 3, sequence(0, 500)...)
	p := launch(t, "--config", config{lake: l, listen: listen, ingests: []ingest{in}}.write(t))
	until(t, time.Minute, "500 rows buffered", func() bool { return status(t.Context(), listen, "drained").BufferedRows == 500 })
	p.term()
	e := p.wait(30 * time.Second)
	if e.code != 0 {
		t.Errorf("exit code %d, want 0", e.code)
	}
	audit(t, l, table, topic, 500)

	// Group offsets are what lag tools show: they stand at the end.
	fetched, err := kadm.NewClient(c).FetchOffsets(t.Context(), in.group())
	if err != nil {
		t.Fatal(err)
	}
	for partition, end := range ends(t, c, topic) {
		if o, ok := fetched.Lookup(topic, partition); !ok || o.At != end {
			t.Errorf("partition %d: group offset %d, want %d", partition, o.At, end)
		}
	}
}

// One ingest that can't go on stops alone; its failure is in the pages, and the other's rows arrive.
func TestOneIngestFails(t *testing.T) {
	t.Parallel()
	c := client(t)
	l := apache(t)
	good, bad := makeTopic(t, c, "good", 2), makeTopic(t, c, "bad", 2)
	namespace := unique("mixed")
	listen := fmt.Sprint("127.0.0.1:", freePort(t))
	p := launch(t, "--config", config{lake: l, listen: listen, ingests: []ingest{
		auditIngest("good", namespace+".good", good), auditIngest("bad", namespace+".bad", bad),
	}}.write(t))
	produce(t, c, good, 2, sequence(0, 50)...)
	produceRecords(t, c, &kgo.Record{Topic: bad, Partition: 1, Value: []byte(`{"seq":"not a number"}`)})
	until(t, time.Minute, "the failed ingest shown as not ready", func() bool {
		code, body := page(t.Context(), listen, "/readyz")
		return code == http.StatusServiceUnavailable && strings.Contains(body, "bad")
	})
	produce(t, c, good, 2, sequence(50, 100)...)
	until(t, time.Minute, "100 rows of the good ingest", func() bool { return status(t.Context(), listen, "good").Rows == 100 })
	if code, _ := page(t.Context(), listen, "/livez"); code != http.StatusOK {
		t.Errorf("/livez answers %d, want 200", code)
	}
	if s := status(t.Context(), listen, "bad"); s.State != "halted" || !strings.Contains(s.Error, "seq") || !strings.Contains(s.Error, bad+"/1") {
		t.Errorf("/status says of the bad ingest: %+v", s)
	}
	p.term()
	e := p.wait(30 * time.Second)
	if e.code != 1 {
		t.Errorf("exit code %d, want 1: an ingest failed", e.code)
	}
	e.mentions(t, "seq", bad+"/1", "on_bad_record")
	audit(t, l, namespace+".good", good, 100)
}

// A record that does not fit goes to the dead-letter topic as it came, with
// headers that say whence and why; the others are in the table.
func TestDeadLetters(t *testing.T) {
	t.Parallel()
	c := client(t)
	l := apache(t)
	topic, letters := makeTopic(t, c, "letters", 2), makeTopic(t, c, "dead", 1)
	table := unique("dead") + ".records"
	in := auditIngest("letters", table, topic)
	in.extra = []string{`on_bad_record = "dead_letter"`, fmt.Sprintf("dead_letter_topic = %q", letters), `unknown_fields = "error"`, `on_null = "dead_letter"`}
	bad := []struct{ value, field, reason string }{
		{`{"seq":1,`, "", "syntax"},
		{`[1]`, "", "type"},
		{`{"seq":"x"}`, "seq", "type"},
		{`{"seq":9223372036854775808}`, "seq", "range"},
		{`{"text":"no number"}`, "seq", "required"},
		{`{"seq":1,"seq":2}`, "seq", "duplicate_key"},
		{`{"seq":1,"txet":"x"}`, "txet", "unknown_field"},
		{"{\"seq\":1,\"text\":\"\xff\"}", "text", "utf8"},
		{`{"seq":1,"text":7}`, "text", "type"},
		{"", "", ""}, // an empty value is not JSON
	}
	var want []*kgo.Record
	for i, b := range bad {
		produce(t, c, topic, 2, sequence(2*i, 2*i+2)...)
		r := &kgo.Record{Topic: topic, Partition: int32(i % 2), Key: fmt.Appendf(nil, "key-%d\x00\xff", i), Value: []byte(b.value),
			Headers: []kgo.RecordHeader{{Key: "trace", Value: []byte("abc\xfe")}, {Key: "trace", Value: nil}}}
		produceRecords(t, c, r)
		want = append(want, r)
	}
	mustOnce(t, config{lake: l, ingests: []ingest{in}}.write(t))
	if got := l.count(t, table); got != 2*len(bad) {
		t.Errorf("%d rows, want %d", got, 2*len(bad))
	}
	found := map[string]*kgo.Record{}
	for _, r := range consume(t, letters) {
		found[string(r.Key)] = r
	}
	for i, w := range want {
		r := found[string(w.Key)]
		if r == nil {
			t.Errorf("%s is not in the dead-letter topic", w.Value)
			continue
		}
		if string(r.Value) != string(w.Value) {
			t.Errorf("value %q, want %q", r.Value, w.Value)
		}
		if len(r.Headers) < 2 || r.Headers[0].Key != "trace" || string(r.Headers[0].Value) != "abc\xfe" || r.Headers[1].Key != "trace" {
			t.Errorf("%s: the original headers are not first: %v", w.Value, r.Headers)
		}
		header := map[string]string{}
		for _, h := range r.Headers {
			header[h.Key] = string(h.Value)
		}
		says := map[string]string{"router.topic": topic, "router.partition": fmt.Sprint(w.Partition), "router.offset": fmt.Sprint(w.Offset)}
		if bad[i].reason != "" {
			says["router.field"], says["router.reason"] = bad[i].field, bad[i].reason
		}
		for key, value := range says {
			if header[key] != value {
				t.Errorf("%s: header %s is %q, want %q", w.Value, key, header[key], value)
			}
		}
	}
	if len(found) != len(bad) {
		t.Errorf("%d dead letters, want %d", len(found), len(bad))
	}
}

// Null values: the policy says whether they are passed over, and they never become rows.
func TestNullValues(t *testing.T) {
	t.Parallel()
	c := client(t)
	l := apache(t)
	for policy, code := range map[string]int{"skip": 0, "halt": 1} {
		topic := makeTopic(t, c, "null", 1)
		table := unique("null") + ".records"
		in := auditIngest("null", table, topic)
		in.extra = []string{fmt.Sprintf("on_null = %q", policy)}
		produce(t, c, topic, 1, sequence(0, 3)...)
		produceRecords(t, c, &kgo.Record{Topic: topic, Key: []byte("k")})
		produce(t, c, topic, 1, sequence(3, 6)...)
		e := once(t, config{lake: l, ingests: []ingest{in}}.write(t))
		if e.code != code {
			t.Errorf("on_null = %q: exit code %d, want %d", policy, e.code, code)
		}
		if got, want := l.count(t, table), 6-3*code; got != want {
			t.Errorf("on_null = %q: %d rows, want %d", policy, got, want)
		}
	}
}
