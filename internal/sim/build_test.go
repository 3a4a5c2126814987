//go:build !synctests

// Package sim is a world that tries to break "every record is in the table
// exactly once, whatever dies and whenever": a broker, an object store and a
// catalog in memory, instances of the router that die, sleep and wake up, every
// kind of wrong answer, other writers, and an auditor that looks at each commit.
//
// A scene is played in a bubble of testing/synctest, where an hour of waiting
// takes no time. That needs a client library whose locks a bubble can see through,
// so all of it has the build tag synctests; without the tag the only test builds
// the package with it and runs that.
//
// A seed fixes the load, the faults, the limits and how long each message is
// under way. It does not fix what the product draws by itself (names, the jitter
// of its retries) nor the order of goroutines that run at the same instant: play
// a seed a few times before you say that it does not fail.
package sim

import (
	"os/exec"
	"runtime/debug"
	"testing"
)

// TestSimulation builds this package with the tag that it needs and runs its
// tests.
func TestSimulation(t *testing.T) {
	arguments := []string{"test", "-count", "1", "-v", "-timeout", "9m", "-tags", "synctests,disable_grpc_modules,grpcnotrace"}
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, s := range info.Settings {
			if s.Key == "-race" && s.Value == "true" {
				arguments = append(arguments, "-race")
			}
		}
	}
	out, err := exec.CommandContext(t.Context(), "go", append(arguments, ".")...).CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	t.Logf("%s", out)
}
