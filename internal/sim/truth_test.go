//go:build synctests

package sim

import (
	"fmt"
	"sync"

	"github.com/twmb/franz-go/pkg/kgo"
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
	log    string // the id of the topic as of then: one that is made again has another
	loose  bool   // it may be lost, as somebody outside has seen to it; never there twice

	deleted bool        // its row was deleted by another writer
	text    *string     // what a row says besides
	sent    *kgo.Record // as it was produced
}

// truth is what was produced and appended, noted before anybody can see it.
type truth struct {
	mu      sync.Mutex
	records map[int64]*record
	foreign map[int64]bool    // ids of rows that another writer appended; true once they are committed
	logs    map[string]string // the topics' ids of now
	allLogs []string          // in the order they were made
	last    int64
}

func newTruth() *truth {
	return &truth{records: map[int64]*record{}, foreign: map[int64]bool{}, logs: map[string]string{}}
}

// made notes that a topic was made, perhaps again: whatever is not in the table
// then is lost.
func (t *truth) made(topic, id string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.logs[topic] = id
	t.allLogs = append(t.allLogs, id)
	for _, r := range t.records {
		r.loose = r.loose || r.origin.topic == topic
	}
}

// loosen notes that records may be lost.
func (t *truth) loosen(which func(*record) bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, r := range t.records {
		r.loose = r.loose || which(r)
	}
}

func (t *truth) add(k kind, topic string, partition int32) *record {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.last++
	r := &record{id: t.last, kind: k, origin: origin{topic, partition, -1}, log: t.logs[topic]}
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

// loosenForeign notes that rows of other writers may be gone.
func (t *truth) loosenForeign(which func(id int64) bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for id := range t.foreign {
		if which(id) {
			t.foreign[id] = false
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
