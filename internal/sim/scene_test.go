//go:build synctests

package sim

import (
	"fmt"
	"math/rand/v2"
	"strings"
)

// A scene is text, one step a line: what happens to the world, in order. The
// words are those of step.do; numbers are counts, or milliseconds where they
// follow a fault or a wait.
//
//	catalog sql            at the top: the catalog is a PostgreSQL database
//	policy halt            what the instances do where records are lost: halt, mend
//	from latest            where a topic begins that nobody has read
//	skip                   bad records are left out, and no dead letters written
//	produce a 200          records to every partition of a, good, bad and empty ones
//	begin a 50             the same in a transaction that stays open; end commit, end abort
//	start 1                an instance; double 1 in a group of its own; stop 1 in peace, kill 1 with all it holds
//	pause 1                nothing of it gets through until resume 1
//	evict 1                it is put out of the group, and does not know
//	clock 1 -3600          its clock is an hour behind; clock store 3600: the store's is ahead
//	kafka 1 join lose 2    the next 2 joins of instance 1 are done, and their answers lost
//	refuse heartbeat 27 3  the next 3 heartbeats of the group are answered with error 27
//	catalog 1 commit late 1 800
//	store 1 put wrong 3
//	store 1 put die-after 1  it dies when its next object is there
//	once 1                 an instance that runs to the ends as of now
//	flood a 5000           so many records at once to one partition of a
//	append 10              by another writer; also property, column, drop, spec, expire, rewrite, delete, rollback, tag, untag
//	replace                the table is dropped and made again
//	grow a                 one partition more; trim a: retention up to the ledger; overtake a: beyond it
//	recreate a 3           the topic is deleted and made again
//	publish 3              every instance publishes the table to topic out, in 3 shards; shards 2: later starts, in 2
//	compact                the brokers compact the topic of the positions
//	leaders, coordinators  the broker moves them
//	wait 300               let it work
//	settle                 no more faults: everything must get into the table
//	show                   what has become of the records; halts 1: what instance 1 says that waits for a person
//	audit                  what router audit says of the table

// instancesMax is how many instances work side by side.
const instancesMax = 3

// plan generates the scene of a seed.
func plan(seed uint64) []string {
	g := &generator{rand: rand.New(rand.NewPCG(seed, 2)), running: map[int]bool{}, paused: map[int]bool{}}
	g.instances = 1 + g.rand.IntN(instancesMax)
	if seed%sqlEvery == 0 {
		g.say("catalog sql")
	}
	g.mends = g.rand.IntN(2) == 0
	g.weigh()
	g.say("policy %s", map[bool]string{true: "mend", false: "halt"}[g.mends])
	g.publish(seed)
	if g.rand.IntN(4) == 0 {
		g.say("from latest")
	}
	if g.rand.IntN(6) == 0 {
		g.say("skip")
	}
	g.say("produce %s %d", g.topic(), 1+g.rand.IntN(200))
	g.start(1)
	if seed%createEvery == 0 { // before it makes the table
		faults := []string{"cut", "lose", "wrong", "late", "die-after", "conflict", "torn"}
		g.say("catalog 1 create %s 1 %d", faults[seed/createEvery%uint64(len(faults))], 50+seed/createEvery%1500)
	}
	if g.plots > 0 && g.rand.IntN(2) == 0 { // at the very start
		g.pair()
		g.slow("load", 6)
	}
	for range 12 + g.rand.IntN(24) {
		g.step()
	}
	if g.open {
		g.say("end %s", g.pick("commit", "abort"))
	}
	if g.rand.IntN(2) == 0 {
		g.say("settle")
	}
	return g.lines
}

// createEvery says of how many scenes one lets the making of the table go wrong.
const createEvery = 6

type generator struct {
	rand      *rand.Rand
	instances int
	running   map[int]bool
	paused    map[int]bool
	open      bool // a transaction
	mends     bool // the policy: records may be lost
	weights   []int
	doubles   int        // of ten starts
	plots     int        // one step of so many is a plot; 0: none
	back      *rand.Rand // of what scenes with a way back do besides; nil: there is none
	lines     []string
}

func (g *generator) say(format string, arguments ...any) {
	if line := fmt.Sprintf(format, arguments...); !g.stopsPublish(line) {
		g.lines = append(g.lines, line)
	}
}

func (g *generator) pick(choices ...string) string { return choices[g.rand.IntN(len(choices))] }
func (g *generator) topic() string                 { return g.pick(topics...) }
func (g *generator) instance() int                 { return 1 + g.rand.IntN(g.instances) }

func (g *generator) start(n int) {
	g.running[n] = true
	if g.rand.IntN(10) < g.doubles {
		g.say("double %d", n)
		return
	}
	g.say("start %d", n)
}

// step adds one step, and often a wait for it to bite.
func (g *generator) step() {
	n := g.instance()
	if g.back != nil && g.back.IntN(3) == 0 {
		g.backStep(n)
		return
	}
	if g.plots > 0 && g.rand.IntN(g.plots) == 0 {
		g.plot()
		return
	}
	switch x := g.draw(); {
	case x < 22:
		if g.rand.IntN(40) == 0 {
			g.say("flood %s %d", g.topic(), 2000+g.rand.IntN(6000))
			break
		}
		g.say("produce %s %d", g.topic(), 1+g.rand.IntN(1+g.rand.IntN(400)))
	case x < 28:
		if g.open {
			g.say("end %s", g.pick("commit", "abort"))
		} else {
			g.say("begin %s %d", g.topic(), 1+g.rand.IntN(50))
		}
		g.open = !g.open
	case x < 46:
		g.life(n)
	case x < 60:
		g.catalogFault(n)
	case x < 69:
		g.storeFault(n)
	case x < 80:
		g.kafkaFault(n)
	case x < 91:
		g.foreign()
	case x < 93:
		g.say("grow %s", g.topic())
	case x < 95:
		g.say("trim %s", g.topic())
	case x < 96:
		g.say("%s", g.pick("leaders", "coordinators"))
	case x < 97:
		if g.mends {
			g.lose()
		}
	case x < 98:
		g.clock(n)
	default:
		g.say("settle")
		clear(g.paused)
	}
	if g.rand.IntN(2) == 0 {
		g.say("wait %d", 20+g.rand.IntN(1+g.rand.IntN(1500)))
	}
}

// clock steps the clock of an instance, or of the store's machine.
func (g *generator) clock(n int) {
	ahead := g.wrong(g.rand.IntN(14400) - 7200)
	if g.rand.IntN(4) == 0 {
		g.say("clock store %d", ahead)
		return
	}
	g.say("clock %d %d", n, ahead)
}

// life starts, stops, kills, pauses or resumes an instance.
func (g *generator) life(n int) {
	switch {
	case !g.running[n] && g.rand.IntN(8) == 0:
		g.say("once %d", n)
	case !g.running[n]:
		g.start(n)
	case g.paused[n]:
		g.say("resume %d", n)
		delete(g.paused, n)
	case g.rand.IntN(3) == 0:
		g.say("pause %d", n)
		g.paused[n] = true
		if g.rand.IntN(2) == 0 { // past the session, while another takes over
			other := 1 + n%g.instances
			if other != n && !g.running[other] {
				g.start(other)
			}
			g.say("wait %d", 1500+g.rand.IntN(1500))
			g.say("resume %d", n)
			delete(g.paused, n)
		}
	case g.rand.IntN(4) == 0:
		g.say("evict %d", n)
	case g.rand.IntN(2) == 0:
		g.say("stop %d", n)
		delete(g.running, n)
	default:
		g.say("kill %d", n)
		delete(g.running, n)
	}
}

func (g *generator) catalogFault(n int) {
	what, call := g.pick("cut", "refuse", "conflict", "lose", "wrong", "deny", "garble", "late", "slow", "forbid", "torn", "die", "die-after", "evict"), "commit"
	switch g.rand.IntN(8) {
	case 0, 1:
		what, call = g.pick("cut", "refuse", "slow", "stale", "stale", "absent", "garble", "torn", "forbid", "die", "die-after", "evict"), "load"
	case 2:
		what, call = g.pick("cut", "refuse", "lose", "wrong", "garble", "slow", "die", "die-after"), "create"
	}
	g.say("catalog %d %s %s %d %d", n, call, what, 1+g.rand.IntN(3), 50+g.rand.IntN(1500))
}

func (g *generator) storeFault(n int) {
	g.say("store %d %s %s %d %d", n, g.pick("put", "put", "put", "get", "delete"), g.pick("cut", "refuse", "lose", "wrong", "slow", "torn", "deny", "late", "forbid", "die", "die-after", "evict"), 1+g.rand.IntN(1+g.rand.IntN(9)), 50+g.rand.IntN(1500))
}

func (g *generator) kafkaFault(n int) {
	if g.rand.IntN(3) > 0 {
		call := g.pick("fetch", "metadata", "commit", "join", "sync", "heartbeat", "leave", "offsets", "committed", "coordinator", "produce", "producer", "any")
		g.say("kafka %d %s %s %d %d", n, call, g.pick("cut", "lose", "slow", "late", "repeat", "repeat", "die", "die-after", "evict"), 1+g.rand.IntN(4), 50+g.rand.IntN(1500))
		return
	}
	type refusal struct {
		call string
		code int
	}
	choices := []refusal{
		{"heartbeat", 27}, {"heartbeat", 25}, {"heartbeat", 16}, {"heartbeat", 22}, {"join", 25}, {"join", 14}, {"join", 15}, {"sync", 27}, {"sync", 25}, {"sync", 22},
		{"commit", 22}, {"commit", 25}, {"commit", 7}, {"committed", 14}, {"fetch", 6}, {"fetch", 3}, {"fetch", 74}, {"fetch", 76}, {"fetch", 2}, {"fetch", 56},
		{"produce", 7}, {"produce", 6}, {"produce", 20}, {"produce", 29}, {"produce", 10}, {"offsets", 6}, {"offsets", 7}, {"metadata", 5}, {"coordinator", 15},
	}
	c := choices[g.rand.IntN(len(choices))]
	g.say("refuse %s %d %d", c.call, c.code, 1+g.rand.IntN(4))
}

func (g *generator) foreign() {
	switch g.rand.IntN(11) {
	case 10:
		g.say("%s", g.pick("tag", "tag", "untag"))
	case 0, 1:
		g.say("append %d", 1+g.rand.IntN(20))
	case 2:
		g.say("property")
	case 3:
		g.say("%s", g.pick("column", "drop"))
	case 4, 5:
		g.say("expire")
	case 6:
		g.say("spec")
	case 7:
		if g.back == nil || g.mends { // a publish would halt
			g.say("delete")
		}
	default:
		g.say("rewrite")
	}
}

// lose takes records away that nobody may lose unasked.
func (g *generator) lose() {
	switch g.rand.IntN(3) {
	case 0:
		g.say("overtake %s", g.topic())
	case 1:
		g.say("recreate %s %d", g.topic(), 1+g.rand.IntN(4))
		g.open = false
	default:
		if g.back == nil { // what was published can't be taken back: a publish would halt
			g.say("rollback")
		}
	}
}

func text(scene []string) string { return strings.Join(scene, "\n") + "\n" }
