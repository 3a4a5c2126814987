package router

import (
	"sync"
	"time"

	"icerouter/catalog"
)

// publishState is what a publish tells the world: its stages write it, /status,
// /readyz and the metrics read it.
type publishState struct {
	metrics *publishMetrics
	fresh   *freshness

	mu      sync.Mutex
	everRan bool
	now     PublishStatus
	shards  map[int]*shardState // owned now
}

// shardState is what is known of a shard of ours.
type shardState struct {
	at      position
	behind  int       // snapshots that are still to be read
	since   time.Time // of the first of them
	commits int
}

func newPublishState(cfg PublishConfig, m *publishMetrics) *publishState {
	return &publishState{metrics: m, fresh: newFreshness(), shards: map[int]*shardState{}, now: PublishStatus{
		Name: cfg.Name, Table: cfg.Table, Topic: cfg.Topic, State: StateStarting, PollInterval: cfg.PollInterval, TransactionTimeout: cfg.TransactionTimeout,
	}}
}

// status returns a copy for a reader.
func (s *publishState) status() PublishStatus {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := s.now
	out.Owned = len(s.shards)
	oldest := time.Time{}
	for number, one := range s.shards {
		out.SnapshotsBehind = max(out.SnapshotsBehind, one.behind)
		if one.behind > 0 && (oldest.IsZero() || one.since.Before(oldest)) {
			oldest = one.since
		}
		out.Shards = append(out.Shards, ShardStatus{Shard: number, Snapshot: one.at.Snapshot, Whole: one.at.Done, File: one.at.File, Row: one.at.Row, SnapshotsBehind: one.behind})
	}
	sortShards(out.Shards)
	out.BehindSince = oldest
	out.Freshness = s.fresh.quantiles()
	return out
}

func (s *publishState) become(state string, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.now.State, s.now.Error = state, ""
	if err != nil {
		s.fail(err)
	}
}

// fail notes an error. REQUIRES: s.mu is held.
func (s *publishState) fail(err error) {
	s.now.Error = err.Error()
	if s.now.FirstError == "" {
		s.now.FirstError = s.now.Error
	}
	if s.now.FailingSince.IsZero() {
		s.now.FailingSince = time.Now()
	}
}

// failing notes that something doesn't get on.
func (s *publishState) failing(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fail(err)
}

// looked clears what was failing, when the table could be looked at and nothing is left to do.
func (s *publishState) looked() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, one := range s.shards {
		if one.behind > 0 {
			return
		}
	}
	if s.now.State == StateRunning {
		s.now.Error, s.now.FirstError, s.now.FailingSince = "", "", time.Time{}
	}
}

func (s *publishState) running() {
	s.become(StateRunning, nil)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.everRan = true
}

func (s *publishState) ran() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.everRan
}

func (s *publishState) restarted() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.now.Restarts++
	clear(s.shards)
	s.metrics.restarts.Inc()
}

// rowsDone returns how many rows were published.
func (s *publishState) rowsDone() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.now.Rows
}

// head notes the table's current snapshot.
func (s *publishState) head(head catalog.Snapshot) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.now.Head = head.ID
}

// owns notes how many shards the group has given to us.
func (s *publishState) owns(n int) { s.metrics.shards.Set(float64(n)) }

// took notes that a shard is ours, and where it is.
func (s *publishState) took(number int, at position) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.shards[number] == nil {
		s.shards[number] = &shardState{}
	}
	s.shards[number].at = at
}

// gave notes that a shard is ours no more.
func (s *publishState) gave(number int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.shards, number)
}

// behind notes which snapshots a shard has still to read.
func (s *publishState) behind(number int, line []catalog.Snapshot) {
	s.mu.Lock()
	defer s.mu.Unlock()
	one := s.shards[number]
	if one == nil {
		return
	}
	one.behind = len(line)
	if len(line) > 0 {
		one.since = line[0].Time
	}
	s.gauges()
}

// gauges sets the metrics of what is behind. REQUIRES: s.mu is held.
func (s *publishState) gauges() {
	most, oldest := 0, time.Time{}
	for _, one := range s.shards {
		most = max(most, one.behind)
		if one.behind > 0 && (oldest.IsZero() || one.since.Before(oldest)) {
			oldest = one.since
		}
	}
	s.metrics.behind.Set(float64(most))
	lag := 0.0
	if !oldest.IsZero() {
		lag = max(0, time.Since(oldest).Seconds())
	}
	s.metrics.lag.Set(lag)
}

// commits counts the transactions of a shard since it is ours.
func (s *publishState) commits(number int) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if one := s.shards[number]; one != nil {
		return one.commits
	}
	return 0
}

// committed books a transaction.
func (s *publishState) committed(number int, sheets []*sheet, at position, took time.Duration) {
	now := time.Now()
	for _, g := range sheets {
		if !g.since.IsZero() && g.rows > 0 {
			s.fresh.observe(now.Sub(g.since), g.rows)
			s.metrics.fresh.observe(now.Sub(g.since).Seconds(), g.rows)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, g := range sheets {
		s.now.Rows += g.rows
		s.now.Bytes += int64(len(g.bytes))
		s.now.DeadLetters += g.letters
		s.now.LostSnapshots += g.lost
		s.now.SkippedSnapshots += g.skipped
		s.metrics.rows.Add(float64(g.rows))
		s.metrics.bytes.Add(float64(len(g.bytes)))
		s.metrics.letters.Add(float64(g.letters))
		s.metrics.lost.Add(float64(g.lost))
		s.metrics.skipped.Add(float64(g.skipped))
	}
	s.now.Transactions++
	s.now.LastTransaction, s.now.LastTransactionTook = now, took
	s.now.Error, s.now.FirstError, s.now.FailingSince = "", "", time.Time{}
	s.metrics.commits.Inc()
	s.metrics.seconds.Observe(took.Seconds())
	if one := s.shards[number]; one != nil {
		one.at = at
		one.commits++
	}
}

func (s *publishState) aborted() { s.metrics.aborts.Inc() }

func (s *publishState) fenced() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.now.Fenced++
	s.metrics.fenced.Inc()
}
