// Package catalog keeps the table: it opens the catalog, makes the table when
// it is missing, and commits appends to it, each a compare-and-swap on the
// ledger that the table carries.
//
// The table is the truth. What is remembered here (the head's manifest list)
// only saves reading again what was just written.
package catalog

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"strings"
	"time"

	"github.com/apache/iceberg-go"
	icecatalog "github.com/apache/iceberg-go/catalog"
	icebergio "github.com/apache/iceberg-go/io"
	"github.com/apache/iceberg-go/table"
	"go.uber.org/zap"
)

// Config names a catalog. It is the [catalog] table of the configuration.
type Config struct {
	Name       string
	Type       string // "rest" | "sql"
	URI        string // rest: http(s)://…; sql: "sqlite:PATH" or "postgres://…"
	Warehouse  string
	Properties map[string]string // handed on under the names every Iceberg client knows

	// Dial makes the connections to a REST catalog or to PostgreSQL; nil is the
	// machine's network.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
}

// OpenStore opens the object store that location lies in. The returned IO takes
// full locations as names, and must implement icebergio.WriteFileIO; files it
// creates must be new and durable once Close returned. It is used for longer
// than ctx lives.
type OpenStore func(ctx context.Context, location string, properties map[string]string) (icebergio.IO, error)

// catalogIO is the part of iceberg-go's catalogs that is used here.
type catalogIO interface {
	LoadTable(ctx context.Context, ident table.Identifier) (*table.Table, error)
	CommitTable(ctx context.Context, ident table.Identifier, reqs []table.Requirement, ups []table.Update) (table.Metadata, string, error)
	CreateTable(ctx context.Context, ident table.Identifier, schema *iceberg.Schema, opts ...icecatalog.CreateTableOpt) (*table.Table, error)
	CreateNamespace(ctx context.Context, namespace table.Identifier, props iceberg.Properties) error
	CheckNamespaceExists(ctx context.Context, namespace table.Identifier) (bool, error)
}

const (
	// callTimeout bounds every call but a commit, so that a catalog that hangs is an error and not a silence.
	callTimeout = 30 * time.Second
	// commitTimeout is longer: a commit that is given up has to be settled.
	commitTimeout = 60 * time.Second
)

// Catalog is an open catalog. It is safe for concurrent use.
type Catalog struct {
	config     Config
	io         catalogIO
	open       OpenStore
	properties iceberg.Properties // for stores, before the table's own
	trimsLogs  bool               // the client, not a server, removes old metadata files
	scrub      *scrubber
	log        *zap.Logger
	closers    []func() error
}

// Open connects to the catalog and sees that it answers. Errors say what to
// check and show no secret.
func Open(ctx context.Context, c Config, open OpenStore, log *zap.Logger) (*Catalog, error) {
	cat := &Catalog{config: c, open: open, scrub: newScrubber(c), log: log.With(zap.String("catalog", c.Name)), properties: maps.Clone(iceberg.Properties(c.Properties))}
	if cat.properties == nil {
		cat.properties = iceberg.Properties{}
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	door, closeDoor := addDoor(open)
	cat.closers = append(cat.closers, closeDoor)
	cat.properties[doorKey] = door
	var err error
	switch c.Type {
	case "rest":
		err = cat.openREST(ctx)
	case "sql":
		err = cat.openSQL(ctx)
	default:
		err = fmt.Errorf("type %q: must be \"rest\" or \"sql\"", c.Type)
	}
	if err != nil {
		cat.Close()
		return nil, cat.scrub.error(fmt.Errorf("open catalog: %w", err))
	}
	return cat, nil
}

// Close lets go of connections. Tables of this catalog must not be used any more.
func (c *Catalog) Close() error {
	var errs []error
	for i := len(c.closers) - 1; i >= 0; i-- {
		errs = append(errs, c.closers[i]())
	}
	c.closers = nil
	return errors.Join(errs...)
}

// state is what one load of the table showed. It is immutable.
type state struct {
	meta       table.Metadata
	location   string            // of the metadata file
	store      icebergio.IO      // of the metadata file
	properties map[string]string // for opening the store
	open       OpenStore
}

// in returns the store of another location. Old manifests, and those of a table
// with write.metadata.path, may lie in another bucket than the metadata file.
func (s *state) in(ctx context.Context, location string) (icebergio.IO, error) {
	if bucket(location) == bucket(s.location) {
		return s.store, nil
	}
	return s.open(context.WithoutCancel(ctx), location, maps.Clone(s.properties))
}

// bucket is the part of a location that names its store.
func bucket(location string) string {
	scheme, rest, ok := strings.Cut(location, "://")
	if !ok || scheme == "file" {
		return ""
	}
	authority, _, _ := strings.Cut(rest, "/")
	return scheme + "://" + authority
}

// read reads a whole object of the table's metadata.
func (s *state) read(ctx context.Context, location string) ([]byte, error) {
	store, err := s.in(ctx, location)
	if err != nil {
		return nil, err
	}
	return readFile(store, location)
}

// write creates an object of the table's metadata.
func (s *state) write(ctx context.Context, o object) error {
	store, err := s.in(ctx, o.location)
	if err != nil {
		return err
	}
	return writeFile(store, o.location, o.body)
}

// load reads the table's present state.
func (c *Catalog) load(ctx context.Context, ident table.Identifier) (*state, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	h, ok := ctx.Value(hintKey{}).(*hint)
	if !ok {
		ctx, h = withHint(ctx)
	}
	t, err := c.io.LoadTable(ctx, ident)
	if err != nil && h.stranger {
		return nil, &strangerError{err}
	}
	if err != nil {
		return nil, err
	}
	// The IO comes through our own door (see io.go), which shows the properties that the catalog put together for it.
	fs, err := t.FS(ctx)
	if err != nil {
		return nil, fmt.Errorf("open store of %s: %w", t.MetadataLocation(), err)
	}
	d, ok := fs.(*door)
	if !ok {
		return nil, fmt.Errorf("open store of %s: a %T that this program did not open", t.MetadataLocation(), fs)
	}
	return &state{meta: t.Metadata(), location: t.MetadataLocation(), store: d.IO, open: c.open, properties: ownProperties(d.properties, c.properties, t.Metadata().Properties())}, nil
}

// strangerError is the answer 404 of somebody who is no catalog: it says nothing
// about the table, and nothing is done because of it but to ask again.
type strangerError struct{ err error }

func (e *strangerError) Error() string {
	return "the answer 404 is not a catalog's, but that of a proxy before it, or of another server: look at [catalog] uri, and whether the catalog runs: " + e.err.Error()
}

// storeKeys begin the names of properties that say where a store is and how to enter it.
var storeKeys = []string{"s3.", "gcs.", "adls.", "client.", "wasb.", "oss."}

// ownProperties removes from merged what comes from the table's properties
// alone: whoever may write to a table must not choose where our credentials go.
func ownProperties(merged map[string]string, ours, tables iceberg.Properties) map[string]string {
	out := maps.Clone(merged)
	delete(out, doorKey)
	for key, value := range tables {
		if merged[key] != value {
			continue
		}
		own, ok := ours[key]
		switch {
		case ok:
			out[key] = own
		case hasAnyPrefix(key, storeKeys):
			delete(out, key)
		}
	}
	return out
}

func hasAnyPrefix(s string, prefixes []string) bool {
	for _, p := range prefixes {
		if strings.HasPrefix(s, p) {
			return true
		}
	}
	return false
}

// identifier splits "a.b.table".
func identifier(name string) (table.Identifier, error) {
	parts := strings.Split(name, ".")
	if len(parts) < 2 {
		return nil, fmt.Errorf("table %q: must be NAMESPACE.TABLE", name)
	}
	for _, p := range parts {
		if p == "" {
			return nil, fmt.Errorf("table %q: a part of the name is empty", name)
		}
	}
	return parts, nil
}
