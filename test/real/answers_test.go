//go:build real

package real_test

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"
)

// fault is what happens to the first commit that adds rows.
type fault struct {
	status  int // the answer; 0: the connection is reset
	applied bool
	before  bool          // reset: before the request has been read
	late    time.Duration // applied this long after the answer
}

func (f fault) String() string {
	name := fmt.Sprint(f.status)
	switch {
	case f.status == 0 && f.before:
		name = "reset-before-send"
	case f.status == 0:
		name = "reset-after-send"
	}
	switch {
	case f.late > 0:
		return name + "/applied-late"
	case f.applied:
		return name + "/applied"
	}
	return name + "/not-applied"
}

// proxy stands before the REST catalog and does one fault to one commit.
type proxy struct {
	t       *testing.T
	fault   fault
	forward *httputil.ReverseProxy
	space   string           // the namespace whose table it is about
	kept    map[string]int64 // the data files when the commit came

	mu   sync.Mutex
	done bool
	late sync.WaitGroup
}

// newProxy returns the proxy and the address it listens on.
func newProxy(t *testing.T, f fault, namespace string) (*proxy, string) {
	target := &url.URL{Scheme: "http", Host: lab.address("REST_CATALOG_PORT")}
	p := &proxy{t: t, fault: f, forward: httputil.NewSingleHostReverseProxy(target), space: namespace}
	server := httptest.NewServer(p)
	t.Cleanup(func() {
		p.late.Wait()
		server.Close()
	})
	return p, server.Listener.Addr().String()
}

func (p *proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if p.fault.before && p.beforeSend(r) {
		reset(p.t, w)
		return
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		p.t.Errorf("read %s: %v", r.URL, err)
		return
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	p.mu.Lock()
	hit := !p.done && !p.fault.before && r.Method == http.MethodPost && addsRows(body)
	p.done = p.done || hit
	p.mu.Unlock()
	if !hit {
		p.forward.ServeHTTP(w, r)
		return
	}
	p.kept = dataFiles(p.t, p.space)
	p.strike(w, r)
}

// beforeSend says whether a request is the commit, without reading it: the
// first one to a table whose files are uploaded.
func (p *proxy) beforeSend(r *http.Request) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.done || r.Method != http.MethodPost || !strings.Contains(r.URL.Path, "/"+p.space+"/tables/") {
		return false
	}
	p.kept = dataFiles(p.t, p.space)
	p.done = len(p.kept) > 0
	return p.done
}

// addsRows says whether a request commits a snapshot that adds rows.
func addsRows(body []byte) bool {
	return bytes.Contains(body, []byte(`"add-snapshot"`)) && bytes.Contains(body, []byte(`"added-records"`)) &&
		!bytes.Contains(body, []byte(`"added-records":"0"`))
}

// strike does the fault.
func (p *proxy) strike(w http.ResponseWriter, r *http.Request) {
	answer := httptest.NewRecorder()
	switch {
	case p.fault.late > 0:
		late := r.Clone(p.t.Context())
		late.Body = r.Body
		p.late.Add(1)
		go func() {
			defer p.late.Done()
			<-time.After(p.fault.late) // the delay is the fault
			p.forward.ServeHTTP(httptest.NewRecorder(), late)
		}()
	case p.fault.applied:
		p.forward.ServeHTTP(answer, r)
		if answer.Code != http.StatusOK {
			p.t.Errorf("the catalog answers the commit with %d: %s", answer.Code, answer.Body)
		}
	case p.fault.status == http.StatusOK: // a lie: the table as it is
		load := r.Clone(r.Context())
		load.Method, load.Body, load.ContentLength = http.MethodGet, nil, 0
		p.forward.ServeHTTP(answer, load)
	}
	switch {
	case p.fault.status == 0:
		reset(p.t, w)
	case p.fault.status == http.StatusOK:
		w.Header().Set("Content-Type", "application/json")
		w.Write(answer.Body.Bytes())
	default:
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(p.fault.status)
		fmt.Fprintf(w, `{"error":{"message":"the test says so","type":%q,"code":%d}}`, errorType(p.fault.status), p.fault.status)
	}
}

// errorType is what a real catalog puts beside a status.
func errorType(status int) string {
	return map[int]string{
		400: "BadRequestException", 401: "NotAuthorizedException", 403: "ForbiddenException", 404: "NoSuchTableException",
		409: "CommitFailedException", 419: "AuthenticationTimeoutException", 429: "TooManyRequestsException",
		500: "CommitStateUnknownException", 502: "CommitStateUnknownException", 503: "ServiceUnavailableException", 504: "CommitStateUnknownException",
	}[status]
}

// reset ends a connection so that the other side sees it broken.
func reset(t *testing.T, w http.ResponseWriter) {
	connection, _, err := w.(http.Hijacker).Hijack()
	if err != nil {
		t.Errorf("hijack: %v", err)
		return
	}
	connection.(*net.TCPConn).SetLinger(0)
	connection.Close()
}

// Whatever the catalog answers to a commit, and whether it did what it was
// asked or not: one copy of each row is in the table in the end, and no file
// was removed that the table might have.
func TestAnswersToACommit(t *testing.T) {
	t.Parallel()
	c := client(t)
	apache(t)
	var faults []fault
	for _, applied := range []bool{false, true} {
		for _, status := range []int{200, 400, 401, 403, 404, 409, 419, 429, 500, 502, 503, 504} {
			faults = append(faults, fault{status: status, applied: applied})
		}
		faults = append(faults, fault{applied: applied})
	}
	faults = append(faults, fault{before: true}, fault{late: 1500 * time.Millisecond}, fault{status: 503, late: 1500 * time.Millisecond},
		fault{status: 504, late: 300 * time.Millisecond})
	for _, f := range faults {
		t.Run(f.String(), func(t *testing.T) {
			t.Parallel()
			const partitions, n = 2, 100
			topic := makeTopic(t, c, "answers", partitions)
			namespace := unique("answers")
			p, address := newProxy(t, f, namespace)
			l := apache(t, address)
			path := config{lake: l, ingests: []ingest{{name: "answers", topics: []string{topic}, table: namespace + ".records",
				columns: auditColumns(), partition: []string{"bucket(seq, 4)"}}}}.write(t)
			produce(t, c, topic, partitions, sequence(0, n)...)

			first := once(t, path)
			kept := dataFiles(t, namespace)
			if !p.done {
				t.Fatal("no commit came")
			}
			if f.mayPass() && first.code != 0 {
				t.Errorf("exit code %d, want 0: this answer is one to try again after", first.code)
			}
			if first.code != 0 && first.code != 1 {
				t.Errorf("exit code %d, want 0 or 1", first.code)
			}
			for file := range p.kept {
				if _, ok := kept[file]; !ok && !f.refused() {
					t.Errorf("%s was removed while the table might have it", file)
				}
			}
			p.late.Wait()
			produce(t, c, topic, partitions, sequence(n, n+10)...)
			mustOnce(t, path)
			audit(t, l, namespace+".records", topic, n+10)
			nothingMissing(t, l, namespace+".records", lab.bucketFolder())
		})
	}
}

// mayPass says whether a router that asks the table may go on by itself.
func (f fault) mayPass() bool {
	switch f.status {
	case 400, 401, 403, 404, 419:
		return false
	}
	return true
}

// refused says whether it is certain that the commit did not happen.
func (f fault) refused() bool {
	return !f.applied && f.late == 0 && (f.status >= 400 && f.status < 500 && f.status != 429)
}

// sequence returns records for auditColumns.
func sequence(from, to int) []string {
	var values []string
	for i := from; i < to; i++ {
		values = append(values, fmt.Sprintf(`{"seq":%d,"text":%q}`, i, strings.Repeat("y", i%50)))
	}
	return values
}
