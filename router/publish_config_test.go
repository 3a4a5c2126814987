package router

import (
	"reflect"
	"strings"
	"testing"
)

// A publish of nothing but its required keys has the defaults; columns may be
// one name or a list.
func TestPublishConfig(t *testing.T) {
	base := "[kafka]\nbrokers = [\"a:1\"]\n[catalog]\ntype = \"rest\"\nuri = \"http://h\"\n"
	cfg, r := parseConfig(base + "[[publish]]\nname = \"out\"\ntable = \"a.b\"\ntopic = \"t-{region}\"\nkey = \"id\"\ncolumns = [\"a\", \"b\"]\nheaders = { \"api-key\" = \"client\" }\n")
	if len(r.problems) > 0 || len(r.warnings) > 0 {
		t.Fatalf("problems %v, warnings %v", r.problems, r.warnings)
	}
	want := DefaultPublish()
	want.Name, want.Table, want.Topic, want.Key, want.Columns = "out", "a.b", "t-{region}", Names{"id"}, Names{"a", "b"}
	want.Headers = map[string]string{"api-key": "client"}
	if !reflect.DeepEqual(cfg.Publish, []PublishConfig{want}) {
		t.Errorf("got  %+v\nwant %+v", cfg.Publish, want)
	}
	if got := cfg.Redact("id client"); got != "id client" {
		t.Errorf("columns are masked as secrets: %q", got)
	}
	p := cfg.Publish[0]
	if p.GroupID() != "router-publish-out" || p.Positions() != "router-positions-out" || p.TransactionalID(3) != "router-out-3" {
		t.Errorf("names %s, %s, %s", p.GroupID(), p.Positions(), p.TransactionalID(3))
	}
}

// Every problem is told at once, with its key.
func TestPublishProblems(t *testing.T) {
	base := "[kafka]\nbrokers = [\"a:1\"]\n[catalog]\ntype = \"rest\"\nuri = \"http://h\"\n[[ingest]]\nname = \"in\"\ntopics = [\"t\"]\ntable = \"a.b\"\ngroup = \"router-publish-c\"\n"
	_, r := parseConfig(base + `
[[publish]]
name = "a b"
table = "t"
topic = "t-{}"
format = "avro"
start = "yesterday"
key = ["id", "id"]
shards = 300
poll_interval = "1ms"
transaction_timeout = "10m"
transaction_interval = "5m"
record_size_max = "1B"
on_bad_row = "dead_letter"
on_delete = "stop"
partitoin = "id"
[[publish]]
name = "c"
table = "a.b"
topic = "t"
position_topic = "t"
[[publish]]
name = "c"
table = "a.b"
topic = "u"
partition = 7
`)
	var got []string
	for _, p := range r.problems {
		got = append(got, p.Key+": "+p.What)
	}
	all := strings.Join(got, "\n")
	for _, want := range []string{
		"publish[0].name: must be 1 to 100", "publish[0].table: must be", "publish[0].topic: must be", "publish[0].format: must be",
		"publish[0].start: must be one of", "publish[0].key[1]: listed twice", "publish[0].shards: must be from 1 to 256",
		"publish[0].poll_interval: must be from", "publish[0].transaction_interval: must be from", "publish[0].record_size_max: must be from",
		"publish[0].dead_letter_topic: missing", "publish[0].on_delete: must be", `publish[0].partitoin: unknown key (did you mean "partition"?)`,
		"publish[1].position_topic: the same as topic", "publish[1].group: taken by ingest[0]", "publish[2].name: taken by publish[1]",
		"publish[2].partition: must be text in quotes",
	} {
		if !strings.Contains(all, want) {
			t.Errorf("not told: %s", want)
		}
	}
	if t.Failed() {
		t.Log(all)
	}
	cfg, r := parseConfig(base + "[[publish]]\nname = \"x\"\ntable = \"a.b\"\ntopic = \"t\"\ndead_letter_topic = \"d\"\n")
	var doubts []string
	for _, w := range r.warnings {
		doubts = append(doubts, w.Key+": "+w.What)
	}
	if all := strings.Join(doubts, "\n"); len(cfg.Publish) != 1 || !strings.Contains(all, "publish[0].topic: ingest[0] reads it into the same table") || !strings.Contains(all, "publish[0].dead_letter_topic: not used") {
		t.Errorf("warnings %q", all)
	}
}
