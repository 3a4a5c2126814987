package router

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"icerouter/catalog"
	"icerouter/writers"
)

// sheet is some rows as records, on the way from read to write. All of its
// memory is used again once its transaction has ended.
type sheet struct {
	records []kgo.Record
	headers []kgo.RecordHeader
	bytes   []byte // keys, values and headers, end to end
	rows    int64  // published, dead letters not counted
	letters int64
	since   time.Time // of the oldest snapshot that rows are of
	end     position  // what comes next
	lost    int64     // snapshots that are gone, by policy
	skipped int64     // snapshots that are not appends, by policy
	idle    bool      // there is nothing more to read now
	halt    error     // why there will be nothing more until a person acts
}

// A sheet is full at so many bytes or records, whichever is first. A transaction
// is many sheets.
const (
	sheetBytesMax   = 256 << 10
	sheetRecordsMax = 2048
)

func (g *sheet) reset() {
	clear(g.records) // what they point to is of earlier rows
	clear(g.headers)
	*g = sheet{records: g.records[:0], headers: g.headers[:0], bytes: g.bytes[:0]}
}

func newSheet() *sheet { return &sheet{bytes: make([]byte, 0, sheetBytesMax+sheetBytesMax/8)} }

func (g *sheet) full() bool {
	return len(g.bytes) >= sheetBytesMax || len(g.records) >= sheetRecordsMax
}

// badRow is a row that can't be a record.
type badRow struct {
	reason string // size | topic | partition | timestamp | key | value
	detail string
}

func (e *badRow) Error() string { return e.detail }

// badRowError stops a publish at a row that can't be a record.
type badRowError struct {
	publish, table string
	at             rowPlace
	why            *badRow
}

func (e *badRowError) Error() string {
	return fmt.Sprintf("table %s, snapshot %d, file %s, row %d: %s; correct the topic or the [[publish]] section and start again, or set on_bad_row = \"dead_letter\" (with dead_letter_topic) for publish %s",
		e.table, e.at.snapshot, e.at.file, e.at.row, e.why.detail, e.publish)
}

// rowPlace is where a row lies.
type rowPlace struct {
	snapshot int64
	file     string
	row      int64
}

// The headers that say where a row was, and those of a dead letter.
const (
	headerPublish  = "router.publish"
	headerTable    = "router.table"
	headerSnapshot = "router.snapshot"
	headerFile     = "router.file"
	headerRow      = "router.row"
)

// clerk writes rows of one file as records.
type clerk struct {
	p        *publish
	plan     *publishPlan
	snapshot catalog.Snapshot
	file     *catalog.DataFile
	topic    string // of the last row
	book     topicEntry
	scratch  []byte
	names    map[string]string
}

// record appends row i to the sheet. A *badRow leaves the sheet as it was.
func (c *clerk) record(g *sheet, rows *writers.Rows, i int) error {
	start, headers := len(g.bytes), len(g.headers)
	r, err := c.make(g, rows, i)
	if err == nil && r.size > c.book.sizeMax {
		err = &badRow{"size", fmt.Sprintf("the record has %d bytes, %s takes %d", r.size, r.Topic, c.book.sizeMax)}
	}
	if err != nil {
		g.bytes, g.headers = g.bytes[:start], g.headers[:headers]
		var row *writers.RowError
		if errors.As(err, &row) {
			return &badRow{"value", fmt.Sprintf("column %q: %s", row.Column, row.Detail)}
		}
		return err
	}
	g.records = append(g.records, r.Record)
	g.rows++
	return nil
}

// recordBytesMore is what a record takes in a batch of its own besides key,
// value and headers, at most.
const recordBytesMore = 128

type sizedRecord struct {
	kgo.Record
	size int
}

// make builds the record of row i in the sheet's memory.
func (c *clerk) make(g *sheet, rows *writers.Rows, i int) (r sizedRecord, err error) {
	if err := c.address(rows, i); err != nil {
		return r, err
	}
	r.Topic, r.Partition = c.topic, -1
	start, has := len(g.bytes), false
	if g.bytes, has, err = c.plan.appendKey(g.bytes, rows, i); err != nil {
		return r, err
	}
	if has {
		r.Key = g.bytes[start:len(g.bytes):len(g.bytes)]
	}
	value := len(g.bytes)
	if g.bytes, err = rows.AppendJSON(g.bytes, i); err != nil {
		return r, err
	}
	r.Value = g.bytes[value:len(g.bytes):len(g.bytes)]
	if err := c.place(&r.Record, rows, i); err != nil {
		return r, err
	}
	if r.Timestamp, err = c.plan.timestampOf(rows, i); err != nil {
		return r, err
	}
	if why := c.book.refuses(&r.Record); why != nil {
		return r, why
	}
	first := len(g.headers)
	if err := c.addHeaders(g, rows, i); err != nil {
		return r, err
	}
	if len(g.headers) > first {
		r.Headers = g.headers[first:len(g.headers):len(g.headers)]
	}
	r.size = len(r.Key) + len(r.Value) + recordBytesMore
	for _, h := range r.Headers {
		r.size += len(h.Key) + len(h.Value) + 10
	}
	return r, nil
}

// address finds the topic of row i.
func (c *clerk) address(rows *writers.Rows, i int) (err error) {
	if _, fixed := c.plan.fixedTopic(); fixed && c.topic != "" {
		return nil
	}
	if c.scratch, err = c.plan.appendTopic(c.scratch[:0], rows, i); err != nil {
		return err
	}
	if string(c.scratch) == c.topic {
		return nil
	}
	topic := string(c.scratch)
	book, err := c.p.topics.find(topic)
	if err != nil {
		return err
	}
	c.topic, c.book = topic, book
	return nil
}

// place chooses the partition where it isn't the key that does: by a column,
// or, so that rows which belong together stay in order, by the table's
// partition.
func (c *clerk) place(r *kgo.Record, rows *writers.Rows, i int) error {
	if at := c.plan.partition; at >= 0 && !rows.Null(at, i) {
		n := rows.Int(at, i)
		if n >= 0 && n < int64(c.book.partitions) {
			r.Partition = int32(n)
			return nil
		}
		if c.plan.strict {
			return &badRow{"partition", fmt.Sprintf("column %q says partition %d, topic %s has %d", c.plan.extras[at], n, r.Topic, c.book.partitions)}
		}
	}
	if r.Key == nil && c.file.Tuple != "" {
		r.Partition = int32(c.file.Slot) % c.book.partitions
	}
	return nil
}

// addHeaders adds the headers of row i: those of the record it came from, those
// from columns, those that say where it was.
func (c *clerk) addHeaders(g *sheet, rows *writers.Rows, i int) (err error) {
	if c.plan.pairs >= 0 {
		err = rows.Pairs(c.plan.pairs, i, func(key, value []byte) {
			h := kgo.RecordHeader{Key: c.name(key)}
			if value != nil {
				h.Value = g.keep(value)
			}
			g.headers = append(g.headers, h)
		})
		if err != nil {
			return err
		}
	}
	for _, h := range c.plan.headers {
		if rows.Null(h.extra, i) {
			continue
		}
		start := len(g.bytes)
		if g.bytes, err = rows.AppendText(g.bytes, h.extra, i); err != nil {
			return err
		}
		g.headers = append(g.headers, kgo.RecordHeader{Key: h.name, Value: g.bytes[start:len(g.bytes):len(g.bytes)]})
	}
	if c.p.cfg.OriginHeaders {
		g.addPlace(c.whereIs(rows, i))
	}
	return nil
}

func (c *clerk) whereIs(rows *writers.Rows, i int) rowPlace {
	return rowPlace{c.snapshot.ID, c.file.Path, rows.RowNumber(i)}
}

// name returns a header's name as a string that rows share.
func (c *clerk) name(key []byte) string {
	if known, ok := c.names[string(key)]; ok {
		return known
	}
	if c.names == nil || len(c.names) >= headerNamesMax {
		c.names = map[string]string{}
	}
	c.names[string(key)] = string(key)
	return c.names[string(key)]
}

// headerNamesMax bounds the names that are kept; real topics have a handful.
const headerNamesMax = 1000

// keep copies bytes into the sheet. They are not nil.
func (g *sheet) keep(b []byte) []byte {
	start := len(g.bytes)
	g.bytes = append(g.bytes, b...)
	return g.bytes[start:len(g.bytes):len(g.bytes)]
}

func (g *sheet) addPlace(at rowPlace) {
	start := len(g.bytes)
	g.bytes = strconv.AppendInt(g.bytes, at.snapshot, 10)
	snapshot := g.bytes[start:len(g.bytes):len(g.bytes)]
	start = len(g.bytes)
	g.bytes = strconv.AppendInt(g.bytes, at.row, 10)
	row := g.bytes[start:len(g.bytes):len(g.bytes)]
	g.headers = append(g.headers,
		kgo.RecordHeader{Key: headerSnapshot, Value: snapshot},
		kgo.RecordHeader{Key: headerFile, Value: []byte(at.file)},
		kgo.RecordHeader{Key: headerRow, Value: row})
}

// letterKeyMax is how large a key may be to go along with a dead letter: it may
// be what is too large.
const letterKeyMax = 64 << 10

// letter adds a dead letter of row i: its key, where it lies, and why. The value
// stays in the table.
func (c *clerk) letter(g *sheet, rows *writers.Rows, i int, why *badRow) error {
	r := kgo.Record{Topic: c.p.cfg.DeadLetterTopic, Partition: -1}
	key, has, err := c.plan.appendKey(nil, rows, i)
	if err == nil && has && len(key) <= letterKeyMax {
		r.Key = key
	}
	first := len(g.headers)
	g.addPlace(c.whereIs(rows, i))
	for _, h := range [][2]string{{headerPublish, c.p.cfg.Name}, {headerTable, c.p.cfg.Table}, {headerReason, why.reason}, {headerDetail, why.detail}} {
		g.headers = append(g.headers, kgo.RecordHeader{Key: h[0], Value: []byte(h[1])})
	}
	r.Headers = g.headers[first:len(g.headers):len(g.headers)]
	g.records = append(g.records, r)
	g.letters++
	return nil
}

// produceAll hands the sheet's records to the transaction.
func (g *sheet) produceAll(t *transactor) {
	for i := range g.records {
		t.client.Produce(context.Background(), &g.records[i], t.done)
	}
}
