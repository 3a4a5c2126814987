//go:build real

package real_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

const alphanumerics = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"

// reference are the records of 1 KB that the throughput is measured with.
func reference(seed uint64) []column {
	message := func(i int) string {
		random := rand.New(rand.NewPCG(seed, uint64(i)))
		text := make([]byte, 962)
		for j := range text {
			text[j] = alphanumerics[random.IntN(len(alphanumerics))]
		}
		return quote(string(text))
	}
	return []column{
		{"logStreamId", "long", true, func(i int) (string, string) {
			s := fmt.Sprint(1_000_001 + (i*7919)%1_000_000)
			return s, s
		}},
		{"message", "string", true, func(i int) (string, string) { m := message(i); return m, m }},
	}
}

func TestReferenceRecords(t *testing.T) {
	t.Parallel()
	const partitions, n = 4, 3000
	c := client(t)
	l := apache(t)
	columns := reference(1)
	topic := makeTopic(t, c, "reference", partitions)
	produce(t, c, topic, partitions, recordsOf(columns, n)...)
	table := unique("logs") + ".reference"
	mustOnce(t, config{lake: l, ingests: []ingest{{name: "reference", topics: []string{topic}, table: table, columns: columns,
		partition: []string{"bucket(logStreamId, 64)"}}}}.write(t))
	want := rows(t, columns, n, nil)
	for _, reader := range []string{"duckdb", "java"} {
		sameLines(t, reader, l.read(t, reader, question{table: table}), want)
	}
}

// event is a nested one with 25 leaves in five structs and a list.
var event = []typedColumn{
	{"event_id", "uuid"},
	{"kind", "string"},
	{"occurred_at", "timestamptz"},
	{"received_at", "timestamp"},
	{"version", "int"},
	{"user", "struct<id: long, name: string, email: string, verified: boolean>"},
	{"device", "struct<os: string, model: string, screen: struct<width: int, height: int>, battery: float>"},
	{"geo", "struct<country: string, lat: double, lon: double>"},
	{"order", "struct<number: string, total: decimal(18, 2), currency: string, placed_on: date, express: boolean>"},
	{"labels", "list<string>"},
	{"duration_ms", "long"},
	{"comment", "string"},
}

func TestNestedEvents(t *testing.T) {
	t.Parallel()
	const partitions, n = 4, 1500
	c := client(t)
	l := apache(t)
	random := rand.New(rand.NewPCG(2, 2))
	word := func() string {
		words := []string{"plain", `with "quotes"`, `back\slash`, "line\nbreak", "žluťoučký kůň", "🐎", "", "tab\t", "control \u0001", "</script>"}
		return words[random.IntN(len(words))]
	}
	var payloads []string
	for i := range n {
		at := epoch.Add(time.Duration(i) * 1234567 * time.Microsecond)
		v := map[string]any{
			"event_id": fmt.Sprintf("%08x-0000-4000-8000-%012x", i, random.Int64N(1<<47)), "kind": word(), "occurred_at": at.Format("2006-01-02T15:04:05.000000Z"),
			"received_at": at.Format("2006-01-02T15:04:05.000000"), "version": random.Int32(), "duration_ms": random.Int64(), "comment": word() + word(),
			"user":   map[string]any{"id": random.Int64(), "name": word(), "email": word(), "verified": i%2 == 0},
			"device": map[string]any{"os": word(), "model": word(), "screen": map[string]any{"width": i, "height": -i}, "battery": float64(i%64) / 64},
			"geo":    map[string]any{"country": "CZ", "lat": random.NormFloat64() * 50, "lon": random.NormFloat64() * 100},
			"order": map[string]any{"number": fmt.Sprint(i), "total": json.Number(fmt.Sprintf("%d.%02d", random.Int64N(1<<40), i%100)), "currency": "CZK",
				"placed_on": at.Format("2006-01-02"), "express": i%3 == 0},
			"labels": []any{word(), word(), nil}[:i%4], "not_in_the_table": map[string]any{"x": []any{1, "2"}},
		}
		for _, name := range []string{"user", "device", "geo", "order", "labels"} {
			switch random.IntN(12) {
			case 0:
				v[name] = nil
			case 1:
				delete(v, name)
			}
		}
		text, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		payloads = append(payloads, string(text))
	}
	readBack(t, place{c, l}, "events", partitions, event, payloads, []string{"duckdb", "spark"})
}

// webhook is the table for GitHub's webhooks: what several kinds of them share, and what some have.
var webhook = func() []typedColumn {
	user := "struct<login: string, id: long, node_id: string, avatar_url: string, type: string, site_admin: boolean>"
	label := "struct<id: long, name: string, color: string, default: boolean, description: string>"
	repository := "struct<id: long, node_id: string, name: string, full_name: string, private: boolean, owner: " + user +
		", html_url: string, description: string, fork: boolean, created_at: timestamptz, updated_at: timestamptz, pushed_at: timestamptz," +
		" homepage: string, size: long, stargazers_count: int, language: string, archived: boolean, open_issues_count: int," +
		" license: struct<key: string, name: string, spdx_id: string>, topics: list<string>, visibility: string, default_branch: string>"
	reactions := "struct<url: string, total_count: int, heart: int, eyes: int>"
	milestone := "struct<id: long, number: int, title: string, creator: " + user + ", open_issues: int, due_on: timestamptz>"
	issue := "struct<id: long, number: int, title: string, user: " + user + ", labels: list<" + label + ">, state: string, locked: boolean, assignee: " + user +
		", assignees: list<" + user + ">, milestone: " + milestone + ", comments: int, created_at: timestamptz, closed_at: timestamptz, body: string, reactions: " + reactions + ">"
	side := "struct<label: string, ref: string, sha: string, user: " + user + ", repo: struct<id: long, full_name: string, fork: boolean>>"
	pull := "struct<id: long, number: int, state: string, title: string, user: " + user + ", body: string, created_at: timestamptz, merged_at: timestamptz," +
		" merge_commit_sha: string, assignees: list<" + user + ">, requested_reviewers: list<" + user + ">, labels: list<" + label + ">, draft: boolean," +
		" head: " + side + ", base: " + side + ", merged: boolean, mergeable: boolean, comments: int, commits: int, additions: int, deletions: int>"
	commit := "struct<id: string, message: string, timestamp: timestamptz, author: struct<name: string, email: string, username: string>," +
		" added: list<string>, removed: list<string>, modified: list<string>>"
	return []typedColumn{
		{"delivery", "int"}, {"event", "string"}, {"action", "string"}, {"number", "int"}, {"ref", "string"}, {"forced", "boolean"},
		{"repository", repository}, {"sender", user}, {"issue", issue}, {"pull_request", pull},
		{"label", label}, {"commits", "list<" + commit + ">"}, {"head_commit", commit},
		{"installation", "struct<id: long, node_id: string, events: list<string>, permissions: map<string, string>>"},
	}
}()

// Real webhooks of GitHub's, as the npm package @octokit/webhooks-examples has
// them: deep, wide, of many shapes, with times in seconds in some and in text
// in others.
func TestGitHubWebhooks(t *testing.T) {
	t.Parallel()
	c := client(t)
	l := apache(t)
	var payloads []string
	for _, example := range webhookExamples(t) {
		for _, payload := range example.Examples {
			payload["delivery"], payload["event"] = len(payloads), example.Name
			text, err := json.Marshal(payload)
			if err != nil {
				t.Fatal(err)
			}
			payloads = append(payloads, string(text))
		}
	}
	if len(payloads) < 300 {
		t.Fatalf("%d payloads, want at least 300", len(payloads))
	}
	readBack(t, place{c, l}, "webhooks", 3, webhook, payloads, []string{"duckdb", "java", "spark"})
}

type webhookExample struct {
	Name     string           `json:"name"`
	Examples []map[string]any `json:"examples"`
}

// webhookExamples fetches the package, once a machine.
func webhookExamples(t *testing.T) []webhookExample {
	t.Helper()
	const version = "7.6.1"
	home := os.Getenv("REAL_HOME")
	if home == "" {
		cache, err := os.UserCacheDir()
		if err != nil {
			t.Fatal(err)
		}
		home = filepath.Join(cache, "icerouter-real")
	}
	folder := filepath.Join(home, "webhooks-"+version)
	path := filepath.Join(folder, "package", "api.github.com", "index.json")
	if _, err := os.Stat(path); err != nil {
		if err := os.MkdirAll(folder, 0o755); err != nil {
			t.Fatal(err)
		}
		fetch := exec.Command("sh", "-ec", "npm pack --silent @octokit/webhooks-examples@"+version+" >/dev/null && tar xzf ./*.tgz && rm ./*.tgz")
		fetch.Dir = folder
		if out, err := fetch.CombinedOutput(); err != nil {
			t.Fatalf("fetch the webhooks: %v\n%s", err, out)
		}
	}
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	decoder := json.NewDecoder(file)
	decoder.UseNumber()
	var examples []webhookExample
	if err := decoder.Decode(&examples); err != nil {
		t.Fatal(err)
	}
	return examples
}

// readBack ingests payloads into a table and compares what each reader reads with what the payloads say.
func readBack(t *testing.T, w place, name string, partitions int32, columns []typedColumn, payloads, readers []string) {
	t.Helper()
	topic := makeTopic(t, w.client, name, partitions)
	produce(t, w.client, topic, partitions, payloads...)
	table := unique("nested") + "." + name
	in := ingest{name: name, topics: []string{topic}, table: table, extra: []string{`timestamp_unit = "seconds"`}}
	parsed := &structType{}
	for _, c := range columns {
		in.columns = append(in.columns, column{name: c.name, typ: c.typ})
		parsed.fields = append(parsed.fields, field{c.name, parseType(t, c.typ)})
	}
	in.partition = []string{"bucket(" + columns[0].name + ", 8)"}
	mustOnce(t, config{lake: w.lake, ingests: []ingest{in}}.write(t))
	want := make([]string, len(payloads))
	for i, p := range payloads {
		decoder := json.NewDecoder(strings.NewReader(p))
		decoder.UseNumber()
		var value any
		if err := decoder.Decode(&value); err != nil {
			t.Fatal(err)
		}
		row, err := json.Marshal(project(t, parsed, value))
		if err != nil {
			t.Fatal(err)
		}
		want[i] = canonical(t, string(row))
	}
	slices.Sort(want)
	for _, reader := range readers {
		sameLines(t, reader, w.lake.read(t, reader, question{table: table}), want)
	}
}
