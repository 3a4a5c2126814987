package router

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"
)

var metricName = regexp.MustCompile(`^router_[a-z]+(_[a-z]+)*$`)

// TestMetricNames holds the table to router_<noun>_<unit>[_total].
func TestMetricNames(t *testing.T) {
	for _, d := range metricTable {
		if !metricName.MatchString(d.name) {
			t.Errorf("%s: not router_<noun>_<unit>", d.name)
		}
		if strings.HasSuffix(d.name, "_total") != (d.kind == "counter") {
			t.Errorf("%s is a %s: counters, and only counters, end in _total", d.name, d.kind)
		}
		if !strings.HasSuffix(d.help, ".") {
			t.Errorf("%s: the help is not a sentence", d.name)
		}
		for _, l := range d.labels {
			if l == "partition" || l == "topic" || l == "offset" {
				t.Errorf("%s: label %s is not bounded", d.name, l)
			}
		}
	}
}

// TestMetricsDocumented compares the table with README.md; -rewrite writes it.
func TestMetricsDocumented(t *testing.T) {
	const path, begin, end = "../README.md", "<!-- metrics: written by go test ./router -rewrite -->\n", "<!-- end of metrics -->"
	var want strings.Builder
	want.WriteString("\n| metric | kind | labels | what |\n|---|---|---|---|\n")
	for _, d := range metricTable {
		fmt.Fprintf(&want, "| `%s` | %s | %s | %s |\n", d.name, d.kind, strings.Join(d.labels, ", "), d.help)
	}
	want.WriteString("\n")
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(text), begin)
	got, after, ok2 := strings.Cut(rest, end)
	if !ok || !ok2 {
		t.Fatalf("README.md has no place for the metrics: %q … %q", begin, end)
	}
	if got == want.String() {
		return
	}
	if !*rewrite {
		t.Fatalf("README.md and metricTable differ; run go test ./router -run Documented -rewrite\ngot:%s\nwant:%s", got, want.String())
	}
	if err := os.WriteFile(path, []byte(before+begin+want.String()+end+after), 0o644); err != nil {
		t.Fatal(err)
	}
}

// TestMetricsExported gathers everything once: each row of the table is there.
func TestMetricsExported(t *testing.T) {
	m := newMetrics()
	in := m.ingest("orders")
	in.records.Add(3)
	in.commit("landed")
	in.deadLetter("type")
	in.skip("null", 4)
	in.commitSeconds.Observe(0.2)
	in.freshness(1500*time.Millisecond, 1_000_000)
	m.publish("out").fresh.observe(0.5, 10)
	in.freshness(-time.Second, 2)
	in.freshness(20*time.Minute, 1)
	m.look(Status{Version: "v1", Started: time.Now().Add(-time.Minute), Ingests: []IngestStatus{{Name: "orders", State: StateRunning}}, Publishes: []PublishStatus{{Name: "out", State: StateRunning}}}, time.Now())
	families, err := m.registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]string{}
	for _, f := range families {
		found[f.GetName()] = f.String()
	}
	for _, d := range metricTable {
		if found[d.name] == "" {
			t.Errorf("%s is not exported", d.name)
		}
	}
	for _, f := range families {
		if f.GetName() != "router_freshness_seconds" {
			continue
		}
		h := f.GetMetric()[0].GetHistogram()
		if h.GetSampleCount() != 1_000_003 || h.GetSampleSum() != 1_500_000+1200 {
			t.Errorf("freshness: %d observations, sum %g", h.GetSampleCount(), h.GetSampleSum())
		}
		for _, b := range h.GetBucket() {
			want := uint64(2)
			if b.GetUpperBound() >= 2 {
				want = 1_000_002
			}
			if b.GetCumulativeCount() != want {
				t.Errorf("freshness ≤ %g: %d, want %d", b.GetUpperBound(), b.GetCumulativeCount(), want)
			}
		}
	}
}
