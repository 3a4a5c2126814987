package router

import (
	"fmt"
	"net"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"icerouter/catalog"
)

// Bounds of the configuration, with their reasons.
const (
	memoryMaxMin        = 64 << 20 // less holds not even the fetches of a few brokers
	stopTimeoutMin      = time.Second
	stopTimeoutMax      = time.Hour
	sessionTimeoutMin   = time.Second
	sessionTimeoutMax   = 30 * time.Minute       // Kafka's group.max.session.timeout.ms
	triggerMin          = 100 * time.Millisecond // less makes commits the work
	triggerMax          = 24 * time.Hour         // more is a clock, not a trigger
	triggerBytesMin     = 64 << 10
	targetFileSizeMin   = 64 << 10
	targetFileSizeMax   = 4 << 30 // a file is closed in memory
	recordSizeMaxMin    = 1 << 10
	recordSizeMaxMax    = 1 << 30 // Kafka's own bound is 2 GiB for a whole batch
	cutsInFlightMax     = 16
	openFilesMax        = 1 << 16
	keepSnapshotsMax    = 1 << 20
	keepSnapshotsForMax = 365 * 24 * time.Hour
)

// Validate reports every problem at once, as a *ConfigError. Load has called
// it; a Config made in code calls it itself.
func (c Config) Validate() error {
	problems := c.problems()
	if len(problems) == 0 {
		return nil
	}
	hide := newSecrets(append(slices.Clone(c.secrets.values), c.harvest()...))
	for i := range problems {
		p := &problems[i]
		if isSecretName(p.Key) {
			p.Value = secretMask
		}
		p.Value, p.What = hide.mask(p.Value), hide.mask(p.What)
	}
	return &ConfigError{Problems: problems}
}

// rule is one thing that must hold; what says the bound and the remedy.
type rule struct {
	key   string
	value any
	ok    bool
	what  string
}

// rules collects problems by a prefix of the key.
type rules struct {
	prefix string
	out    *[]Problem
}

func (r rules) check(list ...rule) {
	for _, c := range list {
		if c.ok {
			continue
		}
		shown := fmt.Sprint(c.value)
		switch v := c.value.(type) {
		case string:
			shown = strconv.Quote(v)
		case Bytes, time.Duration:
			shown = strconv.Quote(shown)
		case nil:
			shown = ""
		}
		*r.out = append(*r.out, Problem{Key: r.prefix + c.key, Value: shown, What: c.what})
	}
}

// oneOf is the rule of a word out of a few.
func oneOf(key, value string, words ...string) rule {
	what := "must be " + strings.Join(quoteAll(words), " or ")
	if len(words) > 2 {
		what = "must be one of " + strings.Join(quoteAll(words), ", ")
	}
	if near := nearest(value, words); near != "" && value != "" {
		what += fmt.Sprintf(" (did you mean %q?)", near)
	}
	return rule{key, value, slices.Contains(words, value), what}
}

func quoteAll(words []string) []string {
	out := make([]string, len(words))
	for i, w := range words {
		out[i] = strconv.Quote(w)
	}
	return out
}

// problems checks the whole configuration.
func (c Config) problems() (out []Problem) {
	rules{"", &out}.check(
		rule{"memory_max", c.MemoryMax, c.MemoryMax >= memoryMaxMin, `must be at least "64MiB"`},
		rule{"stop_timeout", c.StopTimeout, c.StopTimeout >= stopTimeoutMin && c.StopTimeout <= stopTimeoutMax, `must be from "1s" to "1h"`},
		oneOf("on_failure", c.OnFailure, "stop_ingest", "stop_all"),
		rule{"ingest", nil, len(c.Ingest)+len(c.Publish) > 0, "no [[ingest]] and no [[publish]] section: nothing to do; add one with name, topics and table"},
		oneOf("log.level", c.Log.Level, "debug", "info", "warn", "error"),
		oneOf("log.format", c.Log.Format, "json", "console"),
		rule{"http.listen", c.HTTP.Listen, c.HTTP.Listen == "" || isHostPort(c.HTTP.Listen, true), `must be host:port, like "127.0.0.1:8080", or "" to switch HTTP off`},
	)
	c.Kafka.problems(rules{"kafka.", &out})
	c.Catalog.problems(rules{"catalog.", &out})
	names, groups := map[string]int{}, map[string]int{}
	for i, in := range c.Ingest {
		r := rules{fmt.Sprintf("ingest[%d].", i), &out}
		in.problems(r, c.MemoryMax)
		if first, taken := names[in.Name]; taken && in.Name != "" {
			r.check(rule{"name", in.Name, false, fmt.Sprintf("taken by ingest[%d]; the name keeps the ledgers apart, so each ingest needs its own", first)})
		} else if first, taken := groups[in.GroupID()]; taken && in.Name != "" {
			r.check(rule{"group", in.GroupID(), false, fmt.Sprintf("taken by ingest[%d]; members of one consumer group must read the same topics", first)})
		} else {
			names[in.Name], groups[in.GroupID()] = i, i
		}
	}
	c.publishProblems(&out)
	return out
}

func (k KafkaConfig) problems(r rules) {
	r.check(rule{"brokers", nil, len(k.Brokers) > 0, `missing; list at least one, like brokers = ["localhost:9092"]`})
	for i, b := range k.Brokers {
		what := `must be host:port, like "localhost:9092"`
		if _, address, ok := strings.Cut(b, "://"); ok {
			what = fmt.Sprintf("must be host:port without a scheme, like %q; [kafka.tls] and [kafka.sasl] say the rest", address)
		}
		r.check(rule{fmt.Sprintf("brokers[%d]", i), b, isHostPort(b, false), what})
	}
	r.check(rule{"session_timeout", k.SessionTimeout, k.SessionTimeout >= sessionTimeoutMin && k.SessionTimeout <= sessionTimeoutMax, `must be from "1s" to "30m"`})
	if t := k.TLS; t != nil {
		r.check(
			rule{"tls.key_file", t.KeyFile, t.CertFile == "" || t.KeyFile != "", "missing: cert_file is set; a client certificate needs both"},
			rule{"tls.cert_file", t.CertFile, t.KeyFile == "" || t.CertFile != "", "missing: key_file is set; a client certificate needs both"},
			readable("tls.ca_file", t.CAFile), readable("tls.cert_file", t.CertFile), readable("tls.key_file", t.KeyFile),
		)
	}
	if s := k.SASL; s != nil {
		r.check(
			oneOf("sasl.mechanism", s.Mechanism, "PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"),
			rule{"sasl.username", s.Username, s.Username != "", "missing"},
			rule{"sasl.password", nil, s.Password != "", `missing; write password = "${NAME}" or "${file:/path}"`},
		)
	}
}

// readable is the rule of a file that must be there.
func readable(key, path string) rule {
	if path == "" {
		return rule{ok: true}
	}
	f, err := os.Open(path)
	if err != nil {
		return rule{key, path, false, fmt.Sprintf("cannot be read (%v)", unwrapPath(err))}
	}
	f.Close() //nolint:errcheck // opened for reading
	return rule{ok: true}
}

// unwrapPath drops the path that the key's value has shown already.
func unwrapPath(err error) error {
	if u, ok := err.(interface{ Unwrap() error }); ok && u.Unwrap() != nil {
		return u.Unwrap()
	}
	return err
}

var catalogTypes = []string{"rest", "sql"}

func (k CatalogConfig) problems(r rules) {
	r.check(rule{"name", k.Name, k.Name != "", "must not be empty"})
	switch k.Type {
	case "glue", "hive", "hadoop":
		r.check(rule{"type", k.Type, false, `not supported yet; use "rest" or "sql"`})
		return
	case "":
		r.check(rule{"type", nil, false, `missing; write type = "rest" or type = "sql"`})
	default:
		r.check(oneOf("type", k.Type, catalogTypes...))
	}
	shape := `like "http://localhost:8181" (rest) or "sqlite:catalog.db" (sql)`
	ok := k.URI != ""
	switch k.Type {
	case "rest":
		shape = `an http:// or https:// address, like "http://localhost:8181"`
		u, err := url.Parse(k.URI)
		ok = ok && err == nil && (u.Scheme == "http" || u.Scheme == "https") && u.Host != ""
	case "sql":
		shape = `"sqlite:PATH", or "postgres://user:${PASSWORD}@host/database"`
		ok = ok && sqlURI.MatchString(k.URI)
	}
	if k.URI == "" {
		r.check(rule{"uri", nil, false, "missing; write " + shape})
	} else {
		r.check(rule{"uri", k.URI, ok, "must be " + shape})
	}
	r.check(rule{"warehouse", nil, k.Warehouse != "" || k.Type != "sql", `missing; write where tables are kept, like "s3://lake/warehouse" or "file:///var/lib/router/warehouse"`})
}

var sqlURI = regexp.MustCompile(`^(sqlite:.+|postgres(ql)?://.+)$`)

var (
	ingestName = regexp.MustCompile(`^[A-Za-z0-9_.-]{1,100}$`)
	topicName  = regexp.MustCompile(`^[A-Za-z0-9._-]{1,249}$`)
)

func (in IngestConfig) problems(r rules, memory Bytes) {
	r.check(
		rule{"name", in.Name, ingestName.MatchString(in.Name), "must be 1 to 100 of the characters A-Z a-z 0-9 _ . -; the table's ledger is kept under it"},
		rule{"topics", nil, len(in.Topics) > 0, `missing; list at least one, like topics = ["orders"]`},
		tableRule(in.Table),
		oneOf("format", in.Format, "json"),
		startRule(in),
		oneOf("codec", in.Codec, "zstd", "snappy", "gzip", "none"),
		oneOf("unknown_fields", in.UnknownFields, "ignore", "error"),
		oneOf("timestamp_unit", in.TimestampUnit, "", "seconds", "millis", "micros"),
		oneOf("date_unit", in.DateUnit, "", "days"),
		oneOf("time_unit", in.TimeUnit, "", "seconds", "millis", "micros"),
		oneOf("on_bad_record", in.OnBadRecord, "halt", "dead_letter", "skip"),
		oneOf("on_null", in.OnNull, "skip", "dead_letter", "halt"),
		oneOf("on_lost_records", in.OnLostRecords, "halt", "continue"),
		oneOf("on_topic_reset", in.OnTopicReset, "halt", "restart"),
		oneOf("on_rollback", in.OnRollback, "halt", "reread"),
		oneOf("expire_snapshots", in.ExpireSnapshots, "auto", "on", "off"),
	)
	in.topicProblems(r)
	in.limitProblems(r, memory)
	if in.Create != nil {
		in.Create.problems(rules{r.prefix + "create.", r.out})
	}
}

func tableRule(table string) rule {
	if table == "" {
		return rule{"table", nil, false, `missing; write table = "namespace.table"`}
	}
	parts := strings.Split(table, ".")
	return rule{"table", table, len(parts) > 1 && !slices.Contains(parts, ""), `must be "namespace.table"; deeper namespaces are "a.b.table"`}
}

func startRule(in IngestConfig) rule {
	_, isTime := in.StartTime()
	r := oneOf("start", in.Start, "earliest", "latest")
	r.ok = r.ok || isTime
	r.what += `, or a time like "2024-05-01T00:00:00Z"`
	return r
}

func (in IngestConfig) topicProblems(r rules) {
	for i, t := range in.Topics {
		key := fmt.Sprintf("topics[%d]", i)
		r.check(
			rule{key, t, topicName.MatchString(t) && t != "." && t != "..", "not a topic name: 1 to 249 of the characters A-Z a-z 0-9 . _ -; patterns are not supported"},
			rule{key, t, !slices.Contains(in.Topics[:i], t), "listed twice"},
		)
	}
	letters := in.OnBadRecord == "dead_letter" || in.OnNull == "dead_letter"
	r.check(
		rule{"dead_letter_topic", nil, !letters || in.DeadLetterTopic != "", `missing: on_bad_record or on_null is "dead_letter"; name the topic that takes the letters`},
		rule{"dead_letter_topic", in.DeadLetterTopic, in.DeadLetterTopic == "" || topicName.MatchString(in.DeadLetterTopic), "not a topic name: 1 to 249 of the characters A-Z a-z 0-9 . _ -"},
		rule{"dead_letter_topic", in.DeadLetterTopic, in.DeadLetterTopic == "" || !slices.Contains(in.Topics, in.DeadLetterTopic), "one of this ingest's own topics: each letter would come back as a record"},
	)
}

func (in IngestConfig) limitProblems(r rules, memory Bytes) {
	r.check(
		rule{"trigger", in.Trigger, in.Trigger >= triggerMin && in.Trigger <= triggerMax, `must be from "100ms" to "24h"`},
		rule{"trigger_bytes", in.TriggerBytes, in.TriggerBytes == 0 || in.TriggerBytes >= triggerBytesMin, `must be at least "64KiB", or "0" for no such trigger`},
		rule{"trigger_rows", in.TriggerRows, in.TriggerRows >= 0, "must not be negative; 0 is no such trigger"},
		rule{"target_file_size", in.TargetFileSize, in.TargetFileSize >= targetFileSizeMin && in.TargetFileSize <= targetFileSizeMax, `must be from "64KiB" to "4GiB"`},
		rule{"record_size_max", in.RecordSizeMax, in.RecordSizeMax >= recordSizeMaxMin && in.RecordSizeMax <= recordSizeMaxMax, `must be from "1KiB" to "1GiB"`},
		rule{"record_size_max", in.RecordSizeMax, in.RecordSizeMax <= memory/2 || memory < memoryMaxMin, fmt.Sprintf("must be at most half of memory_max (%s), or one record could not be held while another is written", memory)},
		rule{"cuts_in_flight_max", in.CutsInFlightMax, in.CutsInFlightMax >= 1 && in.CutsInFlightMax <= cutsInFlightMax, "must be from 1 to 16"},
		rule{"open_files_max", in.OpenFilesMax, in.OpenFilesMax >= 1 && in.OpenFilesMax <= openFilesMax, "must be from 1 to 65536"},
		rule{"commit_attempts", in.CommitAttempts, in.CommitAttempts >= 0, "must not be negative; 0 tries until the process is stopped"},
		rule{"keep_snapshots", in.KeepSnapshots, in.KeepSnapshots >= 1 && in.KeepSnapshots <= keepSnapshotsMax, "must be from 1 to 1048576; expire_snapshots = \"off\" keeps all"},
		rule{"keep_snapshots_for", in.KeepSnapshotsFor, in.KeepSnapshotsFor >= 0 && in.KeepSnapshotsFor <= keepSnapshotsForMax, `must be from "0s" to "8760h"; expire_snapshots = "off" keeps all`},
	)
}

// Table returns what the catalog needs to make the table.
func (c CreateConfig) Table() catalog.Create {
	out := catalog.Create{Partition: c.Partition, Properties: c.Properties, Location: c.Location}
	for _, col := range c.Schema {
		out.Schema = append(out.Schema, catalog.Column(col))
	}
	return out
}

func (c CreateConfig) problems(r rules) {
	r.check(rule{"schema", nil, len(c.Schema) > 0, `missing; list the columns, like schema = [ { name = "id", type = "long", required = true } ]`})
	if len(c.Schema) == 0 {
		return
	}
	if _, _, err := c.Table().Compile(); err != nil {
		for _, one := range flatten(err) {
			r.check(rule{c.blame(one), nil, false, one.Error()})
		}
	}
}

// blame finds the key that a problem of the table's design is about.
func (c CreateConfig) blame(err error) string {
	text := err.Error()
	if strings.HasPrefix(text, "property ") {
		return "properties"
	}
	for i, col := range c.Schema {
		if col.Name != "" && strings.HasPrefix(text, "column "+strconv.Quote(col.Name)) {
			return fmt.Sprintf("schema[%d].type", i)
		}
	}
	for i, field := range c.Partition {
		if strings.Contains(text, strconv.Quote(field)) {
			return fmt.Sprintf("partition[%d]", i)
		}
	}
	return "schema"
}

// flatten takes joined errors apart.
func flatten(err error) []error {
	joined, ok := err.(interface{ Unwrap() []error })
	if !ok {
		return []error{err}
	}
	var out []error
	for _, e := range joined.Unwrap() {
		out = append(out, flatten(e)...)
	}
	return out
}

// doubts are settings that work and are likely not meant.
func (c Config) doubts() (out []Problem) {
	doubt := func(when bool, key, what string) {
		if when {
			out = append(out, Problem{Key: key, What: what})
		}
	}
	if k := c.Kafka; k.TLS != nil {
		doubt(k.TLS.InsecureSkipVerify, "kafka.tls.insecure_skip_verify", "any broker is believed to be the right one; use ca_file instead")
	} else if k.SASL != nil {
		doubt(k.SASL.Mechanism == "PLAIN", "kafka.sasl.mechanism", "without [kafka.tls] the password crosses the network in the clear")
	}
	feeds := map[string]int{}
	for i, in := range c.Ingest {
		at := fmt.Sprintf("ingest[%d].", i)
		letters := in.OnBadRecord == "dead_letter" || in.OnNull == "dead_letter"
		doubt(in.DeadLetterTopic != "" && !letters, at+"dead_letter_topic", `not used: neither on_bad_record nor on_null is "dead_letter"`)
		for _, t := range in.Topics {
			feed := t + "\x00" + in.Table
			first, twice := feeds[feed]
			doubt(twice, at+"topics", fmt.Sprintf("ingest[%d] reads topic %s into the same table: each record will be in it twice", first, t))
			feeds[feed] = i
		}
	}
	c.publishDoubts(doubt)
	return out
}

// isHostPort tells whether s is host:port with a port that can be dialled or
// listened on; only a listener may leave the host out or take port 0.
func isHostPort(s string, listener bool) bool {
	host, port, err := net.SplitHostPort(s)
	if err != nil || strings.ContainsAny(host, "/ ") {
		return false
	}
	n, err := strconv.ParseUint(port, 10, 16)
	return err == nil && (listener || host != "" && n > 0)
}
