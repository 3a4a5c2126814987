//go:build real

package real_test

import (
	"context"
	"maps"
	"net/http"
	"testing"
	"time"
)

// Commits fail for a while, with the catalog out of reach or without a word
// from it. /readyz turns red within three triggers and the time that a commit
// may take, and green again by itself. Meanwhile nothing is acknowledged:
// neither ledger nor group move.
func TestHealthFollowsCommits(t *testing.T) {
	t.Parallel()
	const partitions, trigger = 2, time.Second
	catalog := newWire(t, func() string { need(t, "rest-catalog"); return lab.address("REST_CATALOG_PORT") }())
	l := apache(t, catalog.address())
	s := newScene(t, place{client(t), l}, "", "health", partitions)
	s.settings.ingests[0].trigger = trigger.String()
	s.begin(partitions)
	i := s.instance().up()
	ready := func(want int) func() bool {
		return func() bool { code, _ := page(t.Context(), i.listen, "/readyz"); return code == want }
	}
	for name, fail := range map[string]func(){"out of reach": catalog.cut, "silent": catalog.stall} {
		until(t, time.Minute, "ready", ready(http.StatusOK))
		s.catchUp(time.Minute)
		began := time.Now()
		fail()
		until(t, 3*trigger+20*time.Second, "not ready", ready(http.StatusServiceUnavailable))
		red := time.Since(began)
		_, complaint := page(t.Context(), i.listen, "/readyz")
		stand, told, rows := s.stand(t.Context()), s.auditor.told(t.Context()), i.status().Rows
		pause(t, 4*trigger)
		if now := s.stand(t.Context()); !maps.Equal(now, stand) {
			t.Errorf("%s: the ledger went from %v to %v while the catalog could not be reached", name, stand, now)
		}
		if now := s.auditor.told(t.Context()); !maps.Equal(now, told) {
			t.Errorf("%s: the group was told %v, after %v, while nothing was committed", name, now, told)
		}
		if now := i.status().Rows; now != rows {
			t.Errorf("%s: %d rows counted as committed, were %d", name, now, rows)
		}
		if !ready(http.StatusServiceUnavailable)() {
			t.Errorf("%s: ready again though nothing was committed", name)
		}
		catalog.mend()
		began = time.Now()
		until(t, 3*time.Minute, "ready again", ready(http.StatusOK))
		t.Logf("catalog %s: red after %s, green %s after its return; it said: %s", name, red.Round(10*time.Millisecond), time.Since(began).Round(10*time.Millisecond), complaint)
		s.alive(i)
	}
	s.leave(i)
	s.finish()
}

// stand asks the catalog for the ledger now.
func (s *scene) stand(ctx context.Context) map[int32]int64 {
	s.auditor.look(ctx)
	return s.auditor.next(s.topic)
}
