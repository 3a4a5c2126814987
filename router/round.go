package router

import (
	"context"
	"fmt"
	"runtime/debug"
	"slices"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"golang.org/x/sync/errgroup"

	"icerouter/catalog"
	"icerouter/writers"
)

// A round takes one poll into the open cut in two steps that share no lock:
// first every Kafka partition's records are decoded, several partitions at
// once, each in order; then every worker scatters all batches into the files
// that it owns. A cut taken between two rounds therefore has a sharp edge: one
// offset a partition.

// chunk is what one poll brought of one partition.
type chunk struct {
	part    *owned
	records []*kgo.Record
	batches []*rowBatch
	dead    []deadLetter
	skipped []skipped
	first   int64 // where the partition stands before the chunk
	next    int64 // and after it
	taken   int64 // records taken, whatever became of them
	halt    error // the record at next stops the ingest
}

// skipped is a record that was left out, and the reason.
type skipped struct {
	offset int64
	reason string
}

// chunkRecordsMax splits a partition's records, so that several workers can
// decode them.
const chunkRecordsMax = 2 * writers.BatchRowsMax

// split makes chunks of the records of one partition, in order.
func split(p *owned, records []*kgo.Record) (chunks []*chunk) {
	for len(records) > 0 {
		n := min(len(records), chunkRecordsMax)
		next := max(p.next, records[0].Offset)
		if len(chunks) == 0 {
			next = p.next
		}
		chunks = append(chunks, &chunk{part: p, records: records[:n], first: next, next: next})
		records = records[n:]
	}
	return chunks
}

// rounds deals chunks out so that the records of one round are at most about
// bytesMax, or one chunk: what is decoded and not yet encoded is memory, too.
func rounds(chunks []*chunk, bytesMax int64) (out [][]*chunk) {
	var size int64
	from := 0
	for i, ch := range chunks {
		n := int64(0)
		for _, r := range ch.records {
			n += int64(sizeOf(r))
		}
		if i > from && size+n > bytesMax {
			out, from, size = append(out, chunks[from:i]), i, 0
		}
		size += n
	}
	if from < len(chunks) {
		out = append(out, chunks[from:])
	}
	return out
}

// take decodes the chunks and adds their rows to the open cut. The records may
// be forgotten when it returns. It reports the first record that stops the
// ingest; what lies before it in its partition has been taken.
func (in *ingest) take(work context.Context, chunks []*chunk) error {
	if err := in.decode(work, chunks); err != nil {
		return err
	}
	chunks, halt := upToHalt(chunks)
	if err := in.encode(work, chunks); err != nil {
		return err
	}
	for _, ch := range chunks {
		if ch.next < ch.part.next {
			panic(fmt.Sprintf("%s: at %d after %d", ch.part, ch.next, ch.part.next))
		}
		ch.part.next = ch.next
		in.count(work, ch)
	}
	return halt
}

// caught turns a panic of one worker into an error of its ingest: it is a bug,
// but one batch's, and must not take the other ingests down.
func caught(err *error, verb string) {
	if p := recover(); p != nil {
		*err = fmt.Errorf("%s: panic: %v\n%s", verb, p, debug.Stack())
	}
}

// upToHalt leaves out the chunks that follow, in their partition, one that
// stops the ingest, and returns the first such stop.
func upToHalt(chunks []*chunk) (kept []*chunk, halt error) {
	stopped := map[*owned]bool{}
	for _, ch := range chunks {
		if stopped[ch.part] {
			continue
		}
		kept = append(kept, ch)
		if ch.halt != nil {
			stopped[ch.part] = true
			if halt == nil {
				halt = ch.halt
			}
		}
	}
	return kept, halt
}

// decode runs the decoders over the chunks, each chunk on one worker.
func (in *ingest) decode(work context.Context, chunks []*chunk) error {
	var turn atomic.Int64
	g, ctx := errgroup.WithContext(work)
	for w := range min(in.workers, len(chunks)) {
		g.Go(func() (err error) {
			defer caught(&err, "decode")
			for {
				i := int(turn.Add(1)) - 1
				if i >= len(chunks) || ctx.Err() != nil {
					return ctx.Err()
				}
				in.decodeChunk(w, chunks[i])
			}
		})
	}
	return g.Wait()
}

// decodeChunk turns the records of one partition into batches.
func (in *ingest) decodeChunk(w int, ch *chunk) {
	decoder := in.open.plan.decoders[w]
	var b *rowBatch
	for _, r := range ch.records {
		if r.Offset < ch.next {
			continue // fetched before a seek and taken since
		}
		if r.Attrs.IsControl() {
			ch.next = r.Offset + 1
			continue
		}
		refused, policy := in.refuse(r)
		if refused == nil {
			if b == nil || b.Rows >= writers.BatchRowsMax || b.size >= writers.BatchBytesMax {
				if b != nil && !in.place(w, ch, b) {
					return
				}
				b = in.freshBatch()
			}
			if err := decoder.Decode(b.Batch, r); err != nil {
				refused, policy = err.(*writers.RecordError), in.cfg.OnBadRecord
			} else {
				b.add(r)
			}
		}
		if refused != nil && !in.settle(ch, r, refused, policy) {
			break // the record stops the ingest; what came before it is kept
		}
		ch.next = r.Offset + 1
		ch.taken++
	}
	if b != nil {
		in.place(w, ch, b)
	}
}

// add notes where row b.Rows-1 came from.
func (b *rowBatch) add(r *kgo.Record) {
	b.offsets = append(b.offsets, r.Offset)
	b.payload += len(r.Value)
	b.size += sizeOf(r)
	if b.first.IsZero() || r.Timestamp.Before(b.first) {
		b.first = r.Timestamp
	}
	if r.Timestamp.After(b.last) {
		b.last = r.Timestamp
	}
}

// sizeOf returns the bytes of a record that a row may hold.
func sizeOf(r *kgo.Record) int {
	n := len(r.Key) + len(r.Value)
	for _, h := range r.Headers {
		n += len(h.Key) + len(h.Value)
	}
	return n
}

// refuse tells whether a record can't even be tried, and what to do with it.
func (in *ingest) refuse(r *kgo.Record) (*writers.RecordError, string) {
	switch size := int64(sizeOf(r)); {
	case r.Value == nil:
		return &writers.RecordError{Reason: reasonNull, Detail: "the record has no value (a tombstone)"}, in.cfg.OnNull
	case size > int64(in.cfg.RecordSizeMax):
		detail := fmt.Sprintf("key, value and headers are %d bytes, record_size_max is %d", size, int64(in.cfg.RecordSizeMax))
		return &writers.RecordError{Reason: writers.ReasonSize, Detail: detail}, in.cfg.OnBadRecord
	}
	return nil, ""
}

// settle applies the policy to a record that doesn't become a row. It reports
// whether the partition goes on.
func (in *ingest) settle(ch *chunk, r *kgo.Record, refused *writers.RecordError, policy string) bool {
	switch policy {
	case policySkip:
		ch.skip(r.Offset, string(refused.Reason))
	case policyDeadLetter:
		ch.dead = append(ch.dead, deadLetter{record: r, why: refused})
	default:
		ch.halt = &badRecordError{ingest: in.cfg.Name, topic: r.Topic, partition: r.Partition, offset: r.Offset, why: refused}
		return false
	}
	return true
}

func (ch *chunk) skip(offset int64, reason string) {
	ch.skipped = append(ch.skipped, skipped{offset, reason})
}

// forgetFrom takes back what was settled about records from offset on: the
// chunk ends before them, and they will be read again.
func (ch *chunk) forgetFrom(offset int64) {
	ch.dead = slices.DeleteFunc(ch.dead, func(d deadLetter) bool { return d.record.Offset >= offset })
	ch.skipped = slices.DeleteFunc(ch.skipped, func(s skipped) bool { return s.offset >= offset })
	ch.taken = 0
	for _, r := range ch.records {
		if r.Offset < offset && r.Offset >= ch.first && !r.Attrs.IsControl() {
			ch.taken++
		}
	}
}

// place finds the partition tuple of each row and hands the batch over for
// encoding. It reports whether the chunk goes on: not if a row that no tuple
// can hold stops the ingest.
func (in *ingest) place(w int, ch *chunk, b *rowBatch) bool {
	x := in.open.plan.exchange
	b.addresses = x.Addresses(b.Batch, b.addresses)
	limit, ok := b.Rows, true
	for row, a := range b.addresses {
		if a >= 0 {
			continue
		}
		r := ch.record(b.offsets[row])
		if !in.settle(ch, r, x.Refusal(b.Batch, row), in.cfg.OnBadRecord) {
			limit, ok, ch.next = row, false, r.Offset
			ch.forgetFrom(r.Offset)
			break
		}
	}
	in.counts[w] = b.sort(limit, in.counts[w])
	ch.batches = append(ch.batches, b)
	return ok
}

// record finds the record with an offset that the chunk holds.
func (ch *chunk) record(offset int64) *kgo.Record {
	for _, r := range ch.records {
		if r.Offset == offset {
			return r
		}
	}
	panic(fmt.Sprintf("%s: offset %d is not in the chunk", ch.part, offset))
}

// encode scatters the batches of the chunks into the files of the open cut. A
// worker owns the addresses that are congruent to its number.
func (in *ingest) encode(work context.Context, chunks []*chunk) error {
	c := in.open
	c.grow()
	g, ctx := errgroup.WithContext(work)
	for w := range in.workers {
		g.Go(func() (err error) {
			defer caught(&err, "encode")
			var shares []writers.Share
			for _, ch := range chunks {
				if ctx.Err() != nil {
					return ctx.Err()
				}
				for _, b := range ch.batches {
					for _, part := range b.groups {
						if int(part.address)%in.workers == w {
							f, rows := c.open(part.address, in.freshEncoder), b.order[part.from:part.to]
							f.origins.add(ch.part.topicPartition, b.offsets[rows[0]], b.offsets[rows[len(rows)-1]], int64(len(rows)))
							shares = append(shares, writers.Share{Batch: b.Batch, Rows: rows, To: f.rows})
						}
					}
				}
			}
			writers.Scatter(shares)
			return nil
		})
	}
	return g.Wait()
}

// count adds a taken chunk to the open cut's books and gives its batches back.
func (in *ingest) count(work context.Context, ch *chunk) {
	c := in.open
	if ch.taken > 0 && c.since.IsZero() {
		c.since = time.Now()
	}
	c.records += ch.taken
	var rows, payload int64
	for _, b := range ch.batches {
		n := int64(len(b.order))
		rows += n
		payload += int64(b.payload)
		if n > 0 {
			c.ages = append(c.ages, age{b.first, b.last, n})
		}
		in.spareBatch(b)
	}
	c.rows += rows
	c.counts.Add(ch.part.topic, ch.part.partition, catalog.Count{Rows: rows, Left: ch.taken - rows})
	for _, d := range ch.dead {
		in.dead.send(work, d)
	}
	in.status.took(ch, payload)
}
