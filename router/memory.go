package router

import (
	"context"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"icerouter/writers"
)

// budget is how memory_max is shared out, in bytes. Heap is what the runtime
// is told to stay below; the others are parts of it. What they leave is for
// bodies of files on their way, for the catalog, for the libraries under us,
// and for garbage that waits to be collected.
type budget struct {
	heap  int64
	rows  int64 // of all open cuts and cuts in flight together; their pages may lie on the shelf besides
	fetch int64 // fetches waiting to be polled; twice that while they are read
	round int64 // records decoded at a time: a quarter of a cut's share by default, for a cut may exceed its share by a round
}

// programBytes is what the process holds besides its heap: up to 68 MiB of
// program code that has been touched, and what the runtime does not count.
const programBytes = 80 << 20

// Bounds of the parts: below the least no record would move, more than the
// most speeds nothing up.
const (
	fetchBytesMin          = 1 << 20
	fetchBytesMax          = 32 << 20
	roundBytesMin          = 1 << 20
	fetchPartitionBytesMax = 1 << 20
	roundBytesMax          = 16 << 20
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
	return budget{heap: heap, rows: heap * 3 / 10, fetch: heap / 10, round: heap / 36}
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

// inflation learns how much memory a fetched byte becomes: batches are
// decompressed as soon as they are read, and each record gets a header. It is a
// hook of the client and safe for concurrent use.
type inflation struct {
	mu        sync.Mutex
	read, got float64 // bytes from the broker, and bytes of memory they became; older ones count less
}

const (
	inflationGuess  = 4         // before anything was read
	inflationMemory = 256 << 20 // bytes after which what was seen counts half
	recordBytes     = 240       // a kgo.Record
)

// OnFetchBatchRead implements kgo.HookFetchBatchRead.
func (f *inflation) OnFetchBatchRead(_ kgo.BrokerMetadata, _ string, _ int32, m kgo.FetchBatchMetrics) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.read += float64(m.CompressedBytes)
	f.got += float64(m.UncompressedBytes) + float64(m.NumRecords)*recordBytes
	if f.got > inflationMemory {
		f.read, f.got = f.read/2, f.got/2
	}
}

// fetchBytes returns how much to ask each of some brokers for, so that
// together they fill at most limit bytes of memory.
func (f *inflation) fetchBytes(limit int64, brokers int) int32 {
	f.mu.Lock()
	defer f.mu.Unlock()
	ratio := float64(inflationGuess)
	if f.read > 0 {
		ratio = max(f.got/f.read, 1)
	}
	return int32(max(float64(limit)/ratio/float64(max(brokers, 1)), fetchAskMin))
}

// fetchAskMin is the least that is worth a request. A broker sends at least
// one batch, however large.
const fetchAskMin = 64 << 10

// bound asks the brokers for as much as fits into the share of fetches.
func (in *ingest) bound() {
	n := in.inflation.fetchBytes(in.memory.fetch, len(in.client.DiscoveredBrokers()))
	in.client.UpdateFetchMaxBytes(n, min(n, fetchPartitionBytesMax))
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
