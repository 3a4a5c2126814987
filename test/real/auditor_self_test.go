//go:build real

package real_test

import (
	"fmt"
	"strings"
	"testing"
)

// step is one snapshot of an ingest named i that reads topic t, partition 0.
func step(id, parent, seq, next, added int64) snapshot {
	s := snapshot{ID: id, Sequence: seq, Summary: map[string]string{
		"operation": "append", "router.i.seq": fmt.Sprint(seq), "router.i.append": fmt.Sprint("a", id), "added-records": fmt.Sprint(added), "router.i.ledger": ledgerText(seq, id, next)}}
	if parent != 0 {
		s.Parent = &parent
	}
	return s
}

func ledgerText(seq, id, next int64) string {
	return fmt.Sprintf(`{"seq":%d,"append":"a%d","topics":{"t":{"id":"x","next":{"0":%d}}}}`, seq, id, next)
}

// history is a table whose head is the last snapshot.
func history(snapshots ...snapshot) metadata {
	head := snapshots[len(snapshots)-1]
	return metadata{UUID: "u", Head: head.ID, Snapshots: snapshots, Properties: map[string]string{"router.i.ledger": head.Summary["router.i.ledger"]}}
}

// The auditor is silent about what is right, and sees each thing that is wrong.
func TestAuditorSees(t *testing.T) {
	one, two := step(1, 0, 1, 10, 10), step(2, 1, 2, 15, 5)
	foreign := snapshot{ID: 7, Parent: &two.ID, Sequence: 3, Summary: map[string]string{"operation": "replace"}}
	after := step(3, 7, 4, 20, 5)
	after.Summary["router.i.seq"], after.Summary["router.i.ledger"] = "3", ledgerText(3, 3, 20)
	twice := step(3, 2, 3, 20, 5)
	twice.Summary["router.i.append"] = "a2"
	twice.Summary["router.i.ledger"] = ledgerText(3, 2, 20)
	aside := history(one, step(9, 1, 2, 12, 2), two)
	unlike := history(one, two)
	unlike.Properties["router.i.ledger"] = ledgerText(3, 2, 15)
	for name, c := range map[string]struct {
		looks []metadata
		want  string // part of a problem; empty: none
	}{
		"two appends":                       {[]metadata{history(one), history(one, two)}, ""},
		"another writer between":            {[]metadata{history(one), history(one, two, foreign, after)}, ""},
		"expired since the last look":       {[]metadata{history(one), history(two, step(3, 2, 3, 20, 5))}, ""},
		"two appends lost before this look": {[]metadata{history(one), history(step(4, 3, 4, 30, 10))}, ""},
		"rolled back":                       {[]metadata{history(one, two), history(one)}, "snapshot 2 was the head"},
		"overwritten by a racer":            {[]metadata{history(one, two), history(one, two, step(9, 1, 3, 12, 2))}, "snapshot 2 was the head"},
		"a snapshot beside the history":     {[]metadata{aside}, "snapshot 9 (append 2) of the ingest lies beside"},
		"a seq is left out":                 {[]metadata{history(one), history(one, step(2, 1, 3, 15, 5))}, "append 3 after append 1"},
		"a seq is used again":               {[]metadata{history(one, two, step(3, 2, 2, 20, 5))}, "append 2 after append 2"},
		"an append twice":                   {[]metadata{history(one, two, twice)}, "append a2 is in the history twice"},
		"the ledger goes back":              {[]metadata{history(one, step(2, 1, 2, 9, -1))}, "goes back from 10 to 9"},
		"more rows than the ledger moves":   {[]metadata{history(one, step(2, 1, 2, 15, 10))}, "adds 10 rows, its ledger moves by 5"},
		"fewer rows than the ledger moves":  {[]metadata{history(one, step(2, 1, 2, 15, 0))}, "adds 0 rows, its ledger moves by 5"},
		"property unlike snapshot":          {[]metadata{unlike}, "the table's ledger is append 3"},
	} {
		a := newAuditor(nil, lake{}, ingest{name: "i"})
		for _, m := range c.looks {
			a.follow(m)
		}
		found := strings.Join(a.problems, "\n")
		if c.want == "" && found != "" || !strings.Contains(found, c.want) {
			t.Errorf("%s: the auditor says %q, want %q", name, found, c.want)
		}
	}
}

// So is the comparison of rows with records.
func TestRowsCompared(t *testing.T) {
	records := func(offsets ...int64) *truth {
		h := newTruth()
		for _, o := range offsets {
			h.add(0, o, 100+o)
		}
		return h
	}
	all := records(0, 1, 2, 5, 6)
	right := []stretch{{0, 0, 2, 303}, {0, 5, 6, 211}}
	for name, c := range map[string]struct {
		found     []stretch
		must, may *truth
		want      string
		absent    string
	}{
		"all":            {right, all, all, "", "map[]"},
		"one may lack":   {[]stretch{{0, 0, 1, 201}, {0, 5, 6, 211}}, records(0, 1, 5, 6), all, "", "map[0:[2]]"},
		"one is missing": {[]stretch{{0, 0, 1, 201}, {0, 5, 6, 211}}, all, all, "rows missing 1: 0/2", "map[0:[2]]"},
		"one is twice":   {append(right, stretch{0, 2, 2, 102}), all, all, "rows twice 1: 0/2", "map[]"},
		"one is strange": {append(right, stretch{1, 2, 2, 0}), all, all, "rows never produced 1: 1/2", "map[]"},
		"two exchanged":  {[]stretch{{0, 0, 2, 304}, {0, 5, 6, 210}}, all, all, "another seq 2", "map[]"},
	} {
		problems, absent := compareRows(c.found, c.must, c.may)
		found := strings.Join(problems, "\n")
		if c.want == "" && found != "" || !strings.Contains(found, c.want) || fmt.Sprint(absent) != c.absent {
			t.Errorf("%s: %q and absent %v, want %q and %s", name, found, absent, c.want, c.absent)
		}
	}
}
