package router

import (
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"
)

// Whatever memory_max is, the program and the heap together are at most that,
// unless it is too little for both; and the parts fit into the heap, with the
// fetch that is read while others wait, with the pages of cuts whose files are
// being uploaded lying on their shelf, and with room for garbage.
func TestBudget(t *testing.T) {
	for max := int64(memoryMaxMin); max <= 64<<30; max += max / 7 {
		b := budgetOf(max)
		switch {
		case max >= memoryTightBytes && b.heap+programBytes > max:
			t.Errorf("memory_max %d MiB: heap of %d MiB leaves no room for the program", max>>20, b.heap>>20)
		case max < memoryTightBytes && b.heap > heapBytesMin:
			t.Errorf("memory_max %d MiB: heap of %d MiB, more than is needed", max>>20, b.heap>>20)
		}
		for n := range 4 {
			one := b.of(n + 1)
			if held := int64(n+1) * (one.rows*5/3 + 2*one.fetch + one.round); held > b.heap*9/10 {
				t.Errorf("memory_max %d MiB, %d ingests: their parts are %d of %d MiB", max>>20, n+1, held>>20, b.heap>>20)
			}
		}
	}
}

// What is asked for follows what fetched bytes become in memory: batches that
// compress well, and small records, are asked for in smaller pieces.
func TestInflation(t *testing.T) {
	const limit = 24 << 20
	var f inflation
	if got := f.fetchBytes(limit, 1); got != limit/inflationGuess {
		t.Errorf("before anything was read: %d bytes", got)
	}
	for range 1000 {
		f.OnFetchBatchRead(kgo.BrokerMetadata{}, "t", 0, kgo.FetchBatchMetrics{NumRecords: 1000, CompressedBytes: 100_000, UncompressedBytes: 1_000_000})
	}
	one := f.fetchBytes(limit, 1)
	if becomes := float64(one) * (1_000_000 + 1000*recordBytes) / 100_000; becomes > limit*1.01 || becomes < limit*0.99 {
		t.Errorf("%d bytes become %.0f, the limit is %d", one, becomes, limit)
	}
	if three := f.fetchBytes(limit, 3); three < one/3-1 || three > one/3+1 {
		t.Errorf("%d bytes from each of three brokers, %d from one", three, one)
	}
	for range 1000 { // the producer has changed its mind
		f.OnFetchBatchRead(kgo.BrokerMetadata{}, "t", 0, kgo.FetchBatchMetrics{NumRecords: 1, CompressedBytes: 1_000_000, UncompressedBytes: 1_000_000})
	}
	if got := f.fetchBytes(limit, 1); got < limit*9/10 {
		t.Errorf("%d bytes of uncompressed batches, the limit is %d", got, limit)
	}
	if got := f.fetchBytes(1, 100); got != fetchAskMin {
		t.Errorf("%d bytes, less than is worth a request", got)
	}
}
