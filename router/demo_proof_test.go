package router

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"
)

// Each way in which a table can differ from the topic must show.
func TestProof(t *testing.T) {
	type row struct {
		partition, offset, id int64
		text                  string
	}
	f := func(name string, want proofResult, fault string, change func(rows []row) []row) {
		t.Run(name, func(t *testing.T) {
			p := newProof(map[int32]int64{0: 100, 1: 64, 2: 0})
			var rows []row
			for partition, end := range []int64{100, 64, 0} {
				for offset := range end {
					r := row{int64(partition), offset, offset * 7, fmt.Sprintf("text \"%d\"", offset)}
					rows = append(rows, r)
					err := p.addRecord(&kgo.Record{Partition: int32(partition), Offset: offset,
						Value: fmt.Appendf(nil, `{"logStreamId": %d, "message": %q}`, r.id, r.text)})
					if err != nil {
						t.Fatalf("record %v: %v", r, err)
					}
				}
			}
			for _, r := range change(rows) {
				p.addRow(r.partition, r.offset, r.id, r.text)
			}
			got := p.result()
			if (fault == "") != (len(got.faults) == 0) || !strings.Contains(strings.Join(got.faults, "\n"), fault) {
				t.Errorf("faults %q, want %q", got.faults, fault)
			}
			got.faults = nil
			if !reflect.DeepEqual(got, want) {
				t.Errorf("got %+v, want %+v", got, want)
			}
			if holds := p.result().holds(); holds != (name == "whole" || name == "another order") {
				t.Errorf("the proof holds: %v", holds)
			}
		})
	}
	f("whole", proofResult{produced: 164, inTable: 164}, "", func(rows []row) []row { return rows })
	f("another order", proofResult{produced: 164, inTable: 164}, "", func(rows []row) []row { return append(rows[50:], rows[:50]...) })
	f("duplicate", proofResult{produced: 164, inTable: 166, duplicated: 2}, "", func(rows []row) []row { return append(rows, rows[3], rows[3]) })
	f("missing", proofResult{produced: 164, inTable: 162, missing: 2}, "", func(rows []row) []row { return rows[2:] })
	f("one for another", proofResult{produced: 164, inTable: 164, duplicated: 1, missing: 1}, "", func(rows []row) []row {
		rows[8] = rows[9]
		return rows
	})
	f("past the end", proofResult{produced: 164, inTable: 165}, "1 rows are of no record", func(rows []row) []row {
		return append(rows, row{partition: 1, offset: 64})
	})
	f("unknown partition", proofResult{produced: 164, inTable: 165}, "1 rows are of no record", func(rows []row) []row {
		return append(rows, row{partition: 3})
	})
	f("partition past 32 bits", proofResult{produced: 164, inTable: 165}, "1 rows are of no record", func(rows []row) []row {
		return append(rows, row{partition: 1 << 32})
	})
	f("negative offset", proofResult{produced: 164, inTable: 165}, "1 rows are of no record", func(rows []row) []row {
		return append(rows, row{offset: -1})
	})
	f("another id", proofResult{produced: 164, inTable: 164}, "partition 0: an id or a text", func(rows []row) []row {
		rows[8].id++
		return rows
	})
	f("another text", proofResult{produced: 164, inTable: 164}, "partition 1: an id or a text", func(rows []row) []row {
		rows[163].text = "other"
		return rows
	})
	f("two ids exchanged", proofResult{produced: 164, inTable: 164}, "partition 0: an id or a text", func(rows []row) []row {
		rows[1].id, rows[2].id = rows[2].id, rows[1].id
		return rows
	})
	f("nothing", proofResult{produced: 164, missing: 164}, "", func([]row) []row { return nil })
}

func TestProofRefusesRecordsTwice(t *testing.T) {
	p := newProof(map[int32]int64{0: 2})
	r := &kgo.Record{Value: []byte(`{}`)}
	if err := p.addRecord(r); err != nil || p.ahead() != 1 {
		t.Fatalf("error %v with %d ahead, want 1", err, p.ahead())
	}
	if err := p.addRecord(r); err == nil {
		t.Error("an offset that the broker served twice was counted")
	}
	if err := p.addRecord(&kgo.Record{Offset: 2, Value: []byte(`{}`)}); err != nil || p.ahead() != 1 {
		t.Errorf("a record past the end: error %v, %d ahead; want it passed over", err, p.ahead())
	}
}
