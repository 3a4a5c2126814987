package router

import (
	"context"
	"strings"

	"github.com/apache/iceberg-go"

	"icerouter/catalog"
)

// hearFooters asks every data file that the table names which records its rows are.
func (a *audit) hearFooters(ctx context.Context) (err error) {
	a.paths, a.copies = map[string]bool{}, map[string]string{}
	a.deletes, err = a.inspection.Files(ctx, func(f catalog.LiveFile) error { a.hearFooter(f); return nil })
	return err
}

func (a *audit) hearFooter(f catalog.LiveFile) {
	if a.paths[f.Path] {
		a.find("data file %s is in the table twice", f.Path)
	}
	a.paths[f.Path] = true
	if f.Err != nil {
		a.find("data file %s (%d rows): %v", f.Path, f.Rows, f.Err)
		return
	}
	if f.Stored != f.Rows {
		a.find("data file %s has %d rows, the table says %d", f.Path, f.Stored, f.Rows)
	}
	text, noted := f.Notes[originsKey]
	if !noted {
		name := f.Path[strings.LastIndexByte(f.Path, '/')+1:]
		if strings.HasPrefix(name, "router-"+a.cfg.Name+"-") {
			a.files.bare, a.files.bareRows = a.files.bare+1, a.files.bareRows+f.Stored
		} else {
			a.files.foreign, a.files.foreignRows = a.files.foreign+1, a.files.foreignRows+f.Stored
		}
		return
	}
	o, err := decodeOrigins(text)
	switch {
	case err != nil:
		a.find("data file %s: its %s can't be read: %v", f.Path, originsKey, err)
		return
	case o.Ingest != a.cfg.Name:
		a.hearOther(f, o)
		return
	case o.rows() != f.Stored:
		a.find("data file %s has %d rows, its %s speaks of %d", f.Path, f.Stored, originsKey, o.rows())
		return
	}
	if first, seen := a.copies[o.File]; seen && first != f.Path {
		a.find("data files %s and %s are copies of each other: their rows are in the table twice", first, f.Path)
	}
	a.copies[o.File] = f.Path
	a.files.ours, a.files.oursRows = a.files.ours+1, a.files.oursRows+f.Stored
	for topic, t := range o.Topics {
		for _, s := range t.Offsets {
			a.hearSpan(f, o.Cut, topicPartition{topic, int32(s[0])}, t.ID, cutSpan{s[1], s[2], s[3], f.Sequence})
		}
	}
}

// hearOther notes what a file of another ingest holds of our partitions: that
// ingest's audit hears the rest.
func (a *audit) hearOther(f catalog.LiveFile, o originsJSON) {
	for topic, t := range o.Topics {
		if id := a.ledger.Topics[topic].ID; id != "" && t.ID != "" && id != t.ID {
			continue // another log of that name
		}
		for _, s := range t.Offsets {
			w := a.partitions[topicPartition{topic, int32(s[0])}]
			if w == nil {
				continue
			}
			if w.others == nil {
				w.others = map[string][]cutSpan{}
			}
			w.others[o.Ingest] = append(w.others[o.Ingest], cutSpan{s[1], s[2], s[3], f.Sequence})
		}
	}
}

// rows is how many rows the origins speak of.
func (o originsJSON) rows() (n int64) {
	for _, t := range o.Topics {
		for _, s := range t.Offsets {
			n += s[3]
		}
	}
	return n
}

// hearSpan adds what a file holds of one partition to what its cut holds.
func (a *audit) hearSpan(f catalog.LiveFile, cut string, at topicPartition, id string, s cutSpan) {
	w, now := a.partitions[at], a.ledger.Topics[at.topic].ID
	switch {
	case id != "" && now != "" && id != now:
		if w != nil {
			w.former, w.alien = w.former+s.rows, w.alien+s.rows // of a topic of this name that was deleted
		}
	case w == nil:
		a.find("data file %s has %d rows of %s, which the ledger doesn't have", f.Path, s.rows, at)
	case w.kept && (s.last < w.book.Since || f.Sequence > 0 && f.Sequence < w.book.Sequence):
		w.former += s.rows
		if s.last >= w.book.Since {
			w.alien += s.rows
		}
	default:
		c := w.cuts[cut]
		if c == nil {
			c = &cutSpan{first: s.first, last: s.last, sequence: s.sequence}
			w.cuts[cut] = c
		}
		c.first, c.last, c.rows = min(c.first, s.first), max(c.last, s.last), c.rows+s.rows
	}
}

// The columns that make every row say where it comes from.
const (
	columnTopic     = "_kafka_topic"
	columnPartition = "_kafka_partition"
	columnOffset    = "_kafka_offset"
)

// hearRows asks every row where it comes from, if the table has the columns
// that say so without doubt.
func (a *audit) hearRows(ctx context.Context) error {
	columns := a.rowColumns()
	if columns == nil {
		return nil
	}
	only := ""
	for topic := range a.ledger.Topics {
		only = topic
	}
	for _, w := range a.partitions {
		w.rows = &offsetSet{}
	}
	err := a.inspection.Rows(ctx, columns, func(rows int, v []catalog.Values) error {
		at := topicPartition{topic: only, partition: -1}
		var w *testimony
		for row := range rows {
			if v[0].Null(row) || v[1].Null(row) || len(v) > 2 && v[2].Null(row) {
				a.noOrigin++
				continue
			}
			p, topic := int32(v[0].Int(row)), only
			if len(v) > 2 {
				topic = v[2].Text(row)
			}
			if p != at.partition || topic != at.topic {
				at = topicPartition{strings.Clone(topic), p}
				w = a.partitions[at]
			}
			switch offset := v[1].Int(row); {
			case w == nil && len(a.inspection.Ingests()) > 1: // of another ingest's topic
			case w == nil || offset < 0:
				a.noOrigin++
			default:
				w.hear(offset)
			}
		}
		return nil
	})
	if err != nil {
		for _, w := range a.partitions {
			w.rows = nil
		}
		a.rowsBroken = true
		a.find("the rows can't be read: %v", err)
		return ctx.Err()
	}
	a.rowsHeard = true
	return nil
}

// hear takes a row's offset.
func (w *testimony) hear(offset int64) {
	if w.rows.add(offset) {
		return
	}
	if w.extra++; len(w.twice) < runsShown {
		w.twice = append(w.twice, offset)
	}
}

// rowColumns returns the columns to read, or nil, and notes why, where rows
// don't say without doubt where they come from.
func (a *audit) rowColumns() []string {
	p := iceberg.PrimitiveTypes
	has := func(name string, t iceberg.Type) bool {
		there := a.inspection.Column(name)
		return there != nil && there.Equals(t)
	}
	switch {
	case a.footersOnly:
	case !has(columnPartition, p.Int32) || !has(columnOffset, p.Int64):
		a.note("the table has no columns %s and %s, so that rows don't say where they come from", columnPartition, columnOffset)
	case len(a.shared) > 0:
		a.note("rows are not asked: ingest %s reads topics of this one into the same table", strings.Join(a.shared, ", "))
	case has(columnTopic, p.String):
		return []string{columnPartition, columnOffset, columnTopic}
	case len(a.ledger.Topics) > 1 || len(a.inspection.Ingests()) > 1:
		a.note("rows are not asked: the table is filled from several topics and has no column %s", columnTopic)
	default:
		return []string{columnPartition, columnOffset}
	}
	return nil
}
