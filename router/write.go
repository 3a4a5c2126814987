package router

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/apache/iceberg-go"

	"icerouter/catalog"
	"icerouter/writers"
)

// written is a data file that is whole in the store.
type written struct {
	file    iceberg.DataFile
	size    int64
	origins origins
}

// newPlan compiles the table's current schema and spec.
func (in *ingest) newPlan() (*plan, error) { return in.compile(in.table.Schema(), in.table.Spec()) }

// compile makes the plan of a schema and a spec, and tries each part once, so
// that what doesn't work is said before a record is read.
func (in *ingest) compile(schema *iceberg.Schema, spec iceberg.PartitionSpec) (*plan, error) {
	layout, err := writers.NewLayout(schema)
	if err != nil {
		return nil, fmt.Errorf("lay out table %s: %w", in.cfg.Table, err)
	}
	exchange, err := writers.NewExchange(layout, spec)
	if err != nil {
		return nil, fmt.Errorf("partition table %s: %w", in.cfg.Table, err)
	}
	p := &plan{schema: schema.ID, spec: spec.ID(), iceSpec: spec, layout: layout, exchange: exchange, encoder: writers.EncoderOptions{Codec: in.cfg.Codec}}
	for range in.workers {
		d, err := writers.NewJSON(layout, writers.JSONOptions{
			RefuseUnknown: in.cfg.UnknownFields == "error",
			Timestamps:    in.cfg.TimestampUnit,
			Dates:         in.cfg.DateUnit,
			Times:         in.cfg.TimeUnit,
		})
		if err != nil {
			return nil, fmt.Errorf("decode into table %s: %w", in.cfg.Table, err)
		}
		p.decoders = append(p.decoders, d)
	}
	if _, err := writers.NewEncoder(layout, p.encoder); err != nil {
		return nil, fmt.Errorf("encode table %s: %w", in.cfg.Table, err)
	}
	in.spare = spares{}
	return p, nil
}

// write closes a data file and puts it into the store under a name that was
// never used before. It runs on a goroutine of the cut's uploads.
func (in *ingest) write(c *cut, f *openFile) (err error) {
	defer caught(&err, "encode "+in.cfg.Table)
	id := newID()
	f.rows.Note(originsKey, f.origins.encode(in.cfg.Name, id, c.id, *c.source))
	file, err := f.rows.Finish()
	if err != nil {
		return fmt.Errorf("encode %s: %w", in.cfg.Table, err)
	}
	in.spareEncoder(c.plan, f.rows)
	folder := in.table.DataLocation()
	attempts := 0 // PutNew asks for one name at a time
	name := func(attempt int) string {
		attempts = attempt + 1
		return fmt.Sprintf("%s/router-%s-%s-%d.parquet", folder, in.cfg.Name, id, attempt)
	}
	location, err := in.store.PutNew(c.ctx, name, file.Body)
	if err != nil {
		in.status.failing(err)
		return fmt.Errorf("write data file: %w", err)
	}
	df, err := file.DataFile(location, c.plan.iceSpec, c.plan.exchange.Partition(f.address))
	if err != nil {
		return fmt.Errorf("describe data file %s: %w", location, err)
	}
	c.mu.Lock()
	c.written = append(c.written, written{df, int64(len(file.Body)), f.origins})
	c.mu.Unlock()
	if attempts == 1 { // a client may go on reading the body of an attempt that it gave up
		file.Free()
	}
	return nil
}

// tryStore puts a small object into folder, reads it back and deletes it, so
// that a wrong endpoint, a missing right or a full disk is said before a record
// is read.
func tryStore(ctx context.Context, store *writers.Store, folder string) error {
	body := []byte("router put this here to try the store, and should have deleted it")
	name, err := store.PutNew(ctx, func(attempt int) string {
		return fmt.Sprintf("%s/router-try-%s-%d", strings.TrimRight(folder, "/"), newID(), attempt)
	}, body)
	if err != nil {
		return fmt.Errorf("put a small object into %s: %w", folder, err)
	}
	got, err := store.ReadFile(name)
	if err != nil {
		return fmt.Errorf("read a small object back from %s: %w", folder, err)
	}
	if string(got) != string(body) {
		return fmt.Errorf("read a small object back from %s: it is not what was put there", folder)
	}
	if err := store.Delete(ctx, name); err != nil {
		return fmt.Errorf("delete a small object from %s: %w", folder, err)
	}
	return nil
}

// sealLarge closes files that have reached their target size and starts their
// upload; they belong to the open cut all the same.
func (in *ingest) sealLarge() error {
	for address, f := range in.open.files {
		if f != nil && f.size() >= int64(in.cfg.TargetFileSize) {
			in.open.files[address] = nil
			c, size := in.open, f.size()
			c.uploading.Add(size) // still memory of this cut, until it is in the store
			c.uploads.Go(func() error {
				defer c.uploading.Add(-size)
				return in.write(c, f)
			})
		}
	}
	return context.Cause(in.open.ctx)
}

// discard throws the rows of a cut away. Files of it that are in the store
// already are orphans.
func (in *ingest) discard(c *cut) {
	for _, f := range c.files {
		if f != nil {
			f.rows.Reset()
			in.spareEncoder(c.plan, f.rows)
		}
	}
	c.files = nil
	_ = c.uploads.Wait() // their outcome no longer matters
}

// append describes the cut as a compare-and-swap of the ledger.
func (c *cut) append() catalog.Append {
	a := catalog.Append{ID: newID(), Source: *c.source, From: c.from, To: c.to, Counts: c.counts, Schema: c.plan.schema, Spec: c.plan.spec}
	for _, w := range c.written {
		a.Files = append(a.Files, w.file)
	}
	slices.SortFunc(a.Files, func(x, y iceberg.DataFile) int {
		if x.FilePath() < y.FilePath() {
			return -1
		}
		return 1
	})
	return a
}

// follows reports whether the cut begins where a ends, so that both fit into
// one commit.
func (c *cut) follows(a catalog.Append) bool {
	if c.plan.schema != a.Schema || c.plan.spec != a.Spec {
		return false
	}
	for topic, parts := range c.from {
		for p, from := range parts {
			if to, ok := a.To[topic][p]; ok && to != from {
				return false
			}
		}
	}
	return true
}

// spares keeps what rounds and cuts use again.
type spares struct {
	mu       sync.Mutex
	plan     *plan
	batches  []*rowBatch
	encoders []*writers.Encoder
}

// sparesMax bounds what lies unused: more than a round's batches, and the
// files of one cut.
const sparesMax = 256

func (in *ingest) freshBatch() *rowBatch {
	in.spare.mu.Lock()
	defer in.spare.mu.Unlock()
	if n := len(in.spare.batches); n > 0 {
		b := in.spare.batches[n-1]
		in.spare.batches = in.spare.batches[:n-1]
		return b
	}
	return &rowBatch{Batch: writers.NewBatch(in.open.plan.layout)}
}

func (in *ingest) spareBatch(b *rowBatch) {
	b.Reset()
	b.addresses, b.order, b.groups, b.offsets = b.addresses[:0], b.order[:0], b.groups[:0], b.offsets[:0]
	b.first, b.last, b.payload, b.size = time.Time{}, time.Time{}, 0, 0
	in.spare.mu.Lock()
	defer in.spare.mu.Unlock()
	if len(in.spare.batches) < sparesMax && b.Layout == in.open.plan.layout {
		in.spare.batches = append(in.spare.batches, b)
	}
}

func (in *ingest) freshEncoder() *writers.Encoder {
	in.spare.mu.Lock()
	n := len(in.spare.encoders)
	if n > 0 && in.spare.plan == in.open.plan {
		e := in.spare.encoders[n-1]
		in.spare.encoders = in.spare.encoders[:n-1]
		in.spare.mu.Unlock()
		return e
	}
	in.spare.mu.Unlock()
	e, err := writers.NewEncoder(in.open.plan.layout, in.open.plan.encoder)
	if err != nil {
		panic(fmt.Sprintf("encoder that newPlan has tried: %v", err))
	}
	return e
}

func (in *ingest) spareEncoder(p *plan, e *writers.Encoder) {
	in.spare.mu.Lock()
	defer in.spare.mu.Unlock()
	if in.spare.plan != p {
		in.spare.plan, in.spare.encoders = p, nil
	}
	if len(in.spare.encoders) < sparesMax {
		in.spare.encoders = append(in.spare.encoders, e)
	}
}

// badRecordError stops an ingest at a record that doesn't fit.
type badRecordError struct {
	ingest    string
	topic     string
	partition int32
	offset    int64
	why       *writers.RecordError
}

func (e *badRecordError) Error() string {
	return fmt.Sprintf("%s/%d offset %d: %v; correct the producer or the table and start again, or set on_bad_record = \"dead_letter\" (with dead_letter_topic) or \"skip\" for ingest %s",
		e.topic, e.partition, e.offset, e.why, e.ingest)
}

// halts reports whether err waits for a person, so that trying again by
// ourselves is of no use.
func halts(err error) bool {
	var bad *badRecordError
	var row *badRowError
	var halt *haltError
	return errors.As(err, &bad) || errors.As(err, &row) || errors.As(err, &halt) || errors.Is(err, catalog.ErrReplaced)
}

// specID returns the id of the table's current partition spec.
func (in *ingest) specID() int {
	spec := in.table.Spec()
	return spec.ID()
}
