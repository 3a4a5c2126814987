package router

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// PublishConfig is one [[publish]]: the rows that are appended to a table, as
// records of a topic.
type PublishConfig struct {
	Name   string `toml:"name"`
	Table  string `toml:"table"`
	Topic  string `toml:"topic"`  // may name columns: "out-{region}"
	Format string `toml:"format"` // json
	Start  string `toml:"start"`  // current | earliest | latest | RFC 3339 time | snapshot id

	Key           Names             `toml:"key"`            // columns; none: _kafka_key if the table has it; "none": no key
	Partition     string            `toml:"partition"`      // a column; empty: see publishPlan; "none"
	Timestamp     string            `toml:"timestamp"`      // a column; empty: _kafka_timestamp if the table has it; "none"
	HeadersFrom   string            `toml:"headers_from"`   // a column of headers; empty: _kafka_headers if the table has it; "none"
	Headers       map[string]string `toml:"headers"`        // name of the header → column
	OriginHeaders bool              `toml:"origin_headers"` // router.snapshot, router.file, router.row

	Columns    Names  `toml:"columns"`    // of the value; none: all but those named _kafka_*
	Nulls      string `toml:"nulls"`      // write | omit
	Timestamps string `toml:"timestamps"` // iso | epoch_millis | epoch_micros
	Numbers    string `toml:"numbers"`    // json | string

	Shards              int           `toml:"shards"`
	Group               string        `toml:"group"`          // empty: router-publish-<name>; ask GroupID
	PositionTopic       string        `toml:"position_topic"` // empty: router-positions-<name>; ask Positions
	PollInterval        time.Duration `toml:"poll_interval"`
	TransactionInterval time.Duration `toml:"transaction_interval"`
	TransactionTimeout  time.Duration `toml:"transaction_timeout"`
	Codec               string        `toml:"codec"`           // none | lz4 | snappy | zstd | gzip
	RecordSizeMax       Bytes         `toml:"record_size_max"` // 0: what the topic takes

	OnBadRow        string `toml:"on_bad_row"` // halt | dead_letter
	DeadLetterTopic string `toml:"dead_letter_topic"`
	OnDelete        string `toml:"on_delete"`         // halt | skip
	OnLostSnapshots string `toml:"on_lost_snapshots"` // halt | skip
	OnLostPosition  string `toml:"on_lost_position"`  // halt | restart
	OnTableReplaced string `toml:"on_table_replaced"` // halt | restart
	HoldSnapshots   bool   `toml:"hold_snapshots"`
}

// Names is a list of columns; a single one needs no brackets.
type Names []string

// DefaultPublish returns a [[publish]] section without a line in it.
func DefaultPublish() PublishConfig {
	return PublishConfig{
		Format:              "json",
		Start:               "current",
		Nulls:               "write",
		Timestamps:          "iso",
		Numbers:             "json",
		Shards:              4,
		PollInterval:        500 * time.Millisecond,
		TransactionInterval: 200 * time.Millisecond,
		TransactionTimeout:  time.Minute,
		Codec:               "snappy",
		OnBadRow:            "halt",
		OnDelete:            "halt",
		OnLostSnapshots:     "halt",
		OnLostPosition:      "halt",
		OnTableReplaced:     "halt",
		HoldSnapshots:       true,
	}
}

// GroupID returns the consumer group through which instances share the shards.
func (c PublishConfig) GroupID() string {
	if c.Group != "" {
		return c.Group
	}
	return "router-publish-" + c.Name
}

// Positions returns the topic that keeps the positions.
func (c PublishConfig) Positions() string {
	if c.PositionTopic != "" {
		return c.PositionTopic
	}
	return "router-positions-" + c.Name
}

// TransactionalID returns the id of a shard's transactions. It must never
// change: it is what fences the shard's former owner.
func (c PublishConfig) TransactionalID(shard int) string {
	return "router-" + c.Name + "-" + strconv.Itoa(shard)
}

// StartTime returns the time that Start names, and whether it names one.
func (c PublishConfig) StartTime() (time.Time, bool) {
	t, err := time.Parse(time.RFC3339, c.Start)
	return t, err == nil
}

// StartSnapshot returns the snapshot id that Start names, and whether it names one.
func (c PublishConfig) StartSnapshot() (int64, bool) {
	id, err := strconv.ParseInt(c.Start, 10, 64)
	return id, err == nil && id > 0
}

// none switches off what would be taken from a column of the table by itself.
const none = "none"

// Bounds of a publish, with their reasons.
const (
	shardsMax              = slots                 // a shard without a slot has nothing to do
	pollIntervalMin        = 50 * time.Millisecond // less asks the catalog more than it changes
	pollIntervalMax        = time.Hour             //
	transactionIntervalMin = 10 * time.Millisecond // less makes transactions the work
	transactionIntervalMax = time.Minute           // readers see nothing before
	transactionTimeoutMin  = 5 * time.Second       // less ends transactions that are only slow
	transactionTimeoutMax  = 24 * time.Hour        // the brokers' own bound is 15 min unless they say otherwise
	publishRecordSizeMin   = Bytes(1 << 10)        //
	publishRecordSizeMax   = Bytes(100 << 20)      // one record and its batch are held in memory a few times
)

func (p PublishConfig) problems(r rules) {
	_, isTime := p.StartTime()
	_, isSnapshot := p.StartSnapshot()
	start := oneOf("start", p.Start, "current", "earliest", "latest")
	start.ok = start.ok || isTime || isSnapshot
	start.what += `, a time like "2024-05-01T00:00:00Z", or the id of a snapshot`
	r.check(
		rule{"name", p.Name, ingestName.MatchString(p.Name), "must be 1 to 100 of the characters A-Z a-z 0-9 _ . -; positions and transactions are kept under it"},
		tableRule(p.Table),
		topicRule(p.Topic),
		oneOf("format", p.Format, "json"),
		start,
		oneOf("nulls", p.Nulls, "write", "omit"),
		oneOf("timestamps", p.Timestamps, "iso", "epoch_millis", "epoch_micros"),
		oneOf("numbers", p.Numbers, "json", "string"),
		oneOf("codec", p.Codec, "none", "lz4", "snappy", "zstd", "gzip"),
		oneOf("on_bad_row", p.OnBadRow, policyHalt, policyDeadLetter),
		oneOf("on_delete", p.OnDelete, policyHalt, policySkip),
		oneOf("on_lost_snapshots", p.OnLostSnapshots, policyHalt, policySkip),
		oneOf("on_lost_position", p.OnLostPosition, policyHalt, policyRestart),
		oneOf("on_table_replaced", p.OnTableReplaced, policyHalt, policyRestart),
	)
	p.limitProblems(r)
	p.topicProblems(r)
	p.columnProblems(r)
}

// policyRestart begins again where start says.
const policyRestart = "restart"

func (p PublishConfig) limitProblems(r rules) {
	r.check(
		rule{"shards", p.Shards, p.Shards >= 1 && p.Shards <= shardsMax, fmt.Sprintf("must be from 1 to %d", shardsMax)},
		rule{"poll_interval", p.PollInterval, p.PollInterval >= pollIntervalMin && p.PollInterval <= pollIntervalMax, `must be from "50ms" to "1h"`},
		rule{"transaction_interval", p.TransactionInterval, p.TransactionInterval >= transactionIntervalMin && p.TransactionInterval <= transactionIntervalMax, `must be from "10ms" to "1m"`},
		rule{"transaction_timeout", p.TransactionTimeout, p.TransactionTimeout >= transactionTimeoutMin && p.TransactionTimeout <= transactionTimeoutMax, `must be from "5s" to "24h"`},
		rule{"transaction_timeout", p.TransactionTimeout, p.TransactionTimeout >= 4*p.TransactionInterval, "must be at least four times transaction_interval, or slow transactions are aborted"},
		rule{"record_size_max", p.RecordSizeMax, p.RecordSizeMax == 0 || p.RecordSizeMax >= publishRecordSizeMin && p.RecordSizeMax <= publishRecordSizeMax, `must be from "1KiB" to "100MiB", or "0" for what the topic takes`},
	)
}

func (p PublishConfig) topicProblems(r rules) {
	const what = "not a topic name: 1 to 249 of the characters A-Z a-z 0-9 . _ -"
	named := func(key, topic string) rule {
		return rule{key, topic, topic == "" || topicName.MatchString(topic), what}
	}
	r.check(
		named("position_topic", p.PositionTopic),
		rule{"position_topic", p.PositionTopic, p.PositionTopic == "" || p.PositionTopic != p.Topic, "the same as topic: positions need a topic of their own"},
		named("dead_letter_topic", p.DeadLetterTopic),
		rule{"dead_letter_topic", nil, p.OnBadRow != policyDeadLetter || p.DeadLetterTopic != "", `missing: on_bad_row is "dead_letter"; name the topic that takes the letters`},
		rule{"dead_letter_topic", p.DeadLetterTopic, p.DeadLetterTopic == "" || p.DeadLetterTopic != p.Topic && p.DeadLetterTopic != p.Positions(), "taken by the records or the positions: letters need a topic of their own"},
	)
}

// columnProblems checks what can be known without the table.
func (p PublishConfig) columnProblems(r rules) {
	for _, list := range []struct {
		key   string
		names Names
	}{{"key", p.Key}, {"columns", p.Columns}} {
		for i, name := range list.names {
			key := list.key
			if len(list.names) > 1 {
				key = fmt.Sprintf("%s[%d]", list.key, i)
			}
			r.check(
				rule{key, name, name != "", "must name a column"},
				rule{key, name, !slices.Contains(list.names[:i], name), "listed twice"},
			)
		}
	}
	for name, column := range p.Headers {
		r.check(rule{joinKey("headers", name), column, column != "", "must name a column"})
	}
}

// topicPart finds the columns that a topic names.
var topicPart = regexp.MustCompile(`\{([^{}]*)\}`)

func topicRule(topic string) rule {
	if topic == "" {
		return rule{"topic", nil, false, `missing; write topic = "orders-replay", or with columns topic = "orders-{region}"`}
	}
	plain := topicPart.ReplaceAllString(topic, "x")
	return rule{"topic", topic, topicName.MatchString(plain) && plain != "." && plain != ".." && !strings.Contains(topic, "{}"),
		`must be 1 to 249 of the characters A-Z a-z 0-9 . _ -, and columns in braces, like "orders-{region}"`}
}

// publishProblems checks every [[publish]], and that they keep apart.
func (c Config) publishProblems(out *[]Problem) {
	type taken struct {
		what, value string
	}
	first := map[taken]int{}
	for i, p := range c.Publish {
		r := rules{fmt.Sprintf("publish[%d].", i), out}
		p.problems(r)
		if p.Name == "" {
			continue
		}
		for _, t := range []struct{ key, value, why string }{
			{"name", p.Name, "the name keeps positions and transactions apart, so each publish needs its own"},
			{"group", p.GroupID(), "members of one consumer group must share the same work"},
			{"position_topic", p.Positions(), "positions of two publishes would mix"},
		} {
			other, is := first[taken{t.key, t.value}]
			r.check(rule{t.key, t.value, !is, fmt.Sprintf("taken by publish[%d]; %s", other, t.why)})
			if is {
				break // the others follow from it
			}
			first[taken{t.key, t.value}] = i
		}
	}
	groups := map[string]int{}
	for i, in := range c.Ingest {
		groups[in.GroupID()] = i
	}
	for i, p := range c.Publish {
		if in, is := groups[p.GroupID()]; is {
			rules{fmt.Sprintf("publish[%d].", i), out}.check(rule{"group", p.GroupID(), false, fmt.Sprintf("taken by ingest[%d]; members of one consumer group must share the same work", in)})
		}
	}
}

// publishDoubts are settings of publishes that work and are likely not meant.
func (c Config) publishDoubts(doubt func(when bool, key, what string)) {
	for i, p := range c.Publish {
		at := fmt.Sprintf("publish[%d].", i)
		doubt(p.DeadLetterTopic != "" && p.OnBadRow != policyDeadLetter, at+"dead_letter_topic", `not used: on_bad_row is not "dead_letter"`)
		for j, in := range c.Ingest {
			doubt(in.Table == p.Table && slices.Contains(in.Topics, p.Topic), at+"topic",
				fmt.Sprintf("ingest[%d] reads it into the same table: each row comes back as a record, and each record as a row, without end", j))
		}
	}
}
