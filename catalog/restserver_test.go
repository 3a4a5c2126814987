package catalog

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"

	"github.com/apache/iceberg-go"
	icecatalog "github.com/apache/iceberg-go/catalog"
	"github.com/apache/iceberg-go/table"
	"go.uber.org/zap"
)

// restServer is an Iceberg REST catalog over a world's SQL catalog.
// headOnly makes it behave like Nessie 0.99.0: it shows each table with its current
// snapshot alone, marks it with nessie.* properties, and doesn't check that a branch has no head.
type restServer struct {
	t        testing.TB
	back     *Catalog
	headOnly bool
	token    string
	// commit, if not nil, stands between a commit and its answer.
	mu     sync.Mutex
	commit func(w http.ResponseWriter, r *http.Request, apply func() (status int, body []byte)) bool
	load   func(w http.ResponseWriter) bool
}

// serve starts the server and returns its address.
func (w *world) serve() (*restServer, string) {
	s := &restServer{t: w.t, back: w.open()}
	h := httptest.NewServer(s)
	w.t.Cleanup(h.Close)
	return s, h.URL
}

func (w *world) openREST(uri string) *Catalog {
	w.t.Helper()
	c, err := Open(w.t.Context(), Config{Name: "lake", Type: "rest", URI: uri}, w.disk.open, zap.NewNop())
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { c.Close() })
	return c
}

func (s *restServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if s.token != "" && r.Header.Get("Authorization") != "Bearer "+s.token {
		w.WriteHeader(http.StatusUnauthorized)
		fmt.Fprintf(w, "<html><body>who are you, %s?</body></html>", r.Header.Get("Authorization"))
		return
	}
	parts := strings.Split(strings.Trim(r.URL.EscapedPath(), "/"), "/")
	switch {
	case len(parts) == 2 && parts[1] == "config":
		s.answer(w, 200, map[string]any{"defaults": map[string]string{}, "overrides": map[string]string{}})
	case len(parts) == 2 && parts[1] == "namespaces" && r.Method == "POST":
		s.createNamespace(w, r)
	case len(parts) == 3 && parts[1] == "namespaces":
		s.namespace(w, r, parts[2])
	case len(parts) == 4 && parts[3] == "tables" && r.Method == "POST":
		s.createTable(w, r, parts[2])
	case len(parts) == 5 && r.Method == "GET":
		s.loadTable(w, r, parts[2], parts[4])
	case len(parts) == 5 && r.Method == "POST":
		s.commitTable(w, r, parts[2], parts[4])
	default:
		s.fail(w, 406, "UnsupportedOperationException", r.Method+" "+r.URL.Path)
	}
}

func (s *restServer) answer(w http.ResponseWriter, status int, body any) {
	b, err := json.Marshal(body)
	if err != nil {
		s.t.Error(err)
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	w.Write(b)
}

func (s *restServer) fail(w http.ResponseWriter, status int, kind, text string) {
	s.answer(w, status, map[string]any{"error": map[string]any{"message": text, "type": kind, "code": status}})
}

func namespaceOf(part string) table.Identifier {
	u, _ := url.PathUnescape(part)
	return strings.Split(u, "\x1f")
}

func (s *restServer) createNamespace(w http.ResponseWriter, r *http.Request) {
	var in struct {
		Namespace []string `json:"namespace"`
	}
	json.NewDecoder(r.Body).Decode(&in)
	if err := s.back.io.CreateNamespace(r.Context(), in.Namespace, nil); err != nil {
		s.fail(w, 409, "AlreadyExistsException", err.Error())
		return
	}
	s.answer(w, 200, map[string]any{"namespace": in.Namespace, "properties": map[string]string{}})
}

func (s *restServer) namespace(w http.ResponseWriter, r *http.Request, part string) {
	there, err := s.back.io.CheckNamespaceExists(r.Context(), namespaceOf(part))
	if err != nil || !there {
		s.fail(w, 404, "NoSuchNamespaceException", "no such namespace")
		return
	}
	s.answer(w, 200, map[string]any{"namespace": namespaceOf(part), "properties": map[string]string{}})
}

func (s *restServer) createTable(w http.ResponseWriter, r *http.Request, namespace string) {
	var in struct {
		Name   string                        `json:"name"`
		Schema *iceberg.Schema               `json:"schema"`
		Spec   *iceberg.UnboundPartitionSpec `json:"partition-spec"`
		Props  iceberg.Properties            `json:"properties"`
	}
	if err := json.NewDecoder(r.Body).Decode(&in); err != nil {
		s.fail(w, 400, "BadRequest", err.Error())
		return
	}
	options := []icecatalog.CreateTableOpt{icecatalog.WithProperties(in.Props)}
	if in.Spec != nil {
		options = append(options, icecatalog.WithPartitionSpec(&in.Spec.PartitionSpec))
	}
	t, err := s.back.io.CreateTable(r.Context(), append(namespaceOf(namespace), in.Name), in.Schema, options...)
	if err != nil {
		s.fail(w, 409, "AlreadyExistsException", err.Error())
		return
	}
	s.answer(w, 200, map[string]any{"metadata-location": t.MetadataLocation(), "metadata": s.shown(t.Metadata())})
}

func (s *restServer) loadTable(w http.ResponseWriter, r *http.Request, namespace, name string) {
	s.mu.Lock()
	load := s.load
	s.mu.Unlock()
	if load != nil && load(w) {
		return
	}
	t, err := s.back.io.LoadTable(r.Context(), append(namespaceOf(namespace), name))
	if err != nil {
		s.fail(w, 404, "NoSuchTableException", err.Error())
		return
	}
	s.answer(w, 200, map[string]any{"metadata-location": t.MetadataLocation(), "metadata": s.shown(t.Metadata()), "config": map[string]string{"s3.endpoint": "http://from-server"}})
}

func (s *restServer) commitTable(w http.ResponseWriter, r *http.Request, namespace, name string) {
	var in struct {
		Requirements table.Requirements `json:"requirements"`
		Updates      table.Updates      `json:"updates"`
	}
	if err := json.NewDecoder(r.Body).Decode(&in); err != nil {
		s.fail(w, 400, "BadRequest", err.Error())
		return
	}
	if s.headOnly {
		in.Requirements = withoutNullHead(in.Requirements)
	}
	apply := func() (int, []byte) {
		meta, location, err := s.back.io.CommitTable(context.WithoutCancel(r.Context()), append(namespaceOf(namespace), name), in.Requirements, in.Updates)
		if err != nil {
			b, _ := json.Marshal(map[string]any{"error": map[string]any{"message": err.Error(), "type": "CommitFailedException", "code": 409}})
			return 409, b
		}
		b, err := json.Marshal(map[string]any{"metadata-location": location, "metadata": s.shown(meta)})
		if err != nil {
			s.t.Error(err)
		}
		return 200, b
	}
	s.mu.Lock()
	commit := s.commit
	s.mu.Unlock()
	if commit != nil && commit(w, r, apply) {
		return
	}
	status, body := apply()
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	w.Write(body)
}

// shown is the metadata as this server shows it.
func (s *restServer) shown(meta table.Metadata) any {
	if !s.headOnly {
		return meta
	}
	b, _ := json.Marshal(meta)
	var m map[string]any
	d := json.NewDecoder(strings.NewReader(string(b)))
	d.UseNumber()
	if err := d.Decode(&m); err != nil {
		s.t.Error(err)
	}
	var kept []any
	if head := meta.CurrentSnapshot(); head != nil {
		for _, x := range m["snapshots"].([]any) {
			snapshot := x.(map[string]any)
			if fmt.Sprint(snapshot["snapshot-id"]) == fmt.Sprint(head.SnapshotID) {
				delete(snapshot, "parent-snapshot-id")
				kept = append(kept, snapshot)
			}
		}
		m["snapshots"], m["snapshot-log"] = kept, []any{}
	}
	m["metadata-log"] = []any{}
	properties := m["properties"].(map[string]any)
	properties["nessie.catalog.content-id"], properties["gc.enabled"] = "x", "false"
	return m
}

// withoutNullHead drops the requirement that main has no snapshot.
func withoutNullHead(reqs table.Requirements) (out table.Requirements) {
	for _, r := range reqs {
		b, _ := json.Marshal(r)
		if strings.Contains(string(b), `"assert-ref-snapshot-id"`) && strings.Contains(string(b), `"snapshot-id":null`) {
			continue
		}
		out = append(out, r)
	}
	return out
}

// reset cuts the connection without an answer.
func reset(w http.ResponseWriter) {
	c, _, err := http.NewResponseController(w).Hijack()
	if err == nil {
		c.Close()
	}
}
