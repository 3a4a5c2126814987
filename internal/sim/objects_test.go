//go:build synctests

package sim

import (
	"bytes"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net/http"
	"strings"
	"sync"
	"time"

	icebergio "github.com/apache/iceberg-go/io"
)

// objects is an object store in memory: an S3 server for the instances, each
// through its gate, and an iceberg-go IO for everybody else.
type objects struct {
	gates func(name string) *gate
	// deleted is asked before an object goes; it may object by noting a violation.
	deleted func(by, name string)
	late    sync.WaitGroup // calls that are done after they were given up

	mu     sync.Mutex
	bodies map[string][]byte // by location
	skew   time.Duration     // how far the store's clock is ahead
}

const bucket = "s3://lake/"

func newObjects() *objects { return &objects{bodies: map[string][]byte{}} }

// ServeHTTP answers as S3 does. The access key says which instance asks.
func (o *objects) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	name := ""
	if _, after, ok := strings.Cut(r.Header.Get("Authorization"), "Credential="); ok {
		name, _, _ = strings.Cut(after, "/")
	}
	g := o.gates(name)
	if g == nil || !g.pass() {
		reset(w)
		return
	}
	call := map[string]string{http.MethodPut: "put", http.MethodGet: "get", http.MethodHead: "get", http.MethodDelete: "delete"}[r.Method]
	location := "s3:/" + r.URL.Path
	f, faulty := g.take("store", call)
	if faulty && f.what == "torn" && call == "put" { // cut off in mid upload: no object
		_, _ = io.CopyN(io.Discard, r.Body, r.ContentLength/2)
		reset(w)
		return
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	if !o.tellTime(w, r, g.ahead()) {
		o.answer(w, r, 403, []byte("RequestTimeTooSkewed"))
		return
	}
	if call == "put" {
		body = skewedMetadata(location, body, g.ahead())
	}
	if faulty && !o.meet(w, g, f, location, body) {
		return
	}
	if !g.pass() {
		reset(w)
		return
	}
	status, answer := o.act(name, call, location, body)
	if !g.pass() {
		reset(w)
		return
	}
	o.answer(w, r, status, answer)
}

// meet lets a call meet its fault. It reports whether the call goes on.
func (o *objects) meet(w http.ResponseWriter, g *gate, f fault, location string, body []byte) bool {
	switch f.what {
	case "slow":
		if g.wait(f.wait) {
			return true
		}
	case "refuse":
		o.answer(w, nil, 503, nil)
		return false
	case "forbid":
		o.answer(w, nil, 403, nil)
		return false
	case "deny": // repeated by the network: the second meets the first's object
		o.act(g.name, f.call, location, body)
		o.answer(w, nil, 412, nil)
		return false
	case "late": // given up by a proxy, and done afterwards
		o.late.Go(func() {
			time.Sleep(f.wait)
			o.act(g.name, f.call, location, body)
		})
		o.answer(w, nil, 503, nil)
		return false
	case "torn": // half the object arrives
		status, there := o.act(g.name, f.call, location, body)
		if status == 200 {
			w.Header().Set("Content-Length", fmt.Sprint(len(there)))
			w.WriteHeader(200)
			_, _ = w.Write(there[:len(there)/2])
			_ = http.NewResponseController(w).Flush()
		}
	case "die":
		g.die()
	case "die-after":
		o.act(g.name, f.call, location, body)
		g.die()
	case "evict":
		go g.evict()
		return true
	case "lose": // done, and nobody hears of it
		o.act(g.name, f.call, location, body)
	case "wrong": // done, and told as if it were not
		o.act(g.name, f.call, location, body)
		o.answer(w, nil, 500, nil)
		return false
	}
	reset(w) // "cut" too
	return false
}

// act does what a call asks for.
func (o *objects) act(by, call, location string, body []byte) (int, []byte) {
	switch call {
	case "put":
		if !o.create(location, body) {
			return 412, nil
		}
		return 200, nil
	case "get":
		if there, ok := o.read(location); ok {
			return 200, there
		}
		return 404, nil
	case "delete":
		o.remove(by, location)
		return 204, nil
	}
	return 405, nil
}

func (o *objects) answer(w http.ResponseWriter, r *http.Request, status int, body []byte) {
	if status >= 400 {
		codes := map[int]string{403: "AccessDenied", 404: "NoSuchKey", 412: "PreconditionFailed", 500: "InternalError", 503: "SlowDown", 405: "MethodNotAllowed"}
		w.Header().Set("Content-Type", "application/xml")
		code := string(body) // one of its own
		if code == "" {
			code = codes[status]
		}
		body = fmt.Appendf(nil, "<Error><Code>%s</Code><Message>so it is</Message></Error>", code)
	}
	w.Header().Set("Content-Length", fmt.Sprint(len(body)))
	w.WriteHeader(status)
	if r == nil || r.Method != http.MethodHead {
		_, _ = w.Write(body)
	}
}

func (o *objects) create(location string, body []byte) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if _, there := o.bodies[location]; there {
		return false
	}
	o.bodies[location] = bytes.Clone(body)
	return true
}

func (o *objects) read(location string) ([]byte, bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	b, ok := o.bodies[location]
	return b, ok
}

func (o *objects) has(location string) bool {
	_, ok := o.read(location)
	return ok
}

func (o *objects) remove(by, location string) {
	if o.deleted != nil && o.has(location) {
		o.deleted(by, location)
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.bodies, location)
}

func (o *objects) snapshot() map[string][]byte {
	o.mu.Lock()
	defer o.mu.Unlock()
	return maps.Clone(o.bodies)
}

// bystander is the store as a foreign writer and the auditor use it.
type bystander struct {
	o  *objects
	by string
}

var (
	_ icebergio.ReadFileIO  = bystander{}
	_ icebergio.WriteFileIO = bystander{}
)

func (b bystander) Open(name string) (icebergio.File, error) {
	body, ok := b.o.read(name)
	if !ok {
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
	}
	return &openObject{Reader: bytes.NewReader(body), name: name}, nil
}

func (b bystander) ReadFile(name string) ([]byte, error) {
	body, ok := b.o.read(name)
	if !ok {
		return nil, &fs.PathError{Op: "read", Path: name, Err: fs.ErrNotExist}
	}
	return body, nil
}

func (b bystander) Remove(name string) error {
	b.o.remove(b.by, name)
	return nil
}

func (b bystander) WriteFile(name string, body []byte) error {
	if !b.o.create(name, body) {
		return &fs.PathError{Op: "create", Path: name, Err: fs.ErrExist}
	}
	return nil
}

func (b bystander) Create(name string) (icebergio.FileWriter, error) {
	return &newObject{b: b, name: name}, nil
}

type newObject struct {
	bytes.Buffer
	b    bystander
	name string
}

func (n *newObject) Close() error { return n.b.WriteFile(n.name, n.Bytes()) }

type openObject struct {
	*bytes.Reader
	name string
}

func (f *openObject) Close() error               { return nil }
func (f *openObject) Stat() (fs.FileInfo, error) { return objectInfo{f}, nil }

type objectInfo struct{ f *openObject }

func (i objectInfo) Name() string       { return i.f.name }
func (i objectInfo) Size() int64        { return i.f.Reader.Size() }
func (i objectInfo) Mode() fs.FileMode  { return 0o444 }
func (i objectInfo) ModTime() time.Time { return time.Time{} }
func (i objectInfo) IsDir() bool        { return false }
func (i objectInfo) Sys() any           { return nil }
