//go:build real

// Package real_test runs the built router against real servers: Apache Kafka,
// two Iceberg REST catalogs of different make, PostgreSQL and an S3 server,
// and reads the tables with PyIceberg, DuckDB, Iceberg's Java library and
// Spark. The scripts beside this file install and run them.
//
// Nothing here is faked and nothing is skipped. Servers start when the first
// test asks for them, on free ports, in the folder REAL_RUN.
package real_test

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// Credentials of the servers. No output of the router may ever hold one of
// the secret ones; see secretsIn.
const (
	s3Access         = "s3-access-of-the-tests"
	s3Secret         = "s3-secret-7hQ2vXk9"
	kafkaUser        = "router"
	kafkaPassword    = "kafka-secret-4Lm8zRt1"
	postgresPassword = "postgres-secret-9Wc3bNy6"
	wrongPassword    = "wrong-secret-5Kd0pJf2"
)

// world is what all tests share: the binary, the servers and their ports.
type world struct {
	scripts string // this folder
	run     string // REAL_RUN: data, logs and process ids of the servers
	bin     string // the router
	kafka   string // more properties of the broker, one a line
	ports   map[string]int

	mu      sync.Mutex
	servers map[string]func() error // a start that happens once, by script name
	started []string
}

var lab *world

func TestMain(m *testing.M) {
	w, err := newWorld()
	if err != nil {
		fmt.Fprintln(os.Stderr, "real:", err)
		os.Exit(1)
	}
	lab = w
	code := m.Run()
	closeReaders()
	w.stop()
	if code == 0 && os.Getenv("REAL_RUN") == "" {
		os.RemoveAll(w.run)
	}
	os.Exit(code)
}

// newWorld builds the router and chooses folder and ports; it starts nothing.
func newWorld() (*world, error) {
	scripts, err := os.Getwd()
	if err != nil {
		return nil, err
	}
	w := &world{scripts: scripts, run: os.Getenv("REAL_RUN"), ports: map[string]int{}, servers: map[string]func() error{}}
	if w.run == "" {
		if w.run, err = os.MkdirTemp("", "router-real-"); err != nil {
			return nil, err
		}
	}
	// PostgreSQL runs as another user, who must be able to enter.
	if err := os.MkdirAll(w.run, 0o755); err != nil {
		return nil, err
	}
	if err := os.Chmod(w.run, 0o755); err != nil {
		return nil, err
	}
	names := []string{"KAFKA_PORT", "KAFKA_CONTROLLER_PORT", "KAFKA_SASL_PORT", "S3_PORT", "REST_CATALOG_PORT",
		"SECOND_CATALOG_PORT", "SECOND_CATALOG_MANAGEMENT_PORT", "POSTGRES_PORT"}
	if err := w.choosePorts(names); err != nil {
		return nil, err
	}
	w.bin = os.Getenv("ROUTER_BIN")
	if w.bin == "" {
		w.bin = filepath.Join(w.run, "router")
		build := exec.Command("go", "build", "-trimpath", "-ldflags", "-s -w", "-tags", "disable_grpc_modules,grpcnotrace", "-o", w.bin, "../..")
		build.Env = append(os.Environ(), "CGO_ENABLED=0")
		if out, err := build.CombinedOutput(); err != nil {
			return nil, fmt.Errorf("build the router: %w\n%s", err, out)
		}
	}
	return w, nil
}

// choosePorts finds a free port for each name, all different.
func (w *world) choosePorts(names []string) error {
	var open []net.Listener
	defer func() {
		for _, l := range open {
			l.Close()
		}
	}()
	for _, name := range names {
		l, err := listenApart()
		if err != nil {
			return err
		}
		open = append(open, l)
		w.ports[name] = l.Addr().(*net.TCPAddr).Port
	}
	return nil
}

// freePort returns a port nobody listens on now.
func freePort(t *testing.T) int {
	l, err := listenApart()
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}

// listenApart listens on a port below those that the system gives to clients:
// between the look and the start of a server, or while a server is down, a
// connection of another test would take one of them.
func listenApart() (l net.Listener, err error) {
	const first, last = 15000, 32000
	for range 200 {
		if l, err = net.Listen("tcp", fmt.Sprint("127.0.0.1:", first+rand.IntN(last-first))); err == nil {
			return l, nil
		}
	}
	return nil, err
}

// environment is what the scripts see.
func (w *world) environment() []string {
	env := append(os.Environ(),
		"REAL_RUN="+w.run,
		"S3_ACCESS_KEY="+s3Access, "S3_SECRET_KEY="+s3Secret,
		"KAFKA_USER="+kafkaUser, "KAFKA_PASSWORD="+kafkaPassword,
		"POSTGRES_PASSWORD="+postgresPassword,
		// A machine may be busy: a slow start is no failure.
		"KAFKA_TIMEOUT=240", "S3_TIMEOUT=240", "REST_CATALOG_TIMEOUT=240", "SECOND_CATALOG_TIMEOUT=240", "POSTGRES_TIMEOUT=240",
		// Compaction within seconds, group sessions as short as the tests like.
		"KAFKA_PROPS=log.cleaner.backoff.ms=300\ngroup.min.session.timeout.ms=1000\nlog.retention.check.interval.ms=1000\n"+w.kafka,
	)
	for name, port := range w.ports {
		env = append(env, fmt.Sprintf("%s=%d", name, port))
	}
	return env
}

// script runs one of the scripts beside this file to its end.
func (w *world) script(name string, args []string, env ...string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, filepath.Join(w.scripts, name), args...)
	cmd.Env = append(w.environment(), env...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		return string(out), fmt.Errorf("%s %s: %w\n%s", name, strings.Join(args, " "), err, out)
	}
	return string(out), nil
}

// need starts the named servers unless they run, and fails the test if one doesn't.
func need(t *testing.T, names ...string) {
	t.Helper()
	lab.need(t, names...)
}

func (w *world) need(t *testing.T, names ...string) {
	t.Helper()
	for _, name := range names {
		if err := w.server(name)(); err != nil {
			t.Fatal(err)
		}
	}
}

// server returns the start of a server, which happens once however often it is called.
func (w *world) server(name string) func() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.servers[name] == nil {
		w.servers[name] = sync.OnceValue(func() error {
			w.mu.Lock()
			w.started = append(w.started, name)
			w.mu.Unlock()
			_, err := w.script(name, []string{"start"})
			return err
		})
	}
	return w.servers[name]
}

// stop ends the servers that were started here, last started first.
func (w *world) stop() {
	w.mu.Lock()
	started := slices.Clone(w.started)
	w.mu.Unlock()
	slices.Reverse(started)
	for _, name := range started {
		if _, err := w.script(name, []string{"kill"}); err != nil {
			fmt.Fprintln(os.Stderr, "real:", err)
		}
	}
}

func (w *world) address(port string) string { return fmt.Sprintf("127.0.0.1:%d", w.ports[port]) }

// bucketFolder is where the S3 server keeps the objects of the bucket.
func (w *world) bucketFolder() string { return filepath.Join(w.run, "s3", "data", "warehouse") }

// another returns a world with the same router whose servers are its own, for
// tests that break them. They are stopped when the test ends.
func (w *world) another(t *testing.T) *world {
	t.Helper()
	own := &world{scripts: w.scripts, run: filepath.Join(w.run, "own", strings.ReplaceAll(t.Name(), "/", "-")), bin: w.bin, ports: map[string]int{}, servers: map[string]func() error{}}
	if err := os.MkdirAll(own.run, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := own.choosePorts(slices.Collect(maps.Keys(w.ports))); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(own.stop)
	return own
}

// objects lists the objects below a prefix of the bucket whose name ends in
// suffix, with their sizes. It reads the server's folder: no client between.
func objects(t *testing.T, prefix, suffix string) map[string]int64 {
	t.Helper()
	return filesBelow(t, lab.bucketFolder(), prefix, suffix)
}

// filesBelow lists files under root whose path relative to it begins with prefix and ends in suffix.
func filesBelow(t *testing.T, root, prefix, suffix string) map[string]int64 {
	t.Helper()
	found := map[string]int64{}
	err := filepath.Walk(root, func(path string, info os.FileInfo, err error) error {
		if os.IsNotExist(err) {
			return nil // removed while we looked
		}
		if err != nil {
			return err
		}
		name, err := filepath.Rel(root, path)
		if err == nil && !info.IsDir() && strings.HasPrefix(name, prefix) && strings.HasSuffix(name, suffix) {
			found[name] = info.Size()
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// until calls done every so often until it is true; it fails the test when that takes longer than limit.
func until(t *testing.T, limit time.Duration, what string, done func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for !done() {
		select {
		case <-ctx.Done():
			t.Fatalf("after %s still not: %s", limit, what)
		case <-tick.C:
		}
	}
}
