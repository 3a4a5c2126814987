package router

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// handler serves what the router says about itself, read-only:
//
//	/livez    200 while the process answers
//	/readyz   200 while every ingest gets on; else 503, the reason, and since when
//	/metrics  for Prometheus
//	/status   Status as JSON
//	/         Status for people
//
// It shows no configuration and no profile.
func handler(status func() Status, m *metrics, log *zap.Logger) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("/livez", func(w http.ResponseWriter, _ *http.Request) {
		reply(w, http.StatusOK, "text/plain; charset=utf-8", []byte("ok\n"))
	})
	mux.HandleFunc("/readyz", func(w http.ResponseWriter, _ *http.Request) {
		code, text := http.StatusOK, "ok\n"
		if complaints := status().complaints(time.Now()); len(complaints) > 0 {
			code, text = http.StatusServiceUnavailable, strings.Join(complaints, "\n")+"\n"
		}
		reply(w, code, "text/plain; charset=utf-8", []byte(text))
	})
	mux.HandleFunc("/status", func(w http.ResponseWriter, _ *http.Request) {
		body, err := json.MarshalIndent(status(), "", "  ")
		if err != nil {
			log.Error("status", zap.Error(err))
			http.Error(w, "status cannot be shown", http.StatusInternalServerError)
			return
		}
		reply(w, http.StatusOK, "application/json", append(body, '\n'))
	})
	mux.HandleFunc("/{$}", func(w http.ResponseWriter, _ *http.Request) {
		var body bytes.Buffer
		if err := pageTemplate.Execute(&body, newPage(status(), time.Now())); err != nil {
			log.Error("page", zap.Error(err))
			http.Error(w, "page cannot be shown", http.StatusInternalServerError)
			return
		}
		reply(w, http.StatusOK, "text/html; charset=utf-8", body.Bytes())
	})
	scrape := promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{ErrorLog: zapPrinter{log}, MaxRequestsInFlight: 4})
	mux.HandleFunc("/metrics", func(w http.ResponseWriter, r *http.Request) {
		m.look(status(), time.Now())
		scrape.ServeHTTP(w, r)
	})
	return readOnly(mux)
}

// readOnly refuses everything but reading, and tells browsers to trust nothing
// beyond the page itself.
func readOnly(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			w.Header().Set("Allow", "GET, HEAD")
			http.Error(w, "read only: GET or HEAD", http.StatusMethodNotAllowed)
			return
		}
		h := w.Header()
		h.Set("Cache-Control", "no-store")
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'")
		next.ServeHTTP(w, r)
	})
}

func reply(w http.ResponseWriter, code int, contentType string, body []byte) {
	w.Header().Set("Content-Type", contentType)
	w.WriteHeader(code)
	_, _ = w.Write(body) // the reader has gone: nobody is left to tell
}

// zapPrinter lets the metrics page report what it could not collect.
type zapPrinter struct{ log *zap.Logger }

// Println implements promhttp.Logger.
func (p zapPrinter) Println(v ...any) {
	if e := p.log.Check(zapcore.WarnLevel, "metrics"); e != nil {
		e.Write(zap.String("error", fmt.Sprint(v...)))
	}
}

// An ingest that has something to commit gets three triggers, and readyGrace for
// the commit itself. Where uploads or commits are known to fail it gets two, since the
// first of the three has passed before anything could fail, and readyGrace at least.
// One that does not even say what is wrong is taken for hung after hungAfter and three
// triggers.
const (
	readyTriggers   = 3
	failingTriggers = 2
	readyGrace      = 2 * time.Second
	hungAfter       = 5 * time.Minute
)

// complaints returns what is wrong with each ingest that does not get on.
func (s Status) complaints(now time.Time) (out []string) {
	for _, in := range s.Ingests {
		if c := in.complaint(now); c != "" {
			out = append(out, "ingest "+in.Name+": "+c)
		}
	}
	for _, p := range s.Publishes {
		if c := p.complaint(now); c != "" {
			out = append(out, "publish "+p.Name+": "+c)
		}
	}
	return out
}

// plight is what a complaint about an ingest or a publish begins with.
type plight struct {
	state, err   string
	failing, now time.Time
}

// ofState is the complaint about a route that doesn't run, and whether the
// state says all there is to say.
func (p plight) ofState() (text string, settled bool) {
	switch p.state {
	case StateDone:
		return "", true
	case StateHalted, StateFailed:
		if !p.failing.IsZero() {
			return p.why(p.state + " " + p.since(p.failing)), true
		}
		return p.why(p.state), true
	case StateStarting, StateDraining:
		return p.why(p.state), true
	}
	return "", false
}

// why adds the last error to a complaint.
func (p plight) why(text string) string {
	if p.err != "" {
		text += ": " + p.err
	}
	return text
}

// since says for how long something has been so.
func (p plight) since(t time.Time) string {
	return fmt.Sprintf("for %s (since %s)", p.now.Sub(t).Round(time.Second), t.UTC().Format(time.RFC3339))
}

// complaint says why the ingest is not ready and since when, or nothing. Ready
// is progress, not connection: committed within three triggers, or caught up. Who
// doesn't know the ends, since the brokers are silent, doesn't know that either.
func (s IngestStatus) complaint(now time.Time) string {
	p := plight{s.State, s.Error, s.FailingSince, now}
	if text, settled := p.ofState(); settled {
		return text
	}
	if !s.FailingSince.IsZero() && now.Sub(s.FailingSince) > max(failingTriggers*s.Trigger, readyGrace) {
		return p.why("uploads or commits do not succeed " + p.since(s.FailingSince))
	}
	if t := s.waitingSince(); !t.IsZero() && now.Sub(t) > readyTriggers*s.Trigger+readyGrace {
		return p.why(fmt.Sprintf("no commit %s, lag %s records, %d rows buffered", p.since(t), s.lagText(), s.BufferedRows))
	}
	if t := s.EndsSeen; !t.IsZero() && now.Sub(t) > max(readyTriggers*s.Trigger, lagKnownFor)+readyGrace {
		return p.why("the brokers have not told the ends of the topics " + p.since(t) + ": nobody knows what waits; look at kafka.brokers and the way there")
	}
	return ""
}

// waitingSince returns since when there has been something to commit and no
// commit, or the zero time.
func (s IngestStatus) waitingSince() time.Time {
	switch {
	case s.BehindSince.IsZero():
		return time.Time{}
	case s.LastCommit.After(s.BehindSince):
		return s.LastCommit
	}
	return s.BehindSince
}

// hung tells whether an ingest makes no progress and does not know why: then a
// new process may help. Where it knows why (a store is down, a person is
// needed) a new process would meet the same.
func (s Status) hung(now time.Time) bool {
	for _, in := range s.Ingests {
		t := in.waitingSince()
		if in.State == StateRunning && in.FailingSince.IsZero() && !t.IsZero() && now.Sub(t) > hungAfter+readyTriggers*in.Trigger {
			return true
		}
	}
	for _, p := range s.Publishes {
		if p.hung(now) {
			return true
		}
	}
	return false
}
