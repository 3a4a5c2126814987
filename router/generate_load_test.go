package router

import (
	"testing"
	"testing/synctest"
	"time"
)

func TestParseRate(t *testing.T) {
	f := func(text string, want rate) {
		t.Helper()
		got, err := parseRate(text)
		if err != nil || got != want {
			t.Errorf("%q: %v, %v; want %v", text, got, err, want)
		}
	}
	f("0", rate{})
	f("5000", rate{perSecond: 5000})
	f("0.5", rate{perSecond: 0.5})
	f(" 5_000/s ", rate{perSecond: 5000})
	f("50MB", rate{perSecond: 50e6, bytes: true})
	f("64KiB/s", rate{perSecond: 65536, bytes: true})
	for _, text := range []string{"", "-1", "fast", "5k", "NaN", "inf", "50 Mb", "1MB/m"} {
		if got, err := parseRate(text); err == nil {
			t.Errorf("%q is %v, want an error", text, got)
		}
	}
}

func TestPaceHoldsTheRate(t *testing.T) {
	f := func(r rate, size, records int, want time.Duration) {
		t.Helper()
		synctest.Test(t, func(t *testing.T) {
			started, p := time.Now(), newPace(r)
			for range records {
				if !p.wait(t.Context(), size) {
					t.Fatal("the wait was ended")
				}
			}
			if took := time.Since(started); took < want-2*paceInterval || took > want+2*paceInterval {
				t.Errorf("%v: %d records took %s, want %s", r, records, took, want)
			}
		})
	}
	f(rate{perSecond: 5000}, 1000, 50_001, 10*time.Second)
	f(rate{perSecond: 2}, 1000, 11, 5*time.Second)
	f(rate{perSecond: 1e6, bytes: true}, 1000, 10_001, 10*time.Second)
	f(rate{}, 1000, 1000, 0)
}

func TestPaceCatchesUpOnOneSecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPace(rate{perSecond: 100})
		time.Sleep(time.Minute) // held up
		started, sent := time.Now(), 0
		for time.Since(started) < time.Second {
			p.wait(t.Context(), 1)
			sent++
		}
		if sent < 195 || sent > 210 {
			t.Errorf("%d records in the second after a minute's halt, want 100 and 100 more", sent)
		}
	})
}
