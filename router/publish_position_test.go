package router

import (
	"math/rand/v2"
	"testing"
	"time"

	"icerouter/catalog"
)

// However often the number of shards changes while they move on, each slot's
// position stays what it was, and never goes back.
func TestRelayout(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	at := func(n int64) position {
		return position{N: n, Snapshot: n * 10, File: int(random.Int64N(5)), Row: random.Int64N(100)}
	}
	layout := firstLayout(1, 4, "t", at(0))
	var truth [slots]position
	for i := range truth {
		truth[i] = layout[0].At
	}
	for round := range int64(200) {
		n := layout[0].Shards
		for i := range n { // each shard moves on by a different distance
			if p := at(round + random.Int64N(3)); p.compare(layout[i].At) > 0 {
				layout[i] = layout[i].moved(p)
				for slot := i; slot < slots; slot += n {
					if p.compare(truth[slot]) > 0 {
						truth[slot] = p
					}
				}
			}
		}
		for i := range n { // as a restart reads them
			m, err := decodeMark(layout[i].encode())
			if err != nil {
				t.Fatal(err)
			}
			layout[i] = m
		}
		next := relayout(layout, []int{1, 2, 3, 4, 7, 8, 64, 256}[random.IntN(8)])
		if next[0].Generation != layout[0].Generation+1 || len(next) != max(n, next[0].Shards) {
			t.Fatalf("layout of %d marks, generation %d after %d", len(next), next[0].Generation, layout[0].Generation)
		}
		for slot := range slots {
			if got := next[slot%next[0].Shards].of(slot); got.compare(truth[slot]) != 0 {
				t.Fatalf("round %d: slot %d is at %+v, want %+v", round, slot, got, truth[slot])
			}
		}
		layout = next
	}
}

// Positions grow with the history: by sequence number, by time in version 1,
// and over an upgrade from one to the other.
func TestPositionOrder(t *testing.T) {
	base := time.UnixMilli(1_700_000_000_000)
	start := startPosition(catalog.Start{At: catalog.Snapshot{ID: 5, Sequence: 3, Time: base}, State: true})
	line := []position{start, {N: start.N, Snapshot: 5, State: true, File: 1}, {N: start.N, Snapshot: 5, State: true, File: 1, Row: 7}, {N: start.N, Snapshot: 5, Done: true}}
	next := after(line[3], catalog.Snapshot{ID: 2, Sequence: 9, Time: base})
	line = append(line, next, position{N: next.N, Snapshot: 2, Done: true})
	for i := range line {
		for j := range line {
			want := 0
			if i < j {
				want = -1
			} else if i > j {
				want = 1
			}
			if got := line[i].compare(line[j]); got != want {
				t.Errorf("compare %v with %v: %d, want %d", line[i], line[j], got, want)
			}
		}
	}
	old := startPosition(catalog.Start{At: catalog.Snapshot{ID: 5, Time: base}})
	same := after(old, catalog.Snapshot{ID: 6, Time: base}) // the clock stood still
	upgraded := after(same, catalog.Snapshot{ID: 7, Sequence: 1, Time: base.Add(time.Second)})
	if !old.Done || same.compare(old) <= 0 || upgraded.compare(same) <= 0 {
		t.Errorf("%+v, %+v, %+v do not grow", old, same, upgraded)
	}
	if back := same.snapshot(); back.ID != 6 || !back.Time.Equal(base) {
		t.Errorf("snapshot of a position is %+v", back)
	}
}
