// Package sim is a world that tries to break "every record is in the table
// exactly once, whatever dies and whenever": a broker, an object store and a
// catalog in memory, instances of the router that die, sleep and wake up, every
// kind of wrong answer, other writers, and an auditor that looks at each commit.
//
// A seed fixes the load, the faults and the limits, not the schedule of the
// goroutines: run many seeds, and a seed many times.
package sim

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
)

var (
	seeds    = flag.Int("seeds", 8, "how many scenes are played")
	seed     = flag.Uint64("seed", 1, "the first scene's seed; the others follow")
	beside   = flag.Int("beside", 8, "how many scenes are played at a time; they mostly wait")
	loud     = flag.Bool("loud", false, "keep the Kafka clients' every word in the log of a failed scene")
	failures = flag.Int("failures", 1, "after how many failed scenes to stop")
)

// TestSeeds plays random scenes. A scene that fails is printed whole; -seed n
// -seeds 1 plays it again.
func TestSeeds(t *testing.T) {
	var g errgroup.Group
	g.SetLimit(*beside)
	var failed, played, commits atomic.Int64
	began := time.Now()
	for n := range *seeds {
		if failed.Load() >= int64(*failures) {
			break
		}
		g.Go(func() error {
			if failed.Load() >= int64(*failures) {
				return nil
			}
			s := *seed + uint64(n)
			c, err := playSeed(t.Context(), s)
			if err != nil {
				failed.Add(1)
				t.Errorf("seed %d: %v", s, err)
			}
			commits.Add(int64(c))
			if k := played.Add(1); k%100 == 0 {
				t.Logf("%d scenes, %d commits, %s", k, commits.Load(), time.Since(began).Round(time.Second))
			}
			return nil
		})
	}
	_ = g.Wait()
	t.Logf("%d scenes from seed %d, %d commits audited, %d failed", played.Load(), *seed, commits.Load(), failed.Load())
}

// playSeed plays the scene of a seed in a world of its own.
func playSeed(ctx context.Context, seed uint64) (commits int, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	scene := plan(seed)
	w, err := newWorld(ctx, seed)
	if err != nil {
		return 0, err
	}
	found := w.play(scene)
	w.end()
	if len(found) == 0 {
		return w.audit.commits, nil
	}
	path := filepath.Join(os.TempDir(), fmt.Sprintf("sim-%d-%d.log", seed, os.Getpid()))
	if err := os.WriteFile(path, []byte(text(scene)+"\n"+w.log.text()), 0o644); err != nil {
		path = err.Error()
	}
	report := ""
	for _, f := range found {
		report += "\n  " + f
	}
	return w.audit.commits, fmt.Errorf("%d violations, log in %s%s\nthe scene, again with -seed %d -seeds 1:\n%s", len(found), path, report, seed, text(scene))
}
