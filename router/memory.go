package router

import (
	"context"
	"time"

	"icerouter/writers"
)

// budget is how memory_max is shared out, in bytes. Heap is what the runtime
// is told to stay below; the others are parts of it. What they leave is for
// bodies of files on their way, for the catalog, for the libraries under us,
// and for garbage that waits to be collected.
type budget struct {
	heap  int64
	rows  int64 // of all open cuts and cuts in flight together
	fetch int64 // fetches waiting to be polled; twice that while they are read
	round int64 // records decoded at a time
}

// programBytes is what the process holds besides its heap: about 60 MiB of
// program code that has been touched, and what the runtime does not count.
const programBytes = 72 << 20

// Bounds of the parts: below the least no record would move, more than the
// most speeds nothing up.
const (
	fetchBytesMin = 1 << 20
	fetchBytesMax = 32 << 20
	roundBytesMin = 1 << 20
	roundBytesMax = 16 << 20
)

// heapBytesMin is the smallest heap that leaves the garbage collector time for
// anything else: half of it is held whatever the load is, by catalog, clients,
// tables of the libraries, and what a round has open.
const heapBytesMin = 112 << 20

// memoryTightBytes is the memory_max below which the program itself comes on
// top.
const memoryTightBytes = programBytes + heapBytesMin

// budgetOf shares memoryMax out.
func budgetOf(memoryMax int64) budget {
	heap := max(memoryMax-programBytes, min(memoryMax, heapBytesMin))
	return budget{heap: heap, rows: heap * 2 / 5, fetch: heap / 10, round: heap / 14}
}

// of returns the part of one of n equals.
func (b budget) of(n int) budget {
	return budget{
		heap:  b.heap / int64(n),
		rows:  b.rows / int64(n),
		fetch: min(max(b.fetch/int64(n), fetchBytesMin), fetchBytesMax),
		round: min(max(b.round/int64(n), roundBytesMin), roundBytesMax),
	}
}

// trimEvery is how long memory that a burst has left may lie unused.
const trimEvery = 30 * time.Second

// trimSpares gives memory that nobody needs any more back, until ctx ends.
func trimSpares(ctx context.Context) {
	t := time.NewTicker(trimEvery)
	defer t.Stop()
	for {
		select {
		case <-t.C:
			writers.TrimSpares()
		case <-ctx.Done():
			return
		}
	}
}
