package catalog

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/apache/iceberg-go/table"
)

// faults stand between the append and the catalog, by name: what becomes of the first commits.
type fault struct {
	name    string
	applied bool
	answer  func(w http.ResponseWriter, body []byte)
}

func status(code int, body string) func(http.ResponseWriter, []byte) {
	return func(w http.ResponseWriter, _ []byte) {
		w.WriteHeader(code)
		fmt.Fprint(w, body)
	}
}

func faults() (out []fault) {
	answers := map[string]func(http.ResponseWriter, []byte){
		"200 empty":     status(200, ""),
		"200 html":      status(200, "<html>welcome</html>"),
		"200 json":      status(200, `{"hello": 1}`),
		"200 truncated": func(w http.ResponseWriter, body []byte) { w.WriteHeader(200); w.Write(body[:len(body)/2]) },
		"204":           status(204, ""),
		"reset": func(w http.ResponseWriter, _ []byte) {
			reset(w)
		},
	}
	for i, code := range []int{400, 401, 403, 404, 408, 409, 419, 422, 429, 500, 501, 502, 503, 504} {
		if i%2 == 0 {
			answers[fmt.Sprintf("%d html", code)] = status(code, "<html>gateway</html>")
			continue
		}
		answers[fmt.Sprintf("%d json", code)] = status(code, fmt.Sprintf(`{"error": {"message": "no", "type": "", "code": %d}}`, code))
	}
	for name, a := range answers {
		for _, applied := range []bool{true, false} {
			out = append(out, fault{name: fmt.Sprintf("%s applied=%t", name, applied), applied: applied, answer: a})
		}
	}
	return out
}

// TestEveryAnswerIsSettled puts each wrong answer, with the commit applied and
// not, before one commit: the append lands once, nothing is deleted.
func TestEveryAnswerIsSettled(t *testing.T) {
	w := newWorld(t)
	server, uri := w.serve()
	c := w.openREST(uri)
	var outcomes []string
	tbl := w.table(c, TableOptions{OnAttempt: func(a CommitAttempt) { outcomes = append(outcomes, a.Outcome) }})
	from := int64(0)
	var appended []Append
	for _, f := range faults() {
		var commits atomic.Int32
		server.setCommit(func(rw http.ResponseWriter, r *http.Request, apply func() (int, []byte)) bool {
			if commits.Add(1) > 1 {
				return false
			}
			body := []byte(`{}`)
			if f.applied {
				var code int
				if code, body = apply(); code != 200 {
					t.Errorf("%s: the commit was refused: %s", f.name, body)
				}
			}
			f.answer(rw, body)
			return true
		})
		outcomes = nil
		a := next(t, tbl, from, 10, 2)
		from += 10
		cm, err := tbl.Append(t.Context(), a)
		if err != nil {
			t.Fatalf("%s: %v", f.name, err)
		}
		appended = append(appended, a)
		wantCommits, want := 2, "[refused landed]"
		if f.applied {
			wantCommits, want = 1, "[landed]"
		}
		if cm.Attempts != wantCommits || int(commits.Load()) != wantCommits || fmt.Sprint(outcomes) != want {
			t.Errorf("%s: %d attempts, %d commits seen, outcomes %v; want %d and %s", f.name, cm.Attempts, commits.Load(), outcomes, wantCommits, want)
		}
		if head := headID(metaOf(t, c, "shop.orders")); head != cm.Snapshot {
			t.Errorf("%s: commit says snapshot %d, the head is %d", f.name, cm.Snapshot, head)
		}
	}
	expectOnce(t, c, appended...)
	if len(w.disk.removed) != 0 {
		t.Errorf("%d objects were removed: %v", len(w.disk.removed), w.disk.removed)
	}
}

func (s *restServer) setCommit(f func(http.ResponseWriter, *http.Request, func() (int, []byte)) bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.commit = f
}

func (s *restServer) setLoad(f func(http.ResponseWriter) bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.load = f
}

// TestDoubtOutlastsTheCatalog loses the answer and then the catalog: the append
// ends in ErrUnknown with its context, and lands when it is tried again.
func TestDoubtOutlastsTheCatalog(t *testing.T) {
	for _, applied := range []bool{true, false} {
		t.Run(fmt.Sprintf("applied=%t", applied), func(t *testing.T) {
			w := newWorld(t)
			server, uri := w.serve()
			c := w.openREST(uri)
			tbl := w.table(c, TableOptions{CommitAttempts: 1})
			ctx, cancel := context.WithCancel(t.Context())
			server.setCommit(func(rw http.ResponseWriter, r *http.Request, apply func() (int, []byte)) bool {
				if applied {
					apply()
				}
				server.setLoad(func(rw http.ResponseWriter) bool { cancel(); rw.WriteHeader(503); return true })
				reset(rw)
				return true
			})
			a := next(t, tbl, 0, 10, 3)
			if _, err := tbl.Append(ctx, a); !errors.Is(err, ErrUnknown) {
				t.Fatalf("append: %v", err)
			}
			server.setCommit(nil)
			server.setLoad(nil)
			cm, err := tbl.Append(t.Context(), a)
			if err != nil {
				t.Fatal(err)
			}
			if applied != (cm.Attempts == 0) {
				t.Errorf("%d attempts the second time", cm.Attempts)
			}
			expectOnce(t, c, a)
		})
	}
}

// TestLateCommit lets a commit whose answer was lost arrive after the append
// was settled and tried again, just before the second try and just after it:
// only one of the two can land.
func TestLateCommit(t *testing.T) {
	for _, before := range []bool{true, false} {
		t.Run(fmt.Sprintf("before=%t", before), func(t *testing.T) {
			w := newWorld(t)
			server, uri := w.serve()
			c := w.openREST(uri)
			tbl := w.table(c, TableOptions{})
			var late func() (int, []byte)
			var codes [2]int
			server.setCommit(func(rw http.ResponseWriter, r *http.Request, apply func() (int, []byte)) bool {
				if late == nil {
					late = apply
					rw.WriteHeader(504)
					return true
				}
				if before {
					codes[0], _ = late()
				}
				var body []byte
				codes[1], body = apply()
				if !before {
					codes[0], _ = late()
				}
				rw.WriteHeader(codes[1])
				rw.Write(body)
				return true
			})
			a := next(t, tbl, 0, 10, 3)
			cm := mustAppend(t, tbl, a)
			if want := map[bool][2]int{true: {200, 409}, false: {409, 200}}[before]; codes != want || cm.Attempts != 2 {
				t.Errorf("answers %v after %d attempts, want %v after 2", codes, cm.Attempts, want)
			}
			expectOnce(t, c, a)
		})
	}
}

// faultyIO is a catalog that fails as fail says, instead of or after the commit.
type faultyIO struct {
	catalogIO
	commit func(ctx context.Context, apply func(context.Context) (table.Metadata, string, error)) (table.Metadata, string, error)
}

func (f *faultyIO) CommitTable(ctx context.Context, ident table.Identifier, reqs []table.Requirement, ups []table.Update) (table.Metadata, string, error) {
	apply := func(ctx context.Context) (table.Metadata, string, error) {
		return f.catalogIO.CommitTable(ctx, ident, reqs, ups)
	}
	if f.commit == nil {
		return apply(ctx)
	}
	return f.commit(ctx, apply)
}

func TestCommitErrorsOfAClient(t *testing.T) {
	strange := errors.New("requirement failed: something plain")
	for name, commit := range map[string]func(ctx context.Context, apply func(context.Context) (table.Metadata, string, error)) (table.Metadata, string, error){
		"error, not applied": func(context.Context, func(context.Context) (table.Metadata, string, error)) (table.Metadata, string, error) {
			return nil, "", strange
		},
		"error, applied": func(ctx context.Context, apply func(context.Context) (table.Metadata, string, error)) (table.Metadata, string, error) {
			apply(ctx)
			return nil, "", strange
		},
		"conflict, though applied": func(ctx context.Context, apply func(context.Context) (table.Metadata, string, error)) (table.Metadata, string, error) {
			apply(ctx)
			return nil, "", table.ErrCommitFailed
		},
		"success without metadata": func(ctx context.Context, apply func(context.Context) (table.Metadata, string, error)) (table.Metadata, string, error) {
			apply(ctx)
			return nil, "", nil
		},
		"deadline, applied": func(ctx context.Context, apply func(context.Context) (table.Metadata, string, error)) (table.Metadata, string, error) {
			apply(ctx)
			return nil, "", context.DeadlineExceeded
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			c := w.open()
			tbl := w.table(c, TableOptions{})
			first := true
			inner := c.io
			c.io = &faultyIO{catalogIO: inner, commit: func(ctx context.Context, apply func(context.Context) (table.Metadata, string, error)) (table.Metadata, string, error) {
				if !first {
					return apply(ctx)
				}
				first = false
				return commit(ctx, apply)
			}}
			a := next(t, tbl, 0, 10, 3)
			mustAppend(t, tbl, a)
			b := next(t, tbl, 10, 10, 3)
			mustAppend(t, tbl, b)
			expectOnce(t, c, a, b)
		})
	}
}

// TestCancelledInMidCommit: the caller's context ends while the commit is on its way.
func TestCancelledInMidCommit(t *testing.T) {
	w := newWorld(t)
	c := w.open()
	tbl := w.table(c, TableOptions{})
	ctx, cancel := context.WithCancel(t.Context())
	inner := c.io
	c.io = &faultyIO{catalogIO: inner, commit: func(ctx context.Context, apply func(context.Context) (table.Metadata, string, error)) (table.Metadata, string, error) {
		if _, _, err := apply(context.WithoutCancel(ctx)); err != nil {
			t.Error(err)
		}
		cancel()
		<-ctx.Done()
		return nil, "", ctx.Err()
	}}
	a := next(t, tbl, 0, 10, 3)
	if _, err := tbl.Append(ctx, a); !errors.Is(err, ErrUnknown) || !errors.Is(err, context.Canceled) {
		t.Fatalf("append: %v", err)
	}
	c.io = inner
	if cm := mustAppend(t, tbl, a); cm.Attempts != 0 {
		t.Errorf("%d attempts the second time", cm.Attempts)
	}
	expectOnce(t, c, a)
}

// TestAttemptsAreBounded: a catalog that always refuses ends the append, and it says so.
func TestAttemptsAreBounded(t *testing.T) {
	w := newWorld(t)
	server, uri := w.serve()
	c := w.openREST(uri)
	var waits []time.Duration
	tbl := w.table(c, TableOptions{CommitAttempts: 2, OnAttempt: func(a CommitAttempt) { waits = append(waits, a.Wait) }})
	server.setCommit(func(rw http.ResponseWriter, _ *http.Request, _ func() (int, []byte)) bool {
		rw.Header().Set("Retry-After", "1")
		rw.WriteHeader(429)
		return true
	})
	a := next(t, tbl, 0, 10, 3)
	_, err := tbl.Append(t.Context(), a)
	if err == nil || errors.Is(err, ErrUnknown) || errors.Is(err, ErrFenced) {
		t.Errorf("append: %v", err)
	}
	if len(waits) != 2 || waits[0] < time.Second || waits[0] > 3*time.Second {
		t.Errorf("waits %v, want one of Retry-After's second and more", waits)
	}
	server.setCommit(nil)
	mustAppend(t, tbl, a)
	expectOnce(t, c, a)
}
