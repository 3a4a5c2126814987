package writers

import (
	"fmt"
	"io"
)

// inMemory is an object whose bytes are in memory.
type inMemory interface {
	// Slice returns bytes of the object, which must not be changed, or nil.
	Slice(at, n int64) []byte
}

// extent reads a column chunk from its start on, through a buffer that is a
// window of the object.
type extent struct {
	object io.ReaderAt
	at     int64 // where buf ends in the object
	likely int64 // where the chunk probably ends
	end    int64 // where it ends at the latest
	window int
	buf    []byte // what was read and not taken yet
	memory []byte
}

func (e *extent) open(object io.ReaderAt, at, end, likely int64, window int) {
	e.object, e.at, e.end, e.window = object, at, end, window
	e.likely = min(end, at+likely)
	e.buf = nil
	if m, ok := object.(inMemory); ok {
		if e.buf = m.Slice(at, end-at); e.buf != nil {
			e.at = end
		}
	}
}

// need sees that buf has n bytes, or all up to the end if those are fewer.
func (e *extent) need(n int) error {
	more := int(min(int64(n-len(e.buf)), e.end-e.at))
	if more <= 0 {
		return nil
	}
	// As much as the window holds, but not beyond the chunk unless it is asked for.
	ahead := min(int64(e.window-len(e.buf)), e.likely-e.at)
	more = int(max(int64(more), ahead))
	if have := len(e.buf); cap(e.memory) < have+more {
		memory := make([]byte, have, max(have+more, min(e.window, int(e.likely-e.at)+have)))
		copy(memory, e.buf)
		e.memory = memory
	} else {
		e.memory = e.memory[:have]
		copy(e.memory, e.buf)
	}
	have := len(e.memory)
	e.memory = e.memory[:have+more]
	if err := readFull(e.object, e.memory[have:], e.at); err != nil {
		e.buf = e.memory[:have]
		return err
	}
	e.at += int64(more)
	e.buf = e.memory
	return nil
}

// peek returns the next bytes: n, or fewer at the end.
func (e *extent) peek(n int) ([]byte, error) {
	err := e.need(n)
	return e.buf[:min(n, len(e.buf))], err
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
