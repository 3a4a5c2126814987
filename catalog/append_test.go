package catalog

import (
	"errors"
	"testing"
)

func TestAppendMovesLedgerWithFiles(t *testing.T) {
	w := newWorld(t)
	c := w.open()
	tbl := w.table(c, TableOptions{})
	l, err := tbl.Ledger(t.Context())
	if err != nil || l.Seq != 0 {
		t.Fatalf("new table: %+v, %v", l, err)
	}
	a := next(t, tbl, 0, 100, 64)
	ca := mustAppend(t, tbl, a)
	b := next(t, tbl, 100, 50, 10)
	cb := mustAppend(t, tbl, b)
	if ca.Rows != 64 || ca.Files != 64 || ca.Attempts != 1 || cb.Seq != 2 {
		t.Errorf("commits: %+v, %+v", ca, cb)
	}
	expectOnce(t, c, a, b)
	l, err = tbl.Ledger(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if l.Seq != 2 || l.Cluster != "kafka" || l.Topics["orders"].ID != "topic-id" || l.Topics["orders"].Next[0] != 150 || l.Append != b.ID {
		t.Errorf("ledger: %+v", l)
	}
	again, err := tbl.Append(t.Context(), a)
	if err != nil || again.Attempts != 0 || again.Seq != 1 {
		t.Errorf("the same append again: %+v, %v", again, err)
	}
	stale := next(t, tbl, 100, 50, 1)
	if _, err := tbl.Append(t.Context(), stale); !errors.Is(err, ErrFenced) {
		t.Errorf("stale append: %v", err)
	}
	expectOnce(t, c, a, b)
	s := metaOf(t, c, "shop.orders").CurrentSnapshot()
	for key, want := range map[string]string{"total-data-files": "74", "total-records": "74", "added-data-files": "10", "changed-partition-count": "10", "total-delete-files": "0", "router.orders.seq": "2"} {
		if got := s.Summary.Properties[key]; got != want {
			t.Errorf("summary %s = %q, want %q", key, got, want)
		}
	}
}
