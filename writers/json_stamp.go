package writers

import (
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/apache/iceberg-go"
	"github.com/twmb/franz-go/pkg/kgo"
)

// stamp is a column that is filled from where a record stood, not from what it
// says.
type stamp struct {
	field *field
	kind  stampKind
	utf8  bool // the column holds strings

	key, value *field // of headers: where the two parts of each go
}

type stampKind uint8

const (
	stampTopic stampKind = iota
	stampPartition
	stampOffset
	stampTimestamp
	stampKey
	stampHeaders
)

// newStamp returns how a top-level column is filled from the record, or nil
// when it is filled from its value.
func newStamp(f *field, n *Node) (*stamp, error) {
	s := &stamp{field: f}
	var types []iceberg.Type
	switch n.Name {
	case "_kafka_topic":
		s.kind, types = stampTopic, []iceberg.Type{iceberg.PrimitiveTypes.String}
	case "_kafka_partition":
		s.kind, types = stampPartition, []iceberg.Type{iceberg.PrimitiveTypes.Int32}
	case "_kafka_offset":
		s.kind, types = stampOffset, []iceberg.Type{iceberg.PrimitiveTypes.Int64}
	case "_kafka_timestamp":
		s.kind, types = stampTimestamp, []iceberg.Type{iceberg.PrimitiveTypes.TimestampTz, iceberg.PrimitiveTypes.Timestamp}
	case "_kafka_key":
		s.kind, types = stampKey, []iceberg.Type{iceberg.PrimitiveTypes.String, iceberg.PrimitiveTypes.Binary}
	case "_kafka_headers":
		s.kind = stampHeaders
		if !s.headers() {
			return nil, fmt.Errorf("column %q: filled from the record, so its type must be %s, not %s", n.Name, headersType, n.Type)
		}
		return s, nil
	default:
		return nil, nil
	}
	names := make([]string, len(types))
	for i, t := range types {
		if names[i] = t.String(); n.Type.Equals(t) {
			s.utf8 = f.op == opString
			return s, nil
		}
	}
	return nil, fmt.Errorf("column %q: filled from the record, so its type must be %s, not %s", n.Name, strings.Join(names, " or "), n.Type)
}

// headersType is the type of a column that holds a record's headers.
const headersType = "list<struct<key: string, value: binary>>"

// headers finds the two parts of a header in the column, in either order, and
// reports whether its type is headersType but for what is required.
func (s *stamp) headers() bool {
	list := s.field
	if list.op != opList || list.children[0].op != opStruct || len(list.children[0].children) != 2 {
		return false
	}
	for _, part := range list.children[0].children {
		switch {
		case part.own == "key" && part.op == opString:
			s.key = part
		case part.own == "value" && part.op == opBase64 && part.width == 0:
			s.value = part
		}
	}
	return s.key != nil && s.value != nil
}

// stampAll fills the columns that come from the record itself.
func (d *JSON) stampAll(r *kgo.Record) bool {
	for _, s := range d.stamps {
		f := s.field
		switch s.kind {
		case stampTopic:
			c := &d.cols[f.leaf]
			c.Arena = append(c.Arena, r.Topic...)
			d.seal(f, c, 0)
		case stampPartition:
			d.put(f, int64(r.Partition), 0)
		case stampOffset:
			d.put(f, r.Offset, 0)
		case stampTimestamp:
			if !d.stampTime(f, r) {
				return false
			}
		case stampKey:
			if r.Key == nil {
				if !d.none(f, "the record has no key") {
					return false
				}
				continue
			}
			if s.utf8 && !utf8.Valid(r.Key) {
				d.fail(f, ReasonUTF8, "the record's key "+quote(r.Key)+" is no UTF-8; a binary column would hold it")
				return false
			}
			c := &d.cols[f.leaf]
			c.Arena = append(c.Arena, r.Key...)
			d.seal(f, c, 0)
		case stampHeaders:
			if !d.stampHeaders(s, r.Headers) {
				return false
			}
		}
	}
	return true
}

// stampHeaders fills a column with the record's headers, all of them, in their
// order. Kafka doesn't tell a record without headers from one with none of
// them: it is the empty list.
func (d *JSON) stampHeaders(s *stamp, headers []kgo.RecordHeader) bool {
	if len(headers) == 0 {
		d.mark(s.field, s.field.def, 0)
		return true
	}
	rep := uint8(0)
	for i, h := range headers {
		if !utf8.ValidString(h.Key) {
			d.fail(s.key, ReasonUTF8, fmt.Sprintf("the key %s of header %d is no UTF-8", quote([]byte(h.Key)), i))
			return false
		}
		c := &d.cols[s.key.leaf]
		c.Arena = append(c.Arena, h.Key...)
		d.seal(s.key, c, rep)
		switch {
		case h.Value != nil:
			c = &d.cols[s.value.leaf]
			c.Arena = append(c.Arena, h.Value...)
			d.seal(s.value, c, rep)
		case s.value.required:
			d.fail(s.value, ReasonRequired, fmt.Sprintf("header %d, %s, has no value, and the field is required", i, quote([]byte(h.Key))))
			return false
		default:
			d.mark(s.value, s.value.def-1, rep)
		}
		rep = s.field.rep
	}
	return true
}

// stampTime fills a column with the time at which the record was made or
// appended, as its topic says. Kafka writes -1 for no timestamp.
func (d *JSON) stampTime(f *field, r *kgo.Record) bool {
	if r.Timestamp.IsZero() || TimestampMillis(r.Timestamp) == -1 {
		return d.none(f, "the record has no timestamp")
	}
	ms := TimestampMillis(r.Timestamp)
	if ms < microsMin/1000 || ms > microsMax/1000 {
		d.fail(f, ReasonRange, fmt.Sprintf("the record's timestamp, %d ms, is outside of the years 0001 to 9999", ms))
		return false
	}
	d.put(f, ms*1000, 0)
	return true
}

// TimestampMillis returns the milliseconds since 1970 that a record's batch
// says. The client keeps them as nanoseconds in 64 bits, which wrap around
// before 1678 and after 2262; as it multiplies by a million, nothing is lost:
// the odd factor of a million, 15625, has an inverse among the 64-bit integers.
// A time of another origin, finer than that, is cut to milliseconds.
func TimestampMillis(t time.Time) int64 {
	const odd, twos = 15625, 6 // 1,000,000 = 15625 × 2⁶
	nanos := t.UnixNano()
	if nanos&(1<<twos-1) != 0 {
		return t.UnixMilli()
	}
	inverse := uint64(odd) // Newton's iteration: each step doubles the bits that are right
	for range 6 {
		inverse *= 2 - odd*inverse
	}
	return int64(uint64(nanos>>twos)*inverse<<twos) >> twos
}

// none writes null, or refuses the record when the column is required.
func (d *JSON) none(f *field, why string) bool {
	if f.required {
		d.fail(f, ReasonRequired, why+", and the column is required")
		return false
	}
	d.mark(f, f.def-1, 0)
	return true
}
