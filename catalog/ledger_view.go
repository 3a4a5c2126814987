package catalog

import "maps"

// LedgerProperty names the table property that holds the ledger of an ingest.
func LedgerProperty(ingest string) string { return keysOf(ingest).ledger }

// Clone returns a copy that shares nothing with l.
func (l Ledger) Clone() Ledger {
	topics := make(map[string]TopicLedger, len(l.Topics))
	for name, t := range l.Topics {
		topics[name] = TopicLedger{ID: t.ID, Next: maps.Clone(t.Next), Books: maps.Clone(t.Books), Retired: t.Retired}
	}
	l.Topics = topics
	return l
}

// Equal reports whether two ledgers say the same.
func (l Ledger) Equal(o Ledger) bool { return l.Append == o.Append && l.equal(o) }

// Highest returns the partition that is farthest on, and its next offset.
func (t TopicLedger) Highest() (partition int32, next int64) {
	next = -1
	for p, n := range t.Next {
		if n > next || n == next && p < partition {
			partition, next = p, n
		}
	}
	return partition, next
}
