package router

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/apache/iceberg-go"
	"golang.org/x/sync/errgroup"

	"icerouter/catalog"
	"icerouter/writers"
)

// topicPartition names a Kafka partition.
type topicPartition struct {
	topic     string
	partition int32
}

func (p topicPartition) String() string { return fmt.Sprintf("%s/%d", p.topic, p.partition) }

// owned is a partition that this instance reads. Only fill touches it.
type owned struct {
	topicPartition
	from int64 // where the open cut begins
	next int64 // next offset to take; all below is in this cut or an earlier one
}

// plan is everything that follows from the table's schema and spec: made once,
// replaced between two cuts when somebody changes the table.
type plan struct {
	schema, spec int // ids
	iceSpec      iceberg.PartitionSpec
	layout       *writers.Layout
	exchange     *writers.Exchange
	decoders     []*writers.JSON // one a worker
	encoder      writers.EncoderOptions
}

// openFile is one data file of the open cut: the rows of one partition tuple.
type openFile struct {
	address int32
	rows    *writers.Encoder
	origins origins
}

// size returns the bytes of memory that the file holds.
func (f *openFile) size() int64 { return f.rows.Size() + f.origins.size() }

// cut is everything taken since the cut before. While it is open fill and its
// workers add to it; after the trigger nothing is added and the stages behind
// fill hand it on.
type cut struct {
	id       string
	plan     *plan
	source   *catalog.Source // what its offsets belong to, as of its opening: a topic may be made again meanwhile
	since    time.Time       // when its first record came; zero while there is none
	from, to catalog.Offsets
	files    []*openFile // by address; nil where the address has no rows yet
	bytes    int64       // memory that its rows hold
	rows     int64
	records  int64
	counts   catalog.Counts // of the records, by partition
	ages     []age

	uploads   *errgroup.Group // files on their way to the store
	uploading atomic.Int64    // bytes of files that were closed early and are not there yet
	ctx       context.Context // of uploads
	mu        sync.Mutex
	written   []written

	slot bool            // whether it counts against cuts_in_flight_max
	done []chan struct{} // closed when the cut is committed or given up
}

// age remembers how old rows are: n of them, between two record timestamps.
type age struct {
	first, last time.Time
	n           int64
}

// newCut opens a cut that follows plan. Uploads of its files end with work.
func newCut(work context.Context, p *plan, source *catalog.Source) *cut {
	c := &cut{id: newID(), plan: p, source: source, counts: catalog.Counts{}}
	c.uploads, c.ctx = errgroup.WithContext(work)
	c.uploads.SetLimit(uploadsMax)
	return c
}

// open returns the file of address, making it on first sight. Each address is
// owned by one worker, and grow has made room for it.
func (c *cut) open(address int32, fresh func() *writers.Encoder) *openFile {
	f := c.files[address]
	if f == nil {
		f = &openFile{address: address, rows: fresh()}
		c.files[address] = f
	}
	return f
}

// grow makes room for the addresses that the exchange has given out.
func (c *cut) grow() {
	if n := c.plan.exchange.Len(); n > len(c.files) {
		c.files = append(c.files, make([]*openFile, n-len(c.files))...)
	}
}

// measure recounts the memory that the cut's rows hold, those of files on their
// way to the store included, and how many files are open.
func (c *cut) measure() (files int) {
	c.bytes = c.uploading.Load()
	for _, f := range c.files {
		if f != nil {
			c.bytes += f.size()
			files++
		}
	}
	return files
}

// due reports whether the trigger has fired at now.
func (c *cut) due(now time.Time, t trigger) bool {
	if c.since.IsZero() {
		return false
	}
	return now.Sub(c.since) >= t.age || (t.bytes > 0 && c.bytes >= t.bytes) || (t.rows > 0 && c.rows >= t.rows)
}

// trigger says when a cut is taken: whichever limit is reached first.
type trigger struct {
	age   time.Duration
	bytes int64 // memory of the open files; 0: no limit
	rows  int64 // 0: no limit
}

// close fixes the offset interval of the cut: from and to of each partition
// that moved. The partitions' next cut begins where this one ends.
func (c *cut) close(partitions map[topicPartition]*owned) {
	c.from, c.to = catalog.Offsets{}, catalog.Offsets{}
	for _, p := range partitions {
		if p.next == p.from {
			continue
		}
		if p.next < p.from {
			panic(fmt.Sprintf("%s: cut from %d to %d", p, p.from, p.next))
		}
		setOffset(c.from, p.topicPartition, p.from)
		setOffset(c.to, p.topicPartition, p.next)
		p.from = p.next
	}
}

// whole checks, before the ledger moves past the cut's records, that each of
// its rows is in a file that is whole in the store: as many of each Kafka
// partition as were decoded of it.
func (c *cut) whole() error {
	stored := int64(0)
	of := map[topicPartition]int64{}
	for _, w := range c.written {
		stored += w.file.Count()
		w.origins.each(func(p topicPartition, s stretch) { of[p] += s.rows })
	}
	if stored != c.rows {
		return fmt.Errorf("cut has %d rows, its %d files have %d", c.rows, len(c.written), stored)
	}
	for topic, parts := range c.counts {
		for p, n := range parts {
			if at := (topicPartition{topic, p}); of[at] != n.Rows {
				return fmt.Errorf("cut has %d rows of %s, its %d files have %d", n.Rows, at, len(c.written), of[at])
			}
		}
	}
	return nil
}

// finish tells everybody who waits for the cut.
func (c *cut) finish() {
	for _, d := range c.done {
		close(d)
	}
	c.done = nil
}

func setOffset(o catalog.Offsets, p topicPartition, offset int64) {
	if o[p.topic] == nil {
		o[p.topic] = map[int32]int64{}
	}
	o[p.topic][p.partition] = offset
}

// rowBatch is a column batch with the partition address of its rows, sorted.
type rowBatch struct {
	*writers.Batch
	addresses []int32 // a row
	order     []int32 // rows, sorted by address, in order within one
	groups    []group
	offsets   []int64 // Kafka offset of each row
	first     time.Time
	last      time.Time
	payload   int // bytes of values
	size      int // bytes of keys, values and headers
}

// group is a run of rowBatch.order with one address.
type group struct {
	address  int32
	from, to int32
}

// sort groups the rows below limit by address with a counting sort: two passes
// over the rows, no comparison. Rows that no partition can hold are left out.
func (b *rowBatch) sort(limit int, counts []int32) []int32 {
	b.order, b.groups = b.order[:0], b.groups[:0]
	rows := b.addresses[:limit]
	highest := int32(-1)
	for _, a := range rows {
		highest = max(highest, a)
	}
	if int(highest)+1 > len(counts) {
		counts = append(counts, make([]int32, int(highest)+1-len(counts))...)
	}
	for _, a := range rows {
		if a >= 0 {
			counts[a]++
		}
	}
	at := int32(0)
	for a := range counts[:highest+1] {
		n := counts[a]
		if n == 0 {
			continue
		}
		b.groups = append(b.groups, group{address: int32(a), from: at, to: at + n})
		counts[a], at = at, at+n
	}
	b.order = slices.Grow(b.order, int(at))[:at]
	for row, a := range rows {
		if a >= 0 {
			b.order[counts[a]] = int32(row)
			counts[a]++
		}
	}
	for _, g := range b.groups {
		counts[g.address] = 0
	}
	return counts
}
