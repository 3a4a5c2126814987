package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
)

// call runs a command line in this process and returns what came of it.
func call(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, err bytes.Buffer
	p := &program{stdout: &out, stderr: &err, ctx: t.Context(), hard: t.Context()}
	code = p.run(args)
	return code, out.String(), err.String()
}

func writeConfig(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "router.toml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestCommandLines(t *testing.T) {
	t.Chdir(t.TempDir()) // no router.toml here
	bad := writeConfig(t, "[kafka]\nbrokrs = [\"localhost:9092\"]\n")
	for _, c := range []struct {
		args           string
		code           int
		stdout, stderr string
	}{
		{"--help", 0, "Exit codes: 0 done, 1 failed, 2", ""},
		{"-h", 0, "router check", ""},
		{"check --help", 0, "Usage:\n  router check", ""},
		{"help", 0, "Examples:", ""},
		{"help check", 0, "every problem at once", ""},
		{"help generate", 0, "", ""},
		{"help nonsense", 2, "", `unknown command "nonsense"`},
		{"demo --help", 0, "", ""},
		{"version", 0, "router devel (go", ""},
		{"--version", 0, "router devel (go", ""},
		{"version x", 2, "", `argument "x" is not understood; see router version --help`},
		{"chekc", 2, "", `unknown command "chekc"`},
		{"--onec", 2, "", "-onec; see router --help"},
		{"--once extra", 2, "", `argument "extra"`},
		{"--config", 2, "", "needs an argument"},
		{"audit", 2, "", "router.toml: read config"},
		{"audit --help", 0, "gapless and single", ""},
		{"audit --foot", 2, "", "see router audit --help"},
		{"audit orders --config " + bad, 2, "", bad + ":2: "},
		{"maintain", 2, "", "maintain is planned and not built yet"},
		{"", 2, "", "router.toml: read config: no such file or directory; name the file with --config FILE"},
		{"check", 2, "", "router.toml: read config"},
		{"--config " + bad, 2, "", bad + `:2: kafka.brokrs = ["localhost:9092"]: unknown key (did you mean "brokers"?)`},
		{"check --config=" + bad, 2, "", bad + ":2: "},
	} {
		code, stdout, stderr := call(t, strings.Fields(c.args)...)
		if code != c.code || !strings.Contains(stdout, c.stdout) || !strings.Contains(stderr, c.stderr) || c.stderr == "" && stderr != "" {
			t.Errorf("router %s: exit %d, want %d\nstdout: %s\nstderr: %s", c.args, code, c.code, stdout, stderr)
		}
	}
}

// TestSecretsStayHidden starts the daemon against nothing, at the most talkative
// level, with secrets everywhere: none comes out.
func TestSecretsStayHidden(t *testing.T) {
	t.Setenv("ROUTER_TEST_SECRET", "planted-env-secret")
	path := writeConfig(t, `
stop_timeout = "1s"
[kafka]
brokers = ["127.0.0.1:1"]
[kafka.sasl]
mechanism = "PLAIN"
username = "user"
password = "planted-password"
[catalog]
type = "sql"
uri = "postgres://user:planted-uri@127.0.0.1:1/db"
warehouse = "s3://bucket/warehouse"
[catalog.properties]
"s3.access-key-id" = "planted-key-id"
"s3.secret-access-key" = "${ROUTER_TEST_SECRET}"
"credential" = "planted-client:planted-client-secret"
[http]
listen = "127.0.0.1:0"
[log]
level = "debug"
[[ingest]]
name = "orders"
topics = ["orders"]
table = "shop.orders"
`)
	for _, args := range [][]string{{"--config", path, "--once"}, {"check", "--config", path}, {"audit", "--config", path}} {
		ctx, cancel := context.WithCancel(t.Context())
		var out bytes.Buffer
		p := &program{stdout: &out, stderr: &out, ctx: ctx, hard: ctx}
		code := p.run(args)
		cancel()
		if code != exitFailed {
			t.Errorf("router %v: exit %d\n%s", args, code, out.String())
		}
		if strings.Contains(out.String(), "planted") {
			t.Errorf("router %v shows a secret:\n%s", args, out.String())
		}
		if !strings.Contains(out.String(), "127.0.0.1:1") {
			t.Errorf("router %v does not say what it could not reach:\n%s", args, out.String())
		}
	}
}

// TestStopSignals sends this process two signals: the first drains, the second
// lets go.
func TestStopSignals(t *testing.T) {
	var stderr lockedBuffer
	ctx, hard, release := stopSignals(&stderr)
	defer release()
	signal := func() {
		if err := syscall.Kill(os.Getpid(), syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
	}
	signal()
	<-ctx.Done()
	if hard.Err() != nil {
		t.Error("the first signal lets go")
	}
	signal()
	<-hard.Done()
	if !strings.Contains(stderr.String(), "second signal") {
		t.Errorf("stderr: %q", stderr.String())
	}
}

// lockedBuffer is a buffer that several goroutines may write to, and somebody
// may wait for a text in.
type lockedBuffer struct {
	mu      sync.Mutex
	text    bytes.Buffer
	waiting chan struct{} // closed at the next write
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.waiting != nil {
		close(b.waiting)
		b.waiting = nil
	}
	return b.text.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

// await returns the text once pattern is in it.
func (b *lockedBuffer) await(t *testing.T, pattern string) {
	t.Helper()
	want := regexp.MustCompile(pattern)
	deadline := time.After(time.Minute)
	for {
		b.mu.Lock()
		if b.waiting == nil {
			b.waiting = make(chan struct{})
		}
		next, text := b.waiting, b.text.String()
		b.mu.Unlock()
		if want.MatchString(text) {
			return
		}
		select {
		case <-next:
		case <-deadline:
			t.Fatalf("no %q in:\n%s", pattern, text)
		}
	}
}

// TestDaemonDrains starts the daemon as a service would, stops it, and finds
// it done.
func TestDaemonDrains(t *testing.T) {
	broker, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(1, "orders"))
	if err != nil {
		t.Fatal(err)
	}
	defer broker.Close()
	client, err := kgo.NewClient(kgo.SeedBrokers(broker.ListenAddrs()...), kgo.DefaultProduceTopic("orders"))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	if err := client.ProduceSync(t.Context(), kgo.StringRecord(`{"id": 1}`)).FirstErr(); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	path := writeConfig(t, fmt.Sprintf(`
[kafka]
brokers = [%q]
[catalog]
type = "sql"
uri = "sqlite:%s/catalog.db"
warehouse = "%s/warehouse"
[http]
listen = "127.0.0.1:0"
[[ingest]]
name = "orders"
topics = ["orders"]
table = "shop.orders"
trigger = "100ms"
[ingest.create]
schema = [ { name = "id", type = "long" } ]
`, broker.ListenAddrs()[0], dir, dir))
	ctx, stop := context.WithCancel(t.Context())
	var stderr lockedBuffer
	code := make(chan int, 1)
	go func() {
		code <- (&program{stdout: &stderr, stderr: &stderr, ctx: ctx, hard: t.Context()}).run([]string{"--config", path})
	}()
	stderr.await(t, `"msg":"listening"`)
	stderr.await(t, `"msg":"committed"`)
	stop()
	if got := <-code; got != exitDone {
		t.Errorf("exit %d\n%s", got, stderr.String())
	}
	if !strings.Contains(stderr.String(), `"msg":"stopping: committing what is open`) {
		t.Errorf("the log does not say why it stopped:\n%s", stderr.String())
	}
}
