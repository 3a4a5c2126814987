package router

import (
	"testing"
	"time"
)

// A cut is due by age, bytes or rows, whichever comes first; a limit of 0 is
// none, and a cut without a record is never due.
func TestDue(t *testing.T) {
	now := time.Now()
	f := func(name string, c *cut, limits trigger, want bool) {
		t.Helper()
		if got := c.due(now, limits); got != want {
			t.Errorf("%s: got %t, want %t", name, got, want)
		}
	}
	limits := trigger{age: time.Minute, bytes: 1000, rows: 10}
	started := now.Add(-time.Second)
	f("nothing in it", &cut{bytes: 5000, rows: 50}, limits, false)
	f("young and small", &cut{since: started, bytes: 999, rows: 9}, limits, false)
	f("old", &cut{since: now.Add(-time.Minute)}, limits, true)
	f("many bytes", &cut{since: started, bytes: 1000}, limits, true)
	f("many rows", &cut{since: started, rows: 10}, limits, true)
	f("no limit of bytes", &cut{since: started, bytes: 5000}, trigger{age: time.Minute}, false)
	f("no limit of rows", &cut{since: started, rows: 1 << 40}, trigger{age: time.Minute}, false)
}
