package router

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"icerouter/catalog"
)

// slots is into how many parts the partitions of a table are dealt. It never
// changes; shards own slots, so that their number may.
const slots = 256

// position is the next row to publish: a place in the table's history, which
// is its snapshots in order, in each the data files that it appended in the
// order of its manifests, in each file the rows.
type position struct {
	N        int64  `json:"n"`               // grows along the history; see after
	Snapshot int64  `json:"snapshot,string"` // 0: before the first
	Sequence int64  `json:"sequence,omitempty"`
	Time     int64  `json:"time,omitempty"`  // of the snapshot, in ms
	State    bool   `json:"state,omitempty"` // the files are all that the table had at the snapshot, not what the snapshot appended
	Done     bool   `json:"done,omitempty"`  // every file of the snapshot is published
	File     int    `json:"file,omitempty"`  // files of the snapshot that are published whole, or are another shard's
	Row      int64  `json:"row,omitempty"`   // rows of the next file that are published
	Path     string `json:"path,omitempty"`  // of that file, where Row is not 0: it proves that the order is the same
}

// startPosition is where a new publish begins.
func startPosition(s catalog.Start) position {
	p := after(position{}, s.At)
	p.State, p.Done = s.State, !s.State
	return p
}

// after is the beginning of snapshot s, the next one after p. N is the
// snapshot's sequence number, which all shards know to be the same, gaps or
// not; its time in tables of format version 1, which have no such number. It
// grows in any case, over an upgrade of the format too.
func after(p position, s catalog.Snapshot) position {
	n := s.Sequence
	if n == 0 && !s.Time.IsZero() {
		n = s.Time.UnixMilli()
	}
	next := position{N: max(n, p.N+1), Snapshot: s.ID, Sequence: s.Sequence}
	if p == (position{}) {
		next.N = n
	}
	if !s.Time.IsZero() {
		next.Time = s.Time.UnixMilli()
	}
	return next
}

// finished is the end of p's snapshot.
func (p position) finished() position {
	p.State, p.Done, p.File, p.Row, p.Path = false, true, 0, 0, ""
	return p
}

// compare orders positions of one history.
func (p position) compare(q position) int {
	if c := cmp.Compare(p.N, q.N); c != 0 && p.Snapshot != q.Snapshot {
		return c
	}
	switch {
	case p.Done != q.Done && p.Done:
		return 1
	case p.Done != q.Done:
		return -1
	case p.Done:
		return 0
	}
	return cmp.Or(cmp.Compare(p.File, q.File), cmp.Compare(p.Row, q.Row))
}

// snapshot is what the catalog wants to know of a position.
func (p position) snapshot() catalog.Snapshot {
	s := catalog.Snapshot{ID: p.Snapshot, Sequence: p.Sequence}
	if p.Time != 0 {
		s.Time = millis(p.Time)
	}
	return s
}

func (p position) String() string {
	if p.Done {
		return fmt.Sprintf("the end of snapshot %d", p.Snapshot)
	}
	return fmt.Sprintf("snapshot %d, file %d, row %d", p.Snapshot, p.File, p.Row)
}

// mark is what the position topic keeps of a shard: one record in the partition
// of the shard's number, replaced by the transactions that carry its records.
type mark struct {
	Generation int64    `json:"generation"` // of the layout; grows with each change of the number of shards
	Shards     int      `json:"shards"`     // in this layout; a shard of this number or higher has nothing to do
	Table      string   `json:"table"`      // uuid
	At         position `json:"at"`
	Ahead      []ahead  `json:"ahead,omitempty"` // slots that are further than At, after a change of the layout
	Lost       int64    `json:"lost_snapshots,omitempty"`
	Skipped    int64    `json:"skipped_snapshots,omitempty"`
}

// ahead are slots of a shard that came from another, which was further.
type ahead struct {
	Slots []int    `json:"slots"`
	At    position `json:"at"`
}

func (m mark) encode() []byte {
	text, err := json.Marshal(m)
	if err != nil {
		panic(fmt.Sprintf("mark %+v: %v", m, err)) // numbers and texts: nothing that can't be written
	}
	return text
}

// decodeMark reads a mark, and sees that it makes sense.
func decodeMark(text []byte) (mark, error) {
	var m mark
	if err := json.Unmarshal(text, &m); err != nil {
		return m, err
	}
	if m.Generation < 1 || m.Shards < 1 || m.Shards > slots || m.Table == "" {
		return m, fmt.Errorf("generation %d, %d shards, table %q", m.Generation, m.Shards, m.Table)
	}
	return m, nil
}

// firstLayout is where every shard begins.
func firstLayout(generation int64, shards int, table string, at position) []mark {
	out := make([]mark, shards)
	for i := range out {
		out[i] = mark{Generation: generation, Shards: shards, Table: table, At: at}
	}
	return out
}

// relayout deals the slots of one whole layout to another number of shards:
// every slot keeps its position. It returns a mark for each partition that had
// or has a shard.
func relayout(old []mark, shards int) []mark {
	was := old[0]
	out := make([]mark, max(shards, was.Shards))
	for i := range out {
		out[i] = mark{Generation: was.Generation + 1, Shards: shards, Table: was.Table}
	}
	for i := range shards {
		out[i].inherit(i, old)
	}
	for i, m := range old[:was.Shards] { // counts are kept, in one of the shards
		out[i%shards].Lost += m.Lost
		out[i%shards].Skipped += m.Skipped
	}
	return out
}

// inherit fills in the positions of shard i's slots from the layout before.
func (m *mark) inherit(i int, old []mark) {
	at := make(map[int]position)
	for slot := i; slot < slots; slot += m.Shards {
		p := old[slot%old[0].Shards].of(slot)
		at[slot] = p
		if slot == i || p.compare(m.At) < 0 {
			m.At = p
		}
	}
	for slot := i; slot < slots; slot += m.Shards {
		if p := at[slot]; p.compare(m.At) > 0 {
			m.further(slot, p)
		}
	}
}

// of returns the position of one of the shard's slots.
func (m mark) of(slot int) position {
	for _, a := range m.Ahead {
		if slices.Contains(a.Slots, slot) && a.At.compare(m.At) > 0 {
			return a.At
		}
	}
	return m.At
}

// further notes that slot is at p already.
func (m *mark) further(slot int, p position) {
	for i := range m.Ahead {
		if m.Ahead[i].At == p {
			m.Ahead[i].Slots = append(m.Ahead[i].Slots, slot)
			return
		}
	}
	m.Ahead = append(m.Ahead, ahead{[]int{slot}, p})
}

// moved is the mark once everything before at is published, for all slots.
func (m mark) moved(at position) mark {
	if at.compare(m.At) < 0 {
		panic(fmt.Sprintf("position goes back from %+v to %+v", m.At, at))
	}
	m.At = at
	m.Ahead = slices.DeleteFunc(slices.Clone(m.Ahead), func(a ahead) bool { return a.At.compare(at) <= 0 })
	if len(m.Ahead) == 0 {
		m.Ahead = nil
	}
	return m
}

// millis is the time of a number of milliseconds since 1970.
func millis(ms int64) time.Time { return time.UnixMilli(ms).UTC() }
