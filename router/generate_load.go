package router

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// load produces generated records at a rate. Its counters may be read while it
// runs.
type load struct {
	topic string
	gen   *generator
	rate  rate
	count int64         // records; 0: until the context or limit ends it
	limit time.Duration // 0: until the context or count ends it

	offered atomic.Int64          // records given to the client
	acked   atomic.Int64          // of these, acknowledged
	bytes   atomic.Int64          // of keys and values of the acknowledged
	first   atomic.Pointer[error] // why the first record was refused for good
}

const (
	flushTimeout   = 30 * time.Second // from the end of a load to giving up on what is unacknowledged
	paceInterval   = 10 * time.Millisecond
	paceDebtMax    = time.Second // a load that was held up catches up on this much, not more
	slabBytes      = 256 << 10
	slabRecordsMax = 512
)

// run produces until count or limit is reached, ctx ends or a record is
// refused for good; then it waits, at most flushTimeout and not past hard, for
// the rest to be acknowledged. It returns an error unless every record was.
func (l *load) run(ctx, hard context.Context, client *kgo.Client) error {
	making, stop := context.WithCancel(ctx)
	defer stop()
	if l.limit > 0 {
		making, stop = context.WithTimeout(making, l.limit)
		defer stop()
	}
	sending, abandon := context.WithCancel(hard)
	defer abandon()
	defer context.AfterFunc(making, func() { time.AfterFunc(flushTimeout, abandon) })()

	l.produce(making, sending, client, stop)
	stop()
	err := client.Flush(sending)
	if lost := l.offered.Load() - l.acked.Load(); lost > 0 {
		if first := l.first.Load(); first != nil {
			err = *first
		}
		return fmt.Errorf("produce to %s: %d of %d records not acknowledged: %w", l.topic, lost, l.offered.Load(), err)
	}
	return nil
}

// produce makes records and hands them to the client, which blocks while its
// buffer is full. The first refusal calls stop.
func (l *load) produce(making, sending context.Context, client *kgo.Client, stop func()) {
	done := func(r *kgo.Record, err error) {
		if err == nil {
			l.acked.Add(1)
			l.bytes.Add(int64(len(r.Key) + len(r.Value)))
			return
		}
		if l.first.CompareAndSwap(nil, &err) {
			stop()
		}
	}
	pace := newPace(l.rate)
	s := slab{gen: l.gen}
	for n := int64(0); (l.count == 0 || n < l.count) && making.Err() == nil; n++ {
		r := s.next()
		if !pace.wait(making, len(r.Key)+len(r.Value)) {
			return
		}
		r.Topic = l.topic
		l.offered.Add(1)
		client.Produce(sending, r, done)
	}
}

// slab makes records out of shared memory: one allocation for many of them.
type slab struct {
	gen     *generator
	text    []byte
	records []kgo.Record
	longest int
}

// next returns a new record with its key and value.
func (s *slab) next() *kgo.Record {
	if cap(s.text)-len(s.text) < s.longest+s.longest/8 {
		s.text = make([]byte, 0, max(slabBytes, 2*s.longest))
	}
	if len(s.records) == 0 {
		s.records = make([]kgo.Record, min(slabRecordsMax, 1+cap(s.text)/(s.longest+1)))
	}
	r := &s.records[0]
	s.records = s.records[1:]
	from := len(s.text)
	text, key := s.gen.appendRecord(s.text)
	s.text = text
	s.longest = max(s.longest, len(text)-from)
	r.Value = text[from:key:key]
	if s.gen.key != nil {
		r.Key = text[key:len(text):len(text)]
	}
	return r
}

// rate is how fast a load is: records or bytes a second. Zero is flat out.
type rate struct {
	perSecond float64
	bytes     bool
}

// parseRate reads "5000" (records a second) or "50MB" (bytes a second); either
// may end in "/s".
func parseRate(text string) (rate, error) {
	s := strings.TrimSuffix(strings.TrimSpace(text), "/s")
	if n, err := strconv.ParseFloat(strings.ReplaceAll(s, "_", ""), 64); err == nil && n >= 0 && n < 1e12 {
		return rate{perSecond: n}, nil
	}
	var b Bytes
	if err := b.UnmarshalText([]byte(s)); err != nil {
		return rate{}, fmt.Errorf(`rate %q: must be records a second, as "5000", or bytes a second, as "50MB"; "0" is flat out`, text)
	}
	return rate{perSecond: float64(b), bytes: true}, nil
}

// pace holds a load to its rate.
type pace struct {
	rate rate
	next time.Time // when the next record is due
}

func newPace(r rate) *pace { return &pace{rate: r, next: time.Now()} }

// wait waits until a record of size bytes is due. It sleeps in steps of
// paceInterval, so that high rates go in small bursts rather than by a timer a
// record. It returns false when ctx ended first.
func (p *pace) wait(ctx context.Context, size int) bool {
	if p.rate.perSecond == 0 {
		return true
	}
	cost := 1.0
	if p.rate.bytes {
		cost = float64(size)
	}
	due := p.next
	p.next = due.Add(time.Duration(cost / p.rate.perSecond * float64(time.Second)))
	ahead := time.Until(due)
	if ahead < -paceDebtMax {
		p.next = p.next.Add(-ahead - paceDebtMax)
	}
	if ahead <= 0 {
		return true
	}
	timer := time.NewTimer(max(ahead, paceInterval))
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
