//go:build real

package real_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"
)

// auditColumns tell of each row which record it was.
func auditColumns() []column {
	none := func(int) (string, string) { return "", "" }
	return []column{
		{"seq", "long", true, none}, {"text", "string", false, none},
		{"_kafka_partition", "int", false, none}, {"_kafka_offset", "long", false, none},
	}
}

// killsAtOnce is how many kills one table sees; more go on with another one.
const killsAtOnce = 25

// Three instances share a topic while records come in. REAL_KILLS times one of
// them is killed as by power loss, at a random moment, and started again. Every
// record is in the table once, and no file that the table names is missing.
func TestKilledAtRandomMoments(t *testing.T) {
	t.Parallel()
	random := dice(t)
	for done, kills := 0, size(t, "REAL_KILLS", 20); done < kills; done += killsAtOnce {
		n := min(killsAtOnce, kills-done)
		t.Run(fmt.Sprint("kills-", done+1), func(t *testing.T) { killedScene(t, n, random) })
	}
}

func killedScene(t *testing.T, kills int, random *rand.Rand) {
	const partitions = 6
	s := newScene(t, place{client(t), apache(t)}, "", "killed", partitions)
	s.begin(partitions)
	instances := []*instance{s.instance(), s.instance(), s.instance()}
	for range kills {
		// Half of the kills hit instances at work, the others whatever is going on: starts, joins, rebalances.
		if random.IntN(2) == 0 {
			before := s.auditor.commits()
			until(t, 3*time.Minute, "a commit after the last kill", func() bool { return s.auditor.commits() > before })
			pause(t, between(random, 0, 1200*time.Millisecond))
		} else {
			pause(t, between(random, 100*time.Millisecond, 2500*time.Millisecond))
		}
		s.alive(instances...)
		i := random.IntN(len(instances))
		instances[i].kill()
		instances[i] = s.instance()
	}
	for _, i := range instances {
		i.kill()
	}
	if s.auditor.commits() == 0 {
		t.Errorf("no commit was seen before the last kill: the kills hit nothing")
	}
	s.finish()
}
