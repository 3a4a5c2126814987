//go:build real

package real_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
)

// foreignRows is how many rows another writer appends at once.
const foreignRows = 7

// Spark appends and rewrites data files, and PyIceberg appends, in a loop, while
// two instances commit REAL_COMMITS times. The rows of all three are there,
// each once, and our commits take no longer in the end than in the beginning.
func TestForeignWriters(t *testing.T) {
	t.Parallel()
	const partitions = 4
	commits := size(t, "REAL_COMMITS", 60)
	l := apache(t)
	s := newScene(t, place{client(t), l}, "", "foreign", partitions)
	s.settings.ingests[0].trigger = "700ms"
	s.settings.ingests[0].extra = nil // the others need history to commit against
	table := s.settings.ingests[0].table
	s.begin(partitions)
	instances := []*instance{s.instance().up(), s.instance().up()}
	s.catchUp(2 * time.Minute)
	// The engines' own patience with a busy table is four tries.
	l.spark(t, "ALTER TABLE "+table+" SET TBLPROPERTIES ('commit.retry.num-retries' = '40', 'commit.retry.min-wait-ms' = '50', 'commit.retry.max-wait-ms' = '1000')")
	spark := openReader(t, "spark")
	arrow := openAppender(t, l, table)

	others := &foreigners{certain: map[string]bool{}}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var g errgroup.Group
	g.Go(func() error {
		for n := 0; ctx.Err() == nil; n++ {
			name := fmt.Sprint("spark-", n)
			_, err := spark.ask(append(sparkArguments(l), "--sql", fmt.Sprintf("INSERT INTO %s SELECT -id - 1, '%s', NULL, NULL FROM range(%d)", table, name, foreignRows)))
			others.appended(name, err)
			if n%2 == 1 {
				_, err := spark.ask(append(sparkArguments(l), "--sql", "CALL system.rewrite_data_files(table => '"+table+"', options => map('min-input-files', '3'))"))
				others.rewrote(err)
			}
		}
		return nil
	})
	g.Go(func() error {
		for n := 0; ctx.Err() == nil; n++ {
			name := fmt.Sprint("pyiceberg-", n)
			others.appended(name, arrow.append(name, -foreignRows, foreignRows))
			pause(t, 200*time.Millisecond)
		}
		return nil
	})
	began, before := time.Now(), s.auditor.commits()
	until(t, 25*time.Minute, fmt.Sprintf("%d commits and 2 rewrites", commits), func() bool {
		s.alive(instances...)
		return s.auditor.commits()-before >= commits && others.rewritten() >= 2
	})
	took := time.Since(began)
	cancel()
	s.catchUp(2 * time.Minute)
	s.leave(instances...)
	if err := g.Wait(); err != nil { // what an engine is at may need a table that stands still
		t.Fatal(err)
	}
	s.finish()
	t.Logf("%d commits beside the others in %s", s.auditor.commits()-before, took.Round(time.Second))
	others.check(t, l, table)
	for n, i := range instances {
		boundedCommits(t, n+1, i.exit)
	}
}

// boundedCommits checks that commits did not become slower with the age of the table. The limits are wide: the machine may be busy.
func boundedCommits(t *testing.T, n int, e exit) {
	t.Helper()
	times := e.commitTimes()
	third := len(times) / 3
	first, last := times[:third], times[len(times)-third:]
	t.Logf("instance %d: %d commits, p50 %s, p99 %s, at most %s; the first third p50 %s, the last %s; %d conflicts", n, len(times),
		quantile(times, 0.5), quantile(times, 0.99), quantile(times, 1), quantile(first, 0.5), quantile(last, 0.5), e.logged(`"outcome":"conflict"`))
	if quantile(last, 0.5) > 5*quantile(first, 0.5)+2*time.Second {
		t.Errorf("instance %d: half of its last commits took more than %s, of its first ones %s", n, quantile(last, 0.5), quantile(first, 0.5))
	}
	if quantile(times, 1) > time.Minute {
		t.Errorf("instance %d: a commit took %s", n, quantile(times, 1))
	}
}

// foreigners is what other writers have done to a table. It is safe for concurrent use.
type foreigners struct {
	mu       sync.Mutex
	certain  map[string]bool // by name of the append: false where it is not sure that it succeeded
	rewrites int
	failures []string
}

func (f *foreigners) appended(name string, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.certain[name] = err == nil
	if err != nil {
		f.failures = append(f.failures, fmt.Sprintf("%s: %v", name, err))
	}
}

func (f *foreigners) rewrote(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err != nil {
		f.failures = append(f.failures, fmt.Sprintf("rewrite_data_files: %v", err))
		return
	}
	f.rewrites++
}

func (f *foreigners) rewritten() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.rewrites
}

// check counts the rows of the others.
func (f *foreigners) check(t *testing.T, l lake, table string) {
	t.Helper()
	for i, failure := range f.failures {
		if i < 5 {
			t.Logf("%d of others' statements failed, such as %s", len(f.failures), failure)
		}
	}
	found := map[string]bool{}
	for _, line := range l.read(t, "duckdb", question{table: table, query: `SELECT text, count(*) AS n, count(DISTINCT seq) AS seqs, min(seq) AS low, max(seq) AS high
		FROM {table} WHERE _kafka_offset IS NULL GROUP BY text`}) {
		var of struct {
			Text               string
			N, Seqs, Low, High int
		}
		if err := json.Unmarshal([]byte(line), &of); err != nil {
			t.Fatal(err)
		}
		if _, known := f.certain[of.Text]; !known || of.N != foreignRows || of.Seqs != foreignRows || of.Low != -foreignRows || of.High != -1 {
			t.Errorf("rows of another writer: %s, want %d from %d to -1", line, foreignRows, -foreignRows)
		}
		found[of.Text] = true
	}
	certain := 0
	for name, sure := range f.certain {
		if !sure {
			continue
		}
		certain++
		if !found[name] {
			t.Errorf("the rows of %s are lost", name)
		}
	}
	t.Logf("other writers: %d appends, %d of them certain, %d rewrites", len(f.certain), certain, f.rewrites)
}

func sparkArguments(l lake) []string { return slices.Concat([]string{"--reader", "spark"}, l.reader) }

// appender is PyIceberg, appending to one table.
type appender struct {
	in  io.WriteCloser
	out *bufio.Reader
}

func openAppender(t *testing.T, l lake, table string) *appender {
	t.Helper()
	args := slices.Concat([]string{"python", filepath.Join(lab.scripts, "append_rows.py"), "--reader", "pyiceberg", "--table", table}, l.reader)
	cmd := exec.Command(filepath.Join(lab.scripts, "readers"), args...)
	cmd.Env = append(lab.environment(), "AWS_EC2_METADATA_DISABLED=true")
	log, err := os.Create(filepath.Join(lab.run, "appender.log"))
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	cmd.Stderr = log
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		in.Close()
		cmd.Wait()
	})
	return &appender{in, bufio.NewReader(out)}
}

// append returns an error where the rows are not, or may not be, in the table.
func (a *appender) append(name string, first, rows int) error {
	if _, err := fmt.Fprintln(a.in, name, first, rows); err != nil {
		return err
	}
	answer, err := a.out.ReadString('\n')
	if err != nil {
		return err
	}
	if answer = strings.TrimSpace(answer); answer != "ok" {
		return fmt.Errorf("%s", answer)
	}
	return nil
}
