package router

import (
	"sync"
	"time"

	"icerouter/catalog"
)

// ingestState is what an ingest tells the world: its stages write it, /status,
// /readyz and the metrics read it.
type ingestState struct {
	metrics *ingestMetrics
	fresh   *freshness

	mu        sync.Mutex
	everRan   bool
	now       IngestStatus
	positions map[topicPartition]int64 // committed, or where the partition started
	reading   map[topicPartition]int64 // next offset to take, as of the last look
	latest    map[topicPartition]int64 // last stable offsets, as of the last look
	looked    time.Time                // when that was
	began     time.Time                // when the ingest was last running
	assigned  bool                     // whether it has had partitions since then
}

func newIngestState(cfg IngestConfig, m *ingestMetrics) *ingestState {
	return &ingestState{metrics: m, fresh: newFreshness(), now: IngestStatus{
		Name: cfg.Name, Table: cfg.Table, Topics: cfg.Topics, Trigger: cfg.Trigger, State: StateStarting,
		DeadLetters: map[string]int64{}, Skipped: map[string]int64{},
	}}
}

// status returns a copy for a reader.
func (s *ingestState) status() IngestStatus {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := s.now
	out.DeadLetters, out.Skipped = map[string]int64{}, map[string]int64{}
	for k, v := range s.now.DeadLetters {
		out.DeadLetters[k] = v
	}
	for k, v := range s.now.Skipped {
		out.Skipped[k] = v
	}
	out.LagRecords = s.lag()
	out.LagUnknown, out.EndsSeen = !s.knowsLag(time.Now()), s.looked
	out.Freshness = s.fresh.quantiles()
	return out
}

// Without a look for lagKnownFor the ends are not known any more, and without
// partitions for assignedAfter they are all with others.
const (
	lagKnownFor   = 5 * lagEvery
	assignedAfter = 30 * time.Second
)

// knowsLag tells whether lag says something at now. REQUIRES: s.mu is held.
func (s *ingestState) knowsLag(now time.Time) bool {
	return !s.looked.IsZero() && now.Sub(s.looked) <= lagKnownFor && (s.assigned || now.Sub(s.began) >= assignedAfter)
}

// lag counts the offsets between what is committed and the ends, as far as
// they are known: the last look at them, or what has been read since. A
// partition with nothing but gaps left lags by none.
func (s *ingestState) lag() (n int64) {
	waiting := s.waiting()
	for p, at := range s.positions {
		end, reading := s.latest[p], s.reading[p]
		if waiting {
			end = max(end, reading)
		}
		if end > at && (reading < end || waiting) {
			n += end - at
		}
	}
	return n
}

// waiting tells whether rows have been taken in and are not committed yet.
func (s *ingestState) waiting() bool { return !s.now.OldestRow.IsZero() || s.now.CutsInFlight > 0 }

// become changes the state; err, if any, is why.
func (s *ingestState) become(state string, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.now.State, s.now.Error = state, ""
	if err != nil {
		s.now.Error = err.Error()
		if s.now.FirstError == "" {
			s.now.FirstError = s.now.Error
		}
		if s.now.FailingSince.IsZero() {
			s.now.FailingSince = time.Now()
		}
	}
}

func (s *ingestState) running() {
	s.become(StateRunning, nil)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.everRan, s.assigned, s.began, s.looked = true, false, time.Now(), time.Time{}
}

// ran reports whether the ingest has ever been running: then what it lacks now
// was there before and may come back.
func (s *ingestState) ran() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.everRan
}

// rowsDone returns how many rows were committed.
func (s *ingestState) rowsDone() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.now.Rows
}

func (s *ingestState) restarted() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.now.Restarts++
	s.metrics.restarts.Inc()
}

// failing notes that an upload or a commit doesn't get on.
func (s *ingestState) failing(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.now.Error = err.Error()
	if s.now.FailingSince.IsZero() {
		s.now.FailingSince = time.Now()
	}
	if s.now.FirstError == "" {
		s.now.FirstError = s.now.Error
	}
}

// attempted books one try of a commit.
func (s *ingestState) attempted(a catalog.CommitAttempt) {
	s.metrics.commit(a.Outcome)
	if a.Err != nil && a.Outcome != "fenced" {
		s.failing(a.Err)
	}
}

// owns notes which partitions are ours, and where they start.
func (s *ingestState) owns(parts map[topicPartition]*owned) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.now.Assigned = len(parts)
	s.assigned = s.assigned || len(parts) > 0
	positions := make(map[topicPartition]int64, len(parts))
	for at, p := range parts {
		if known, ok := s.positions[at]; ok {
			positions[at] = known
		} else {
			positions[at] = p.from
		}
	}
	s.positions = positions
	s.look(parts)
}

// at notes how far the partitions have been read.
func (s *ingestState) at(parts map[topicPartition]*owned) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.look(parts)
}

// look copies the next offsets. REQUIRES: s.mu is held.
func (s *ingestState) look(parts map[topicPartition]*owned) {
	s.reading = make(map[topicPartition]int64, len(parts))
	for at, p := range parts {
		s.reading[at] = p.next
	}
}

// filling notes the state of the open cut.
func (s *ingestState) filling(c *cut, files, inFlight int, trigger time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.now.BufferedRows, s.now.BufferedBytes = c.rows, c.bytes
	s.now.OldestRow, s.now.NextCut = c.since, time.Time{}
	if !c.since.IsZero() {
		s.now.NextCut = c.since.Add(trigger)
	}
	s.now.CutsInFlight = inFlight
	s.metrics.openFiles.Set(float64(files))
	s.metrics.bufferedRows.Set(float64(c.rows))
	s.metrics.bufferedBytes.Set(float64(c.bytes))
	s.metrics.cutsInFlight.Set(float64(inFlight))
	s.progress(time.Now())
}

// progress notes since when something has been waiting for its commit.
// REQUIRES: s.mu is held.
func (s *ingestState) progress(now time.Time) {
	switch {
	case !s.waiting() && s.lag() == 0:
		s.now.BehindSince = time.Time{}
	case s.now.BehindSince.IsZero():
		s.now.BehindSince = now
	}
}

// took books a chunk: records taken, dead letters and skips by reason.
func (s *ingestState) took(ch *chunk, payload int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.now.Records += ch.taken
	s.now.Bytes += payload
	s.metrics.records.Add(float64(ch.taken))
	s.metrics.recordBytes.Add(float64(payload))
	for _, k := range ch.skipped {
		s.now.Skipped[k.reason]++
		s.metrics.skip(k.reason, 1)
	}
	for _, d := range ch.dead {
		s.now.DeadLetters[string(d.why.Reason)]++
		s.metrics.deadLetter(string(d.why.Reason))
	}
}

// lose books records that are gone from the log.
func (s *ingestState) lose(n int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.now.LostRecords += n
	s.metrics.lost.Add(float64(n))
}

// landed books a commit and clears what was failing.
func (s *ingestState) landed(done catalog.Commit, to catalog.Offsets, took time.Duration, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for topic, parts := range to {
		for p, next := range parts {
			if _, ours := s.positions[topicPartition{topic, p}]; ours {
				s.positions[topicPartition{topic, p}] = next
			}
		}
	}
	s.now.Commits++
	s.now.Rows += done.Rows
	s.now.Files += done.Files
	s.now.FileBytes += done.Bytes
	s.now.LastCommit, s.now.LastSnapshot, s.now.LastCommitTook = now, done.Snapshot, took
	s.now.Error, s.now.FirstError, s.now.FailingSince = "", "", time.Time{}
	s.metrics.rows.Add(float64(done.Rows))
	s.metrics.files.Add(float64(done.Files))
	s.metrics.fileBytes.Add(float64(done.Bytes))
	s.metrics.commitSeconds.Observe(took.Seconds())
}

// observe books how long n rows took from their record's timestamp to the table.
func (s *ingestState) observe(d time.Duration, n int64) {
	if n > 0 {
		s.fresh.observe(d, n)
		s.metrics.freshness(d, n)
	}
}

// ends notes the last stable offsets.
func (s *ingestState) ends(latest map[topicPartition]int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.latest, s.looked = latest, time.Now()
	if s.now.State == StateRunning && !s.waiting() && s.lag() == 0 {
		s.now.Error, s.now.FirstError, s.now.FailingSince = "", "", time.Time{} // nothing is left to fail
	}
	s.progress(time.Now())
}

func (s *ingestState) latestEnds() map[topicPartition]int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.latest
}
