package writers

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"
)

// fakeS3 is an S3 server in memory that fails as told.
type fakeS3 struct {
	*httptest.Server
	// fault may answer request n (0, 1, …) itself and then returns true.
	fault func(n int, w http.ResponseWriter, r *http.Request) bool

	done chan struct{} // closed at the end of the test, for requests that hang

	mu      sync.Mutex
	n       int
	objects map[string][]byte
	bad     []string // what was wrong with requests
}

const (
	plantedID     = "AKIAPLANTEDKEYID"
	plantedSecret = "planted+Secret/Key0123456789"
	plantedToken  = "plantedSessionTokenABCDEF=="
)

func newFakeS3(t testing.TB, fault func(n int, w http.ResponseWriter, r *http.Request) bool) (*fakeS3, map[string]string) {
	s := &fakeS3{fault: fault, done: make(chan struct{}), objects: map[string][]byte{}}
	s.Server = httptest.NewServer(s)
	t.Cleanup(func() {
		close(s.done)
		s.CloseClientConnections()
		s.Close()
		s.mu.Lock()
		defer s.mu.Unlock()
		for _, bad := range s.bad {
			t.Error(bad)
		}
	})
	return s, map[string]string{
		"s3.endpoint": s.URL, "s3.access-key-id": plantedID,
		"s3.secret-access-key": plantedSecret, "s3.session-token": plantedToken,
	}
}

func (s *fakeS3) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	n := s.n
	s.n++
	s.mu.Unlock()
	r = r.WithContext(context.WithValue(r.Context(), hangKey{}, s.done))
	if s.fault != nil && s.fault(n, w, r) {
		return
	}
	s.serve(w, r)
}

// hang keeps a request waiting until the test ends.
func hang(_ http.ResponseWriter, r *http.Request) { <-r.Context().Value(hangKey{}).(chan struct{}) }

type hangKey struct{}

// serve answers as S3 does.
func (s *fakeS3) serve(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // the client left
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	key := r.URL.Path
	there, ok := s.objects[key]
	switch r.Method {
	case http.MethodPut:
		s.check(r, body)
		if ok {
			refuse(w, 412, "PreconditionFailed", "At least one of the pre-conditions you specified did not hold")
			return
		}
		s.objects[key] = body
	case http.MethodGet:
		if !ok {
			refuse(w, 404, "NoSuchKey", "The specified key does not exist.")
			return
		}
		http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(there))
	case http.MethodDelete:
		delete(s.objects, key)
		w.WriteHeader(204)
	}
}

// check notes what a PUT should have been.
func (s *fakeS3) check(r *http.Request, body []byte) {
	sum := base64.StdEncoding.EncodeToString(binary.BigEndian.AppendUint32(nil, crc32.Checksum(body, castagnoli)))
	for name, want := range map[string]string{
		"If-None-Match": "*", "X-Amz-Content-Sha256": "UNSIGNED-PAYLOAD", "X-Amz-Checksum-Crc32c": sum,
		"X-Amz-Trailer": "", "Content-Encoding": "", "X-Amz-Security-Token": plantedToken,
	} {
		if got := r.Header.Get(name); got != want {
			s.bad = append(s.bad, fmt.Sprintf("PUT %s: %s is %q, want %q", r.URL.Path, name, got, want))
		}
	}
	if r.ContentLength != int64(len(body)) || r.Header.Get("Content-Type") == "" || !strings.Contains(r.Header.Get("Authorization"), plantedID) {
		s.bad = append(s.bad, fmt.Sprintf("PUT %s: header %v", r.URL.Path, r.Header))
	}
}

func (s *fakeS3) requests() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.n
}

// refuse answers with an error of S3, which quotes every secret there is.
func refuse(w http.ResponseWriter, status int, code, text string) {
	w.Header().Set("Content-Type", "application/xml")
	w.WriteHeader(status)
	fmt.Fprintf(w, "<Error><Code>%s</Code><Message>%s (secret %s, token %s, see https://h/b?X-Amz-Signature=plantedSignature)</Message><RequestId>1</RequestId></Error>",
		code, text, plantedSecret, plantedToken)
}

// reset breaks the connection off.
func reset(w http.ResponseWriter) {
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		panic(err)
	}
	conn.(*net.TCPConn).SetLinger(0)
	conn.Close()
}

func TestStoreFakeS3(t *testing.T) {
	s, properties := newFakeS3(t, nil)
	st, logs := openStore(t, "s3://bucket/x", properties)
	conform(t, st, "s3a://bucket/root")
	for key := range s.objects {
		if !strings.HasPrefix(key, "/bucket/root/") {
			t.Errorf("not path style: %s", key)
		}
	}
	noSecrets(t, fmt.Sprint(logs.All()))
}

// TestStoreFaults: each fault of one or more requests, and what a put makes of it.
func TestStoreFaults(t *testing.T) {
	first := func(count int, fault func(w http.ResponseWriter, r *http.Request)) func(int, http.ResponseWriter, *http.Request) bool {
		return func(n int, w http.ResponseWriter, r *http.Request) bool {
			if n >= count {
				return false
			}
			fault(w, r)
			return true
		}
	}
	answer := func(status int, code string) func(http.ResponseWriter, *http.Request) {
		return func(w http.ResponseWriter, r *http.Request) {
			io.Copy(io.Discard, r.Body)
			refuse(w, status, code, "no")
		}
	}
	const forever = 1 << 30
	for _, c := range []struct {
		name     string
		fault    func(int, http.ResponseWriter, *http.Request) bool
		attempts int    // requests made
		remedy   string // of the error; "" when the put succeeds
	}{
		{"500", first(3, answer(500, "InternalError")), 4, ""},
		{"500 without a body", first(2, func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(500) }), 3, ""},
		{"502 in HTML", first(2, func(w http.ResponseWriter, r *http.Request) {
			w.WriteHeader(502)
			io.WriteString(w, "<html><body>Bad Gateway</body></html>")
		}), 3, ""},
		{"503 many times", first(12, answer(503, "SlowDown")), 13, ""},
		{"429", first(3, answer(429, "TooManyRequests")), 4, ""},
		{"409 conflict", first(2, answer(409, "ConditionalRequestConflict")), 3, ""},
		{"reset before the body", first(2, func(w http.ResponseWriter, r *http.Request) { reset(w) }), 3, ""},
		{"reset after the body", first(2, func(w http.ResponseWriter, r *http.Request) { io.Copy(io.Discard, r.Body); reset(w) }), 3, ""},
		{"hang", first(1, hang), 2, ""},
		{"hang after the body", first(1, func(w http.ResponseWriter, r *http.Request) { io.Copy(io.Discard, r.Body); hang(w, r) }), 2, ""},
		{"403 once", first(1, answer(403, "AccessDenied")), 2, ""},
		{"403", first(forever, answer(403, "AccessDenied")), 5, "grant the right"},
		{"403 without a code", first(forever, func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(403) }), 5, "grant the right"},
		{"wrong key", first(forever, answer(403, "InvalidAccessKeyId")), 5, "check the access key"},
		{"wrong secret", first(forever, answer(403, "SignatureDoesNotMatch")), 5, "check the access key"},
		{"expired", first(forever, answer(400, "ExpiredToken")), 5, "have expired"},
		{"no bucket", first(forever, answer(404, "NoSuchBucket")), 5, "create the bucket"},
		{"other region", first(forever, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("X-Amz-Bucket-Region", "eu-south-2")
			refuse(w, 301, "PermanentRedirect", "no")
		}), 5, "s3.region to the region of the bucket, which is eu-south-2"},
		{"taken names", first(2, answer(412, "PreconditionFailed")), 3, ""},
		{"only taken names", first(forever, answer(412, "PreconditionFailed")), 5, "the new name is taken"},
		{"mixed", func(n int, w http.ResponseWriter, r *http.Request) bool {
			if n < 14 && n%2 == 0 {
				answer(403, "AccessDenied")(w, r)
			} else if n < 14 {
				answer(503, "SlowDown")(w, r)
			}
			return n < 14
		}, 15, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s, properties := newFakeS3(t, c.fault)
			st, logs := openStore(t, "s3://bucket", properties)
			st.pace.stall = 2 * time.Second
			body := bytes.Repeat([]byte("x"), 70_000)
			location, err := st.PutNew(t.Context(), named("s3://bucket/f"), body)
			if got := s.requests(); got != c.attempts {
				t.Errorf("%d requests, want %d", got, c.attempts)
			}
			retries := logs.Len()
			noSecrets(t, fmt.Sprint(err, logs.All()))
			if retries != c.attempts-1 {
				t.Errorf("%d retries logged", retries)
			}
			if c.remedy != "" {
				if err == nil || !strings.Contains(err.Error(), c.remedy) || !strings.Contains(err.Error(), "s3://bucket/f/4.parquet") {
					t.Errorf("error %v", err)
				}
				return
			}
			if err != nil || location != named("s3://bucket/f")(c.attempts-1) {
				t.Fatalf("%s, %v", location, err)
			}
			if got, err := st.ReadFile(location); err != nil || !bytes.Equal(got, body) {
				t.Errorf("read %d bytes, %v", len(got), err)
			}
		})
	}
}

// noSecrets fails when a text shows any.
func noSecrets(t *testing.T, text string) {
	t.Helper()
	for _, secret := range []string{plantedSecret, plantedToken, "plantedSignature"} {
		if strings.Contains(text, secret) {
			t.Errorf("shows %q: %s", secret, text)
		}
	}
}

// TestStoreRetryAfter: the server's own wish counts.
func TestStoreRetryAfter(t *testing.T) {
	_, properties := newFakeS3(t, func(n int, w http.ResponseWriter, r *http.Request) bool {
		w.Header().Set("Retry-After", "0.25")
		if n == 0 {
			refuse(w, 503, "SlowDown", "wait")
		}
		return n == 0
	})
	st, logs := openStore(t, "s3://bucket", properties)
	start := time.Now()
	if _, err := st.PutNew(t.Context(), named("s3://bucket"), nil); err != nil {
		t.Fatal(err)
	}
	if waited := time.Since(start); waited < 250*time.Millisecond || waited > 20*time.Second {
		t.Errorf("waited %s", waited)
	}
	if logs.Len() != 1 {
		t.Errorf("logged %v", logs.All())
	}
}

// TestStoreBrokenGet: answers that break off are asked for again.
func TestStoreBrokenGet(t *testing.T) {
	whole := bytes.Repeat([]byte("0123456789"), 50_000)
	s, properties := newFakeS3(t, func(n int, w http.ResponseWriter, r *http.Request) bool {
		if r.Method != http.MethodGet || n >= 4 {
			return false
		}
		w.Header().Set("Content-Length", fmt.Sprint(len(whole)))
		w.Write(whole[:len(whole)/2])
		http.NewResponseController(w).Flush()
		if n == 3 {
			hang(w, r)
		}
		reset(w)
		return true
	})
	s.objects["/bucket/k"] = whole
	st, _ := openStore(t, "s3://bucket", properties)
	st.pace.stall = 2 * time.Second
	if got, err := st.ReadFile("s3://bucket/k"); err != nil || !bytes.Equal(got, whole) {
		t.Errorf("read %d bytes, %v", len(got), err)
	}
}

// TestStoreUnknownOutcome: a fixed name whose first attempt landed without an
// answer is ours if the object is the same, and else another's.
func TestStoreUnknownOutcome(t *testing.T) {
	for _, foreign := range []bool{false, true} {
		s, properties := newFakeS3(t, nil)
		s.fault = func(n int, w http.ResponseWriter, r *http.Request) bool {
			if n > 0 {
				return false
			}
			body, _ := io.ReadAll(r.Body)
			s.mu.Lock()
			defer s.mu.Unlock()
			s.objects[r.URL.Path] = body
			if foreign {
				s.objects[r.URL.Path] = []byte("another's")
			}
			refuse(w, 500, "InternalError", "landed all the same")
			return true
		}
		st, _ := openStore(t, "s3://bucket", properties)
		err := st.WriteFile("s3://bucket/00001.metadata.json", []byte("ours"))
		if foreign != errors.Is(err, fs.ErrExist) || !foreign && err != nil {
			t.Errorf("foreign=%v: %v", foreign, err)
		}
	}
}

// TestStoreEndsWithContext: patience ends with the context, also in the middle
// of a hanging request, and the error says what the store answered last.
func TestStoreEndsWithContext(t *testing.T) {
	_, properties := newFakeS3(t, func(n int, w http.ResponseWriter, r *http.Request) bool {
		if n == 0 {
			refuse(w, 503, "SlowDown", "no")
			return true
		}
		hang(w, r)
		return true
	})
	st, _ := openStore(t, "s3://bucket", properties)
	ctx, stop := context.WithTimeout(t.Context(), 400*time.Millisecond)
	defer stop()
	_, err := st.PutNew(ctx, named("s3://bucket"), []byte("x"))
	if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "s3://bucket/1.parquet") {
		t.Errorf("%v", err)
	}
}

// TestStoreMemoryOfUploads: bodies are not copied, however many are on the way.
func TestStoreMemoryOfUploads(t *testing.T) {
	_, properties := newFakeS3(t, func(n int, w http.ResponseWriter, r *http.Request) bool {
		io.Copy(io.Discard, r.Body)
		return true
	})
	st, _ := openStore(t, "s3://bucket", properties)
	body := make([]byte, 24<<20)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	var all sync.WaitGroup
	for i := range 64 {
		all.Go(func() {
			if _, err := st.PutNew(t.Context(), named(fmt.Sprint("s3://bucket/", i)), body); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	runtime.ReadMemStats(&after)
	if allocated := (after.TotalAlloc - before.TotalAlloc) >> 20; allocated > 64 {
		t.Errorf("64 uploads of 24 MiB allocated %d MiB", allocated)
	}
}

// TestStoreWithoutCredentials: where there are none, a hanging metadata service
// does not hold the answer up for long, and the answer says what to do.
func TestStoreWithoutCredentials(t *testing.T) {
	metadata, _ := newFakeS3(t, func(_ int, w http.ResponseWriter, r *http.Request) bool { hang(w, r); return true })
	for _, name := range []string{"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE", "AWS_WEB_IDENTITY_TOKEN_FILE", "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI", "AWS_CONTAINER_CREDENTIALS_FULL_URI", "AWS_EC2_METADATA_DISABLED"} {
		t.Setenv(name, "")
	}
	t.Setenv("AWS_SHARED_CREDENTIALS_FILE", "/nonexistent")
	t.Setenv("AWS_CONFIG_FILE", "/nonexistent")
	t.Setenv("AWS_EC2_METADATA_SERVICE_ENDPOINT", metadata.URL)
	s, _ := newFakeS3(t, nil)
	st, logs := openStore(t, "s3://bucket", map[string]string{"s3.endpoint": s.URL})
	start := time.Now()
	_, err := st.PutNew(t.Context(), named("s3://bucket"), nil)
	var e *StoreError
	if !errors.As(err, &e) || !strings.Contains(e.Remedy, "s3.access-key-id") || s.requests() != 0 {
		t.Errorf("%v; %d requests", err, s.requests())
	}
	if took := time.Since(start); took > 40*time.Second || logs.Len() > 4 {
		t.Errorf("took %s, %d retries: %v", took, logs.Len(), logs.All())
	}
}
