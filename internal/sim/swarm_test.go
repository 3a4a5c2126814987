//go:build synctests

package sim

// Some mistakes show only where one kind of trouble comes thick, or another not
// at all. So each scene has a taste of its own: a kind of step comes as often as
// in general, less, not at all, or several times as often.

// kinds are the ends of the kinds of step in generator.step, out of 100: records,
// transactions, lives, catalog, store, Kafka, other writers, partitions more,
// retention, brokers, losses, clocks, settling.
var kinds = [...]int{22, 28, 46, 60, 69, 80, 91, 93, 95, 96, 97, 98, 100}

// weigh draws the scene's taste.
func (g *generator) weigh() {
	begin := 0
	for i, end := range kinds {
		times := []int{0, 1, 2, 2, 2, 2, 4, 8}[g.rand.IntN(8)]
		if i == 0 || i == len(kinds)-1 {
			times = 2 // without records nothing happens
		}
		g.weights = append(g.weights, times*(end-begin))
		begin = end
	}
	g.doubles = []int{0, 1, 1, 4}[g.rand.IntN(4)]
	g.plots = []int{0, 0, 16, 6}[g.rand.IntN(4)]
}

// draw draws a kind of step, as a number below 100.
func (g *generator) draw() int {
	total := 0
	for _, w := range g.weights {
		total += w
	}
	x, begin := g.rand.IntN(total), 0
	for i, w := range g.weights {
		if x < w {
			return begin + g.rand.IntN(kinds[i]-begin)
		}
		x, begin = x-w, kinds[i]
	}
	panic("the weights do not add up")
}

// plot adds a few steps that belong together: two instances that meet in just
// the place where only the ledger keeps them apart.
func (g *generator) plot() {
	switch x := g.rand.IntN(6); {
	case x < 2: // both enter the same partitions
		g.pair()
		g.say("grow %s", g.topic())
		g.slow("load", 6)
		g.say("produce %s %d", g.topic(), 1+g.rand.IntN(60))
		g.say("wait %d", 50+g.rand.IntN(1500))
	case x < 4: // cuts wait behind a slow commit, of which the other has committed a part
		g.pair()
		for range 2 + g.rand.IntN(3) {
			g.slow("commit", 2)
			for range 3 {
				g.say("produce %s %d", g.topic(), 1+g.rand.IntN(40))
				g.say("wait %d", 30+g.rand.IntN(250))
			}
		}
	case x < 5 && g.mends: // both mend what was rolled back
		g.pair()
		for range 1 + g.rand.IntN(3) {
			g.say("produce %s %d", g.topic(), 1+g.rand.IntN(40))
			g.say("wait %d", 200+g.rand.IntN(600))
		}
		g.slow("load", 12)
		g.say("rollback")
		g.say("produce %s %d", g.topic(), 1+g.rand.IntN(40))
		g.say("wait %d", 500+g.rand.IntN(3000))
	case g.mends: // one holds records of a topic that is made again
		topic := g.topic()
		g.pair()
		g.say("recreate %s %d", topic, 1+g.rand.IntN(3))
		g.open = false
		g.say("produce %s %d", topic, 1+g.rand.IntN(40))
		g.say("wait %d", 100+g.rand.IntN(1000))
		g.say("pause 1")
		g.say("recreate %s %d", topic, 1+g.rand.IntN(3))
		g.say("produce %s %d", topic, 1+g.rand.IntN(40))
		g.say("wait %d", 1000+g.rand.IntN(2000))
		g.say("resume 1")
	}
}

// pair starts two instances that have the same partitions, unless they run.
func (g *generator) pair() {
	for n := 1; n <= 2; n++ {
		if !g.running[n] {
			g.running[n] = true
			g.say("double %d", n)
		}
		if g.paused[n] {
			delete(g.paused, n)
			g.say("resume %d", n)
		}
	}
}

// slow delays the next calls of both.
func (g *generator) slow(call string, times int) {
	for n := 1; n <= 2; n++ {
		g.say("catalog %d %s slow %d %d", n, call, 1+g.rand.IntN(times), 5+g.rand.IntN(1+g.rand.IntN(800)))
	}
}
