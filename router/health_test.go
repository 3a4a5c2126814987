package router

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"
)

var noon = time.Date(2024, 5, 1, 12, 0, 0, 0, time.UTC)

// TestComplaint walks through what makes an ingest ready or not.
func TestComplaint(t *testing.T) {
	before := func(d time.Duration) time.Time { return noon.Add(-d) }
	for name, c := range map[string]struct {
		in   IngestStatus
		want string // part of the complaint; empty: ready
		hung bool
	}{
		"starting":               {in: IngestStatus{State: StateStarting}, want: "starting"},
		"caught up":              {in: IngestStatus{State: StateRunning, LastCommit: before(time.Hour)}},
		"never had a record":     {in: IngestStatus{State: StateRunning}},
		"behind for a moment":    {in: IngestStatus{State: StateRunning, LastCommit: before(time.Hour), BehindSince: before(5 * time.Second)}},
		"behind and committing":  {in: IngestStatus{State: StateRunning, LastCommit: before(9 * time.Second), BehindSince: before(time.Hour)}},
		"behind without commit":  {in: IngestStatus{State: StateRunning, LagRecords: 7, BehindSince: before(41 * time.Second)}, want: "no commit for 41s (since 2024-05-01T11:59:19Z), lag 7 records"},
		"commits stopped":        {in: IngestStatus{State: StateRunning, LastCommit: before(50 * time.Second), BehindSince: before(time.Hour)}, want: "no commit for 50s"},
		"failing for a moment":   {in: IngestStatus{State: StateRunning, Error: "403", FailingSince: before(19 * time.Second)}},
		"failing two triggers":   {in: IngestStatus{State: StateRunning, Error: "403", FailingSince: before(21 * time.Second), LastCommit: before(29 * time.Second), BehindSince: before(time.Minute)}, want: "do not succeed for 21s"},
		"a short trigger":        {in: IngestStatus{State: StateRunning, Trigger: 100 * time.Millisecond, Error: "409", FailingSince: before(2 * time.Second)}},
		"failing":                {in: IngestStatus{State: StateRunning, Error: "403", FailingSince: before(time.Minute), BehindSince: before(20 * time.Minute)}, want: "do not succeed for 1m0s (since 2024-05-01T11:59:00Z): 403"},
		"ends seen just now":     {in: IngestStatus{State: StateRunning, EndsSeen: before(31 * time.Second)}},
		"silent brokers":         {in: IngestStatus{State: StateRunning, LagUnknown: true, EndsSeen: before(33 * time.Second)}, want: "the brokers have not told the ends of the topics for 33s (since 2024-05-01T11:59:27Z)"},
		"silent, short trigger":  {in: IngestStatus{State: StateRunning, Trigger: time.Second, LagUnknown: true, EndsSeen: before(13 * time.Second)}, want: "nobody knows what waits"},
		"halted":                 {in: IngestStatus{State: StateHalted, Error: "record 7", FailingSince: before(time.Minute)}, want: "halted for 1m0s (since 2024-05-01T11:59:00Z): record 7"},
		"failed":                 {in: IngestStatus{State: StateFailed, Error: "no route"}, want: "failed: no route"},
		"draining":               {in: IngestStatus{State: StateDraining}, want: "draining"},
		"done":                   {in: IngestStatus{State: StateDone, BehindSince: before(time.Hour)}},
		"hung without an error":  {in: IngestStatus{State: StateRunning, BehindSince: before(6 * time.Minute)}, want: "no commit", hung: true},
		"a long trigger is fine": {in: IngestStatus{State: StateRunning, Trigger: time.Hour, BehindSince: before(time.Hour)}},
	} {
		if c.in.Trigger == 0 {
			c.in.Trigger = 10 * time.Second
		}
		got := c.in.complaint(noon)
		if c.want == "" && got != "" || !strings.Contains(got, c.want) {
			t.Errorf("%s: complaint %q, want %q", name, got, c.want)
		}
		if hung := (Status{Ingests: []IngestStatus{c.in}}).hung(noon); hung != c.hung {
			t.Errorf("%s: hung = %v", name, hung)
		}
	}
}

// serve is a server with a status that tests change.
func serve(t *testing.T, s *Status) (get func(method, path string) (int, http.Header, string)) {
	t.Helper()
	m := newMetrics()
	for _, in := range s.Ingests {
		m.ingest(in.Name)
	}
	server := httptest.NewServer(handler(func() Status { return *s }, m, zap.NewNop()))
	t.Cleanup(server.Close)
	return func(method, path string) (int, http.Header, string) {
		req, err := http.NewRequestWithContext(t.Context(), method, server.URL+path, strings.NewReader(""))
		if err != nil {
			t.Fatal(err)
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		return resp.StatusCode, resp.Header, string(body)
	}
}

func TestHandler(t *testing.T) {
	now := time.Now()
	s := &Status{Version: "v9", Started: now.Add(-time.Minute), Ingests: []IngestStatus{{
		Name: "orders", Table: "shop.orders", Topics: []string{"orders", "<b>"}, State: StateRunning, Trigger: time.Second,
		Rows: 1234567, Commits: 3, LastCommit: now, LastSnapshot: 9007199254740993, LastCommitTook: 250 * time.Millisecond,
		BufferedRows: 10, NextCut: now.Add(500 * time.Millisecond), DeadLetters: map[string]int64{"type": 2},
		Freshness: Freshness{P50: time.Second, P95: 2 * time.Second, P99: 3 * time.Second},
	}}}
	get := serve(t, s)
	for path, want := range map[string]string{
		"/livez":   "ok",
		"/readyz":  "ok",
		"/metrics": `router_seconds_since_commit{ingest="orders"}`,
		"/status":  `"last_snapshot": "9007199254740993"`,
		"/":        "1\u202f234\u202f567 rows",
	} {
		code, header, body := get("GET", path)
		if code != 200 || !strings.Contains(body, want) || header.Get("Cache-Control") != "no-store" {
			t.Errorf("GET %s: %d %v\n%s", path, code, header, body)
		}
		if code, _, body := get("HEAD", path); code != 200 || body != "" {
			t.Errorf("HEAD %s: %d", path, code)
		}
		for _, method := range []string{"POST", "PUT", "DELETE"} {
			if code, _, _ := get(method, path); code != http.StatusMethodNotAllowed {
				t.Errorf("%s %s: %d", method, path, code)
			}
		}
	}
	for _, path := range []string{"/debug/pprof/", "/config", "/status/x", "/index.html"} {
		if code, _, _ := get("GET", path); code != 404 {
			t.Errorf("GET %s: %d", path, code)
		}
	}
	if _, _, body := get("GET", "/"); strings.Contains(body, "<b>") || strings.Contains(body, "<script") || strings.Contains(body, "http://") {
		t.Errorf("the page is not escaped, runs a script or fetches something:\n%s", body)
	}

	s.Ingests[0].State, s.Ingests[0].Error = StateHalted, "offset 7 is gone"
	if code, _, body := get("GET", "/readyz"); code != 503 || !strings.Contains(body, "ingest orders: halted: offset 7 is gone") {
		t.Errorf("/readyz: %d %s", code, body)
	}
	if code, _, _ := get("GET", "/livez"); code != 200 {
		t.Errorf("/livez: %d", code)
	}
	if _, _, body := get("GET", "/metrics"); !strings.Contains(body, `router_ready{ingest="orders"} 0`) {
		t.Error("router_ready is not 0")
	}
	if _, _, body := get("GET", "/"); !strings.Contains(body, "offset 7 is gone") {
		t.Error("the page does not show the error")
	}
}

// TestStatusJSON reads the JSON as a stranger would.
func TestStatusJSON(t *testing.T) {
	body, err := json.Marshal(Status{Started: noon, Ingests: []IngestStatus{{
		Trigger: 1500 * time.Millisecond, OldestRow: noon, Freshness: Freshness{P50: 250 * time.Millisecond},
	}}})
	if err != nil {
		t.Fatal(err)
	}
	var got struct {
		Started time.Time `json:"started"`
		Ingests []struct {
			Trigger   float64    `json:"trigger_seconds"`
			OldestRow time.Time  `json:"oldest_row"`
			NextCut   *time.Time `json:"next_cut"`
			Freshness struct {
				P50 float64 `json:"p50_seconds"`
			} `json:"freshness"`
		} `json:"ingests"`
	}
	if err := json.Unmarshal(body, &got); err != nil {
		t.Fatal(err)
	}
	in := got.Ingests[0]
	if !got.Started.Equal(noon) || in.Trigger != 1.5 || !in.OldestRow.Equal(noon) || in.NextCut != nil || in.Freshness.P50 != 0.25 {
		t.Errorf("%s", body)
	}
	if body, _ := json.Marshal(Status{}); !strings.Contains(string(body), `"ingests":[]`) {
		t.Errorf("no ingests: %s", body)
	}
}

func TestPageWords(t *testing.T) {
	for _, c := range []struct{ got, want string }{
		{count(0), "0"}, {count(999), "999"}, {count(1000), "1\u202f000"}, {count(-1234567), "-1\u202f234\u202f567"}, {count(-123), "-123"},
		{size(0), "0 B"}, {size(1023), "1023 B"}, {size(1536), "1.5 KiB"}, {size(3 << 40), "3 TiB"},
		{span(1500 * time.Microsecond), "1 ms"}, {span(90 * time.Second), "1 min 30 s"}, {span(49 * time.Hour), "2 days"},
	} {
		if c.got != c.want {
			t.Errorf("got %q, want %q", c.got, c.want)
		}
	}
}
