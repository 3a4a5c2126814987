//go:build real

package real_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// exit is how a router ended and all that it printed.
type exit struct {
	code   int // -1 when a signal ended it
	output string
	usage  *syscall.Rusage
	peak   int64 // most resident bytes
	took   time.Duration
}

// process is a router that runs.
type process struct {
	t     *testing.T
	cmd   *exec.Cmd
	out   *output
	since time.Time
	peak  chan int64
	ended chan struct{} // closed when the process is gone
	exit  exit          // set when ended is closed
}

// output is what a process has printed so far. It is safe for concurrent use.
type output struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buf.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buf.String()
}

// launch starts the router with arguments. It is killed at the end of the test
// if it still runs. Its output is searched for secrets when it ends.
func launch(t *testing.T, args ...string) *process {
	t.Helper()
	return launchCommand(t, exec.Command(lab.bin, args...))
}

// launchCommand is launch for a command line that becomes the router.
func launchCommand(t *testing.T, cmd *exec.Cmd) *process {
	t.Helper()
	p := &process{t: t, cmd: cmd, out: &output{}, since: time.Now(), peak: make(chan int64, 1), ended: make(chan struct{})}
	cmd.Stdout, cmd.Stderr = p.out, p.out
	// A store client without keys must fail at once instead of asking the cloud's metadata address.
	cmd.Env = append(os.Environ(), "AWS_EC2_METADATA_DISABLED=true", "AWS_CONFIG_FILE=/dev/null", "AWS_SHARED_CREDENTIALS_FILE=/dev/null")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() { p.peak <- peakMemory(cmd.Process.Pid) }()
	go p.await()
	t.Cleanup(func() {
		p.kill()
		if leaked := secretsIn(p.exit.output); len(leaked) > 0 {
			t.Errorf("the router printed secrets: %q", leaked)
		}
		if t.Failed() {
			t.Logf("router %s: exit code %d, printed\n%s", strings.Join(cmd.Args[1:], " "), p.exit.code, tail(quiet(p.exit.output), 8_000))
		}
	})
	return p
}

// peakMemory watches a process until it ends and returns the most resident
// bytes that the kernel has counted. What the kernel tells of a child that has
// ended won't do: it begins with the size of the process that started it.
func peakMemory(pid int) (peak int64) {
	for {
		status, err := os.ReadFile(fmt.Sprint("/proc/", pid, "/status"))
		_, after, found := strings.Cut(string(status), "\nVmHWM:")
		if err != nil || !found { // gone, or only its exit code is left
			return peak
		}
		var kilobytes int64
		if _, err := fmt.Sscan(after, &kilobytes); err == nil {
			peak = kilobytes << 10
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// await owns the process until it is gone; kill and wait join it by ended.
func (p *process) await() {
	defer close(p.ended)
	err := p.cmd.Wait()
	p.exit = exit{output: p.out.String(), peak: <-p.peak, took: time.Since(p.since)}
	var status *exec.ExitError
	if err != nil && !errors.As(err, &status) {
		p.exit.code = -2
		p.exit.output += "\n" + err.Error()
		return
	}
	p.exit.code = p.cmd.ProcessState.ExitCode()
	p.exit.usage, _ = p.cmd.ProcessState.SysUsage().(*syscall.Rusage)
}

// kill ends the process as power loss would, and waits until it is gone.
func (p *process) kill() {
	select {
	case <-p.ended:
	default:
		p.cmd.Process.Kill()
		<-p.ended
	}
}

// term asks the process to stop.
func (p *process) term() { p.cmd.Process.Signal(syscall.SIGTERM) }

// wait returns how the process ended; it fails the test when that takes longer than limit.
func (p *process) wait(limit time.Duration) exit {
	p.t.Helper()
	select {
	case <-p.ended:
	case <-time.After(limit):
		p.cmd.Process.Signal(syscall.SIGQUIT) // a dump of all goroutines helps more than silence
		select {
		case <-p.ended:
		case <-time.After(5 * time.Second):
		}
		p.kill()
		p.t.Fatalf("router %s still ran after %s", strings.Join(p.cmd.Args[1:], " "), limit)
	}
	return p.exit
}

// running says whether the process has not ended.
func (p *process) running() bool {
	select {
	case <-p.ended:
		return false
	default:
		return true
	}
}

// once runs the router with --once to its end.
func once(t *testing.T, config string) exit {
	t.Helper()
	return launch(t, "--config", config, "--once").wait(3 * time.Minute)
}

// mustOnce is once that must end well.
func mustOnce(t *testing.T, config string) exit {
	t.Helper()
	e := once(t, config)
	if e.code != 0 {
		t.Fatalf("router --once: exit code %d, want 0", e.code)
	}
	return e
}

// secretsIn returns the secrets that a text holds, whole or in a form that can be turned back.
func secretsIn(text string) []string {
	var found []string
	for _, s := range []string{s3Secret, kafkaPassword, postgresPassword, wrongPassword} {
		if strings.Contains(text, s) {
			found = append(found, s)
		}
	}
	return found
}

// quiet leaves out what the Kafka client says about its every step.
func quiet(log string) string {
	var kept strings.Builder
	for line := range strings.Lines(log) {
		if !strings.Contains(line, `"level":"debug"`) || !strings.Contains(line, `"logger":"kafka"`) {
			kept.WriteString(line)
		}
	}
	return kept.String()
}

// tail returns at most the last n bytes of s, and some of its beginning.
func tail(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return s[:n/4] + "\n[…]\n" + s[len(s)-n*3/4:]
}

// ingest is one [[ingest]] of a config. Extra lines stand in front of [ingest.create].
type ingest struct {
	name, table, trigger string
	topics               []string
	extra                []string
	columns              []column // no column: no [ingest.create]
	partition            []string
}

// group keeps the tests apart, which share names and a Kafka.
func (in ingest) group() string { return "router-" + in.table }

// config is a file for the router.
type config struct {
	kafka   string // lines of [kafka] and below; empty: the plaintext listener
	lake    lake
	extra   []string // top level keys
	listen  string   // empty: HTTP is off
	ingests []ingest
	// More sections, as they stand in the file.
	sections []string
}

// write puts the config into a file of the test's and returns its path.
func (c config) write(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "router.toml")
	if err := os.WriteFile(path, []byte(c.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func (c config) String() string {
	var b strings.Builder
	for _, line := range c.extra {
		fmt.Fprintln(&b, line)
	}
	kafka := c.kafka
	if kafka == "" {
		kafka = plaintext()
	}
	fmt.Fprintf(&b, "%s\n%s\n[http]\nlisten = %q\n\n[log]\nlevel = \"debug\"\n", kafka, c.lake.config, c.listen)
	for _, in := range c.ingests {
		trigger := in.trigger
		if trigger == "" {
			trigger = "1s"
		}
		fmt.Fprintf(&b, "\n[[ingest]]\nname = %q\ntopics = %s\ntable = %q\ntrigger = %q\ngroup = %q\n",
			in.name, list(in.topics), in.table, trigger, in.group())
		for _, line := range in.extra {
			fmt.Fprintln(&b, line)
		}
		if len(in.columns) == 0 {
			continue
		}
		fmt.Fprintf(&b, "[ingest.create]\npartition = %s\nschema = [\n", list(in.partition))
		for _, c := range in.columns {
			fmt.Fprintf(&b, "  { name = %q, type = %q, required = %t },\n", c.name, c.typ, c.required)
		}
		fmt.Fprintln(&b, "]")
	}
	for _, section := range c.sections {
		fmt.Fprintf(&b, "\n%s\n", section)
	}
	return b.String()
}

// list is a TOML array of strings.
func list(values []string) string {
	var quoted []string
	for _, v := range values {
		quoted = append(quoted, fmt.Sprintf("%q", v))
	}
	return "[" + strings.Join(quoted, ", ") + "]"
}

func plaintext() string {
	return fmt.Sprintf("[kafka]\nbrokers = [%q]\n", lab.address("KAFKA_PORT"))
}

// sasl is [kafka] for the encrypted listener that asks for a password.
func sasl(password string) string {
	return fmt.Sprintf("[kafka]\nbrokers = [\"localhost:%d\"]\n[kafka.tls]\nca_file = %q\n[kafka.sasl]\nmechanism = \"SCRAM-SHA-512\"\nusername = %q\npassword = %q\n",
		lab.ports["KAFKA_SASL_PORT"], filepath.Join(lab.run, "kafka", "tls", "ca.pem"), kafkaUser, password)
}

// progress is what the tests look at in /status of one ingest.
type progress struct {
	Name         string `json:"name"`
	State        string `json:"state"`
	Error        string `json:"error"`
	Records      int64  `json:"records"`
	Rows         int64  `json:"rows"`
	BufferedRows int64  `json:"buffered_rows"`
	Assigned     int    `json:"assigned_partitions"`
	Lost         int64  `json:"lost_records"`
}

// status returns what /status says of an ingest; nothing while it doesn't answer.
func status(ctx context.Context, listen, ingest string) progress {
	_, body := page(ctx, listen, "/status")
	var all struct {
		Ingests []progress `json:"ingests"`
	}
	if err := json.Unmarshal([]byte(body), &all); err != nil {
		return progress{}
	}
	for _, p := range all.Ingests {
		if p.Name == ingest {
			return p
		}
	}
	return progress{}
}

// page fetches a page of a router's HTTP server; empty while it doesn't answer.
func page(ctx context.Context, listen, path string) (status int, body string) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+listen+path, nil)
	if err != nil {
		return 0, ""
	}
	answer, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, ""
	}
	defer answer.Body.Close()
	var b bytes.Buffer
	if _, err := b.ReadFrom(answer.Body); err != nil {
		return 0, ""
	}
	return answer.StatusCode, b.String()
}

// mentions fails the test for each word that the output lacks.
func (e exit) mentions(t *testing.T, words ...string) {
	t.Helper()
	missing := slices.DeleteFunc(words, func(w string) bool { return strings.Contains(e.output, w) })
	if len(missing) > 0 {
		t.Errorf("the output does not mention %q", missing)
	}
}
