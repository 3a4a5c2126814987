//go:build real

package real_test

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"sync/atomic"
	"testing"
	"time"
)

// slowCatalog forwards to the REST catalog; commits that add rows wait until
// the answer has cost delay, or for ever while it is negative.
type slowCatalog struct {
	forward *httputil.ReverseProxy
	delay   atomic.Int64 // nanoseconds
	commits atomic.Int64
	hung    atomic.Int64
}

func newSlowCatalog(t *testing.T) (*slowCatalog, string) {
	target := &url.URL{Scheme: "http", Host: lab.address("REST_CATALOG_PORT")}
	s := &slowCatalog{forward: httputil.NewSingleHostReverseProxy(target)}
	server := httptest.NewServer(s)
	t.Cleanup(server.Close)
	return s, server.Listener.Addr().String()
}

func (s *slowCatalog) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	if r.Method != http.MethodPost || !addsRows(body) {
		s.forward.ServeHTTP(w, r)
		return
	}
	delay := time.Duration(s.delay.Load())
	if delay < 0 {
		s.hung.Add(1)
		<-r.Context().Done() // until the router gives up
		return
	}
	s.commits.Add(1)
	answer := httptest.NewRecorder()
	s.forward.ServeHTTP(answer, r)
	select {
	case <-time.After(delay):
	case <-r.Context().Done():
		return
	}
	for key, values := range answer.Header() {
		w.Header()[key] = values
	}
	w.WriteHeader(answer.Code)
	w.Write(answer.Body.Bytes())
}

// A catalog that takes two seconds a commit makes commits rarer than cuts:
// what waits goes into one. Nothing is lost, and nothing piles up.
func TestSlowCatalog(t *testing.T) {
	t.Parallel()
	c := client(t)
	apache(t)
	slow, address := newSlowCatalog(t)
	slow.delay.Store(int64(2 * time.Second))
	l := apache(t, address)
	topic := makeTopic(t, c, "slow-catalog", 2)
	table := unique("slow") + ".records"
	in := auditIngest("slow-catalog", table, topic)
	in.trigger = "100ms"
	listen := fmt.Sprint("127.0.0.1:", freePort(t))
	load := startLoad(t, c, topic, 2)
	p := launch(t, "--config", config{lake: l, listen: listen, ingests: []ingest{in}}.write(t))
	until(t, time.Minute, "six slow commits", func() bool { return slow.commits.Load() >= 6 })
	produced := load.stop(t)
	until(t, time.Minute, "all rows committed", func() bool { return status(t.Context(), listen, "slow-catalog").Rows == int64(produced) })
	p.term()
	if e := p.wait(40 * time.Second); e.code != 0 {
		t.Errorf("exit code %d, want 0", e.code)
	}
	if n := slow.commits.Load(); n > 20 {
		t.Errorf("%d commits of two seconds each: cuts that wait should go into one", n)
	}
	audit(t, l, table, topic, produced)
}

// A catalog that answers no more does not hold a stop up longer than the
// deadline; what was not committed is read again.
func TestStopDeadline(t *testing.T) {
	t.Parallel()
	c := client(t)
	apache(t)
	slow, address := newSlowCatalog(t)
	slow.delay.Store(-1)
	l := apache(t, address)
	topic := makeTopic(t, c, "deadline", 2)
	table := unique("deadline") + ".records"
	path := config{lake: l, extra: []string{`stop_timeout = "2s"`}, ingests: []ingest{auditIngest("deadline", table, topic)}}.write(t)
	produce(t, c, topic, 2, sequence(0, 100)...)
	p := launch(t, "--config", path)
	until(t, time.Minute, "a commit that hangs", func() bool { return slow.hung.Load() > 0 })
	began := time.Now()
	p.term()
	e := p.wait(30 * time.Second)
	if took := time.Since(began); took > 10*time.Second {
		t.Errorf("it stopped after %s, stop_timeout is 2s", took)
	}
	if e.code != 1 {
		t.Errorf("exit code %d, want 1: not all was committed", e.code)
	}
	slow.delay.Store(0)
	mustOnce(t, path)
	audit(t, l, table, topic, 100)
}
