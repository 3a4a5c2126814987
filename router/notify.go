package router

import (
	"context"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"time"

	"go.uber.org/zap"
)

// Announce tells systemd how the router is until ctx ends: READY=1 once every
// ingest has come up or has said why not, STATUS= in words, WATCHDOG=1 while
// the router makes progress or knows why it does not, STOPPING=1 at the end.
// Without systemd (NOTIFY_SOCKET is empty) it only waits.
//
// The protocol is sd_notify(3): one datagram of NAME=value lines.
func Announce(ctx context.Context, status func() Status, log *zap.Logger) {
	announce(ctx, status, serviceFromEnvironment(log))
}

// announceEvery is how often the state is looked at; WATCHDOG=1 goes out at
// least twice a watchdog interval.
const announceEvery = time.Second

func announce(ctx context.Context, status func() Status, s *service) {
	if s == nil {
		<-ctx.Done()
		return
	}
	defer s.close()
	every := announceEvery
	if s.watchdog > 0 {
		every = min(every, s.watchdog/2)
	}
	tick := time.NewTicker(every)
	defer tick.Stop()
	ready, shown := false, ""
	for {
		now := status()
		var lines []string
		if !ready && now.settled() {
			ready = true
			lines = append(lines, "READY=1")
		}
		if text := now.sentence(); text != shown {
			shown = text
			lines = append(lines, "STATUS="+text)
		}
		if s.watchdog > 0 && !now.hung(time.Now()) {
			lines = append(lines, "WATCHDOG=1")
		}
		s.send(lines)
		select {
		case <-ctx.Done():
			s.send([]string{"STOPPING=1", "STATUS=committing what is open"})
			return
		case <-tick.C:
		}
	}
}

// settled tells whether no ingest is still on its way up.
func (s Status) settled() bool {
	for _, in := range s.Ingests {
		if in.State == StateStarting {
			return false
		}
	}
	for _, p := range s.Publishes {
		if p.State == StateStarting {
			return false
		}
	}
	return true
}

// sentence says how the router is, in one line.
func (s Status) sentence() string {
	parts := make([]string, len(s.Ingests))
	for i, in := range s.Ingests {
		parts[i] = fmt.Sprintf("%s %s, %d rows in %d commits, lag %s", in.Name, in.State, in.Rows, in.Commits, in.lagText())
		if in.Error != "" {
			parts[i] += " (" + in.Error + ")"
		}
	}
	for _, p := range s.Publishes {
		text := fmt.Sprintf("%s %s, %d rows in %d transactions, %d snapshots behind", p.Name, p.State, p.Rows, p.Transactions, p.SnapshotsBehind)
		if p.Error != "" {
			text += " (" + p.Error + ")"
		}
		parts = append(parts, text)
	}
	return strings.ReplaceAll(strings.Join(parts, "; "), "\n", " ")
}

// service is the service manager's socket.
type service struct {
	conn     net.Conn
	watchdog time.Duration // 0: nobody watches
	log      *zap.Logger
}

// serviceFromEnvironment returns nil where no service manager listens.
func serviceFromEnvironment(log *zap.Logger) *service {
	path := os.Getenv("NOTIFY_SOCKET")
	if path == "" {
		return nil
	}
	conn, err := net.Dial("unixgram", path) // a leading @ is an abstract socket, here and there
	if err != nil {
		log.Warn("no connection to the service manager", zap.Error(err))
		return nil
	}
	s := &service{conn: conn, log: log}
	pid := os.Getenv("WATCHDOG_PID")
	if usec, err := strconv.ParseInt(os.Getenv("WATCHDOG_USEC"), 10, 64); err == nil && usec > 0 && (pid == "" || pid == strconv.Itoa(os.Getpid())) {
		s.watchdog = time.Duration(usec) * time.Microsecond
	}
	return s
}

func (s *service) send(lines []string) {
	if len(lines) == 0 {
		return
	}
	if _, err := s.conn.Write([]byte(strings.Join(lines, "\n"))); err != nil {
		s.log.Debug("service manager does not listen", zap.Error(err))
	}
}

func (s *service) close() { _ = s.conn.Close() }
