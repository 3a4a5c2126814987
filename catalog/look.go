package catalog

import (
	"context"
	"errors"
	"fmt"

	icecatalog "github.com/apache/iceberg-go/catalog"
	"go.uber.org/zap"
)

// ErrNoTable reports that the table, or its namespace, is not there.
var ErrNoTable = errors.New("the table does not exist")

// OpenToLook is Open for who only looks: it doesn't make a SQLite database that is missing.
func OpenToLook(ctx context.Context, c Config, open OpenStore, log *zap.Logger) (*Catalog, error) {
	if err := thereAlready(c); err != nil {
		return nil, newScrubber(c).error(fmt.Errorf("open catalog: %w", err))
	}
	return Open(ctx, c, open, log)
}

// Look opens the table called name as Table does, and changes nothing: it
// makes neither a table nor a first snapshot. A table that is not there is
// ErrNoTable. The result is for reading: Schema, Spec, Ledger and the like.
func (c *Catalog) Look(ctx context.Context, name string, o TableOptions) (*Table, error) {
	ident, err := identifier(name)
	if err != nil {
		return nil, err
	}
	s, err := c.load(ctx, ident)
	switch {
	case errors.Is(err, icecatalog.ErrNoSuchTable) || errors.Is(err, icecatalog.ErrNoSuchNamespace):
		return nil, fmt.Errorf("look at table %s: %w", name, ErrNoTable)
	case err != nil:
		return nil, c.scrub.error(fmt.Errorf("look at table %s: %w", name, err))
	}
	t := &Table{catalog: c, name: name, ident: ident, options: o, keys: keysOf(o.Ingest), log: c.log.With(zap.String("table", name))}
	t.uuid = s.meta.TableUUID()
	if o.Create != nil {
		t.compare(s.meta, *o.Create)
	}
	t.view.Store(s)
	return t, nil
}
