package router

import (
	"encoding/base64"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/apache/iceberg-go"

	"icerouter/catalog"
	"icerouter/writers"
)

// publishPlan is how a row of one schema becomes a record. It is immutable.
type publishPlan struct {
	schema int
	scan   *writers.Scan
	extras []string // columns that are read beside the value

	key       []keyColumn
	partition int  // place in extras, -1 without
	strict    bool // a partition that the topic doesn't have is a bad row
	timestamp int
	perMilli  int64 // units of timestamp in a millisecond
	pairs     int   // headers of the record that the row came from
	headers   []headerColumn
	topic     []topicText
}

// keyColumn is a column of the key, and how it stands in an array of several.
type keyColumn struct {
	extra int
	form  keyForm
}

type keyForm int

const (
	keyText   keyForm = iota // a string
	keyBinary                // a string of base64
	keyJSON                  // as it is: numbers, booleans, nested columns
	keyFloat                 // a number, or a string where JSON has no such number
)

type headerColumn struct {
	name  string
	extra int
}

// topicText is a part of a topic's name: text, or a column.
type topicText struct {
	text  string
	extra int // -1: text
}

// The columns that an ingest fills from the record itself.
const (
	kafkaKeyColumn       = "_kafka_key"
	kafkaPartitionColumn = "_kafka_partition"
	kafkaTimestampColumn = "_kafka_timestamp"
	kafkaHeadersColumn   = "_kafka_headers"
	kafkaColumns         = "_kafka_"
)

// newPublishPlan looks the configured columns up in the table's schema. The
// error names every one that doesn't fit.
//
// A table that kept where its records came from gives them back as they were:
// what isn't configured is taken from the columns _kafka_key, _kafka_timestamp
// and _kafka_headers, and where the key is taken so, from _kafka_partition.
func newPublishPlan(cfg PublishConfig, schema *iceberg.Schema, names iceberg.NameMapping) (*publishPlan, error) {
	l := &columnLookup{schema: schema, plan: &publishPlan{schema: schema.ID, partition: -1, timestamp: -1, pairs: -1}}
	p := l.plan
	l.keyAndPartition(cfg)
	if name := l.given(cfg.Timestamp, kafkaTimestampColumn); name != "" {
		var typ iceberg.Type
		p.timestamp, typ = l.column("timestamp", name, moments)
		p.perMilli = unitsPerMilli(typ)
	}
	if name := l.given(cfg.HeadersFrom, kafkaHeadersColumn); name != "" {
		p.pairs, _ = l.column("headers_from", name, headerPairs)
	}
	for _, name := range slices.Sorted(maps.Keys(cfg.Headers)) {
		at, _ := l.column(joinKey("headers", name), cfg.Headers[name], anything)
		p.headers = append(p.headers, headerColumn{name, at})
	}
	for _, t := range splitTopic(cfg.Topic) {
		if t.extra >= 0 {
			t.extra, _ = l.column("topic", t.text, anything)
		}
		p.topic = append(p.topic, t)
	}
	for _, name := range cfg.Columns {
		if _, ok := schema.FindFieldByName(name); !ok {
			l.missing("columns", name)
		}
	}
	if len(l.problems) > 0 {
		return nil, errors.Join(l.problems...)
	}
	return p, p.compile(cfg, schema, names)
}

// columnLookup finds configured columns in a schema, and collects what is wrong.
type columnLookup struct {
	schema   *iceberg.Schema
	plan     *publishPlan
	problems []error
}

func (l *columnLookup) problem(key, format string, args ...any) {
	l.problems = append(l.problems, &columnError{key, fmt.Sprintf(format, args...)})
}

func (l *columnLookup) missing(key, name string) {
	l.problem(key, "the table has no column %q%s", name, meant(l.schema, name))
}

// column returns the place of a column among the extras, and its type; -1 and
// nil, and a problem, where there is none or it doesn't fit.
func (l *columnLookup) column(key, name string, fits func(iceberg.Type) string) (int, iceberg.Type) {
	f, ok := l.schema.FindFieldByName(name)
	if !ok {
		l.missing(key, name)
		return -1, nil
	}
	if why := fits(f.Type); why != "" {
		l.problem(key, "column %q is %s: %s", name, f.Type, why)
		return -1, nil
	}
	return l.plan.extra(name), f.Type
}

// given returns the column that is configured, else the preset where the table
// has it and nobody switched it off.
func (l *columnLookup) given(setting, preset string) string {
	if setting != "" && setting != none {
		return setting
	}
	if _, there := l.schema.FindFieldByName(preset); there && setting == "" {
		return preset
	}
	return ""
}

func (l *columnLookup) keyAndPartition(cfg PublishConfig) {
	keys, origin := []string(cfg.Key), false
	switch {
	case len(keys) == 1 && keys[0] == none:
		keys = nil
	case len(keys) == 0:
		if name := l.given("", kafkaKeyColumn); name != "" {
			keys, origin = []string{name}, true
		}
	}
	for _, name := range keys {
		if at, typ := l.column("key", name, anything); at >= 0 {
			l.plan.key = append(l.plan.key, keyColumn{at, keyFormOf(typ, cfg.Timestamps)})
		}
	}
	if name := l.given(cfg.Partition, kafkaPartitionColumn); name != "" && (cfg.Partition != "" || origin) {
		l.plan.partition, _ = l.column("partition", name, wholeNumber)
		l.plan.strict = cfg.Partition != ""
	}
}

// compile makes the scan.
func (p *publishPlan) compile(cfg PublishConfig, schema *iceberg.Schema, names iceberg.NameMapping) (err error) {
	o := writers.ScanOptions{Columns: cfg.Columns, Extra: p.extras, NameMapping: names, Timestamps: cfg.Timestamps, Numbers: cfg.Numbers, Nulls: cfg.Nulls}
	if len(cfg.Columns) == 0 {
		for _, f := range schema.Fields() {
			if strings.HasPrefix(f.Name, kafkaColumns) {
				o.Hidden = append(o.Hidden, f.Name)
			}
		}
	}
	p.scan, err = writers.NewScan(schema, o)
	return err
}

// columnError is a configured column that the table can't give.
type columnError struct{ key, text string }

func (e *columnError) Error() string { return e.key + ": " + e.text }

// extra returns the place of a column among those that are read beside the value.
func (p *publishPlan) extra(name string) int {
	if at := slices.Index(p.extras, name); at >= 0 {
		return at
	}
	p.extras = append(p.extras, name)
	return len(p.extras) - 1
}

// meant suggests a column with a similar name.
func meant(schema *iceberg.Schema, name string) string {
	var all []string
	for _, f := range schema.Fields() {
		all = append(all, f.Name)
	}
	if near := nearest(name, all); near != "" {
		return fmt.Sprintf(" (did you mean %q?)", near)
	}
	return ""
}

func anything(iceberg.Type) string { return "" }

func wholeNumber(t iceberg.Type) string {
	switch t.(type) {
	case iceberg.Int32Type, iceberg.Int64Type:
		return ""
	}
	return "a partition's number must be int or long"
}

func moments(t iceberg.Type) string {
	if unitsPerMilli(t) > 0 {
		return ""
	}
	return "a record's timestamp must be timestamp, timestamptz or long (milliseconds since 1970)"
}

func headerPairs(t iceberg.Type) string {
	if writers.PairsOf(t) {
		return ""
	}
	return "headers must be list<struct<key: string, value: binary>> or map<string, binary>"
}

// unitsPerMilli returns how many of a column's units are a millisecond, 0 where it is no time.
func unitsPerMilli(t iceberg.Type) int64 {
	switch t.(type) {
	case iceberg.Int64Type:
		return 1
	case iceberg.TimestampType, iceberg.TimestampTzType:
		return 1000
	case iceberg.TimestampNsType, iceberg.TimestampTzNsType:
		return 1_000_000
	}
	return 0
}

// keyFormOf tells how the text of a column stands in a JSON array.
func keyFormOf(t iceberg.Type, timestamps string) keyForm {
	switch t.(type) {
	case iceberg.BooleanType, iceberg.Int32Type, iceberg.Int64Type, iceberg.DecimalType, *iceberg.StructType, *iceberg.ListType, *iceberg.MapType:
		return keyJSON
	case iceberg.Float32Type, iceberg.Float64Type:
		return keyFloat
	case iceberg.BinaryType, iceberg.FixedType:
		return keyBinary
	case iceberg.TimestampType, iceberg.TimestampTzType, iceberg.TimestampNsType, iceberg.TimestampTzNsType:
		if timestamps != "iso" {
			return keyJSON
		}
	}
	return keyText
}

// splitTopic takes "orders-{region}" apart. A part with an extra of 0 is a column.
func splitTopic(topic string) (parts []topicText) {
	for len(topic) > 0 {
		at := topicPart.FindStringSubmatchIndex(topic)
		if at == nil {
			return append(parts, topicText{topic, -1})
		}
		if at[0] > 0 {
			parts = append(parts, topicText{topic[:at[0]], -1})
		}
		parts = append(parts, topicText{topic[at[2]:at[3]], 0})
		topic = topic[at[1]:]
	}
	return parts
}

// fixedTopic returns the topic where it is the same for all rows.
func (p *publishPlan) fixedTopic() (string, bool) {
	if len(p.topic) == 1 && p.topic[0].extra < 0 {
		return p.topic[0].text, true
	}
	return "", false
}

// appendTopic appends the topic of row i. A null makes none.
func (p *publishPlan) appendTopic(to []byte, rows *writers.Rows, i int) (_ []byte, err error) {
	for _, t := range p.topic {
		if t.extra < 0 {
			to = append(to, t.text...)
			continue
		}
		if rows.Null(t.extra, i) {
			return to, &badRow{reason: "topic", detail: fmt.Sprintf("column %q, which the topic is named by, is null", t.text)}
		}
		if to, err = rows.AppendText(to, t.extra, i); err != nil {
			return to, err
		}
	}
	return to, nil
}

// appendKey appends the key of row i: the text of one column, or a JSON array
// of several. has is false where there is no key.
func (p *publishPlan) appendKey(to []byte, rows *writers.Rows, i int) (_ []byte, has bool, err error) {
	switch len(p.key) {
	case 0:
		return to, false, nil
	case 1:
		if rows.Null(p.key[0].extra, i) {
			return to, false, nil
		}
		to, err = rows.AppendText(to, p.key[0].extra, i)
		return to, true, err
	}
	to = append(to, '[')
	for n, c := range p.key {
		if n > 0 {
			to = append(to, ',')
		}
		if to, err = appendKeyPart(to, rows, c, i); err != nil {
			return to, true, err
		}
	}
	return append(to, ']'), true, nil
}

func appendKeyPart(to []byte, rows *writers.Rows, c keyColumn, i int) ([]byte, error) {
	if rows.Null(c.extra, i) {
		return append(to, "null"...), nil
	}
	if c.form == keyJSON {
		return rows.AppendText(to, c.extra, i)
	}
	text, err := rows.AppendText(nil, c.extra, i)
	switch {
	case err != nil:
		return to, err
	case c.form == keyBinary:
		to = base64.StdEncoding.AppendEncode(append(to, '"'), text)
		return append(to, '"'), nil
	case c.form == keyFloat && text[len(text)-1] <= '9': // not NaN, not Infinity
		return append(to, text...), nil
	}
	return appendJSONString(to, text), nil
}

// appendJSONString appends a string as JSON writes it.
func appendJSONString(to, text []byte) []byte {
	const hex = "0123456789abcdef"
	to = append(to, '"')
	for _, c := range text {
		switch {
		case c == '"' || c == '\\':
			to = append(to, '\\', c)
		case c < ' ':
			to = append(to, '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
		default:
			to = append(to, c)
		}
	}
	return append(to, '"')
}

// timestampOf returns the record's timestamp of row i, zero for the time of
// publishing. The client takes a time as nanoseconds in 64 bits: what doesn't
// fit is a *badRow.
func (p *publishPlan) timestampOf(rows *writers.Rows, i int) (time.Time, error) {
	if p.timestamp < 0 || rows.Null(p.timestamp, i) {
		return time.Time{}, nil
	}
	units := rows.Int(p.timestamp, i)
	ms := units / p.perMilli
	if units%p.perMilli < 0 {
		ms-- // before 1970, too, the earlier millisecond
	}
	if ms < math.MinInt64/1_000_000 || ms > math.MaxInt64/1_000_000 {
		return time.Time{}, &badRow{"timestamp", fmt.Sprintf("column %q says %s, a record's timestamp can be of the years 1678 to 2261", p.extras[p.timestamp], time.UnixMilli(ms).UTC().Format(time.RFC3339))}
	}
	return time.UnixMilli(ms), nil
}

// planOf returns the plan of the view's schema.
func (p *publish) planOf(v *catalog.View) (*publishPlan, error) {
	names, err := v.NameMapping()
	if err != nil {
		return nil, err
	}
	plan, err := newPublishPlan(p.cfg, v.Schema(), names)
	if err != nil {
		return nil, haltf("table %s: %v; correct the [[publish]] section, or the table", p.cfg.Table, err)
	}
	return plan, nil
}
