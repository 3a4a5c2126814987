package catalog

import (
	"testing"
)

// FuzzLedger reads anything as a ledger: an error, or a ledger that is the same
// when it is written and read again, that an append can move, and whose copy in
// a snapshot's summary keeps within its bound.
func FuzzLedger(f *testing.F) {
	f.Add(`{"seq":7,"cluster":"c","append":"a","topics":{"empty":{"next":{}},"t":{"id":"i","next":{"0":1,"12":1152921504606846976}}}}`)
	f.Add(`{"seq":7,"topics":{"t":{"next":{"3":9},"books":{"3":[1,2,3,4,1,0,1]}}}}`)
	f.Add(`{"seq":1,"topics":{"":{"next":null,"books":{"0":[]}}}}`)
	f.Add(`{"seq":9223372036854775807,"topics":{"t":{"next":{"2147483647":9223372036854775807}}},"seq":1}`)
	f.Fuzz(func(t *testing.T, text string) {
		l, err := decodeLedger(text)
		if err != nil {
			return
		}
		if l.Seq < 1 {
			t.Errorf("seq %d", l.Seq)
		}
		again, err := decodeLedger(l.encode(true))
		if err != nil || !again.Equal(l) || !l.Clone().Equal(l) {
			t.Fatalf("%s is read again as %+v, %v", l.encode(true), again, err)
		}
		if s, ok := l.summary(keysOf("x"), "id")[keysOf("x").ledger]; ok {
			if short, err := decodeLedger(s); err != nil || len(s) > ledgerSummaryBytesMax || len(short.Topics) != len(l.Topics) {
				t.Errorf("copy of %d bytes: %v", len(s), err)
			}
		}
		a := Append{ID: "next", From: l.Offsets(), To: Offsets{}, Counts: Counts{}}
		for topic, parts := range a.From {
			for p, next := range parts {
				if next < 1<<62 {
					if a.To[topic] == nil {
						a.To[topic] = map[int32]int64{}
					}
					a.To[topic][p] = next + 10
					a.Counts.Add(topic, p, Count{Rows: 3, Left: 2})
				}
			}
		}
		for topic, parts := range a.From {
			for p := range parts {
				if _, moves := a.To[topic][p]; !moves {
					delete(parts, p)
				}
			}
		}
		if err := l.admits(a); err != nil {
			t.Fatalf("the append that follows %s: %v", text, err)
		}
		m := l.moved(a, 5)
		if !m.passed(a) {
			t.Errorf("moved to %+v", m)
		}
		for topic, parts := range a.To {
			for p, next := range parts {
				was, kept := l.Topics[topic].Books[p]
				if now := m.Topics[topic].Books[p]; (!kept || was.Adds(next-10)) && !now.Adds(next) {
					t.Errorf("%s/%d: the book %+v became %+v at %d", topic, p, was, now, next)
				}
			}
		}
	})
}
