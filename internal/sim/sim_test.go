//go:build synctests

package sim

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"runtime/pprof"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sync/errgroup"
)

var (
	seeds    = flag.Int("seeds", 100, "how many scenes are played")
	seed     = flag.Uint64("seed", 1, "the first scene's seed; the others follow")
	beside   = flag.Int("beside", runtime.GOMAXPROCS(0), "how many scenes are played at a time")
	loud     = flag.Bool("loud", false, "keep the Kafka clients' every word in the log of a failed scene")
	failures = flag.Int("failures", 1, "after how many failed scenes to stop")
	within   = flag.Duration("within", 0, "no scene begins after this time, which is the machine's; 0: all are played")
	keep     = flag.Bool("keep", false, "keep the log of every scene")
)

// TestMain makes the process fit for many small worlds.
func TestMain(m *testing.M) {
	flag.Parse()
	debug.SetGCPercent(800)      // a world is small and soon forgotten
	os.Unsetenv("AWS_CA_BUNDLE") // would be read for each client of each world
	os.Exit(m.Run())
}

// TestSeeds plays random scenes. A scene that fails is printed whole; -seed n
// -seeds 1 plays it again.
func TestSeeds(t *testing.T) {
	var g errgroup.Group
	g.SetLimit(*beside)
	var failed, played, commits, faked atomic.Int64
	began := time.Now()
	for n := range *seeds {
		if failed.Load() >= int64(*failures) || *within > 0 && time.Since(began) > *within {
			break
		}
		g.Go(func() error {
			if failed.Load() >= int64(*failures) {
				return nil
			}
			s := *seed + uint64(n)
			o := playSeed(t, s)
			if o.err != nil {
				failed.Add(1)
				t.Errorf("seed %d: %v", s, o.err)
			}
			commits.Add(int64(o.commits))
			faked.Add(int64(o.took))
			if k := played.Add(1); k%500 == 0 {
				t.Logf("%d scenes, %d commits, %s", k, commits.Load(), time.Since(began).Round(time.Second))
			}
			return nil
		})
	}
	_ = g.Wait()
	if played.Load() == 0 {
		t.Error("no scene was played")
	}
	t.Logf("%d scenes from seed %d, %d commits audited, %s of their time, %s of ours, %d failed", played.Load(), *seed, commits.Load(),
		time.Duration(faked.Load()).Round(time.Second), time.Since(began).Round(time.Second), failed.Load())
}

// outcome is what became of a scene.
type outcome struct {
	commits int
	took    time.Duration // of the bubble's time
	log     string
	shown   map[int]string // by step, from 0
	err     error
}

// realPatience is how long a scene may take on a machine, however busy. It
// takes a fifth of a second; more means that its clock stands still.
const realPatience = 2 * time.Minute

// playSeed plays the scene of a seed.
func playSeed(t *testing.T, seed uint64) outcome { return playScene(t, seed, plan(seed)) }

// playScene plays a scene in a world of its own.
func playScene(t *testing.T, seed uint64, scene []string) (o outcome) {
	watchdog := time.AfterFunc(realPatience, func() {
		_ = pprof.Lookup("goroutine").WriteTo(os.Stderr, 2)
		panic(fmt.Sprintf("seed %d: the scene has not ended after %s; above is who waits for what", seed, realPatience))
	})
	defer watchdog.Stop()
	defer func() {
		if p := recover(); p != nil {
			var who bytes.Buffer
			_ = pprof.Lookup("goroutine").WriteTo(&who, 2)
			path := keepLog(seed, who.Bytes())
			o.err = errors.Join(o.err, fmt.Errorf("the bubble: %v, goroutines in %s\nthe scene, again with make sim SEED=%d SEEDS=1:\n%s", p, path, seed, text(scene)))
		}
	}()
	synctest.Test(t, func(*testing.T) {
		began := time.Now()
		o = play(seed, scene)
		o.took = time.Since(began)
	})
	return o
}

// keepLog writes a file about a scene and returns its name.
func keepLog(seed uint64, body []byte) string {
	path := filepath.Join(os.TempDir(), fmt.Sprintf("sim-%d-%d.log", seed, os.Getpid()))
	if err := os.WriteFile(path, body, 0o644); err != nil {
		return err.Error()
	}
	return path
}

// play is what happens in the bubble.
func play(seed uint64, scene []string) outcome {
	ctx, cancel := context.WithCancel(context.Background()) // of the bubble: a test's own context would stop the clock
	defer cancel()
	w, err := newWorld(ctx, seed, scene)
	if err != nil {
		return outcome{err: err}
	}
	found := w.play(scene)
	w.end()
	time.Sleep(time.Minute) // a client that is closed may wait before it gives up its last request; the clock stops with this goroutine
	o := outcome{commits: w.audit.commits, log: w.log.text(), shown: w.shown}
	if len(found) == 0 && !*keep {
		return o
	}
	path := keepLog(seed, []byte(text(scene)+"\n"+o.log))
	if len(found) == 0 {
		return o
	}
	report := ""
	for _, f := range found {
		report += "\n  " + f
	}
	o.err = fmt.Errorf("%d violations, log in %s%s\nthe scene, again with make sim SEED=%d SEEDS=1:\n%s", len(found), path, report, seed, text(scene))
	return o
}
