package writers

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"sync"
	"time"

	"go.uber.org/zap"
)

// stallBytesASecond is what even a slow link moves. An attempt may go without
// visible progress for as long as that takes for its last bytes, which lie in
// the system's buffers where nobody sees them leave.
const (
	stallBytesASecond = 1 << 20
	stallBytesMax     = 8 << 20
)

// errStalled ends an attempt that makes no progress.
var errStalled = errors.New("no progress")

// retry makes attempts until one succeeds, the answer is final, or ctx or the
// store ends. Each attempt has the name that name gives it. size is how many
// bytes an attempt sends.
func (s *Store) retry(ctx context.Context, verb string, name func(attempt int) string, size int, once func(ctx context.Context, key string, alive func()) error) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	defer context.AfterFunc(s.ctx, stop)()
	stall := s.pace.stall + time.Duration(min(size, stallBytesMax))*time.Second/stallBytesASecond
	hopeless := 0 // in a row
	for attempt := 0; ; attempt++ {
		location := name(attempt)
		key, err := s.key(location)
		if err != nil {
			return fmt.Errorf("%s object: %w", verb, err)
		}
		err = s.attempt(ctx, key, stall, once)
		if err == nil {
			return nil
		}
		v := classify(err)
		failure := &StoreError{Verb: verb, Location: redact(location, s.secrets), Attempts: attempt + 1, Remedy: v.remedy, Err: redactError(err, s.secrets)}
		if ended := s.ended(ctx); ended != nil {
			failure.Err = fmt.Errorf("%w; last answer: %w", ended, failure.Err)
			return failure
		}
		switch v.class {
		case classFinal:
			return failure
		case classHopeless:
			if hopeless == len(s.pace.hopeless) {
				return failure
			}
			v.wait = max(v.wait, jitter(s.pace.hopeless[hopeless]))
			hopeless++
		default:
			hopeless = 0
			v.wait = max(v.wait, s.pace.wait(attempt))
			if errors.Is(err, errStalled) {
				stall = min(2*stall, s.pace.stallMax)
			}
		}
		s.log.Warn("store request failed, will be repeated", zap.String("request", verb), zap.String("location", failure.Location),
			zap.Int("attempt", failure.Attempts), zap.Duration("wait", v.wait), zap.String("remedy", failure.Remedy), zap.String("error", failure.Err.Error()))
		select {
		case <-time.After(v.wait):
		case <-ctx.Done():
			failure.Err = fmt.Errorf("%w; last answer: %w", s.ended(ctx), failure.Err)
			return failure
		}
	}
}

// attempt calls once, and ends it when it makes no progress for so long.
func (s *Store) attempt(ctx context.Context, key string, stall time.Duration, once func(ctx context.Context, key string, alive func()) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	clock := time.AfterFunc(stall, func() { cancel(errStalled) })
	defer clock.Stop()
	err := once(ctx, key, func() { clock.Reset(stall) })
	if err != nil && context.Cause(ctx) == errStalled {
		return fmt.Errorf("%w for %s: %w", errStalled, stall, err)
	}
	return err
}

// ended says why nothing more may be tried, or returns nil.
func (s *Store) ended(ctx context.Context) error {
	if s.ctx.Err() != nil {
		return errors.New("the store was closed")
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return nil
}

// wait is the pause after an attempt.
func (p pace) wait(attempt int) time.Duration {
	wait := p.waitMax
	if attempt < 20 {
		wait = min(wait, p.waitFirst<<attempt)
	}
	return jitter(wait)
}

// jitter returns something between half of d and d, so that many who failed
// together do not come back together.
func jitter(d time.Duration) time.Duration {
	if d < 2 {
		return d
	}
	return d/2 + rand.N(d/2)
}

// progress reads a body and calls alive for every piece. It has no WriteTo,
// which would hand over everything at once. After end nobody reads the body any
// more: HTTP clients may go on sending for a while when a request has failed.
type progress struct {
	alive func()

	mu    sync.Mutex
	body  []byte
	at    int64
	ended bool
}

func (p *progress) Read(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ended {
		return 0, io.ErrClosedPipe
	}
	if p.at >= int64(len(p.body)) {
		return 0, io.EOF
	}
	n := copy(b, p.body[p.at:])
	p.at += int64(n)
	p.alive()
	return n, nil
}

// Seek rewinds for a signature or measures the length, as io.Seeker.
func (p *progress) Seek(offset int64, whence int) (int64, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch whence {
	case io.SeekCurrent:
		offset += p.at
	case io.SeekEnd:
		offset += int64(len(p.body))
	}
	if offset < 0 {
		return 0, errors.New("seek before the start")
	}
	p.at = offset
	return offset, nil
}

// Close does nothing: some clients close a body that they will read again.
func (p *progress) Close() error { return nil }

// end takes the body away.
func (p *progress) end() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ended, p.body = true, nil
}

// readAll reads an object of a known size, or of any size if that is negative.
func readAll(r io.Reader, size int64, alive func()) ([]byte, error) {
	if size < 0 {
		size = 0
	}
	body := make([]byte, 0, size+1) // one more, so that the end is seen without growing
	for {
		n, err := r.Read(body[len(body):cap(body)])
		body = body[:len(body)+n]
		switch {
		case err == io.EOF && int64(len(body)) < size:
			return nil, io.ErrUnexpectedEOF
		case err == io.EOF:
			return body, nil
		case err != nil:
			return nil, err
		}
		alive()
		if len(body) == cap(body) {
			body = append(body, 0)[:len(body)]
		}
	}
}
