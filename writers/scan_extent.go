package writers

import (
	"fmt"
	"io"

	"golang.org/x/sync/errgroup"
)

// inMemory is an object whose bytes are in memory.
type inMemory interface {
	// Slice returns bytes of the object, which must not be changed, or nil.
	Slice(at, n int64) []byte
}

// distant is an object that takes long to answer, however little is asked for.
type distant interface {
	Distant() bool
}

// extent reads a column chunk from its start on, through a buffer that is a
// window of the object. Of distant objects the window that follows is fetched
// while the one that is there is being read.
type extent struct {
	object io.ReaderAt
	at     int64 // where buf ends in the object
	likely int64 // where the chunk probably ends
	end    int64 // where it ends at the latest
	window int
	buf    []byte // what was read and not taken yet
	memory []byte

	fetches *errgroup.Group // that fetch windows ahead; nil: nobody does
	ahead   []byte          // the window being fetched, or its memory
	aheadAt int64
	fetched chan error // capacity 1; nil: nothing is being fetched
}

// extentsAheadMax bounds how many windows of a file are fetched at once.
const extentsAheadMax = 32

func (e *extent) open(object io.ReaderAt, at, end, likely int64, window int, fetches *errgroup.Group) {
	e.settle()
	e.object, e.at, e.end, e.window, e.fetches = object, at, end, window, fetches
	e.likely = min(end, at+likely)
	e.buf = nil
	if m, ok := object.(inMemory); ok {
		if e.buf = m.Slice(at, end-at); e.buf != nil {
			e.at = end
		}
	}
	e.fetch()
}

// settle waits for a window that is being fetched, and drops it.
func (e *extent) settle() {
	if e.fetched != nil {
		<-e.fetched
		e.fetched = nil
	}
}

// fetch begins fetching the window behind buf.
func (e *extent) fetch() {
	n := int(min(int64(e.window), e.likely-e.at))
	if e.fetches == nil || n <= 0 {
		return
	}
	fetched := make(chan error, 1)
	ahead, at, object := sized(e.ahead, n), e.at, e.object
	if e.fetches.TryGo(func() error {
		fetched <- readFull(object, ahead, at)
		return nil
	}) {
		e.ahead, e.aheadAt, e.fetched = ahead, at, fetched
	}
}

// need sees that buf has n bytes, or all up to the end if those are fewer.
func (e *extent) need(n int) error {
	if len(e.buf) >= n || e.at >= e.end {
		return nil
	}
	if e.fetched != nil {
		err := <-e.fetched
		e.fetched = nil
		if e.aheadAt == e.at {
			if err != nil {
				return err
			}
			copy(e.grow(len(e.ahead)), e.ahead)
			e.at += int64(len(e.ahead))
		}
	}
	if more := int(min(int64(n-len(e.buf)), e.end-e.at)); more > 0 {
		// As much as the window holds, but not beyond the chunk unless it is asked for.
		more = int(max(int64(more), min(int64(e.window-len(e.buf)), e.likely-e.at)))
		if err := readFull(e.object, e.grow(more), e.at); err != nil {
			return err
		}
		e.at += int64(more)
	}
	e.fetch()
	return nil
}

// grow makes room for n bytes behind buf, and returns it.
func (e *extent) grow(n int) []byte {
	have := len(e.buf)
	if cap(e.memory) < have+n {
		memory := make([]byte, have, max(have+n, min(e.window, have+n+int(e.likely-e.at))))
		copy(memory, e.buf)
		e.memory = memory
	} else {
		e.memory = e.memory[:have]
		copy(e.memory, e.buf)
	}
	e.memory = e.memory[:have+n]
	e.buf = e.memory
	return e.buf[have:]
}

// peek returns the next bytes: n, or fewer at the end.
func (e *extent) peek(n int) ([]byte, error) {
	if err := e.need(n); err != nil {
		return nil, err
	}
	return e.buf[:min(n, len(e.buf))], nil
}

// take returns the next n bytes, which are valid until more is read.
func (e *extent) take(n int) ([]byte, error) {
	if err := e.need(n); err != nil {
		return nil, err
	}
	if n > len(e.buf) {
		return nil, fmt.Errorf("a page of %d bytes where %d are left: %w", n, len(e.buf), io.ErrUnexpectedEOF)
	}
	taken := e.buf[:n]
	e.buf = e.buf[n:]
	return taken, nil
}

// skip moves past n bytes. Going past the end shows with the next read.
func (e *extent) skip(n int) {
	if n <= len(e.buf) {
		e.buf = e.buf[n:]
		return
	}
	e.at = min(e.end, e.at+int64(n-len(e.buf)))
	e.buf = nil
}
