package router

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// A demo must prove its table, and a second one in the same folder must go on
// where the first ended.
func TestDemo(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "demo")
	before := 0
	for run := range 2 {
		text, err := demoOutput(t, "--dir", dir, "--for", "1s", "--rate", "2000", "--partitions", "3", "--trigger", "200ms")
		if err != nil {
			t.Fatalf("run %d: %v\n%s", run, err, text)
		}
		for _, want := range []string{"3 partitions", "http://127.0.0.1:", "iceberg_scan('" + dir, "uri='sqlite:///" + dir + "/catalog.db'"} {
			if !strings.Contains(text, want) {
				t.Errorf("run %d does not say %q:\n%s", run, want, text)
			}
		}
		if before > 0 && !strings.Contains(text, grouped(int64(before))+" records of earlier runs, "+grouped(int64(before))+" of them in the table") {
			t.Errorf("run %d does not say that there are %d records:\n%s", run, before, text)
		}
		produced := provenRecords(t, text)
		if produced <= before {
			t.Errorf("run %d: %d records, before it there were %d", run, produced, before)
		}
		before = produced
	}
}

// provenRecords returns how many records a demo has proven to be in its table
// once each; anything else fails the test.
func provenRecords(t *testing.T, text string) int {
	t.Helper()
	lines := strings.Split(strings.TrimRight(text, "\n"), "\n")
	last, back := lines[len(lines)-1], lines[max(len(lines)-2, 0)]
	var produced, inTable, duplicated, missing int
	if _, err := fmt.Sscanf(back, "back:  produced %d, in topic logs-back %d, duplicated %d, missing %d", &produced, &inTable, &duplicated, &missing); err != nil {
		t.Fatalf("last line but one %q: %v", back, err)
	}
	if inTable != produced || duplicated != 0 || missing != 0 {
		t.Errorf("the last line but one is %q", back)
	}
	if _, err := fmt.Sscanf(last, "proof: produced %d, in table %d, duplicated %d, missing %d", &produced, &inTable, &duplicated, &missing); err != nil {
		t.Fatalf("last line %q: %v", last, err)
	}
	if inTable != produced || duplicated != 0 || missing != 0 {
		t.Errorf("the last line is %q", last)
	}
	return produced
}

// kill -9 in the middle of it, and the next demo in the folder takes up what is
// there. The demos that are killed are this test in processes of their own.
func TestDemoKilled(t *testing.T) {
	const inChild = "ROUTER_TEST_DEMO_DIR"
	if dir := os.Getenv(inChild); dir != "" {
		_ = runDemo(t.Context(), []string{"--dir", dir, "--rate", "3000", "--trigger", "200ms"}, os.Stdout)
		return
	}
	dir := filepath.Join(t.TempDir(), "demo")
	for range 2 {
		child := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestDemoKilled$")
		child.Env = append(os.Environ(), inChild+"="+dir)
		out, err := child.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := child.Start(); err != nil {
			t.Fatal(err)
		}
		lines, seen, landed := bufio.NewScanner(out), "", false
		for !landed && lines.Scan() {
			seen += lines.Text() + "\n"
			landed = strings.Contains(lines.Text(), "  committed ") && !strings.Contains(lines.Text(), "  committed 0 ")
		}
		if err := child.Process.Kill(); err != nil {
			t.Fatalf("kill: %v\n%s", err, seen)
		}
		if err := child.Wait(); err == nil {
			t.Fatalf("the demo ended before it was killed\n%s", seen)
		}
	}
	text, err := demoOutput(t, "--dir", dir, "--for", "1s", "--rate", "3000", "--trigger", "200ms")
	if err != nil {
		t.Fatalf("after the kills: %v\n%s", err, text)
	}
	if !strings.Contains(text, "records of earlier runs") {
		t.Errorf("nothing is left of the demos that were killed:\n%s", text)
	}
	provenRecords(t, text)
}

func TestDemoUsage(t *testing.T) {
	f := func(want string, args ...string) {
		t.Helper()
		text, err := demoOutput(t, append(args, "--dir", t.TempDir())...)
		var usage *UsageError
		if !errors.As(err, &usage) || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: error %v, want a usage error that says %q\n%s", args, err, want, text)
		}
	}
	f(`rate "fast"`, "--rate", "fast")
	f("--partitions 0", "--partitions", "0")
	f("--for -1s", "--for", "-1s")
	f("--kafka-port 70000", "--kafka-port", "70000")
	f("trigger", "--trigger", "-1s")
	f("-speed", "--speed", "1")
	text, err := demoOutput(t, "--help")
	if err != nil || !strings.Contains(text, "--kafka-port port") {
		t.Errorf("help: %v\n%s", err, text)
	}
}

func TestDemoFolders(t *testing.T) {
	other := t.TempDir()
	if err := os.WriteFile(filepath.Join(other, "thesis.txt"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := demoOutput(t, "--dir", other); err == nil || !strings.Contains(err.Error(), "holds other files and no demo") {
		t.Errorf("a folder of other files: %v", err)
	}
	if entries, err := os.ReadDir(other); err != nil || len(entries) != 1 {
		t.Errorf("the folder of other files now holds %v, %v", entries, err)
	}

	taken := t.TempDir()
	unlock, err := lockFile(filepath.Join(taken, "demo.lock"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := demoOutput(t, "--dir", taken); err == nil || !strings.Contains(err.Error(), "another demo runs") {
		t.Errorf("a folder in use: %v", err)
	}
	if err := unlock(); err != nil {
		t.Fatal(err)
	}
	unlock, err = lockFile(filepath.Join(taken, "demo.lock"))
	if err != nil {
		t.Fatalf("lock again: %v", err)
	}
	if err := unlock(); err != nil {
		t.Fatal(err)
	}
}

func TestFreeAddress(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	taken := l.Addr().String()
	if got, err := freeAddress(t.Context(), taken); err != nil || got == taken || !strings.HasPrefix(got, "127.0.0.1:") {
		t.Errorf("%s is taken, and got %s, %v", taken, got, err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if got, err := freeAddress(t.Context(), taken); err != nil || got != taken {
		t.Errorf("%s is free, and got %s, %v", taken, got, err)
	}
	d := &demo{options: demoOptions{http: "127.0.0.1:0"}}
	if got, err := d.address(t.Context()); err != nil || strings.HasSuffix(got, ":0") || !strings.HasPrefix(got, "127.0.0.1:") {
		t.Errorf("the page is told to be at %s, %v", got, err)
	}
}

func TestDemoView(t *testing.T) {
	began := time.Date(2024, 5, 1, 12, 0, 0, 0, time.UTC)
	v := &demoView{demo: &demo{before: 1000, landed: 900, options: demoOptions{limit: 20 * time.Second}}, began: began}
	from := demoReading{at: began.Add(9 * time.Second), records: 45_000, bytes: 45_045_000, status: IngestStatus{Rows: 42_000}}
	now := demoReading{at: began.Add(12 * time.Second), records: 60_000, bytes: 60_060_000, status: IngestStatus{
		State: StateRunning, Rows: 57_100, Commits: 11, Files: 704, FileBytes: 55_500_000,
		Freshness: Freshness{P50: 700 * time.Millisecond, P95: 1200 * time.Millisecond, P99: 1300 * time.Millisecond}},
		back: PublishStatus{Rows: 54_000, Transactions: 21, Freshness: Freshness{P50: 300 * time.Millisecond}}}
	from.back.Rows = 39_000
	want := `
  elapsed              12 s        8 s to go
  produced         60,000 records      5,000/s  5.0 MB/s
  committed        57,100 rows         5,033/s  11 commits, 704 files, 55.5 MB
  lag               3,000 records
  freshness        0.70 s p50         1.20 s p95  1.30 s p99, from produced to readable
  back             54,000 records      5,000/s  21 transactions, 0.30 s p50 after the commit
  `
	if got := "\n" + strings.Join(v.block(from, now), "\n"); got != want {
		t.Errorf("got%s\nwant%s", got, want)
	}
	v.drains()
	now.status.State, now.status.Error = StateHalted, "the disk is full"
	now.status.Freshness = Freshness{}
	want = "  12s  produced 60,000 (5,000/s)  committed 57,100 (5,033/s)  lag 3,000  commits 11  files 704" +
		"  freshness p50 – p95 – p99 –  back 54,000  draining  halted: the disk is full"
	if got := v.line(from, now); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

// demoOutput runs a demo and returns what it printed.
func demoOutput(t *testing.T, args ...string) (string, error) {
	t.Helper()
	out, err := os.Create(filepath.Join(t.TempDir(), "output"))
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	failure := runDemo(t.Context(), args, out)
	text, err := os.ReadFile(out.Name())
	if err != nil {
		t.Fatal(err)
	}
	return string(text), failure
}
