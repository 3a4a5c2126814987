package router

import (
	"context"
	"fmt"
	"math"
	"net"
	"strconv"
	"strings"
	"time"
)

// Config is everything an operator can turn. It is read from one TOML file
// (Load) over the defaults (Default); config.example.toml is its manual.
type Config struct {
	MemoryMax   Bytes           `toml:"memory_max"`   // of the whole process, in bytes; see budget
	StopTimeout time.Duration   `toml:"stop_timeout"` // from the stop signal to giving up on the last commits
	OnFailure   string          `toml:"on_failure"`   // stop_ingest | stop_all
	Kafka       KafkaConfig     `toml:"kafka"`
	Catalog     CatalogConfig   `toml:"catalog"`
	HTTP        HTTPConfig      `toml:"http"`
	Log         LogConfig       `toml:"log"`
	Ingest      []IngestConfig  `toml:"ingest"`
	Publish     []PublishConfig `toml:"publish"`

	secrets secrets    // what Redact hides
	file    configFile // where the keys stand
}

// KafkaConfig is the [kafka] section. TLS and SASL are nil unless their
// sections are present: presence switches them on.
type KafkaConfig struct {
	Brokers  []string `toml:"brokers"`
	ClientID string   `toml:"client_id"`

	// SessionTimeout is how long the group waits for a sign of life of an
	// instance before it gives its partitions to others.
	SessionTimeout time.Duration `toml:"session_timeout"`

	TLS  *TLSConfig  `toml:"tls"`
	SASL *SASLConfig `toml:"sasl"`

	dial dialFunc // Options.Dial
}

// TLSConfig is the [kafka.tls] section. Empty files mean: the system's
// authorities, no client certificate, the broker's own host name.
type TLSConfig struct {
	CAFile             string `toml:"ca_file"`
	CertFile           string `toml:"cert_file"`
	KeyFile            string `toml:"key_file"`
	ServerName         string `toml:"server_name"`
	InsecureSkipVerify bool   `toml:"insecure_skip_verify"`
}

// SASLConfig is the [kafka.sasl] section; Mechanism is PLAIN, SCRAM-SHA-256 or
// SCRAM-SHA-512.
type SASLConfig struct {
	Mechanism string `toml:"mechanism"`
	Username  string `toml:"username"`
	Password  string `toml:"password"`
}

// CatalogConfig is the [catalog] section. It has the fields of catalog.Config
// in the same order, so that catalog.Config(c) converts it.
type CatalogConfig struct {
	Name       string            `toml:"name"`
	Type       string            `toml:"type"` // rest | sql
	URI        string            `toml:"uri"`
	Warehouse  string            `toml:"warehouse"`
	Properties map[string]string `toml:"properties"`

	Dial func(ctx context.Context, network, address string) (net.Conn, error) // Options.Dial
}

// HTTPConfig is the [http] section; an empty Listen switches HTTP off.
type HTTPConfig struct {
	Listen string `toml:"listen"`
}

// LogConfig is the [log] section.
type LogConfig struct {
	Level  string `toml:"level"`  // debug | info | warn | error
	Format string `toml:"format"` // json | console
}

// IngestConfig is one [[ingest]]: topics into one table. A zero limit is off
// where its comment says so, and refused otherwise.
type IngestConfig struct {
	Name   string   `toml:"name"`
	Topics []string `toml:"topics"`
	Table  string   `toml:"table"`
	Format string   `toml:"format"` // json
	Group  string   `toml:"group"`  // empty: router-<name>; ask GroupID
	Start  string   `toml:"start"`  // earliest | latest | RFC 3339 time; ask StartTime

	Trigger         time.Duration `toml:"trigger"`       // age of the oldest row
	TriggerBytes    Bytes         `toml:"trigger_bytes"` // record bytes; 0: off
	TriggerRows     int64         `toml:"trigger_rows"`  // 0: off
	TargetFileSize  Bytes         `toml:"target_file_size"`
	Codec           string        `toml:"codec"` // zstd | snappy | gzip | none
	CutsInFlightMax int           `toml:"cuts_in_flight_max"`
	OpenFilesMax    int           `toml:"open_files_max"`
	RecordSizeMax   Bytes         `toml:"record_size_max"`
	CommitAttempts  int           `toml:"commit_attempts"` // 0: until stopped

	OnBadRecord     string `toml:"on_bad_record"` // halt | dead_letter | skip
	OnNull          string `toml:"on_null"`       // skip | dead_letter | halt
	DeadLetterTopic string `toml:"dead_letter_topic"`
	UnknownFields   string `toml:"unknown_fields"` // ignore | error
	TimestampUnit   string `toml:"timestamp_unit"` // "" | seconds | millis | micros
	DateUnit        string `toml:"date_unit"`      // "" | days
	TimeUnit        string `toml:"time_unit"`      // "" | seconds | millis | micros

	OnLostRecords   string `toml:"on_lost_records"`  // halt | continue
	OnTopicReset    string `toml:"on_topic_reset"`   // halt | restart
	OnRollback      string `toml:"on_rollback"`      // halt | reread
	ExpireSnapshots string `toml:"expire_snapshots"` // auto | on | off
	KeepSnapshots   int    `toml:"keep_snapshots"`
	// KeepSnapshotsFor is the age up to which more of them stay, four times as many at most.
	KeepSnapshotsFor time.Duration `toml:"keep_snapshots_for"`

	Create *CreateConfig `toml:"create"` // nil: the table must exist
}

// CreateConfig is [ingest.create]: how to make the table when it is missing.
// Its fields mirror catalog.Create.
type CreateConfig struct {
	Schema     []ColumnConfig    `toml:"schema"`
	Partition  []string          `toml:"partition"`
	Properties map[string]string `toml:"properties"`
	Location   string            `toml:"location"`
}

// ColumnConfig is one column of [ingest.create]; catalog.Column(c) converts it.
type ColumnConfig struct {
	Name     string `toml:"name"`
	Type     string `toml:"type"`
	Required bool   `toml:"required"`
	Doc      string `toml:"doc"`
}

// Default returns the configuration of an empty file. It does not validate: it
// names no broker, no catalog and no ingest.
func Default() Config {
	return Config{
		MemoryMax:   1 << 30,
		StopTimeout: 25 * time.Second, // inside systemd's and Kubernetes' 30 s
		OnFailure:   "stop_ingest",
		Kafka:       KafkaConfig{ClientID: "router", SessionTimeout: 10 * time.Second},
		Catalog:     CatalogConfig{Name: "router"},
		HTTP:        HTTPConfig{Listen: "127.0.0.1:8080"},
		Log:         LogConfig{Level: "info", Format: "json"},
	}
}

// DefaultIngest returns an [[ingest]] section without a line in it.
func DefaultIngest() IngestConfig {
	return IngestConfig{
		Format:          "json",
		Start:           "earliest",
		Trigger:         10 * time.Second,
		TriggerBytes:    256 << 20,
		TargetFileSize:  128 << 20,
		Codec:           "zstd",
		CutsInFlightMax: 2,
		OpenFilesMax:    1024,
		RecordSizeMax:   16 << 20,
		OnBadRecord:     "halt",
		OnNull:          "skip",
		UnknownFields:   "ignore",
		OnLostRecords:   "halt",
		OnTopicReset:    "halt",
		OnRollback:      "halt",
		ExpireSnapshots: "auto",
		KeepSnapshots:   50,

		KeepSnapshotsFor: time.Hour,
	}
}

// GroupID returns the consumer group of the ingest.
func (c IngestConfig) GroupID() string {
	if c.Group != "" {
		return c.Group
	}
	return "router-" + c.Name
}

// StartTime returns the time that Start names, and whether it names one.
func (c IngestConfig) StartTime() (time.Time, bool) {
	t, err := time.Parse(time.RFC3339, c.Start)
	return t, err == nil
}

// Bytes is a size. Its text is a whole number and a unit: B, KB, MB, GB, TB
// (powers of 1000) or KiB, MiB, GiB, TiB (powers of 1024); zero needs no unit.
type Bytes int64

// byteUnits are ordered so that String finds the largest binary unit first and
// parsing finds the longest suffix first.
var byteUnits = []struct {
	name string
	size int64
}{
	{"TiB", 1 << 40}, {"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10},
	{"TB", 1e12}, {"GB", 1e9}, {"MB", 1e6}, {"KB", 1e3}, {"B", 1},
}

// String returns the size with the largest unit that divides it.
func (b Bytes) String() string {
	if b == 0 {
		return "0"
	}
	for _, u := range byteUnits {
		if int64(b)%u.size == 0 {
			return strconv.FormatInt(int64(b)/u.size, 10) + u.name
		}
	}
	return strconv.FormatInt(int64(b), 10) + "B" // not reached: 1 divides every size
}

// UnmarshalText reads a size as String writes it; a space before the unit is
// allowed.
func (b *Bytes) UnmarshalText(text []byte) error {
	s := strings.TrimSpace(string(text))
	if s == "0" {
		*b = 0
		return nil
	}
	for _, u := range byteUnits {
		number, found := strings.CutSuffix(s, u.name)
		if !found {
			continue
		}
		n, err := strconv.ParseInt(strings.TrimSpace(number), 10, 64)
		switch {
		case err != nil || n < 0:
			return errBytes
		case n > math.MaxInt64/u.size:
			return fmt.Errorf("more than %d bytes", int64(math.MaxInt64))
		}
		*b = Bytes(n * u.size)
		return nil
	}
	return errBytes
}

var errBytes = fmt.Errorf(`not a size; write a whole number and a unit, like "512KiB", "256MiB", "1GiB" or "500MB"`)
