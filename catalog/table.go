package catalog

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/apache/iceberg-go"
	icecatalog "github.com/apache/iceberg-go/catalog"
	"github.com/apache/iceberg-go/table"
	"github.com/google/uuid"
	"go.uber.org/zap"
)

// TableOptions says how an ingest uses its table.
type TableOptions struct {
	Ingest string
	Create *Create // nil: the table must be there
	// ExpireKeep is how many snapshots of the head's history stay; 0: none is
	// expired. Only snapshots of this program are, and, unless ExpireAlways,
	// only in tables that it created.
	ExpireKeep   int
	ExpireAlways bool
	// ExpireAfter is the age before which no snapshot is expired, as other writers
	// check their commits against the history since they began; but expireYoungFrom
	// times ExpireKeep are enough of it, so that metadata stays small.
	ExpireAfter time.Duration
	// CommitAttempts bounds the commits sent, and the tries in a row that send nothing; 0: until the context ends.
	CommitAttempts int
	// OnAttempt, if not nil, is called in Append and Rewind after each try.
	OnAttempt func(CommitAttempt)
}

// Table is one ingest's door to its table. It is safe for concurrent use; Append and
// Rewind wait for each other. Schema, Spec, DataLocation, Properties and
// StoreProperties are as of the last load and cost nothing.
type Table struct {
	catalog *Catalog
	name    string
	ident   table.Identifier
	options TableOptions
	keys    keys
	log     *zap.Logger
	uuid    uuid.UUID
	view    atomic.Pointer[state]

	turn  turn // taken by a change of the table, for the fields below
	head  head
	warm  bool // has committed, and knows what it left behind
	ready *merged
	waste waste

	skewTold bool
	heldTold int
}

// Table opens the table called name ("ns.table", "a.b.table"). When it isn't
// there and o.Create is not nil, namespace and table are created. A table
// without a snapshot gets an empty first one before it is returned, because not
// every catalog can tell two first appends apart.
func (c *Catalog) Table(ctx context.Context, name string, o TableOptions) (*Table, error) {
	t, err := c.openTable(ctx, name, o)
	if err != nil {
		return nil, c.scrub.error(fmt.Errorf("open table %s: %w", name, err))
	}
	return t, nil
}

func (c *Catalog) openTable(ctx context.Context, name string, o TableOptions) (*Table, error) {
	ident, err := identifier(name)
	if err != nil {
		return nil, err
	}
	t := &Table{catalog: c, name: name, ident: ident, options: o, keys: keysOf(o.Ingest), log: c.log.With(zap.String("table", name))}
	s, err := c.load(ctx, ident)
	created := false
	if errors.Is(err, icecatalog.ErrNoSuchTable) || errors.Is(err, icecatalog.ErrNoSuchNamespace) {
		if o.Create == nil {
			return nil, fmt.Errorf("ingest %s: %w: create it, or add [ingest.create] with a schema", o.Ingest, ErrNoTable)
		}
		s, created, err = t.create(ctx, *o.Create)
	}
	if err != nil {
		return nil, err
	}
	t.uuid = s.meta.TableUUID()
	if s.meta.CurrentSnapshot() == nil {
		if s, err = t.begin(ctx, s, created); err != nil {
			return nil, fmt.Errorf("make the first snapshot: %w", err)
		}
	}
	if !created && o.Create != nil {
		t.compare(s.meta, *o.Create)
	}
	t.view.Store(s)
	return t, nil
}

// createdByKey marks a table that this program created.
const createdByKey = "router.created-by"

// newTableProperties are the defaults of tables that this program creates:
// small metadata that stays small however often it is committed to.
var newTableProperties = iceberg.Properties{
	table.PropertyFormatVersion:               "2",
	table.MetadataDeleteAfterCommitEnabledKey: "true",
	table.MetadataPreviousVersionsMaxKey:      "20",
	table.MetadataCompressionKey:              table.MetadataCompressionCodecGzip,
	table.ParquetCompressionKey:               "zstd",
	createdByKey:                              "router",
}

// create makes namespace and table. When another instance was first, its table is returned.
func (t *Table) create(ctx context.Context, c Create) (s *state, created bool, err error) {
	schema, spec, err := c.Compile()
	if err != nil {
		return nil, false, fmt.Errorf("[ingest.create] of ingest %s: %w", t.options.Ingest, err)
	}
	if err := t.createNamespace(ctx); err != nil {
		return nil, false, err
	}
	properties := maps.Clone(newTableProperties)
	maps.Copy(properties, c.Properties)
	options := []icecatalog.CreateTableOpt{icecatalog.WithPartitionSpec(spec), icecatalog.WithProperties(properties)}
	if c.Location != "" {
		options = append(options, icecatalog.WithLocation(c.Location))
	}
	call, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	_, failure := t.catalog.io.CreateTable(call, slices.Clone(t.ident), schema, options...)
	// Whatever the answer was: what counts is the table that is there now.
	s, err = t.catalog.load(ctx, t.ident)
	if err != nil {
		if failure == nil || !errors.Is(err, icecatalog.ErrNoSuchTable) {
			failure = errors.Join(failure, err) // else there is no table because it could not be made
		}
		return nil, false, fmt.Errorf("create table: %w%s", failure, t.createRemedy(failure))
	}
	if failure == nil {
		t.log.Info("created table", zap.String("location", s.meta.Location()), zap.String("partition", partitionText(s.meta.PartitionSpec(), s.meta.CurrentSchema())))
	}
	return s, failure == nil, nil
}

func (t *Table) createRemedy(err error) string {
	if err != nil && t.catalog.config.Warehouse == "" && strings.Contains(err.Error(), "no default path set") {
		return " (set [catalog] warehouse, or location in [ingest.create])"
	}
	return ""
}

// createNamespace makes every level of the table's namespace that is missing.
func (t *Table) createNamespace(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	for n := 1; n < len(t.ident); n++ {
		namespace := slices.Clone(t.ident[:n])
		if there, err := t.catalog.io.CheckNamespaceExists(ctx, namespace); err == nil && there {
			continue
		}
		err := t.catalog.io.CreateNamespace(ctx, namespace, iceberg.Properties{})
		if err == nil || errors.Is(err, icecatalog.ErrNamespaceAlreadyExists) {
			continue
		}
		if there, again := t.catalog.io.CheckNamespaceExists(ctx, namespace); again == nil && there {
			continue
		}
		return fmt.Errorf("create namespace %s: %w", strings.Join(namespace, "."), err)
	}
	return nil
}

const (
	// beginWait is how long an instance that did not create the table leaves the first snapshot to the one that did.
	beginWait = 3 * time.Second
	// beginTries bounds the commits of a first snapshot.
	beginTries = 5
)

// begin makes the empty first snapshot. One catalog (Nessie) doesn't check the
// requirement that there is none yet, so that a late first snapshot would undo
// what was appended meanwhile: only the creator makes it at once, everyone else
// gives it time.
func (t *Table) begin(ctx context.Context, s *state, created bool) (*state, error) {
	var last error
	for try := range beginTries {
		wait := 50*time.Millisecond<<try + rand.N(50*time.Millisecond)
		if !created && try == 0 && !t.catalog.trimsLogs { // a SQL catalog checks it here, in this process
			wait = beginWait/2 + rand.N(beginWait/2)
		}
		if !created || try > 0 {
			if err := (&course{last: last}).sleep(ctx, wait); err != nil {
				return nil, err
			}
			fresh, err := t.reload(ctx)
			if err != nil {
				last = err
				continue
			}
			s = fresh
		}
		if s.meta.CurrentSnapshot() != nil {
			return s, nil
		}
		st := &staged{snapshot: table.Snapshot{
			SnapshotID: newSnapshotID(s.meta), TimestampMs: t.timestamp(s.meta),
			SequenceNumber: nextSequence(s.meta), SchemaID: &s.meta.CurrentSchema().ID,
		}}
		err := t.writeList(s, st, nil)
		if err == nil {
			err = t.put(ctx, s, st)
		}
		if err == nil {
			st.snapshot.Summary = summary(nil, tally{}, iceberg.Properties{firstKey: "true"})
			st.assemble(s.meta, nil)
			_, _, err = t.send(ctx, st)
		}
		last = err
		if fresh, err := t.reload(ctx); err == nil && fresh.meta.CurrentSnapshot() != nil {
			return fresh, nil
		}
	}
	return nil, fmt.Errorf("%d attempts: %w", beginTries, last)
}

// firstKey marks the empty first snapshot.
const firstKey = "router.first"

// reload reads the table and sees that it is still the one that was opened.
func (t *Table) reload(ctx context.Context) (*state, error) {
	s, _, err := t.reloadWithHint(ctx)
	return s, err
}

// reloadWithHint is reload, and tells how long the catalog asks to be left alone.
func (t *Table) reloadWithHint(ctx context.Context) (*state, time.Duration, error) {
	ctx, h := withHint(ctx)
	s, err := t.catalog.load(ctx, t.ident)
	if err != nil {
		return nil, h.retryAfter, fmt.Errorf("load table: %w", h.explain(err))
	}
	if id := s.meta.TableUUID(); id != t.uuid {
		return nil, h.retryAfter, fmt.Errorf("%w: %s was %s and is now %s", ErrReplaced, t.name, t.uuid, id)
	}
	return s, 0, nil
}

// Ledger loads the table and returns its ledger for this ingest: the zero
// Ledger when the ingest never wrote to it. With a *RollbackError the ledger is
// the property's. ErrReplaced: another table has the name now.
func (t *Table) Ledger(ctx context.Context) (Ledger, error) {
	s, err := t.reload(ctx)
	if err != nil {
		return Ledger{}, t.catalog.scrub.error(fmt.Errorf("read ledger of %s: %w", t.name, err))
	}
	t.view.Store(s)
	return t.ledgerIn(s.meta)
}

// Schema returns the current schema.
func (t *Table) Schema() *iceberg.Schema { return t.view.Load().meta.CurrentSchema() }

// Spec returns the current partition spec.
func (t *Table) Spec() iceberg.PartitionSpec { return t.view.Load().meta.PartitionSpec() }

// Properties returns the table's properties, a copy.
func (t *Table) Properties() iceberg.Properties { return maps.Clone(t.view.Load().meta.Properties()) }

// DataLocation returns the folder for data files, without a slash at the end.
func (t *Table) DataLocation() string {
	meta := t.view.Load().meta
	for _, key := range []string{table.WriteDataPathKey, "write.folder-storage.path"} {
		if p := meta.Properties()[key]; p != "" {
			return strings.TrimRight(p, "/")
		}
	}
	return strings.TrimRight(meta.Location(), "/") + "/data"
}

// StoreProperties returns what is needed to open the store of DataLocation: the
// catalog's properties and what the catalog adds for this table (endpoint,
// region, credentials that may expire). It holds secrets.
func (t *Table) StoreProperties() map[string]string { return maps.Clone(t.view.Load().properties) }

func (t *Table) String() string { return t.name }

// landed takes note of a commit that is in the table.
func (t *Table) landed(before *state, st *staged, after table.Metadata) {
	t.remember(st)
	t.collect(before, st, after)
	// The state before the commit, not the metadata that the catalog returned:
	// in-process catalogs chain each returned metadata to all earlier ones.
	// Schema, spec and location are the same in both.
	t.view.Store(before)
}

// compare warns when the table isn't as [ingest.create] would have made it. The table is the contract.
func (t *Table) compare(meta table.Metadata, c Create) {
	schema, spec, err := c.Compile()
	if err != nil {
		t.log.Warn("[ingest.create] is not usable; the table is there and is used as it is", zap.Error(err))
		return
	}
	var differences []string
	for _, f := range schema.Fields() {
		there, ok := meta.CurrentSchema().FindFieldByName(f.Name)
		switch {
		case !ok:
			differences = append(differences, fmt.Sprintf("column %s is not in the table", f.Name))
		case plainType(there.Type) != plainType(f.Type):
			differences = append(differences, fmt.Sprintf("column %s is %s in the table, not %s", f.Name, plainType(there.Type), plainType(f.Type)))
		case there.Required != f.Required:
			differences = append(differences, fmt.Sprintf("column %s: required is %t in the table", f.Name, there.Required))
		}
	}
	for _, f := range meta.CurrentSchema().Fields() {
		if _, ok := schema.FindFieldByName(f.Name); !ok {
			differences = append(differences, fmt.Sprintf("column %s is only in the table", f.Name))
		}
	}
	own := meta.PartitionSpec()
	if there, wanted := partitionText(own, meta.CurrentSchema()), partitionText(*spec, schema); there != wanted {
		differences = append(differences, fmt.Sprintf("partitioned by [%s] in the table, not by [%s]", there, wanted))
	}
	if len(differences) > 0 {
		t.log.Warn("the table differs from [ingest.create]; the table is used as it is", zap.Strings("differences", differences))
	}
}

// plainType is a type without field ids.
func plainType(t iceberg.Type) string {
	switch t := t.(type) {
	case *iceberg.StructType:
		fields := make([]string, len(t.FieldList))
		for i, f := range t.FieldList {
			fields[i] = f.Name + ": " + plainType(f.Type) + notNullText(f.Required)
		}
		return "struct<" + strings.Join(fields, ", ") + ">"
	case *iceberg.ListType:
		return "list<" + plainType(t.Element) + notNullText(t.ElementRequired) + ">"
	case *iceberg.MapType:
		return "map<" + plainType(t.KeyType) + ", " + plainType(t.ValueType) + notNullText(t.ValueRequired) + ">"
	}
	return t.String()
}

func notNullText(required bool) string {
	if required {
		return " not null"
	}
	return ""
}

// partitionText writes a spec as [ingest.create] would, for comparing and for people.
func partitionText(spec iceberg.PartitionSpec, schema *iceberg.Schema) string {
	var fields []string
	for i := range spec.NumFields() {
		f := spec.Field(i)
		column, ok := schema.FindColumnName(f.SourceID())
		if !ok {
			column = fmt.Sprintf("#%d", f.SourceID())
		}
		name, width, sized := strings.Cut(strings.TrimSuffix(f.Transform.String(), "]"), "[")
		switch {
		case name == "identity":
			fields = append(fields, column)
		case sized:
			fields = append(fields, fmt.Sprintf("%s(%s, %s)", name, column, width))
		default:
			fields = append(fields, fmt.Sprintf("%s(%s)", name, column))
		}
	}
	return strings.Join(fields, ", ")
}

func newID() string { return uuid.NewString() }
