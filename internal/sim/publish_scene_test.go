//go:build synctests

package sim

import (
	"flag"
	"math/rand/v2"
)

var publishEvery = flag.Int("publish", 0, "of so many random scenes with a REST catalog one publishes the table back to Kafka; 0: none")

// publish gives a part of the scenes a way back. It draws from a source of its
// own: the others stay what they were.
func (g *generator) publish(seed uint64) {
	back := rand.New(rand.NewPCG(seed, 4))
	if *publishEvery > 0 && back.IntN(*publishEvery) == 0 && seed%sqlEvery != 0 {
		g.back = back
		g.say("publish %d", 1+back.IntN(4))
	}
}

func (g *generator) oneOf(choices ...string) string { return choices[g.back.IntN(len(choices))] }

// backStep adds a step that concerns the way back.
func (g *generator) backStep(n int) {
	switch x := g.back.IntN(100); {
	case x < 40:
		call := g.oneOf("take", "take", "publish", "publish", "endtxn", "endtxn", "endtxn", "partitions", "coordinator", "fetch", "offsets", "join", "sync", "heartbeat")
		g.say("kafka %d %s %s %d %d", n, call, g.oneOf("cut", "lose", "slow", "late", "repeat", "die", "die-after", "die-after", "evict"), 1+g.back.IntN(4), 50+g.back.IntN(1500))
	case x < 60:
		g.refuseBack()
	case x < 70:
		g.say("shards %d", 1+g.back.IntN(4))
		g.restart(n)
	case x < 78:
		g.zombie(n)
	case x < 86:
		g.restart(n)
	case x < 90:
		g.say("append %d", 1+g.back.IntN(20))
	case x < 94:
		// Not compact: this broker then forgets the markers of aborted transactions,
		// remembers the transactions, and takes later ones of the same id for aborted.
		g.say("%s", g.oneOf("leaders", "coordinators"))
	case x < 96:
		g.say("grow %s", outTopic)
	default:
		g.say("evict %d", n)
	}
	if g.back.IntN(2) == 0 {
		g.say("wait %d", 20+g.back.IntN(1+g.back.IntN(1500)))
	}
}

// restart ends an instance, and starts it again with the settings of now.
func (g *generator) restart(n int) {
	if g.running[n] {
		g.say("%s %d", g.oneOf("kill", "kill", "stop"), n)
		delete(g.paused, n)
	}
	g.start(n)
}

// zombie lets an instance sleep until its transaction is too old, while another
// takes its shards over.
func (g *generator) zombie(n int) {
	if !g.running[n] || g.paused[n] {
		return
	}
	if other := 1 + n%g.instances; other != n && !g.running[other] {
		g.start(other)
	}
	g.say("append %d", 1+g.back.IntN(20))
	g.say("wait %d", g.back.IntN(300))
	g.say("pause %d", n)
	g.say("wait %d", 1500+g.back.IntN(6000))
	g.say("resume %d", n)
}

// refuseBack lets the brokers refuse a call of a publish with an error that it
// may be refused with.
func (g *generator) refuseBack() {
	choices := []struct {
		call string
		code int
	}{
		{"take", 51}, {"take", 14}, {"take", 15}, {"take", 16}, {"take", 47}, {"take", 90}, {"take", 7},
		{"endtxn", 51}, {"endtxn", 14}, {"endtxn", 15}, {"endtxn", 16}, {"endtxn", 47}, {"endtxn", 90}, {"endtxn", 48}, {"endtxn", 49}, {"endtxn", 7},
		{"partitions", 51}, {"partitions", 14}, {"partitions", 16}, {"partitions", 47}, {"partitions", 90}, {"partitions", 3},
		{"publish", 47}, {"publish", 90}, {"publish", 48}, {"publish", 45}, {"publish", 59}, {"publish", 7}, {"publish", 6}, {"publish", 20}, {"publish", 10},
		{"marks", 6}, {"marks", 3}, {"marks", 76}, {"ends", 6}, {"ends", 7}, {"ends", 3}, {"places", 15}, {"places", 14},
	}
	c := choices[g.back.IntN(len(choices))]
	g.say("refuse %s %d %d", c.call, c.code, 1+g.back.IntN(4))
}

// wrong is how far a clock is wrong, in seconds: in scenes with a way back hardly.
// A catalog refuses every change without a snapshot, tags too, while the newest
// snapshot is more than a minute ahead of its own clock; then nothing can be held.
// And it adds up, since a snapshot is never older than its parent.
func (g *generator) wrong(seconds int) int {
	if g.back != nil {
		seconds %= 2
	}
	return seconds
}

// stopsPublish tells whether a publish would rightly stop at a step: what was
// published can't be taken back. Named scenes show that it does.
func (g *generator) stopsPublish(line string) bool {
	return g.back != nil && (line == "rollback" || line == "delete" && !g.mends)
}
