//go:build synctests

package sim

import (
	"bytes"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// What an instance says about itself, to the group, and in dead letters, against
// the truth.

// claims sees that an instance tells of no more rows than it has committed.
func (w *world) claims(i *instance) {
	for _, s := range i.router.Status().Ingests {
		w.audit.mu.Lock()
		if is := w.audit.rowsOf[i.name]; s.Rows > is {
			w.audit.report("%s says that it has committed %d rows; they are %d", i.name, s.Rows, is)
		}
		w.audit.mu.Unlock()
	}
}

// claimsAll sees that an instance which met no faults tells of all its rows.
func (w *world) claimsAll(i *instance) {
	for _, s := range i.router.Status().Ingests {
		w.audit.mu.Lock()
		if is := w.audit.rowsOf[i.name]; s.Rows != is {
			w.audit.report("%s says at its end that it has committed %d rows; they are %d", i.name, s.Rows, is)
		}
		w.audit.mu.Unlock()
	}
}

// checkGroup sees that lag tools are told of nothing that is not in the table.
func (w *world) checkGroup(when string) {
	group := w.broker.GroupInfo(ourGroup)
	if group == nil {
		return
	}
	l := w.ledger() // later than the group's offsets
	w.truth.mu.Lock()
	again := len(w.truth.allLogs) > len(topics)
	w.truth.mu.Unlock()
	if again || w.audit.wentBack() || w.audit.rolledBack() {
		return // the ledger went back, and the group hears at the next commit
	}
	for topic, parts := range group.Commits {
		for p, at := range parts {
			if next, _ := l.next(topic, w.truth.logs[topic], p); at.Offset > next {
				w.audit.violation("%s: the group is told %d of %s/%d, the ledger is at %d", when, at.Offset, topic, p, next)
			}
		}
	}
}

// record is what is produced for a note of the truth.
func (w *world) record(r *record) *kgo.Record {
	out := &kgo.Record{Topic: r.origin.topic, Partition: r.origin.partition, Timestamp: time.Now().Truncate(time.Millisecond)}
	if r.id%4 > 0 {
		out.Key = strconv.AppendInt(nil, r.id, 10)
		out.Headers = []kgo.RecordHeader{{Key: "h", Value: out.Key}, {Key: "h", Value: nil}}
	}
	text := []string{"", "y", "z"}[r.id%3] + strings.Repeat("x", w.rand.IntN(1+w.rand.IntN(300)))
	switch {
	case r.kind == bad:
		out.Value = [][]byte{[]byte(`{"id": "no number"}`), []byte(`{`), []byte(`{"text": "no id"}`), {}}[w.rand.IntN(4)]
	case r.kind == null:
	case r.id%10 == 0:
		out.Value = fmt.Appendf(nil, `{"id": %d}`, r.id)
	default:
		r.text = &text
		out.Value = fmt.Appendf(nil, `{"id": %d, "text": %q}`, r.id, text)
	}
	r.sent = out
	return out
}

// checkLetter compares a dead letter with the record that it is of.
func (w *world) checkLetter(letter *kgo.Record) {
	of := originOf(letter)
	var sent []*kgo.Record // a topic that is made again has the offset again
	w.truth.mu.Lock()
	for _, r := range w.truth.records {
		if r.origin == of {
			sent = append(sent, r.sent)
		}
	}
	w.truth.mu.Unlock()
	same := func(r *kgo.Record) bool {
		return bytes.Equal(letter.Key, r.Key) && (letter.Key == nil) == (r.Key == nil) && bytes.Equal(letter.Value, r.Value) && (letter.Value == nil) == (r.Value == nil) &&
			letter.Timestamp.Equal(r.Timestamp) && len(letter.Headers) >= len(r.Headers) &&
			slices.EqualFunc(letter.Headers[:len(r.Headers)], r.Headers, func(a, b kgo.RecordHeader) bool { return a.Key == b.Key && bytes.Equal(a.Value, b.Value) })
	}
	if len(sent) > 0 && !slices.ContainsFunc(sent, same) {
		w.audit.violation("the dead letter of %v is not what was produced: key %q, value %q, headers %v, at %s", of, letter.Key, letter.Value, letter.Headers, letter.Timestamp)
	}
}

// begun loosens what lay in a topic before the ledger had it: it begins at the
// end then. Partitions that come later are read from their first offset.
// REQUIRES: a.mu is held.
func (a *auditor) begun(was, now ledger) {
	a.truth.loosen(func(r *record) bool {
		if _, known := was[r.origin.topic]; known {
			return false
		}
		next, entered := now.next(r.origin.topic, r.log, r.origin.partition)
		return entered && r.origin.offset < next
	})
}

// flood produces n records to one partition at once: more than a batch holds,
// and a chunk.
func (w *world) flood(topic string, n int) error {
	client, err := w.dial(kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if err != nil {
		return err
	}
	defer client.Close()
	if _, _, err := client.ProducerID(w.ctx); err != nil {
		return err
	}
	infos := w.broker.PartitionInfos(topic)
	p := infos[w.rand.IntN(len(infos))].Partition
	var records []*kgo.Record
	var notes []*record
	for range n {
		k := good
		if w.rand.IntN(100) == 0 {
			k = bad
		}
		r := w.truth.add(k, topic, p)
		records, notes = append(records, w.record(r)), append(notes, r)
	}
	return w.send(client, records, notes)
}

// runOnce starts a run to the ends as of now.
func (w *world) runOnce(n int) error {
	if w.instances[n] != nil {
		return nil
	}
	i, err := w.start(n, ourGroup, true)
	if err != nil {
		return err
	}
	i.ends = map[origin]int64{}
	for _, topic := range topics {
		for _, p := range w.broker.PartitionInfos(topic) {
			i.ends[origin{topic, p.Partition, 0}] = p.LastStableOffset
		}
	}
	w.instances[n] = i
	return nil
}

// hasEnded sees that a run to the ends has got there, unless it says that it hasn't.
func (w *world) hasEnded(i *instance, err error) {
	w.log.printf("%s, a run to the ends, has ended: %v", i.name, err)
	if err != nil || w.audit.rolledBack() {
		return
	}
	l := w.ledger()
	for at, end := range i.ends {
		if next, _ := l.next(at.topic, w.truth.logs[at.topic], at.partition); next < end && len(w.truth.allLogs) == len(topics) {
			w.audit.violation("%s has run to the ends, and the ledger of %s/%d is at %d of %d", i.name, at.topic, at.partition, next, end)
		}
	}
}
