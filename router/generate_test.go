package router

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

func TestSchemaMakesJSON(t *testing.T) {
	f := func(schema, wantPattern string) {
		t.Helper()
		g, err := newGenerator(schema, "", 1)
		if err != nil {
			t.Fatalf("%s: %v", schema, err)
		}
		pattern := regexp.MustCompile("^" + wantPattern + "$")
		for range 200 {
			got, _ := g.appendRecord([]byte("before"))
			got = got[len("before"):]
			if !json.Valid(got) || !pattern.Match(got) {
				t.Fatalf("%s made %s, want JSON like %s", schema, got, wantPattern)
			}
		}
	}
	f(schemaDefault, `\{"logStreamId": [12]\d{6}, "message": "[0-9A-Za-z]{962}"\}`)
	f(`{}`, `\{\}`)
	f(`{"a": 1, "b": -2.50e3, "c": true, "d": null, "e": [], "f": {}}`, `\{"a": 1, "b": -2.50e3, "c": true, "d": null, "e": \[\], "f": \{\}\}`)
	f(`{"a": 12345678901234567890123}`, `\{"a": 12345678901234567890123\}`)
	f(`{"a": [{"b": {"c": ["{{boolean}}", "x"]}}]}`, `\{"a": \[\{"b": \{"c": \[(true|false), "x"\]\}\}\]\}`)
	f(`{"a": "{{integer(-3, 3)}}"}`, `\{"a": -?[0-3]\}`)
	f(`{"a": "{{integer(5,5)}}"}`, `\{"a": 5\}`)
	f(`{"a": "{{integer(-9223372036854775808,9223372036854775807)}}"}`, `\{"a": -?\d+\}`)
	f(`{"a": "{{long}}"}`, `\{"a": -?\d+\}`)
	f(`{"a": "{{double(-1,1,3)}}"}`, `\{"a": -?[01]\.\d{3}\}`)
	f(`{"a": "{{double(1,2)}}"}`, `\{"a": 1(\.\d+)?\}`)
	f(`{"a": "id-{{integer(1,9)}}"}`, `\{"a": "id-[1-9]"\}`)
	f(`{"a": "{{integer(1,9)}}{{integer(1,9)}}"}`, `\{"a": "[1-9]{2}"\}`)
	f(`{"a": "{{integer(1,9)}} "}`, `\{"a": "[1-9] "\}`)
	f(`{"a": "{{ uuid }}"}`, `\{"a": "[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}"\}`)
	f(`{"a": "{{hex(7)}}", "b": "{{digits(3)}}", "c": "{{alphaNumeric(0)}}"}`, `\{"a": "[0-9a-f]{7}", "b": "\d{3}", "c": ""\}`)
	f(`{"a": "{{choice(red, green ,'a, b',it's)}}"}`, `\{"a": "(red|green|a, b|it's)"\}`)
	f(`{"a": "{{choice('\"q\"','\\')}}"}`, `\{"a": "(\\"q\\"|\\\\)"\}`)
	f(`{"a": "{{word}}", "b": "{{sentence(3)}}"}`, `\{"a": "[a-z]+", "b": "[A-Z][a-z]* [a-z]+ [a-z]+\."\}`)
	f(`{"a": "{{now}}"}`, `\{"a": "\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z"\}`)
	f(`{"a": "{{epochMillis}}", "b": "{{epochMicros}}"}`, `\{"a": \d{13}, "b": \d{16}\}`)
	f(`{"a\"b": "tab\t{{word}}\u0001 é 😀 <&>"}`, `\{"a\\"b": "tab\\t[a-z]+\\u0001 é 😀 <&>"\}`)
	f(`{"a": "}} { {not} one"}`, `\{"a": "\}\} \{ \{not\} one"\}`)
}

func TestSchemaErrorsNameThePlace(t *testing.T) {
	f := func(schema, key string, wants ...string) {
		t.Helper()
		_, err := newGenerator(schema, key, 1)
		if err == nil {
			t.Fatalf("%s was taken", schema)
		}
		for _, want := range wants {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%s: error %q does not say %q", schema, err, want)
			}
		}
	}
	f(`{"a": {"b": [0, "x{{integr(1,2)}}"]}}`, "", `field "a.b[1]"`, "character 2", `unknown function "integr"`, "integer")
	f(`{"a": "{{integer(1,2)}}{{integer(9,1)}}"}`, "", "character 17", "9 is above 1", "{{integer(from,to)}}")
	f(`{"a": "{{integer(1)}}"}`, "", "1 arguments", "{{integer(from,to)}}")
	f(`{"a": "{{integer(1,99999999999999999999)}}"}`, "", `"99999999999999999999" is not a 64-bit integer`)
	f(`{"a": "{{integer(1,2)"}`, "", "}} is missing")
	f(`{"a": "{{integer(1,2"}`, "", ") is missing")
	f(`{"a": "{{choice('x"}`, "", "' is missing")
	f(`{"a": "{{}}"}`, "", "no function")
	f(`{"a": "{{uuid(3)}}"}`, "", "1 arguments")
	f(`{"a": "{{alphaNumeric(-1)}}"}`, "", `length "-1"`)
	f(`{"a": "{{alphaNumeric(99999999999)}}"}`, "", "16777216")
	f(`{"a": "{{double(0,inf)}}"}`, "", "finite")
	f(`{"a": "{{double(0,1,99)}}"}`, "", "0 to 18")
	f(`{"a": "{{sentence(0)}}"}`, "", "words")
	f(`{"a": "{{field(b)}}"}`, "", "only stand in a key")
	f(`{"a": 1, "a": 2}`, "", `"a" is there twice`)
	f(`{"a": {"b": 1, "b": 2}}`, "", `"a.b" is there twice`)
	f(`[1]`, "", "must be a JSON object")
	f(`{"a": 1`, "", "ends too early")
	f(`{"a": x}`, "", "at byte")
	f(`{"a": 1} 2`, "", "after the end")
	f(`{"a": 1}`, "{{field(b)}}", "key", "field(b)", "no such field")
	f(`{"a": 1, "b": 2}`, "{{field(a)}}{{field(b)}}", "one field")
	f(strings.Repeat(`{"a":`, 100)+"1"+strings.Repeat("}", 100), "", "nested deeper")
}

func TestKeyCopiesAField(t *testing.T) {
	f := func(schema, key, want string) {
		t.Helper()
		g, err := newGenerator(schema, key, 1)
		if err != nil {
			t.Fatal(err)
		}
		dst := []byte("before")
		for range 3 { // the places must hold for each record
			dst = dst[:len("before")]
			got, at := g.appendRecord(dst)
			if !json.Valid(got[6:at]) || string(got[at:]) != want {
				t.Fatalf("%s with key %s: %s and key %s, want %s", schema, key, got[6:at], got[at:], want)
			}
		}
	}
	f(`{"a": "{{integer(7,7)}}", "b": "x"}`, "{{field(a)}}", "7")
	f(`{"a": 1, "b": "{{choice(x)}}-y", "c": "{{uuid}}"}`, "k:{{field(b)}}", "k:x-y")
	f(`{"a": "{{choice('\"é')}}"}`, "{{field(a)}}", `"é`)
	f(`{"a": {"b": "{{integer(1,1)}}"}}`, "{{field(a)}}", `{"b": 1}`)
	f(`{"a": 1}`, "fixed", "fixed")
	f(`{"a": 1}`, "{{integer(3,3)}}{{choice('\"')}}", `3"`)
}

func TestSameSeedSameRecords(t *testing.T) {
	record := func(seed uint64, n int) string {
		g, err := newGenerator(`{"a": "{{uuid}}", "b": "{{sentence(9)}}", "c": "{{double(0,1)}}", "n": "{{sequence}}"}`, "{{hex(8)}}", seed)
		if err != nil {
			t.Fatal(err)
		}
		var b []byte
		for range n {
			b, _ = g.appendRecord(b[:0])
		}
		return string(b)
	}
	if first, again := record(7, 5), record(7, 5); first != again {
		t.Error("the same seed made two records")
	}
	if record(7, 5) == record(8, 5) {
		t.Error("two seeds made the same record")
	}
	if got := record(7, 5); !strings.Contains(got, `"n": 4}`) {
		t.Errorf("fifth record %s has no sequence 4", got)
	}
}

// An even spread over a million ids must hit each of 64 buckets, and each
// character of an alphabet, about equally often.
func TestChanceIsEven(t *testing.T) {
	g, err := newGenerator(`{"a": "{{integer(0,63)}}", "b": "{{alphaNumeric(63)}}"}`, "", 3)
	if err != nil {
		t.Fatal(err)
	}
	const records = 64_000
	numbers, characters := map[int]int{}, map[byte]int{}
	var row struct {
		A int
		B string
	}
	for range records {
		text, _ := g.appendRecord(nil)
		if err := json.Unmarshal(text, &row); err != nil {
			t.Fatal(err)
		}
		numbers[row.A]++
		for i := range len(row.B) {
			characters[row.B[i]]++
		}
	}
	if len(numbers) != 64 || len(characters) != 62 {
		t.Errorf("%d different numbers and %d characters, want 64 and 62", len(numbers), len(characters))
	}
	for n, count := range numbers {
		if count < 800 || count > 1200 {
			t.Errorf("number %d: %d of %d, want about 1000", n, count, records)
		}
	}
	for c, count := range characters {
		if want := 63 * records / 62; count < want*97/100 || count > want*103/100 {
			t.Errorf("character %c: %d, want about %d", c, count, want)
		}
	}
}

func FuzzSchema(f *testing.F) {
	f.Add(schemaDefault, "")
	f.Add(`{"a": ["x{{uuid}}", {"b": "{{choice(a,'b')}}"}]}`, "{{field(a)}}")
	f.Fuzz(func(t *testing.T, schema, key string) {
		if strings.Contains(schema, "0000") || strings.Contains(key, "0000") {
			return // lengths of many megabytes only cost time
		}
		g, err := newGenerator(schema, key, 1)
		if err != nil {
			return
		}
		if got, at := g.appendRecord(nil); !json.Valid(got[:at]) {
			t.Errorf("%s made %s", schema, got[:at])
		}
	})
}

func TestGenerateFillsATopic(t *testing.T) {
	for codec := range generateCodecs {
		for acks := range generateAcks {
			t.Run(fmt.Sprintf("compression=%s/acks=%s", codec, acks), func(t *testing.T) {
				cluster := newKafka(t)
				var out strings.Builder
				err := generate(t.Context(), []string{"--brokers", cluster, "--topic", "logs", "--create", "--partitions", "4",
					"--schema", `{"n": "{{sequence}}", "s": "{{alphaNumeric(100)}}"}`, "--key", "{{field(n)}}", "--count", "1000",
					"--compression", codec, "--acks", acks}, &out, io.Discard)
				if err != nil {
					t.Fatal(err)
				}
				records := readTopic(t, cluster, "logs", 1000)
				seen, partitions := map[int]bool{}, map[int32]bool{}
				var bytes int
				for _, r := range records {
					var row struct {
						N int
						S string
					}
					if err := json.Unmarshal(r.Value, &row); err != nil || len(row.S) != 100 || strconv.Itoa(row.N) != string(r.Key) {
						t.Fatalf("record %s with key %s: %v", r.Value, r.Key, err)
					}
					seen[row.N], partitions[r.Partition] = true, true
					bytes += len(r.Key) + len(r.Value)
				}
				if len(seen) != 1000 || len(partitions) != 4 {
					t.Errorf("%d different records in %d partitions, want 1000 in 4", len(seen), len(partitions))
				}
				want := fmt.Sprintf("records 1000, bytes %d, seconds ", bytes)
				if !strings.HasPrefix(out.String(), want) || !strings.HasSuffix(out.String(), "errors 0\n") {
					t.Errorf("summary %q, want %s…, errors 0", out.String(), want)
				}
			})
		}
	}
}

// A signal ends the load; what was given to the client still arrives.
func TestGenerateEndsWithItsContext(t *testing.T) {
	cluster := newKafka(t)
	ctx, cancel := context.WithCancel(t.Context())
	var out strings.Builder
	lines := &firstLine{seen: cancel}
	err := generate(ctx, []string{"--brokers", cluster, "--topic", "logs", "--create", "--rate", "1MB", "--report"}, &out, lines)
	if err != nil {
		t.Fatal(err)
	}
	var records, bytes int
	var seconds, megabytes, rate float64
	var failed int
	if _, err := fmt.Sscanf(out.String(), "records %d, bytes %d, seconds %f, MB/s %f, records/s %f, errors %d",
		&records, &bytes, &seconds, &megabytes, &rate, &failed); err != nil {
		t.Fatalf("summary %q: %v", out.String(), err)
	}
	if records == 0 || failed != 0 {
		t.Errorf("summary %q, want records and no errors", out.String())
	}
	readTopic(t, cluster, "logs", records)
}

// firstLine calls seen at the first write.
type firstLine struct{ seen func() }

func (w *firstLine) Write(b []byte) (int, error) {
	w.seen()
	return len(b), nil
}

func TestGenerateFailures(t *testing.T) {
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(1, "denied"))
	if err != nil {
		t.Fatal(err)
	}
	defer cluster.Close()
	cluster.ControlKey(int16(kmsg.Produce), func(req kmsg.Request) (kmsg.Response, error, bool) {
		cluster.KeepControl()
		answer := req.ResponseKind().(*kmsg.ProduceResponse)
		for _, topic := range req.(*kmsg.ProduceRequest).Topics {
			t := kmsg.NewProduceResponseTopic()
			t.Topic, t.TopicID = topic.Topic, topic.TopicID
			for _, partition := range topic.Partitions {
				p := kmsg.NewProduceResponseTopicPartition()
				p.Partition, p.ErrorCode = partition.Partition, kerr.TopicAuthorizationFailed.Code
				t.Partitions = append(t.Partitions, p)
			}
			answer.Topics = append(answer.Topics, t)
		}
		return answer, nil, true
	})
	f := func(want string, args ...string) {
		t.Helper()
		var out strings.Builder
		err := generate(t.Context(), append([]string{"--brokers", cluster.ListenAddrs()[0], "--count", "10"}, args...), &out, io.Discard)
		var usage *UsageError
		if err == nil || errors.As(err, &usage) || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: error %v, want a failure that says %q", args, err, want)
		}
	}
	f(`topic "none" does not exist; --create makes it`, "--topic", "none")
	f("10 of 10 records not acknowledged: TOPIC_AUTHORIZATION_FAILED", "--topic", "denied")
}

// [kafka] of a configuration brings the login; flags win over its brokers.
func TestGenerateLogsIn(t *testing.T) {
	cluster := newKafka(t, kfake.EnableSASL(), kfake.Superuser("SCRAM-SHA-512", "loader", "open-sesame"), kfake.SeedTopics(1, "logs"))
	f := func(brokers, password string) error {
		file := filepath.Join(t.TempDir(), "router.toml")
		text := fmt.Sprintf("[kafka]\nbrokers = [%q]\n[kafka.sasl]\nmechanism = \"SCRAM-SHA-512\"\nusername = \"loader\"\npassword = %q\n"+
			"[catalog]\ntype = \"rest\"\nuri = \"http://localhost:1\"\n[[ingest]]\nname = \"a\"\ntopics = [\"a\"]\ntable = \"a.b\"\n", brokers, password)
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		args := []string{"--config", file, "--topic", "logs", "--count", "5"}
		if brokers == "localhost:1" {
			args = append(args, "--brokers", cluster)
		}
		return generate(t.Context(), args, io.Discard, io.Discard)
	}
	if err := f(cluster, "open-sesame"); err != nil {
		t.Error(err)
	}
	if err := f("localhost:1", "open-sesame"); err != nil {
		t.Errorf("with --brokers: %v", err)
	}
}

func TestGenerateUsage(t *testing.T) {
	f := func(want string, args ...string) {
		t.Helper()
		err := generate(t.Context(), args, io.Discard, io.Discard)
		var usage *UsageError
		if !errors.As(err, &usage) || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: error %v, want a usage error that says %q", args, err, want)
		}
	}
	f("--topic is missing")
	f(`rate "fast"`, "--topic", "x", "--rate", "fast")
	f("-tpoic", "--tpoic", "x")
	f(`argument "x"`, "x")
	f("--partitions 0", "--topic", "x", "--partitions", "0")
	f(`--compression "brotli"`, "--topic", "x", "--compression", "brotli")
	f(`--acks "some"`, "--topic", "x", "--acks", "some")
	f("--count -1", "--topic", "x", "--count", "-1")
	f("unknown function", "--topic", "x", "--schema", `{"a":"{{nope}}"}`)
	f("no such file", "--topic", "x", "--schema", filepath.Join(t.TempDir(), "none.json"))
	f("no such file", "--topic", "x", "--config", filepath.Join(t.TempDir(), "none.toml"))

	var help strings.Builder
	if err := generate(t.Context(), []string{"--help"}, &help, io.Discard); err != nil {
		t.Errorf("--help: %v", err)
	}
	for _, want := range []string{"--topic topic", "--batch-max size", "{{alphaNumeric(length)}}"} {
		if !strings.Contains(help.String(), want) {
			t.Errorf("help does not say %s:\n%s", want, help.String())
		}
	}
}

func TestGenerateToStandardOutput(t *testing.T) {
	schema := filepath.Join(t.TempDir(), "schema.json")
	if err := os.WriteFile(schema, []byte(`{"n": "{{sequence}}"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	if err := generate(t.Context(), []string{"--stdout", "--schema", schema, "--count", "3"}, &out, io.Discard); err != nil {
		t.Fatal(err)
	}
	if want := "{\"n\": 0}\n{\"n\": 1}\n{\"n\": 2}\n"; out.String() != want {
		t.Errorf("got %q, want %q", out.String(), want)
	}
}

func TestGrouped(t *testing.T) {
	for n, want := range map[int64]string{0: "0", 999: "999", 1000: "1,000", -1234567: "-1,234,567", 100000: "100,000"} {
		if got := grouped(n); got != want {
			t.Errorf("%d is %s, want %s", n, got, want)
		}
	}
}

// newKafka starts an empty broker for the test and returns its address.
func newKafka(t testing.TB, opts ...kfake.Opt) string {
	t.Helper()
	cluster, err := kfake.NewCluster(append([]kfake.Opt{kfake.NumBrokers(1)}, opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cluster.Close)
	return cluster.ListenAddrs()[0]
}

// readTopic reads a topic, which must hold exactly n records.
func readTopic(t testing.TB, broker, topic string, n int) []*kgo.Record {
	t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(broker), kgo.ConsumeTopics(topic))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	var records []*kgo.Record
	for len(records) < n {
		fetches := client.PollFetches(t.Context())
		if err := fetches.Err(); err != nil {
			t.Fatal(err)
		}
		records = append(records, fetches.Records()...)
	}
	if len(records) != n {
		t.Fatalf("topic %s holds %d records, want %d", topic, len(records), n)
	}
	return records
}

func BenchmarkGenerator(b *testing.B) {
	for _, name := range []string{"A", "words"} {
		schema := schemaDefault
		if name == "words" {
			schema = `{"id": "{{uuid}}", "at": "{{now}}", "price": "{{double(1,100,2)}}", "text": "{{sentence(20)}}"}`
		}
		b.Run("schema="+name, func(b *testing.B) {
			g, err := newGenerator(schema, "", 1)
			if err != nil {
				b.Fatal(err)
			}
			s := slab{gen: g}
			b.SetBytes(int64(len(s.next().Value)))
			b.ReportAllocs()
			for b.Loop() {
				s.next()
			}
		})
	}
}
