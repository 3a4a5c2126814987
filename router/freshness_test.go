package router

import (
	"math"
	"testing"
	"testing/synctest"
	"time"
)

func near(a, b time.Duration) bool { return math.Abs(float64(a-b)) <= 0.026*float64(b) }

func TestFreshness(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFreshness()
		if got := f.quantiles(); got != (Freshness{}) {
			t.Errorf("empty: %v", got)
		}
		for i := range 100 { // 1 s … 100 s
			f.observe(time.Duration(i+1)*time.Second, 1000)
		}
		got := f.quantiles()
		for _, c := range []struct{ got, want time.Duration }{{got.P50, 50 * time.Second}, {got.P95, 95 * time.Second}, {got.P99, 99 * time.Second}} {
			if !near(c.got, c.want) {
				t.Errorf("got %v, want %v", c.got, c.want)
			}
		}

		time.Sleep(4 * time.Minute) // inside the bubble: the old slots are still in the window
		f.observe(100*time.Millisecond, 900_000)
		if got := f.quantiles(); !near(got.P50, 100*time.Millisecond) || !near(got.P95, 50*time.Second) {
			t.Errorf("mixed: %v", got)
		}
		time.Sleep(2 * time.Minute)
		if got := f.quantiles(); !near(got.P99, 100*time.Millisecond) {
			t.Errorf("the first minute has left the window: %v", got)
		}
		time.Sleep(time.Hour)
		if got := f.quantiles(); got != (Freshness{}) {
			t.Errorf("an hour later: %v", got)
		}
		f.observe(-time.Second, 1)
		f.observe(1000*time.Hour, 1)
		if got := f.quantiles(); got.P50 != freshnessFirst || got.P99 < 24*time.Hour {
			t.Errorf("extremes: %v", got)
		}
	})
}
