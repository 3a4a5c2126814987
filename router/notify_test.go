package router

import (
	"context"
	"net"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/zap"
)

// TestAnnounce listens as systemd does.
func TestAnnounce(t *testing.T) {
	path := filepath.Join(t.TempDir(), "notify")
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	t.Setenv("NOTIFY_SOCKET", path)
	t.Setenv("WATCHDOG_USEC", "20000")
	t.Setenv("WATCHDOG_PID", "")
	read := func() string {
		buffer := make([]byte, 4096)
		if err := conn.SetReadDeadline(time.Now().Add(10 * time.Second)); err != nil {
			t.Fatal(err)
		}
		n, err := conn.Read(buffer)
		if err != nil {
			t.Fatal(err)
		}
		return string(buffer[:n])
	}
	until := func(want string) string {
		for {
			if got := read(); strings.Contains(got, want) {
				return got
			}
		}
	}

	var now atomic.Pointer[Status]
	now.Store(&Status{Ingests: []IngestStatus{{Name: "a", State: StateStarting}}})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		Announce(ctx, func() Status { return *now.Load() }, zap.NewNop())
	}()
	if first := read(); strings.Contains(first, "READY") || !strings.Contains(first, "STATUS=a starting") || !strings.Contains(first, "WATCHDOG=1") {
		t.Errorf("first: %q", first)
	}
	now.Store(&Status{Ingests: []IngestStatus{{Name: "a", State: StateRunning, Error: "slow\nstore"}}})
	if got := until("READY=1"); !strings.Contains(got, "STATUS=a running, 0 rows in 0 commits, lag 0 (slow store)") {
		t.Errorf("ready: %q", got)
	}
	if got := until("WATCHDOG=1"); got != "WATCHDOG=1" {
		t.Errorf("nothing changed, and it said %q", got)
	}
	cancel()
	until("STOPPING=1")
	<-done
}

// TestAnnounceHung feeds no watchdog when nothing moves and nobody knows why.
func TestAnnounceHung(t *testing.T) {
	s := Status{Ingests: []IngestStatus{{Name: "a", State: StateRunning, BehindSince: time.Now().Add(-time.Hour)}}}
	client, server := net.Pipe()
	defer server.Close()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		announce(ctx, func() Status { return s }, &service{conn: client, watchdog: 10 * time.Millisecond, log: zap.NewNop()})
	}()
	buffer := make([]byte, 4096)
	n, err := server.Read(buffer)
	cancel()
	if err != nil || strings.Contains(string(buffer[:n]), "WATCHDOG") {
		t.Errorf("%q, %v", buffer[:n], err)
	}
	if n, err = server.Read(buffer); err != nil || !strings.HasPrefix(string(buffer[:n]), "STOPPING=1") {
		t.Errorf("%q, %v", buffer[:n], err)
	}
	<-done
}

// TestAnnounceAlone waits for the end where no service manager is.
func TestAnnounceAlone(t *testing.T) {
	t.Setenv("NOTIFY_SOCKET", "")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	Announce(ctx, func() Status { t.Error("asked"); return Status{} }, zap.NewNop())
}
