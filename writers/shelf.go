package writers

import (
	"math/bits"
	"sync"
)

// shelf keeps memory that one file has given back for the next. A sync.Pool
// would not do: the garbage collector empties it, and the more often it runs
// the more there is to allocate anew, zero and fault in, so that a process
// near its memory limit would spend its time on that.
//
// Contents are arbitrary. It is safe for concurrent use.
type shelf[T any] struct {
	mu    sync.Mutex
	items []T
	idle  int // the fewest items since the last trim: nobody needed these
}

// put lays an item on the shelf.
func (s *shelf[T]) put(item T) {
	s.mu.Lock()
	s.items = append(s.items, item)
	s.mu.Unlock()
}

// take takes the item that was put last, if there is any.
func (s *shelf[T]) take() (item T, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	last := len(s.items) - 1
	if last < 0 {
		s.idle = 0
		return item, false
	}
	item = s.items[last]
	var none T
	s.items[last] = none
	s.items = s.items[:last]
	s.idle = min(s.idle, last)
	return item, true
}

// fit takes the first item that fits, if there is any.
func (s *shelf[T]) fit(fits func(T) bool) (item T, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, item := range s.items {
		if fits(item) {
			last := len(s.items) - 1
			s.items[i] = s.items[last]
			var none T
			s.items[last] = none
			s.items = s.items[:last]
			s.idle = min(s.idle, last)
			return item, true
		}
	}
	return item, false
}

// trim gives up the items that nobody has needed since the last trim.
func (s *shelf[T]) trim() {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.items[:s.idle])
	s.items = append([]T(nil), s.items[s.idle:]...)
	s.idle = len(s.items)
}

// What lies on the shelves was in use at one time, so it is never more than
// open files and files on their way have held.
var (
	blocks  shelf[*[blockBytes]byte]
	buffers [bufferClassMax + 1]shelf[[]byte] // by bits.Len of the capacity less one
	bodies  shelf[[]byte]

	scanLeaves shelf[*scanLeaf]
)

// TrimSpares gives memory that nobody has needed since the last call back to
// the runtime. Call it now and then, so that a burst does not hold its memory
// for ever.
func TrimSpares() {
	blocks.trim()
	for i := range buffers {
		buffers[i].trim()
	}
	bodies.trim()
	scanLeaves.trim()
}

func takeBlock() *[blockBytes]byte {
	if b, ok := blocks.take(); ok {
		return b
	}
	return new([blockBytes]byte)
}

// Buffers come in powers of two. Small ones are not worth keeping, large ones
// belong to one huge row and are given back to the runtime.
const (
	bufferClassMin = 12 // 4 KiB
	bufferClassMax = 20 // 1 MiB
	bufferBytesMin = 128
)

// newBuffer returns an empty buffer with room for at least n bytes.
func newBuffer(n int) []byte {
	class := bits.Len(uint(max(n, bufferBytesMin) - 1))
	if class >= bufferClassMin && class <= bufferClassMax {
		if b, ok := buffers[class].take(); ok {
			return b[:0]
		}
	}
	return make([]byte, 0, 1<<class)
}

// freeBuffer takes back what newBuffer gave.
func freeBuffer(b []byte) {
	class := bits.Len(uint(cap(b) - 1))
	if cap(b) == 1<<class && class >= bufferClassMin && class <= bufferClassMax {
		buffers[class].put(b)
	}
}

// bodyKeepBytes bounds the bodies that are kept: for a larger one the copy is
// what costs, not the memory.
const bodyKeepBytes = 8 << 20

// newBody returns an empty buffer for a whole file of n bytes. Files of one cut
// are about equally large, so that one's buffer fits the next.
func newBody(n int) []byte {
	b, ok := bodies.fit(func(b []byte) bool { return cap(b) >= n && cap(b) <= n+n/2+blockBytes })
	if !ok {
		b = make([]byte, 0, n+n/16)
	}
	return b[:0]
}
