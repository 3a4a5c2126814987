package writers

import (
	"context"
	"sync"
	"time"
)

// hedge makes tails short: when an upload takes much longer than uploads of late
// did, a second one of the same body starts under another name, and the first to
// succeed counts. One request that hangs would else hold a whole commit up.
type hedge struct {
	mu      sync.Mutex
	pace    float64 // seconds a byte that uploads of late took, with sizePlusBytes added; 0 when unknown
	credits float64 // hedges that may start now
}

const (
	hedgeAfterMin   = 2 * time.Second  // uploads are not watched more closely
	hedgeAfterBlind = 10 * time.Second // while nothing is known about the store
	hedgeFactor     = 4                // times the usual time
	hedgeShare      = 0.05             // of the uploads may be hedged, for a store that is slow because it is busy …
	hedgeCreditsMax = 4                // … with so many at once
	sizePlusBytes   = 1 << 20          // what the latency of a request is worth
)

func newHedge() *hedge { return &hedge{credits: hedgeCreditsMax} }

// done notes how long an upload took.
func (h *hedge) done(size int, took time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	pace := took.Seconds() / float64(size+sizePlusBytes)
	if h.pace == 0 {
		h.pace = pace
	}
	h.pace += (pace - h.pace) / 8
	h.credits = min(h.credits+hedgeShare, hedgeCreditsMax)
}

// patience is how long an upload of size may take before it is hedged.
func (h *hedge) patience(size int) time.Duration {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.pace == 0 {
		return hedgeAfterBlind
	}
	return max(hedgeAfterMin, time.Duration(hedgeFactor*h.pace*float64(size+sizePlusBytes)*float64(time.Second)))
}

// take asks for leave to hedge.
func (h *hedge) take() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.credits < 1 {
		return false
	}
	h.credits--
	return true
}

// run calls upload, and calls it once more beside itself when the first call
// takes too long, unless it is known to fail and to be tried again: then a second
// one would only add to the load. It returns the first success, or the first error when neither
// succeeds. Both calls have returned when run returns.
func (h *hedge) run(ctx context.Context, size int, failing func() bool, upload func(ctx context.Context) (string, error)) (string, error) {
	ctx, stop := context.WithCancel(ctx)
	type result struct {
		location string
		err      error
	}
	results := make(chan result, 2)
	start := time.Now()
	var both sync.WaitGroup
	defer both.Wait()
	defer stop()
	launch := func() {
		both.Go(func() {
			begun := time.Now()
			location, err := upload(ctx)
			if err == nil {
				h.done(size, time.Since(begun))
			}
			results <- result{location, err}
		})
	}
	launch()
	running := 1
	clock := time.NewTimer(hedgeAfterMin)
	defer clock.Stop()
	var failed error
	for {
		select {
		case r := <-results:
			if r.err == nil {
				return r.location, nil
			}
			if failed == nil {
				failed = r.err
			}
			if running--; running == 0 {
				return "", failed
			}
		case <-clock.C:
			// The others may have shown meanwhile what is usual.
			if left := h.patience(size) - time.Since(start); left > 0 {
				clock.Reset(left)
			} else if !failing() && h.take() {
				running++
				launch()
			} else {
				clock.Reset(hedgeAfterMin)
			}
		}
	}
}
