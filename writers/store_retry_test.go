package writers

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
)

// scripted is a bucket whose every request is answered by a function.
type scripted struct {
	answer func(ctx context.Context, n int, alive func()) error
	n      int
}

func (s *scripted) create(ctx context.Context, _ string, _ []byte, _ string, alive func()) error {
	s.n++
	return s.answer(ctx, s.n-1, alive)
}

func (s *scripted) read(ctx context.Context, _ string, alive func()) ([]byte, error) {
	return nil, s.create(ctx, "", nil, "", alive)
}
func (s *scripted) readPart(ctx context.Context, _ string, _ int64, _ []byte, alive func()) error {
	return s.create(ctx, "", nil, "", alive)
}
func (s *scripted) remove(ctx context.Context, _ string) error {
	return s.create(ctx, "", nil, "", nil)
}
func (s *scripted) close() error { return nil }

// scriptedStore is a store at its real pace over a scripted bucket.
func scriptedStore(answer func(ctx context.Context, n int, alive func()) error) (*Store, *scripted, *observer.ObservedLogs) {
	core, logs := observer.New(zap.DebugLevel)
	s := &scripted{answer: answer}
	return &Store{log: zap.New(core), ctx: context.Background(), place: place{kind: kindMemory, scheme: "mem", authority: "m"}, objects: s, pace: defaultPace()}, s, logs
}

var errOutage = fmt.Errorf("dial: %w", &net.OpError{Op: "dial", Err: syscall.ECONNREFUSED})

// TestRetryOutage: an outage of ten minutes costs ten minutes and some, neither
// hammers the store nor floods the log.
func TestRetryOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		st, s, logs := scriptedStore(func(context.Context, int, func()) error {
			if time.Since(start) < 10*time.Minute {
				return errOutage
			}
			return nil
		})
		location, err := st.PutNew(t.Context(), named("mem://m"), nil)
		if err != nil || location != fmt.Sprintf("mem://m/%d.parquet", s.n-1) {
			t.Errorf("%s, %v", location, err)
		}
		if late := time.Since(start) - 10*time.Minute; late > 15*time.Second {
			t.Errorf("%s late", late)
		}
		if s.n < 40 || s.n > 100 || logs.Len() != s.n-1 {
			t.Errorf("%d attempts, %d log lines", s.n, logs.Len())
		}
	})
}

// TestRetryHopeless: what a person must act on is returned within seconds.
func TestRetryHopeless(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st, s, _ := scriptedStore(func(context.Context, int, func()) error {
			return &fs.PathError{Op: "write", Path: "/disk/x", Err: syscall.ENOSPC}
		})
		start := time.Now()
		_, err := st.PutNew(t.Context(), named("mem://m"), nil)
		if took := time.Since(start); s.n != 5 || took < 5*time.Second || took > 10*time.Second {
			t.Errorf("%d attempts in %s", s.n, took)
		}
		if !errors.Is(err, syscall.ENOSPC) || !strings.Contains(err.Error(), "the disk is full: make room") || !strings.Contains(err.Error(), "mem://m/4.parquet (5 attempts)") {
			t.Errorf("%v", err)
		}
	})
}

// TestRetryStall: an attempt lives as long as it makes progress, and no longer;
// each stall makes the next attempt's patience longer.
func TestRetryStall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var lasted []time.Duration
		st, _, _ := scriptedStore(func(ctx context.Context, n int, alive func()) error {
			start := time.Now()
			defer func() { lasted = append(lasted, time.Since(start)) }()
			if n < 6 {
				<-ctx.Done()
				return ctx.Err()
			}
			for range 1000 { // slow, but it moves
				time.Sleep(9 * time.Second)
				if ctx.Err() != nil {
					return ctx.Err()
				}
				alive()
			}
			return nil
		})
		if _, err := st.PutNew(t.Context(), named("mem://m"), make([]byte, 24<<20)); err != nil {
			t.Fatal(err)
		}
		want := []time.Duration{18 * time.Second, 36 * time.Second, 72 * time.Second, 144 * time.Second, 288 * time.Second, 300 * time.Second, 9000 * time.Second}
		if fmt.Sprint(lasted) != fmt.Sprint(want) {
			t.Errorf("attempts lasted %v, want %v", lasted, want)
		}
	})
}

// TestRetryWithoutContext: calls without a context end in time for a start to
// say so within its minute, and at once when the store is closed.
func TestRetryWithoutContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st, _, _ := scriptedStore(func(context.Context, int, func()) error { return errOutage })
		start := time.Now()
		_, err := st.ReadFile("mem://m/k")
		if took := time.Since(start); took != 40*time.Second || !errors.Is(err, errPatience) || !errors.Is(err, syscall.ECONNREFUSED) {
			t.Errorf("after %s: %v", took, err)
		}
		var stop context.CancelFunc
		st.ctx, stop = context.WithCancel(context.Background())
		time.AfterFunc(time.Second, stop)
		start = time.Now()
		if err := st.Remove("mem://m/k"); time.Since(start) != time.Second || err == nil || !strings.Contains(err.Error(), "the store was closed") {
			t.Errorf("after %s: %v", time.Since(start), err)
		}
	})
}

func TestClassify(t *testing.T) {
	for _, c := range []struct {
		err  error
		want errorClass
	}{
		{errOutage, classPassing},
		{&net.DNSError{Err: "no such host", IsNotFound: true}, classPassing},
		{io.ErrUnexpectedEOF, classPassing},
		{fmt.Errorf("%w: %w", errStalled, context.Canceled), classPassing},
		{&net.OpError{Op: "write", Err: syscall.EPERM}, classPassing}, // a firewall, not a file
		{&fs.PathError{Op: "open", Path: "/x", Err: syscall.EMFILE}, classPassing},
		{&fs.PathError{Op: "open", Path: "/x", Err: syscall.EACCES}, classHopeless},
		{&fs.PathError{Op: "open", Path: "/x", Err: syscall.EROFS}, classHopeless},
		{&fs.PathError{Op: "open", Path: "/x", Err: syscall.ENOENT}, classFinal},
		{fmt.Errorf("%w: %w", errTaken, fs.ErrExist), classHopeless},
		{fs.ErrExist, classFinal},
		{errors.New("http: server gave HTTP response to HTTPS client"), classHopeless},
		{errors.New("something nobody thought of"), classHopeless},
	} {
		if got := classify(c.err).class; got != c.want {
			t.Errorf("%v: class %d, want %d", c.err, got, c.want)
		}
	}
}

// TestProgress: clients may seek, read in pieces, and read no more after the end.
func TestProgress(t *testing.T) {
	calls := 0
	p := &progress{body: []byte("0123456789"), alive: func() { calls++ }}
	if n, err := p.Seek(0, io.SeekEnd); n != 10 || err != nil {
		t.Errorf("%d, %v", n, err)
	}
	if _, err := p.Seek(-4, io.SeekCurrent); err != nil {
		t.Error(err)
	}
	if got, err := io.ReadAll(p); string(got) != "6789" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
	if _, err := p.Seek(-1, io.SeekStart); err == nil {
		t.Error("a seek before the start was accepted")
	}
	if _, err := p.Seek(0, io.SeekStart); err != nil || calls == 0 {
		t.Errorf("%v, %d calls", err, calls)
	}
	p.end()
	if n, err := p.Read(make([]byte, 4)); n != 0 || err != io.ErrClosedPipe {
		t.Errorf("after the end: %d, %v", n, err)
	}
}

func TestReadAll(t *testing.T) {
	body := bytes.Repeat([]byte("x"), 10_000)
	for _, size := range []int64{-1, 0, 100, 10_000, 10_001} {
		got, err := readAll(bytes.NewReader(body), size, func() {})
		if size == 10_001 {
			if err != io.ErrUnexpectedEOF {
				t.Errorf("short answer: %v", err)
			}
			continue
		}
		if err != nil || !bytes.Equal(got, body) {
			t.Errorf("size %d: %d bytes, %v", size, len(got), err)
		}
	}
}
