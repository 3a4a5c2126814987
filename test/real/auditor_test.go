//go:build real

package real_test

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// auditor watches the table of an ingest from outside while routers write to
// it, by what the catalog and the group say, never by the router's own code:
//
//   - the head's history is one line: what was once in it stays in it
//   - no snapshot of the ingest lies beside it
//   - the ledger's seq grows by one from append to append, and no append is there twice
//   - the ledger of a partition never goes back, and an append adds as many rows as its ledger moves
//   - the group is never told of an offset that is not in the table
//
// In the end it compares the rows with the records, the ledger with the ends of
// the partitions, and looks for every file that the table's metadata names.
type auditor struct {
	lake   lake
	table  string
	ingest ingest
	admin  *kadm.Client
	sparse bool   // there are offsets without a row: the ledger may move farther than rows come
	where  string // which rows are compared in the end; none: all
	reset  bool   // by policy the ledger may forget a topic that is made again

	cancel context.CancelFunc
	done   chan error

	mu       sync.Mutex
	problems []string
	uuid     string
	head     int64
	sequence int64
	history  map[int64]bool // every snapshot that was in the head's history
	appends  map[string]bool
	gone     map[string]bool // ids of topics that the ledger has forgotten
	ledger   ledger          // of the newest snapshot of the ingest
	looks    int             // that were answered
	blind    int             // that were not: a server was down
	unseen   int             // looks before which snapshots had come and expired
	ours     int             // snapshots of the ingest
	foreign  map[string]int
}

// ledger is the stored form of an ingest's progress.
type ledger struct {
	Seq    int64
	Append string
	Topics map[string]struct {
		ID   string
		Next map[int32]int64
	}
}

// metadata is what the auditor reads of a table's metadata.
type metadata struct {
	UUID       string            `json:"table-uuid"`
	Head       int64             `json:"current-snapshot-id"`
	Properties map[string]string `json:"properties"`
	Snapshots  []snapshot        `json:"snapshots"`
}

type snapshot struct {
	ID       int64             `json:"snapshot-id"`
	Parent   *int64            `json:"parent-snapshot-id"`
	Sequence int64             `json:"sequence-number"`
	Summary  map[string]string `json:"summary"`
}

// newAuditor returns the auditor of the table that an ingest writes to; the lake is Apache's REST catalog.
func newAuditor(c *kgo.Client, l lake, in ingest) *auditor {
	return &auditor{lake: l, table: in.table, ingest: in, admin: kadm.NewClient(c), done: make(chan error, 1),
		history: map[int64]bool{}, appends: map[string]bool{}, gone: map[string]bool{}, foreign: map[string]int{}}
}

// watch starts looking.
func (a *auditor) watch(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	a.cancel = cancel
	go func() {
		a.done <- every(ctx, 200*time.Millisecond, func() error { a.look(ctx); return nil })
	}()
	t.Cleanup(cancel)
}

// look compares the table with what it was at the last look.
func (a *auditor) look(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	told := a.told(ctx) // before the ledger, which may only be farther
	m, err := a.load(ctx)
	a.mu.Lock()
	defer a.mu.Unlock()
	if err != nil {
		a.blind++
		return
	}
	a.looks++
	if a.uuid == "" {
		a.uuid = m.UUID
	}
	if m.UUID != a.uuid {
		a.report("the table is another one: %s, was %s", m.UUID, a.uuid)
	}
	a.follow(m)
	for partition, offset := range told {
		for topic, t := range a.ledger.Topics {
			if next, ok := t.Next[partition]; len(a.ledger.Topics) == 1 && offset > next {
				a.report("the group was told offset %d of %s/%d, the ledger is at %d (there: %t)", offset, topic, partition, next, ok)
			}
		}
	}
}

// load asks the catalog for the table.
func (a *auditor) load(ctx context.Context) (m metadata, err error) {
	namespace, name, _ := strings.Cut(a.table, ".")
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, a.lake.rest+"/v1/namespaces/"+namespace+"/tables/"+name, nil)
	if err != nil {
		return m, err
	}
	answer, err := http.DefaultClient.Do(req)
	if err != nil {
		return m, err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return m, fmt.Errorf("load %s: %s", a.table, answer.Status)
	}
	body := struct{ Metadata *metadata }{&m}
	return m, json.NewDecoder(answer.Body).Decode(&body)
}

// told returns the group's offsets of the ingest's topic; none while the group doesn't answer.
func (a *auditor) told(ctx context.Context) map[int32]int64 {
	offsets := map[int32]int64{}
	fetched, err := a.admin.FetchOffsets(ctx, a.ingest.group())
	if err != nil {
		return offsets
	}
	fetched.Each(func(o kadm.OffsetResponse) {
		if o.Err == nil && o.At >= 0 {
			offsets[o.Partition] = o.At
		}
	})
	return offsets
}

// follow takes in the snapshots that came since the last look. REQUIRES: a.mu is held.
func (a *auditor) follow(m metadata) {
	byID := map[int64]snapshot{}
	for _, s := range m.Snapshots {
		byID[s.ID] = s
	}
	var fresh []snapshot // newest first
	line := map[int64]bool{}
	met, expired := a.head == 0, false
	for id := m.Head; id > 0; {
		s, ok := byID[id]
		if !ok {
			expired = true
			break
		}
		met = met || id == a.head
		line[id] = true
		if !a.history[id] {
			fresh = append(fresh, s)
		}
		if s.Parent == nil {
			break
		}
		id = *s.Parent
	}
	switch {
	case met:
	case expired:
		a.unseen++
	default:
		a.report("snapshot %d was the head and is not in the history of %d", a.head, m.Head)
	}
	slices.Reverse(fresh)
	for _, s := range fresh {
		a.take(s, met)
	}
	a.head = max(m.Head, 0)
	for id, s := range byID {
		if seq, ours := s.Summary["router."+a.ingest.name+".seq"]; ours && !line[id] {
			a.report("snapshot %d (append %s) of the ingest lies beside the history of %d", id, seq, m.Head)
		}
	}
	a.property(m)
}

// take looks at a snapshot that is new in the history; gapless: the one before it was seen. REQUIRES: a.mu is held.
func (a *auditor) take(s snapshot, gapless bool) {
	a.history[s.ID] = true
	if s.Sequence <= a.sequence {
		a.report("snapshot %d has sequence number %d after %d", s.ID, s.Sequence, a.sequence)
	}
	a.sequence = s.Sequence
	prefix := "router." + a.ingest.name
	text, ours := s.Summary[prefix+".seq"]
	if !ours {
		a.foreign[s.Summary["operation"]]++
		return
	}
	a.ours++
	if id := s.Summary[prefix+".append"]; a.appends[id] {
		a.report("append %s is in the history twice, now in snapshot %d", id, s.ID)
	} else {
		a.appends[id] = true
	}
	seq, err := strconv.ParseInt(text, 10, 64)
	if err != nil || seq <= a.ledger.Seq || gapless && seq != a.ledger.Seq+1 {
		a.report("snapshot %d is append %s after append %d", s.ID, text, a.ledger.Seq)
	}
	now := ledger{Seq: seq}
	if err := json.Unmarshal([]byte(s.Summary[prefix+".ledger"]), &now); err != nil {
		a.report("snapshot %d: ledger %q: %v", s.ID, s.Summary[prefix+".ledger"], err)
		return
	}
	moved := a.advance(fmt.Sprintf("snapshot %d", s.ID), now)
	added, _ := strconv.ParseInt(s.Summary["added-records"], 10, 64) // absent: none
	if gapless && !a.sparse && added != moved {
		a.report("snapshot %d adds %d rows, its ledger moves by %d", s.ID, added, moved)
	}
}

// property compares the ledger of the table with that of its newest snapshot. REQUIRES: a.mu is held.
func (a *auditor) property(m metadata) {
	text, ok := m.Properties["router."+a.ingest.name+".ledger"]
	if !ok {
		return
	}
	var now ledger
	if err := json.Unmarshal([]byte(text), &now); err != nil {
		a.report("ledger %q: %v", text, err)
		return
	}
	if now.Seq != a.ledger.Seq || now.Append != a.ledger.Append {
		a.report("the table's ledger is append %d %s, its newest snapshot's %d %s", now.Seq, now.Append, a.ledger.Seq, a.ledger.Append)
	}
	a.advance("the table", now)
}

// advance takes a newer ledger and returns by how many offsets it is farther. REQUIRES: a.mu is held.
func (a *auditor) advance(where string, now ledger) (moved int64) {
	for topic, was := range a.ledger.Topics {
		is := now.Topics[topic]
		if a.reset && was.ID != is.ID {
			a.gone[was.ID] = true
			continue
		}
		for partition, next := range was.Next {
			if then, ok := is.Next[partition]; !ok || then < next || was.ID != is.ID {
				a.report("%s: the ledger of %s/%d goes back from %d to %d (there: %t)", where, topic, partition, next, then, ok)
			}
		}
	}
	for topic, is := range now.Topics {
		if a.gone[is.ID] {
			a.report("%s: the ledger of %s is that of the topic %s which was forgotten", where, topic, is.ID)
		}
		for partition, next := range is.Next {
			moved += next - a.ledger.Topics[topic].Next[partition]
		}
	}
	a.ledger = now
	return moved
}

// report notes a problem; the first few are enough. REQUIRES: a.mu is held.
func (a *auditor) report(format string, arguments ...any) {
	if len(a.problems) < 20 {
		a.problems = append(a.problems, time.Now().Format("15:04:05.000 ")+fmt.Sprintf(format, arguments...))
	}
}

// next returns the ledger's offsets of a topic as of the last look.
func (a *auditor) next(topic string) map[int32]int64 {
	a.mu.Lock()
	defer a.mu.Unlock()
	return maps.Clone(a.ledger.Topics[topic].Next)
}

// topicID returns the id of a topic in the ledger.
func (a *auditor) topicID(topic string) string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.ledger.Topics[topic].ID
}

// passed says whether the ledger has reached these offsets of a topic.
func (a *auditor) passed(topic string, offsets map[int32]int64) bool {
	next := a.next(topic)
	for p, offset := range offsets {
		if next[p] < offset {
			return false
		}
	}
	return true
}

// commits returns how many snapshots of the ingest were seen.
func (a *auditor) commits() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.ours
}

// finish ends the watch; REQUIRES: no router writes any more, and the last one
// has read the topic to its end. It returns the records of may without a row.
func (a *auditor) finish(t *testing.T, topic string, must, may *truth) (absent map[int32][]int64) {
	t.Helper()
	a.cancel()
	<-a.done
	a.look(t.Context())
	a.mu.Lock()
	problems := a.problems
	t.Logf("auditor: %d commits, others %v; %d looks, %d unanswered, %d too late to see every snapshot", a.ours, a.foreign, a.looks, a.blind, a.unseen)
	if a.ours == 0 || a.looks == 0 {
		problems = append(problems, "no commit was seen")
	}
	a.mu.Unlock()
	for _, p := range problems {
		t.Errorf("auditor: %s", p)
	}
	listed, err := a.admin.ListCommittedOffsets(t.Context(), topic)
	if err != nil {
		t.Fatal(err)
	}
	next := a.next(topic)
	listed.Each(func(o kadm.ListedOffset) {
		if next[o.Partition] != o.Offset {
			t.Errorf("the ledger of %s/%d ends at %d, the partition at %d", topic, o.Partition, next[o.Partition], o.Offset)
		}
	})
	absent = a.lake.rowsAre(t, a.table, cmp.Or(a.where, "true"), must, may)
	named := nothingMissing(t, a.lake, a.table, a.lake.bucket)
	namespace, _, _ := strings.Cut(a.table, ".")
	stored := filesBelow(t, a.lake.bucket, "rest/"+namespace+"/", ".parquet")
	maps.DeleteFunc(stored, func(name string, _ int64) bool { return named[name] })
	t.Logf("auditor: %d data files that no snapshot names: uploaded, and never committed", len(stored))
	return absent
}
