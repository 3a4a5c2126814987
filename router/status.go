package router

import (
	"encoding/json"
	"time"
)

// Status is what the router is doing, as /status shows it. It is a value:
// whoever receives it may keep it and change it.
type Status struct {
	Version   string
	Started   time.Time
	Ingests   []IngestStatus
	Publishes []PublishStatus
}

// The states of an ingest or a publish. Halted waits for a person: its error names the
// remedy. Failed is being restarted, or has stopped the process.
const (
	StateStarting = "starting"
	StateRunning  = "running"
	StateDraining = "draining"
	StateHalted   = "halted"
	StateFailed   = "failed"
	StateDone     = "done"
)

// IngestStatus is one ingest, counted since the process started.
type IngestStatus struct {
	Name   string
	Table  string
	Topics []string

	State      string // one of the State constants
	Error      string // why it is halted, failed, or not getting on; empty when all is well
	FirstError string // what went wrong first, since the ingest last ran well
	Restarts   int
	Assigned   int // Kafka partitions owned now

	Trigger       time.Duration
	LagRecords    int64     // records between the ledger and the end of the owned partitions, as far as known
	LagUnknown    bool      // before the first assignment and the first look at the ends, and while the broker doesn't answer
	EndsSeen      time.Time // when the brokers last told the ends; zero before they did
	BufferedRows  int64
	BufferedBytes int64
	OldestRow     time.Time // when the first row of the open cut arrived; zero when it is empty
	NextCut       time.Time // when the trigger fires; zero when the open cut is empty
	CutsInFlight  int

	Records     int64 // Kafka records taken in
	Rows        int64 // rows committed
	Bytes       int64 // bytes of the records taken in
	Files       int64 // data files committed
	FileBytes   int64
	Commits     int64
	DeadLetters map[string]int64 // by reason
	Skipped     map[string]int64 // by reason
	LostRecords int64

	LastCommit     time.Time
	LastSnapshot   int64
	LastCommitTook time.Duration
	BehindSince    time.Time // since when something has been waiting for its commit; zero when caught up
	FailingSince   time.Time // zero unless uploads or commits are failing now
	Freshness      Freshness
}

// Freshness is how long records took from their Kafka timestamp to the commit
// that carried them, as quantiles over the last minutes; zero before the first
// commit.
type Freshness struct {
	P50, P95, P99 time.Duration
}

// MarshalJSON writes durations as seconds and leaves zero times out.
func (s Status) MarshalJSON() ([]byte, error) {
	out := struct {
		Version   string          `json:"version"`
		Started   *time.Time      `json:"started,omitempty"`
		Ingests   []IngestStatus  `json:"ingests"`
		Publishes []PublishStatus `json:"publishes"`
	}{Version: s.Version, Started: moment(s.Started), Ingests: s.Ingests, Publishes: s.Publishes}
	if out.Ingests == nil {
		out.Ingests = []IngestStatus{}
	}
	if out.Publishes == nil {
		out.Publishes = []PublishStatus{}
	}
	return json.Marshal(out)
}

// MarshalJSON writes durations as seconds, zero times not at all, and 64-bit
// snapshot ids as text: JavaScript readers round numbers past 2^53.
func (s IngestStatus) MarshalJSON() ([]byte, error) {
	type freshness struct {
		P50 float64 `json:"p50_seconds"`
		P95 float64 `json:"p95_seconds"`
		P99 float64 `json:"p99_seconds"`
	}
	return json.Marshal(struct {
		Name             string           `json:"name"`
		Table            string           `json:"table"`
		Topics           []string         `json:"topics"`
		State            string           `json:"state"`
		Error            string           `json:"error,omitempty"`
		FirstError       string           `json:"first_error,omitempty"`
		Restarts         int              `json:"restarts"`
		Assigned         int              `json:"assigned_partitions"`
		TriggerSeconds   float64          `json:"trigger_seconds"`
		LagRecords       *int64           `json:"lag_records"` // null: not known
		BufferedRows     int64            `json:"buffered_rows"`
		BufferedBytes    int64            `json:"buffered_bytes"`
		OldestRow        *time.Time       `json:"oldest_row,omitempty"`
		NextCut          *time.Time       `json:"next_cut,omitempty"`
		CutsInFlight     int              `json:"cuts_in_flight"`
		Records          int64            `json:"records"`
		Rows             int64            `json:"rows"`
		Bytes            int64            `json:"record_bytes"`
		Files            int64            `json:"files"`
		FileBytes        int64            `json:"file_bytes"`
		Commits          int64            `json:"commits"`
		DeadLetters      map[string]int64 `json:"dead_letters,omitempty"`
		Skipped          map[string]int64 `json:"skipped,omitempty"`
		LostRecords      int64            `json:"lost_records"`
		LastCommit       *time.Time       `json:"last_commit,omitempty"`
		LastSnapshot     int64            `json:"last_snapshot,omitempty,string"`
		LastCommitTook   float64          `json:"last_commit_seconds"`
		BehindSince      *time.Time       `json:"behind_since,omitempty"`
		FailingSince     *time.Time       `json:"failing_since,omitempty"`
		FreshnessSeconds freshness        `json:"freshness"`
	}{
		s.Name, s.Table, s.Topics, s.State, s.Error, s.FirstError, s.Restarts, s.Assigned,
		s.Trigger.Seconds(), s.knownLag(), s.BufferedRows, s.BufferedBytes,
		moment(s.OldestRow), moment(s.NextCut), s.CutsInFlight,
		s.Records, s.Rows, s.Bytes, s.Files, s.FileBytes, s.Commits,
		s.DeadLetters, s.Skipped, s.LostRecords,
		moment(s.LastCommit), s.LastSnapshot, s.LastCommitTook.Seconds(), moment(s.BehindSince), moment(s.FailingSince),
		freshness{s.Freshness.P50.Seconds(), s.Freshness.P95.Seconds(), s.Freshness.P99.Seconds()},
	})
}

// knownLag is the lag, nil when it is not known.
func (s IngestStatus) knownLag() *int64 {
	if s.LagUnknown {
		return nil
	}
	return &s.LagRecords
}

// lagText is the lag for people.
func (s IngestStatus) lagText() string {
	if s.LagUnknown {
		return "unknown"
	}
	return count(s.LagRecords)
}

func moment(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}
