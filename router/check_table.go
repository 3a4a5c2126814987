package router

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/apache/iceberg-go"
	icebergio "github.com/apache/iceberg-go/io"
	"golang.org/x/sync/errgroup"

	"icerouter/catalog"
)

// storePatience is how long a store may take to answer a check: the store
// itself would try for ever.
const storePatience = 20 * time.Second

// checkCatalog opens the catalog and looks at every table.
func (k *checkup) checkCatalog(ctx context.Context) {
	open := func(ctx context.Context, location string, properties map[string]string) (icebergio.IO, error) {
		return k.stores.Open(ctx, location, properties)
	}
	c, err := catalog.Open(ctx, catalog.Config(k.cfg.Catalog), open, k.log)
	if err != nil {
		remedy := ""
		if !strings.Contains(err.Error(), "(check ") {
			remedy = "; check catalog.uri, and the login in catalog.properties"
		}
		k.problem("catalog.uri", "%v%s", err, remedy)
		return
	}
	k.later(func() { _ = c.Close() })
	k.well("catalog", "%s %s answers", k.cfg.Catalog.Type, k.cfg.Catalog.Name)
	var g errgroup.Group
	for i := range k.ingests {
		g.Go(func() error { k.checkTable(ctx, c, i); return nil })
	}
	for i := range k.publishes {
		g.Go(func() error { k.checkSource(ctx, c, i); return nil })
	}
	_ = g.Wait()
}

// checkTable looks at the table of an ingest, or at the plan for it, and at the
// store of its files.
func (k *checkup) checkTable(ctx context.Context, c *catalog.Catalog, i int) {
	in := k.ingests[i]
	key := fmt.Sprintf("ingest[%d].table", i)
	o := in.tableOptions()
	t, err := c.Look(ctx, in.cfg.Table, o)
	switch {
	case errors.Is(err, catalog.ErrNoTable) && o.Create == nil:
		k.problem(key, "the table does not exist; create it, or add [ingest.create] with its schema")
	case errors.Is(err, catalog.ErrNoTable):
		k.checkNewTable(ctx, i, *o.Create)
	case err != nil:
		k.problem(key, "%v", err)
	default:
		if _, err := in.compile(t.Schema(), t.Spec()); err != nil {
			k.problem(key, "%v", err)
			return
		}
		k.well("ingest "+in.cfg.Name, "table %s, %d columns, partitioned by %s", in.cfg.Table, len(t.Schema().Fields()), spelled(t.Spec()))
		in.table = t
		k.checkStore(ctx, key, t.DataLocation(), t.StoreProperties())
	}
}

// checkNewTable looks at the plan for a table that is still to be made.
func (k *checkup) checkNewTable(ctx context.Context, i int, plan catalog.Create) {
	in := k.ingests[i]
	schema, spec, err := plan.Compile()
	if err == nil {
		_, err = in.compile(schema, *spec)
	}
	if err != nil {
		k.problem(fmt.Sprintf("ingest[%d].create", i), "%v", err)
		return
	}
	k.well("ingest "+in.cfg.Name, "table %s is not there yet and will be created, %d columns", in.cfg.Table, len(schema.Fields()))
	location, key := plan.Location, fmt.Sprintf("ingest[%d].create.location", i)
	if location == "" {
		location, key = k.cfg.Catalog.Warehouse, "catalog.warehouse"
	}
	if location == "" || k.cfg.Catalog.Type == "rest" && !strings.Contains(location, "/") {
		return // a name: the catalog knows the place, and does not tell before it makes the table
	}
	k.checkStore(ctx, key, location, k.cfg.Catalog.Properties)
}

// checkStore puts a small object, reads it back and deletes it.
func (k *checkup) checkStore(ctx context.Context, key, location string, properties map[string]string) {
	ctx, cancel := context.WithTimeout(ctx, storePatience)
	defer cancel()
	const remedy = "check the store's s3.*, gcs.* or adls.* keys in catalog.properties, and the rights to put, get and delete"
	store, err := k.stores.Open(ctx, location, properties)
	if err != nil {
		k.problem(key, "open the store at %s: %v", location, err)
		return
	}
	if err := tryStore(ctx, store, location); err != nil {
		k.problem(key, "%v; %s", err, remedy)
		return
	}
	k.well("store", "%s can be written, read and deleted from", location)
}

// checkLedger compares the ledger in the table with the topics.
func (k *checkup) checkLedger(ctx context.Context, i int) {
	in := k.ingests[i]
	if in.table == nil || in.admin == nil {
		return
	}
	key := fmt.Sprintf("ingest[%d].table", i)
	var ledger catalog.Ledger
	starts, err := in.listed(ctx, "start", in.admin.ListStartOffsets)
	if err == nil {
		ledger, err = in.ledger(ctx)
	}
	if err == nil && ledger.Seq > 0 {
		known := ledger.Clone()
		want := map[string][]int32{}
		for topic, t := range known.Topics {
			for p := range t.Next {
				want[topic] = append(want[topic], p)
			}
		}
		if err = in.checkIdentity(&known); err == nil {
			_, err = in.checkRange(ctx, &known, want, starts)
		}
	}
	switch {
	case err != nil:
		k.problem(key, "%v", err)
	case ledger.Seq == 0:
		k.well("ingest "+in.cfg.Name, "no ledger in the table yet: starts at start = %q", in.cfg.Start)
	default:
		k.well("ingest "+in.cfg.Name, "ledger at seq %d, inside the topics", ledger.Seq)
	}
}

// spelled names the fields of a spec as people configure them.
func spelled(spec iceberg.PartitionSpec) string {
	var fields []string
	for _, f := range spec.Fields() {
		fields = append(fields, fmt.Sprintf("%s (%s)", f.Name, f.Transform))
	}
	if len(fields) == 0 {
		return "nothing"
	}
	return strings.Join(fields, ", ")
}
