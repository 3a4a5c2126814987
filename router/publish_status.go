package router

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// PublishStatus is one publish, counted since the process started.
type PublishStatus struct {
	Name  string
	Table string
	Topic string

	State      string // one of the State constants
	Error      string // why it is halted, failed, or not getting on; empty when all is well
	FirstError string
	Restarts   int

	Owned           int // shards that this instance works on
	Shards          []ShardStatus
	Head            int64     // the table's current snapshot, as of the last look
	SnapshotsBehind int       // of the slowest shard
	BehindSince     time.Time // when the oldest snapshot that is still to be published was committed; zero when caught up

	Rows             int64 // published
	Bytes            int64 // of keys, values and headers
	Transactions     int64
	DeadLetters      int64
	LostSnapshots    int64
	SkippedSnapshots int64
	Fenced           int64

	PollInterval        time.Duration
	TransactionTimeout  time.Duration
	LastTransaction     time.Time
	LastTransactionTook time.Duration
	FailingSince        time.Time
	Freshness           Freshness // from a snapshot's commit to the end of the transaction with its rows
}

// ShardStatus is where a shard is, as committed.
type ShardStatus struct {
	Shard           int
	Snapshot        int64
	Whole           bool // every row of the snapshot is published
	File            int
	Row             int64
	SnapshotsBehind int
}

func sortShards(list []ShardStatus) {
	slices.SortFunc(list, func(a, b ShardStatus) int { return cmp.Compare(a.Shard, b.Shard) })
}

// MarshalJSON writes durations as seconds, zero times not at all, and 64-bit
// snapshot ids as text.
func (s PublishStatus) MarshalJSON() ([]byte, error) {
	type freshness struct {
		P50 float64 `json:"p50_seconds"`
		P95 float64 `json:"p95_seconds"`
		P99 float64 `json:"p99_seconds"`
	}
	type shard struct {
		Shard           int   `json:"shard"`
		Snapshot        int64 `json:"snapshot,string"`
		Whole           bool  `json:"whole"`
		File            int   `json:"file"`
		Row             int64 `json:"row"`
		SnapshotsBehind int   `json:"snapshots_behind"`
	}
	shards := []shard{}
	for _, one := range s.Shards {
		shards = append(shards, shard(one))
	}
	lag := 0.0
	if !s.BehindSince.IsZero() {
		lag = max(0, time.Since(s.BehindSince).Seconds())
	}
	return json.Marshal(struct {
		Name             string     `json:"name"`
		Table            string     `json:"table"`
		Topic            string     `json:"topic"`
		State            string     `json:"state"`
		Error            string     `json:"error,omitempty"`
		FirstError       string     `json:"first_error,omitempty"`
		Restarts         int        `json:"restarts"`
		Owned            int        `json:"owned_shards"`
		Shards           []shard    `json:"shards"`
		Head             int64      `json:"head,omitempty,string"`
		SnapshotsBehind  int        `json:"snapshots_behind"`
		Lag              float64    `json:"lag_seconds"`
		BehindSince      *time.Time `json:"behind_since,omitempty"`
		Rows             int64      `json:"rows"`
		Bytes            int64      `json:"record_bytes"`
		Transactions     int64      `json:"transactions"`
		DeadLetters      int64      `json:"dead_letters"`
		LostSnapshots    int64      `json:"lost_snapshots"`
		SkippedSnapshots int64      `json:"skipped_snapshots"`
		Fenced           int64      `json:"fenced"`
		LastTransaction  *time.Time `json:"last_transaction,omitempty"`
		LastTook         float64    `json:"last_transaction_seconds"`
		FailingSince     *time.Time `json:"failing_since,omitempty"`
		Freshness        freshness  `json:"freshness"`
	}{
		s.Name, s.Table, s.Topic, s.State, s.Error, s.FirstError, s.Restarts, s.Owned, shards, s.Head, s.SnapshotsBehind, lag, moment(s.BehindSince),
		s.Rows, s.Bytes, s.Transactions, s.DeadLetters, s.LostSnapshots, s.SkippedSnapshots, s.Fenced,
		moment(s.LastTransaction), s.LastTransactionTook.Seconds(), moment(s.FailingSince),
		freshness{s.Freshness.P50.Seconds(), s.Freshness.P95.Seconds(), s.Freshness.P99.Seconds()},
	})
}

// complaint says why the publish is not ready and since when, or nothing. Ready
// is progress: a transaction within the time that one may take, or caught up.
func (s PublishStatus) complaint(now time.Time) string {
	p := plight{s.State, s.Error, s.FailingSince, now}
	if text, settled := p.ofState(); settled {
		return text
	}
	limit := publishPatience + 3*s.PollInterval
	if !s.FailingSince.IsZero() && now.Sub(s.FailingSince) > limit {
		return p.why("transactions or looks at the table do not succeed " + p.since(s.FailingSince))
	}
	if t := s.waitingSince(); !t.IsZero() && now.Sub(t) > limit {
		return p.why(fmt.Sprintf("no transaction %s, %d snapshots behind", p.since(t), s.SnapshotsBehind))
	}
	return ""
}

// publishPatience is how long a publish that has something to do may go without a transaction.
const publishPatience = 10 * time.Second

// waitingSince returns since when there has been something to publish and no
// transaction, or the zero time.
func (s PublishStatus) waitingSince() time.Time {
	switch {
	case s.BehindSince.IsZero() || s.Owned == 0:
		return time.Time{}
	case s.LastTransaction.After(s.BehindSince):
		return s.LastTransaction
	}
	return s.BehindSince
}

// hung tells whether the publish makes no progress and does not know why.
func (s PublishStatus) hung(now time.Time) bool {
	t := s.waitingSince()
	return s.State == StateRunning && s.FailingSince.IsZero() && !t.IsZero() && now.Sub(t) > hungAfter+s.TransactionTimeout
}

// publishMetrics are the metrics of one publish, found once. All of it is safe
// for concurrent use.
type publishMetrics struct {
	rows, bytes, letters, lost, skipped prometheus.Counter
	commits, aborts, fenced, restarts   prometheus.Counter
	seconds                             prometheus.Observer
	shards, behind, lag                 prometheus.Gauge
	fresh                               *weightedSeries
}

// publish returns the metrics of the publish of that name, all of them at zero.
func (m *metrics) publish(name string) *publishMetrics {
	counter := func(metric string) prometheus.Counter { return m.counters[metric].WithLabelValues(name) }
	gauge := func(metric string) prometheus.Gauge { return m.gauges[metric].WithLabelValues(name) }
	transactions := m.counters["router_publish_transactions_total"]
	return &publishMetrics{
		rows:     counter("router_publish_rows_total"),
		bytes:    counter("router_publish_bytes_total"),
		letters:  counter("router_publish_dead_letters_total"),
		lost:     counter("router_publish_lost_snapshots_total"),
		skipped:  counter("router_publish_skipped_snapshots_total"),
		commits:  transactions.WithLabelValues(name, "committed"),
		aborts:   transactions.WithLabelValues(name, "aborted"),
		fenced:   counter("router_publish_fenced_total"),
		restarts: counter("router_publish_restarts_total"),
		seconds:  m.histograms["router_publish_transaction_seconds"].WithLabelValues(name),
		shards:   gauge("router_publish_shards"),
		behind:   gauge("router_publish_snapshots_behind"),
		lag:      gauge("router_publish_lag_seconds"),
		fresh:    m.publishFreshness.series(name),
	}
}
