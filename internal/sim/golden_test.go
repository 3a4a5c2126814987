//go:build synctests

package sim

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"icerouter/router"
)

var rewrite = flag.Bool("rewrite", false, "write what the named scenes show into their files")

// TestScenes plays the named scenes of testdata. A file is a scene; lines that
// begin with # are for people, and what show and halts show stands behind them,
// between ---- and an empty line.
func TestScenes(t *testing.T) {
	files, err := filepath.Glob("testdata/*.scene")
	if err != nil || len(files) == 0 {
		t.Fatalf("%d scenes in testdata, %v", len(files), err)
	}
	for _, path := range files {
		t.Run(strings.TrimSuffix(filepath.Base(path), ".scene"), func(t *testing.T) {
			b, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			lines := source(string(b))
			o := playScene(t, namedSeed, lines)
			if o.err != nil {
				t.Error(o.err)
			}
			got := strings.Builder{}
			for i, line := range lines {
				got.WriteString(line + "\n")
				if shown, ok := o.shown[i]; ok {
					got.WriteString("----\n" + shown + "\n")
				}
			}
			switch {
			case got.String() == string(b):
			case *rewrite:
				if err := os.WriteFile(path, []byte(got.String()), 0o644); err != nil {
					t.Fatal(err)
				}
			default:
				t.Errorf("%s shows something else; -rewrite takes it over:\n%s", path, got.String())
			}
		})
	}
}

// namedSeed is the seed of the worlds that named scenes are played in.
const namedSeed = 1

// source is a scene's file without what was shown.
func source(file string) (lines []string) {
	shown := false
	for _, line := range strings.Split(strings.TrimRight(file, "\n"), "\n") {
		switch {
		case line == "----":
			shown = true
		case shown:
			shown = line != ""
		default:
			lines = append(lines, line)
		}
	}
	return lines
}

// show tells what has become of the records.
func (w *world) show() string {
	l := w.ledger()
	w.inspect("show")
	w.audit.mu.Lock()
	defer w.audit.mu.Unlock()
	rows := map[int64]int{}
	if meta := w.lake.current(); meta != nil {
		live, err := w.audit.present(meta)
		if err != nil {
			return err.Error() + "\n"
		}
		for _, f := range live {
			for _, r := range w.audit.files[f] {
				rows[r.id]++
			}
		}
	}
	w.truth.mu.Lock()
	defer w.truth.mu.Unlock()
	out, letters := "", 0
	for range w.dead {
		letters++
	}
	for _, topic := range topics {
		produced, passed, there := 0, 0, 0
		for id, r := range w.truth.records {
			if r.origin.topic != topic || r.kind == pending || r.kind == aborted {
				continue
			}
			produced++
			there += rows[id]
			if r.origin.offset < l.of(r) {
				passed++
			}
		}
		out += fmt.Sprintf("%s: %d records, the ledger has passed %d, %d are rows\n", topic, produced, passed, there)
	}
	strangers := 0
	for id := range w.truth.foreign {
		strangers += rows[id]
	}
	return out + fmt.Sprintf("%d dead letters, %d rows of other writers\n", letters, strangers)
}

// halts waits until an instance waits for a person, and returns what it says.
func (w *world) halts(n int) (string, error) {
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		w.bury()
		status := w.instances[n].router.Status()
		for _, s := range status.Ingests {
			if s.State == router.StateHalted {
				delete(w.instances, n)
				return w.plain(s.Error) + "\n", nil
			}
		}
		for _, s := range status.Publishes {
			if s.State == router.StateHalted {
				w.kill(n) // its ingest goes on
				return w.plain(s.Error) + "\n", nil
			}
		}
	}
	return "", fmt.Errorf("instance %d does not halt", n)
}

var (
	appendFiles = regexp.MustCompile(`append \d+ files`)
	snapshotID  = regexp.MustCompile(`\d{10,}`)
	tableID     = regexp.MustCompile(`[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}`)
	moment      = regexp.MustCompile(`\d{4}-\d\d-\d\dT[\d:.]+Z`)
)

// plain is a text without what differs from one play to the next.
func (w *world) plain(text string) string {
	w.truth.mu.Lock()
	defer w.truth.mu.Unlock()
	for i, id := range w.truth.allLogs {
		text = strings.ReplaceAll(text, id, fmt.Sprintf("<topic %d>", i+1))
	}
	text = appendFiles.ReplaceAllString(text, "append <n> files")
	text = moment.ReplaceAllString(text, "<time>")
	return snapshotID.ReplaceAllString(tableID.ReplaceAllString(text, "<table>"), "<snapshot>")
}
