package writers

import (
	"context"
	"fmt"
	"io/fs"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

// hedgedStore is a store whose uploads take a second and an eighth of one more
// for each MiB, unless slow says otherwise, by the upload's number.
func hedgedStore(slow map[int]time.Duration) (*Store, *int) {
	var mu sync.Mutex
	uploads := 0
	st, _, _ := scriptedStore(nil)
	st.hedge, st.pace.stall = newHedge(), 24*time.Hour
	st.objects = uploader(func(ctx context.Context, size int) error {
		mu.Lock()
		took, isSlow := slow[uploads]
		uploads++
		mu.Unlock()
		if !isSlow {
			took = time.Second + time.Duration(size)*time.Second>>23
		}
		select {
		case <-time.After(took):
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	})
	return st, &uploads
}

// uploader is a bucket that only takes uploads.
type uploader func(ctx context.Context, size int) error

func (u uploader) create(ctx context.Context, _ string, body []byte, _ string, _ func()) error {
	return u(ctx, len(body))
}
func (u uploader) read(context.Context, string, func()) ([]byte, error) { panic("read") }
func (u uploader) readPart(context.Context, string, int64, []byte, func()) error {
	panic("read part")
}
func (u uploader) remove(context.Context, string) error { panic("remove") }
func (u uploader) close() error                         { return nil }

// putMany uploads bodies at once and returns how long all of them took.
func putMany(t *testing.T, st *Store, count int, body []byte) time.Duration {
	start := time.Now()
	var all sync.WaitGroup
	for i := range count {
		all.Go(func() {
			if _, err := st.PutNew(t.Context(), named(fmt.Sprint("mem://m/", i)), body); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	return time.Since(start)
}

// TestHedgeHang: one upload of 64 hangs, also at the very first cut, and the cut
// waits seconds, not for the hanging request's end.
func TestHedgeHang(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st, uploads := hedgedStore(map[int]time.Duration{17: time.Hour})
		if took := putMany(t, st, 64, make([]byte, 1<<20)); took > 6*time.Second || *uploads != 65 {
			t.Errorf("took %s and %d uploads", took, *uploads)
		}
	})
}

// TestHedgeBusy: a store that is slow as a whole is not given double work.
func TestHedgeBusy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow := map[int]time.Duration{}
		for i := range 1000 {
			slow[i] = 9 * time.Second
		}
		st, uploads := hedgedStore(slow)
		for range 5 {
			putMany(t, st, 64, make([]byte, 8<<20))
		}
		if *uploads != 5*64 {
			t.Errorf("%d uploads of %d", *uploads, 5*64)
		}
		// It gets slower still: some are hedged, not all.
		for i := range 1000 {
			slow[i] = 17 * time.Second
		}
		before := *uploads
		putMany(t, st, 64, make([]byte, 100))
		if extra := *uploads - before - 64; extra > hedgeCreditsMax {
			t.Errorf("%d hedges", extra)
		}
	})
}

// TestHedgeNames: both uploads have names of their own, and the winner's is
// returned.
func TestHedgeNames(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st, uploads := hedgedStore(map[int]time.Duration{0: time.Hour})
		if location, err := st.PutNew(t.Context(), named("mem://m"), nil); err != nil || location != "mem://m/1.parquet" || *uploads != 2 {
			t.Errorf("%s, %v, %d uploads", location, err, *uploads)
		}
	})
}

// TestHedgeEnds: with the context both uploads end.
func TestHedgeEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st, uploads := hedgedStore(map[int]time.Duration{0: time.Hour, 1: time.Hour})
		ctx, stop := context.WithTimeout(t.Context(), 11*time.Second)
		defer stop()
		start := time.Now()
		if _, err := st.PutNew(ctx, named("mem://m"), nil); err == nil || time.Since(start) != 11*time.Second || *uploads < 2 {
			t.Errorf("%v after %s, %d uploads", err, time.Since(start), *uploads)
		}
	})
}

// TestHedgeOutage: an upload that is being repeated is not hedged, so that
// answers that a person must act on come as soon as ever.
func TestHedgeOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start, attempts := time.Now(), 0
		st, _, _ := scriptedStore(nil)
		st.hedge = newHedge()
		st.objects = uploader(func(context.Context, int) error {
			attempts++
			time.Sleep(2 * time.Second)
			if time.Since(start) < time.Minute {
				return errOutage
			}
			return &fs.PathError{Op: "write", Path: "/x", Err: syscall.EACCES}
		})
		if _, err := st.PutNew(t.Context(), named("mem://m"), nil); err == nil || st.hedge.credits != hedgeCreditsMax {
			t.Errorf("%v, %v credits", err, st.hedge.credits)
		}
		if took := time.Since(start); took > 110*time.Second || attempts < 10 {
			t.Errorf("%d attempts in %s", attempts, took)
		}
	})
}
