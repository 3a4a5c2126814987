package catalog

import (
	"math/rand/v2"
	"strings"
	"time"

	"github.com/apache/iceberg-go/table"
	"go.uber.org/zap"
)

// CommitAttempt is one try, told to TableOptions.OnAttempt when it is clear how it ended.
type CommitAttempt struct {
	Number  int    // 1 for the first commit sent; 0: nothing was sent, as the table could not be read or the files not stored
	Outcome string // "landed", "refused", "conflict" (the head had moved), "fenced", "unknown"
	Err     error
	Base    int64  // the head it was built on
	Head    int64  // the head that was found after it failed; 0 if none was
	By      string // who made that head, as far as it says
	Took    time.Duration
	Wait    time.Duration // before the next try
}

// report tells and logs an attempt.
func (t *Table) report(a CommitAttempt) {
	a.Err = t.catalog.scrub.error(a.Err)
	fields := []zap.Field{zap.Int("attempt", a.Number), zap.String("outcome", a.Outcome), zap.Int64("base", a.Base), zap.Duration("took", a.Took)}
	if a.Head != 0 {
		fields = append(fields, zap.Int64("head", a.Head), zap.String("by", a.By))
	}
	if a.Wait > 0 {
		fields = append(fields, zap.Duration("wait", a.Wait))
	}
	if a.Err != nil {
		fields = append(fields, zap.NamedError("cause", a.Err))
	}
	level := zap.WarnLevel
	switch {
	case a.Outcome == "landed" && a.Err == nil:
		level = zap.DebugLevel
	case a.Outcome == "conflict": // where several write, that is daily life
		level = zap.InfoLevel
	}
	t.log.Log(level, "commit attempt", fields...)
	if t.options.OnAttempt != nil {
		t.options.OnAttempt(a)
	}
}

// madeBy names a snapshot's maker: an ingest of this program, or the engine that signed it.
func madeBy(s *table.Snapshot) string {
	if s == nil || s.Summary == nil {
		return ""
	}
	for key := range s.Summary.Properties {
		if name, ok := strings.CutPrefix(key, "router."); ok && strings.HasSuffix(name, ".seq") {
			return "ingest " + strings.TrimSuffix(name, ".seq")
		}
	}
	if engine := s.Summary.Properties["engine-name"]; engine != "" {
		return engine
	}
	return "another program"
}

const (
	conflictWaitMin = 20 * time.Millisecond
	conflictWaitMax = 2 * time.Second
	failureWaitMin  = 100 * time.Millisecond
	failureWaitMax  = 15 * time.Second
)

// backoff is the wait before try n+1: doubled each time, at least half of it by
// chance, so that instances which failed together don't come back together.
func backoff(n int, conflict bool, retryAfter time.Duration) time.Duration {
	low, high := failureWaitMin, failureWaitMax
	if conflict {
		low, high = conflictWaitMin, conflictWaitMax
	}
	wait := min(low<<min(n-1, 20), high)
	wait = wait/2 + rand.N(wait/2+1)
	if retryAfter > 0 {
		wait = max(wait, retryAfter+rand.N(retryAfter/4+1))
	}
	return wait
}
