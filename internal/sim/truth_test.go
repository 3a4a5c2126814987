//go:build synctests

package sim

import (
	"fmt"
	"sync"
)

// origin is a place in Kafka.
type origin struct {
	topic     string
	partition int32
	offset    int64
}

func (o origin) String() string { return fmt.Sprintf("%s/%d@%d", o.topic, o.partition, o.offset) }

// kind is what has to become of a record.
type kind int

const (
	good    kind = iota // a row, once
	bad                 // a dead letter, at least once, and no row
	null                // nothing
	pending             // nothing yet: its transaction is open
	aborted             // nothing: its transaction was aborted
)

func (k kind) String() string { return [...]string{"good", "bad", "null", "pending", "aborted"}[k] }

// record is what the world knows of a record that it produced.
type record struct {
	id     int64
	kind   kind
	origin origin // offset -1 until the broker has acknowledged it
}

// truth is what was produced and appended, noted before anybody can see it.
type truth struct {
	mu      sync.Mutex
	records map[int64]*record
	foreign map[int64]bool // ids of rows that another writer appended; true once they are committed
	last    int64
}

func newTruth() *truth {
	return &truth{records: map[int64]*record{}, foreign: map[int64]bool{}}
}

func (t *truth) add(k kind, topic string, partition int32) *record {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.last++
	r := &record{id: t.last, kind: k, origin: origin{topic, partition, -1}}
	t.records[r.id] = r
	return r
}

func (t *truth) acknowledged(r *record, offset int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	r.origin.offset = offset
}

func (t *truth) become(records []*record, k kind) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, r := range records {
		if r.kind == pending {
			r.kind = k
		}
	}
}

// addForeign returns n ids for rows of another writer.
func (t *truth) addForeign(n int) (ids []int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for range n {
		t.last++
		ids = append(ids, -t.last)
		t.foreign[-t.last] = false
	}
	return ids
}

func (t *truth) committed(ids []int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, id := range ids {
		t.foreign[id] = true
	}
}
