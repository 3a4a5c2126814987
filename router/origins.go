package router

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"

	"icerouter/catalog"
)

// originsKey is the entry of a data file's Parquet metadata that says which
// records its rows are.
const originsKey = "router.origins"

// stretch is the rows that a data file has of one Kafka partition: how many, and
// the offsets of the first and the last.
type stretch struct{ first, last, rows int64 }

// origins is where the rows of a data file come from. It costs memory by the
// partition, not by the row.
type origins struct {
	spans map[topicPartition]*stretch
	at    topicPartition // the partition that came last
	now   *stretch
}

// add notes rows of a partition, which follow those noted before.
func (o *origins) add(p topicPartition, first, last, rows int64) {
	if o.now == nil || o.at != p {
		s := o.spans[p]
		if s == nil {
			if o.spans == nil {
				o.spans = map[topicPartition]*stretch{}
			}
			s = &stretch{first: first, last: first}
			o.spans[p] = s
		}
		o.at, o.now = p, s
	}
	o.now.first, o.now.last, o.now.rows = min(o.now.first, first), max(o.now.last, last), o.now.rows+rows
}

// spanBytes is about what one partition of origins takes in memory.
const spanBytes = 96

func (o *origins) size() int64 { return int64(len(o.spans)) * spanBytes }

// each visits the spans, in no order.
func (o *origins) each(visit func(topicPartition, stretch)) {
	for p, s := range o.spans {
		visit(p, *s)
	}
}

// originsJSON is the stored form.
type originsJSON struct {
	Ingest  string                `json:"ingest"`
	File    string                `json:"file"` // the random part of the file's name: a copy under another name has it, too
	Cut     string                `json:"cut"`  // of the cut: no other has offsets between those that its files have
	Cluster string                `json:"cluster,omitempty"`
	Topics  map[string]topicSpans `json:"topics"`
}

type topicSpans struct {
	ID      string     `json:"id,omitempty"`
	Offsets [][4]int64 `json:"offsets"` // partition, first, last, rows
}

// encode writes the origins of a file, given its own id and its cut's.
func (o *origins) encode(ingest, file, cut string, s catalog.Source) []byte {
	j := originsJSON{Ingest: ingest, File: file, Cut: cut, Cluster: s.Cluster, Topics: map[string]topicSpans{}}
	o.each(func(p topicPartition, s stretch) {
		t := j.Topics[p.topic]
		t.Offsets = append(t.Offsets, [4]int64{int64(p.partition), s.first, s.last, s.rows})
		j.Topics[p.topic] = t
	})
	for topic, t := range j.Topics {
		t.ID = s.TopicIDs[topic]
		slices.SortFunc(t.Offsets, func(a, b [4]int64) int { return cmp.Compare(a[0], b[0]) })
		j.Topics[topic] = t
	}
	text, err := json.Marshal(j)
	if err != nil {
		panic(fmt.Sprintf("encode origins: %v", err)) // strings and numbers always encode
	}
	return text
}

// decodeOrigins reads what encode wrote, in this or another version, and
// refuses what no encode has written.
func decodeOrigins(text string) (originsJSON, error) {
	var j originsJSON
	if err := json.Unmarshal([]byte(text), &j); err != nil {
		return j, err
	}
	for topic, t := range j.Topics {
		for _, s := range t.Offsets {
			if s[0] < 0 || s[0] > 1<<31-1 || s[1] < 0 || s[2] < s[1] || s[3] < 1 {
				return j, fmt.Errorf("topic %s: %v is not a partition, its first and last offset and its rows", topic, s)
			}
		}
	}
	return j, nil
}
