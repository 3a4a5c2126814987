//go:build real

package real_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"
)

// zombiesAtOnce is how many zombies one table sees; more go on with another one.
const zombiesAtOnce = 10

// Three instances share a topic while records come in. REAL_ZOMBIES times one of
// them is stopped until the group has given its partitions to the others and
// these have committed, and then goes on with what it held. Every other time a
// request of its to the catalog, or the answer, arrives late, when the others
// are already ahead. Whoever wakes up must find out by itself, and join again.
func TestZombies(t *testing.T) {
	t.Parallel()
	random := dice(t)
	for done, zombies := 0, size(t, "REAL_ZOMBIES", 5); done < zombies; done += zombiesAtOnce {
		n := min(zombiesAtOnce, zombies-done)
		t.Run(fmt.Sprint("zombies-", done+1), func(t *testing.T) { zombieScene(t, n, random) })
	}
}

func zombieScene(t *testing.T, zombies int, random *rand.Rand) {
	const partitions = 6
	l := apache(t)
	s := newScene(t, place{client(t), l}, "", "zombies", partitions)
	s.begin(partitions)
	var wires []*wire
	var instances []*instance
	for range 3 {
		w := newWire(t, lab.address("REST_CATALOG_PORT"))
		wires = append(wires, w)
		instances = append(instances, s.instance(apache(t, w.address())))
	}
	for _, i := range instances {
		i.up()
	}
	held := 0
	for z := range zombies {
		i := random.IntN(len(instances))
		zombie, wire := instances[i], wires[i]
		until(t, 2*time.Minute, "partitions owned by the next zombie", func() bool { return zombie.status().Assigned > 0 })
		pause(t, between(random, 0, time.Second))
		if z%2 == 1 {
			wire.stall()
			until(t, time.Minute, "a request or an answer of the zombie's on the wire", func() bool { s.alive(zombie); return wire.holds() })
			held++
		}
		zombie.freeze()
		took := s.catchUp(3 * time.Minute) // in all partitions: those of the zombie are with others
		wire.mend()
		pause(t, between(random, 0, 500*time.Millisecond))
		zombie.thaw()
		t.Logf("zombie %d was instance %d; the others went on after %s", z+1, i+1, took.Round(100*time.Millisecond))
		s.alive(instances...)
	}
	s.catchUp(3 * time.Minute)
	s.alive(instances...)
	s.leave(instances...)
	fenced, lost := 0, 0
	for _, i := range instances {
		fenced += i.exit.logged(`"outcome":"fenced"`)
		lost += i.exit.logged("partitions lost")
	}
	t.Logf("%d zombies, %d with a call to the catalog on its way; %d times partitions were lost, %d appends were fenced", zombies, held, lost, fenced)
	if lost == 0 {
		t.Errorf("no zombie lost its partitions: the test has tried nothing")
	}
	s.finish()
}
