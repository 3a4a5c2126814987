//go:build synctests

package sim

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/apache/iceberg-go"
	icecatalog "github.com/apache/iceberg-go/catalog"
	"github.com/apache/iceberg-go/table"

	icebergio "github.com/apache/iceberg-go/io"
)

// lake is a catalog in memory with one table: an Iceberg REST server for the
// instances, each through its gate, and iceberg-go's CatalogIO for everybody
// else. Its lock is held while a commit is checked and applied, and while the
// auditor looks at what came of it.
type lake struct {
	gates   func(name string) *gate
	objects *objects
	late    sync.WaitGroup // commits that are applied after they were given up

	mu      sync.Mutex
	meta    table.Metadata // nil: there is no table
	version int
	past    []table.Metadata // the states before, newest last
	places  []string         // where they were
	sql     *sqlLake         // nil: it is a REST catalog
	// applied is called with each new state and who made it. mu is held.
	applied func(by string, before, after table.Metadata)
}

// foreigner is the name of every other writer.
const foreigner = "foreign"

var ident = table.Identifier{"ns", "t"}

func (l *lake) location() string {
	if l.sql != nil {
		return l.sql.at
	}
	return fmt.Sprintf("%sns/t/metadata/%05d.metadata.json", bucket, l.version)
}

// current returns the table's metadata, nil while there is no table.
func (l *lake) current() table.Metadata {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.meta
}

func (l *lake) commit(by string, requires []table.Requirement, updates []table.Update) (table.Metadata, string, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.apply(by, requires, updates)
}

// apply is commit. REQUIRES: l.mu is held.
func (l *lake) apply(by string, requires []table.Requirement, updates []table.Update) (table.Metadata, string, error) {
	if l.meta == nil {
		return nil, "", icecatalog.ErrNoSuchTable
	}
	for _, r := range requires {
		if err := r.Validate(l.meta); err != nil {
			return nil, "", fmt.Errorf("%w: %w", table.ErrCommitFailed, err)
		}
	}
	after, err := table.UpdateTableMetadata(l.meta, updates, l.location())
	if err != nil {
		return nil, "", err
	}
	before := l.meta
	l.remember()
	l.meta = after
	l.version++
	if l.sql != nil {
		if err := l.put(after); err != nil {
			return nil, "", err
		}
	}
	l.applied(by, before, after)
	return after, l.location(), nil
}

// replace drops the table and makes it again: the same name, and another table.
func (l *lake) replace() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	spec := l.meta.PartitionSpec()
	meta, err := table.NewMetadata(l.meta.CurrentSchema(), &spec, table.UnsortedSortOrder, bucket+"ns/t", l.meta.Properties())
	if err != nil {
		return err
	}
	l.meta, l.past = meta, nil
	l.version++
	return nil
}

// staleMax is how many states a wrong answer may be behind.
const staleMax = 3

// ServeHTTP speaks the part of the REST protocol that a writer needs. The
// bearer token says which instance asks.
func (l *lake) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	g := l.gates(strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer "))
	if g == nil || !g.pass() {
		reset(w)
		return
	}
	parts := strings.Split(strings.Trim(r.URL.EscapedPath(), "/"), "/")
	call, act := "other", func() (int, any) { return 406, refusal(406, "UnsupportedOperationException", r.URL.Path) }
	switch {
	case len(parts) == 2 && parts[1] == "config":
		act = func() (int, any) {
			return 200, map[string]any{"defaults": map[string]string{}, "overrides": map[string]string{}}
		}
	case len(parts) == 2 && r.Method == "POST" || len(parts) == 3:
		act = func() (int, any) {
			return 200, map[string]any{"namespace": []string{"ns"}, "properties": map[string]string{}}
		}
	case len(parts) == 4 && r.Method == "POST":
		call, act = "create", l.create(r)
	case len(parts) == 5 && r.Method == "GET":
		call, act = "load", l.load
	case len(parts) == 5 && r.Method == "POST":
		call, act = "commit", l.change(r, g)
	}
	if f, ok := g.take("catalog", call); ok && !l.meet(w, g, f, act) {
		return
	}
	if !g.pass() {
		reset(w)
		return
	}
	status, body := act()
	if !g.pass() {
		reset(w)
		return
	}
	respond(w, status, body)
}

// meet lets a call meet its fault. It reports whether the call goes on.
func (l *lake) meet(w http.ResponseWriter, g *gate, f fault, act func() (int, any)) bool {
	switch f.what {
	case "slow":
		if g.wait(f.wait) {
			return true
		}
	case "refuse": // not done
		respond(w, 503, refusal(503, "ServiceUnavailable", "come back later"))
		return false
	case "conflict": // not done
		respond(w, 409, refusal(409, "CommitFailedException", "somebody was faster"))
		return false
	case "forbid": // not done
		respond(w, 403, refusal(403, "ForbiddenException", "not you, not now"))
		return false
	case "absent":
		respond(w, 404, refusal(404, "NoSuchTableException", "no such table"))
		return false
	case "stale": // a load that comes from a copy which is behind, every other time
		if !g.alternate() {
			return true
		}
		l.mu.Lock()
		meta, location := l.meta, l.location()
		if len(l.past) > 0 {
			meta = l.past[int(f.wait.Milliseconds())%len(l.past)]
		}
		l.mu.Unlock()
		if meta == nil {
			return true
		}
		respond(w, 200, map[string]any{"metadata-location": location, "metadata": meta})
		return false
	case "torn": // done, and half the answer arrives
		status, body := act()
		b, _ := json.Marshal(body)
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Content-Length", fmt.Sprint(len(b)))
		w.WriteHeader(status)
		_, _ = w.Write(b[:len(b)/2])
		_ = http.NewResponseController(w).Flush()
	case "die":
		g.die()
	case "die-after":
		act()
		g.die()
	case "evict":
		go g.evict()
		return true
	case "lose": // done, and nobody hears of it
		act()
	case "wrong": // done, and told as if it were not
		act()
		respond(w, 500, refusal(500, "InternalServerError", "something went wrong"))
		return false
	case "deny": // done, and told as if somebody else had been faster
		act()
		respond(w, 409, refusal(409, "CommitFailedException", "somebody was faster"))
		return false
	case "garble": // done, and the answer is nonsense
		act()
		w.WriteHeader(200)
		fmt.Fprint(w, "<html>welcome</html>")
		return false
	case "late": // given up by a proxy, and done afterwards
		l.late.Go(func() {
			time.Sleep(f.wait)
			act()
		})
		respond(w, 504, refusal(504, "GatewayTimeout", "the server did not answer"))
		return false
	}
	reset(w) // "cut" too
	return false
}

func (l *lake) load() (int, any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.meta == nil {
		return 404, refusal(404, "NoSuchTableException", "no such table")
	}
	return 200, map[string]any{"metadata-location": l.location(), "metadata": l.meta}
}

func (l *lake) create(r *http.Request) func() (int, any) {
	var in struct {
		Schema *iceberg.Schema               `json:"schema"`
		Spec   *iceberg.UnboundPartitionSpec `json:"partition-spec"`
		Props  iceberg.Properties            `json:"properties"`
	}
	err := json.NewDecoder(r.Body).Decode(&in)
	return func() (int, any) {
		if err != nil {
			return 400, refusal(400, "BadRequest", err.Error())
		}
		l.mu.Lock()
		defer l.mu.Unlock()
		if l.meta != nil {
			return 409, refusal(409, "AlreadyExistsException", "it is there")
		}
		spec := iceberg.UnpartitionedSpec
		if in.Spec != nil {
			spec = &in.Spec.PartitionSpec
		}
		meta, err := table.NewMetadata(in.Schema, spec, table.UnsortedSortOrder, bucket+"ns/t", in.Props)
		if err != nil {
			return 400, refusal(400, "BadRequest", err.Error())
		}
		l.meta = meta
		return 200, map[string]any{"metadata-location": l.location(), "metadata": l.meta}
	}
}

func (l *lake) change(r *http.Request, g *gate) func() (int, any) {
	var in struct {
		Requirements table.Requirements `json:"requirements"`
		Updates      table.Updates      `json:"updates"`
	}
	body, err := io.ReadAll(r.Body)
	if err == nil {
		err = json.Unmarshal(skewed(body, l.updated(), g.ahead()), &in)
	}
	return func() (int, any) {
		if err != nil {
			return 400, refusal(400, "BadRequest", err.Error())
		}
		meta, location, err := l.commit(g.name, in.Requirements, in.Updates)
		switch {
		case errors.Is(err, table.ErrCommitFailed):
			return 409, refusal(409, "CommitFailedException", err.Error())
		case err != nil:
			return 400, refusal(400, "BadRequest", err.Error())
		}
		return 200, map[string]any{"metadata-location": location, "metadata": meta}
	}
}

// updated is when the table was last updated, in milliseconds.
func (l *lake) updated() int64 {
	if meta := l.current(); meta != nil {
		return meta.LastUpdatedMillis()
	}
	return 0
}

func refusal(status int, kind, text string) any {
	return map[string]any{"error": map[string]any{"message": text, "type": kind, "code": status}}
}

func respond(w http.ResponseWriter, status int, body any) {
	b, err := json.Marshal(body)
	if err != nil {
		panic(err) // only our own shapes come here
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(b)
}

// LoadTable and CommitTable are the catalog as a foreign writer uses it.
func (l *lake) LoadTable(context.Context, table.Identifier) (*table.Table, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.meta == nil {
		return nil, icecatalog.ErrNoSuchTable
	}
	return table.New(ident, l.meta, l.location(), l.store, l), nil
}

func (l *lake) CommitTable(_ context.Context, _ table.Identifier, requires []table.Requirement, updates []table.Update) (table.Metadata, string, error) {
	return l.commit(foreigner, requires, updates)
}

func (l *lake) store(context.Context) (icebergio.IO, error) {
	return bystander{l.objects, foreigner}, nil
}
