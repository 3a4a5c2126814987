//go:build synctests

package sim

import (
	"encoding/binary"
	"errors"
	"io"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// gate is all that one run of an instance can reach: every byte from it to the
// broker, the catalog and the store, and back, passes here. A closed gate is a
// process that is dead, or a machine that is cut off; a shut one is a process
// that is stopped, or a network that stands still: what it has sent is
// delivered when the gate opens, however late.
type gate struct {
	name string

	mu     sync.Mutex
	shut   chan struct{} // nil while open; closed when it opens again
	closed chan struct{} // closed for good
	since  time.Time     // since when nothing gets through; zero while it does
	faults []fault
	skew   time.Duration // how far the instance's clock is ahead
	stale  bool          // whether its last load was answered from a copy that is behind

	die, evict func() // what some faults do to the instance
}

// fault is what becomes of the next calls of one kind.
type fault struct {
	place string // "kafka", "catalog", "store"
	call  string // a Kafka request by name, "commit", "load", "create", "put", "get", "delete", or "any"
	what  string // see the places
	left  int
	wait  time.Duration
}

func newGate(name string) *gate { return &gate{name: name, closed: make(chan struct{})} }

func (g *gate) pause() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.shut == nil {
		g.shut = make(chan struct{})
		if g.since.IsZero() {
			g.since = time.Now()
		}
	}
}

func (g *gate) resume() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.shut != nil {
		close(g.shut)
		g.shut = nil
		select {
		case <-g.closed:
		default:
			g.since = time.Time{}
		}
	}
}

// close cuts the instance off for ever, without a word to anybody.
func (g *gate) close() {
	g.mu.Lock()
	defer g.mu.Unlock()
	select {
	case <-g.closed:
	default:
		if g.since.IsZero() {
			g.since = time.Now()
		}
		close(g.closed)
	}
}

// silentFor tells for how long nothing has got through.
func (g *gate) silentFor() time.Duration {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.since.IsZero() {
		return 0
	}
	return time.Since(g.since)
}

// pass waits while the gate is shut. It reports whether anything comes through.
func (g *gate) pass() bool {
	for {
		g.mu.Lock()
		shut := g.shut
		g.mu.Unlock()
		select {
		case <-g.closed:
			return false
		default:
		}
		if shut == nil {
			return true
		}
		select {
		case <-shut:
		case <-g.closed:
			return false
		}
	}
}

// wait lets time pass for one call. It reports whether the gate is still there.
func (g *gate) wait(d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-g.closed:
		return false
	}
}

func (g *gate) add(f fault) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.faults = append(g.faults, f)
}

// alternate tells whether a stale answer is due: an instance that is told the
// same old ledger twice in a row can't know, and halts rightly.
func (g *gate) alternate() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.stale = !g.stale
	return g.stale
}

func (g *gate) step(ahead time.Duration) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.skew = ahead
}

func (g *gate) ahead() time.Duration {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.skew
}

func (g *gate) mend() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.faults = nil
}

// take finds the fault that this call meets, if any.
func (g *gate) take(place, call string) (fault, bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for i := range g.faults {
		f := &g.faults[i]
		if f.place == place && f.left > 0 && (f.call == call || f.call == "any") {
			f.left--
			return *f, true
		}
	}
	return fault{}, false
}

// listener puts the gate of its client into each connection of the broker. The
// client says who it is in the first request.
type listener struct {
	net.Listener
	gates func(name string) *gate
}

func (l listener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &kafkaConn{Conn: c, gates: l.gates}, nil
}

// kafkaConn is a connection as the broker sees it.
type kafkaConn struct {
	net.Conn
	gates func(string) *gate

	mu    sync.Mutex
	gate  *gate // nil until the first request, and for clients without one
	known bool
	ready []byte           // of the request under way, not yet read by the broker
	fates map[int32]string // by correlation id: what becomes of an answer
}

// requestNames are the Kafka requests that scenes talk about.
var requestNames = map[int16]string{
	0: "produce", 1: "fetch", 2: "offsets", 3: "metadata", 8: "commit", 9: "committed", 10: "coordinator",
	11: "join", 12: "heartbeat", 13: "leave", 14: "sync", 22: "producer", 24: "partitions", 26: "endtxn",
}

// nameOf names a request; those of a transaction have names of their own.
func nameOf(request []byte) string {
	key := int16(binary.BigEndian.Uint16(request[4:]))
	if name, ofTransaction := map[int16]string{0: "publish", 22: "take"}[key]; ofTransaction && transactional(request) {
		return name
	}
	return requestNames[key]
}

// transactional tells whether a produce, or a request for a producer id, has a
// transactional id, which is the first thing in both.
func transactional(request []byte) bool {
	r := kmsg.RequestForKey(int16(binary.BigEndian.Uint16(request[4:])))
	r.SetVersion(int16(binary.BigEndian.Uint16(request[6:])))
	body := request[14+max(0, int(int16(binary.BigEndian.Uint16(request[12:])))):]
	if r.IsFlexible() {
		return len(body) > 1 && body[1] > 0 // after the header's tags, of which there are none; 0 is null
	}
	return len(body) > 1 && int16(binary.BigEndian.Uint16(body)) >= 0
}

var errCut = errors.New("cut off")

// Read hands whole requests on, one after the other.
func (c *kafkaConn) Read(b []byte) (int, error) {
	if len(c.ready) == 0 {
		request, err := c.next()
		if err != nil {
			c.Close()
			return 0, err
		}
		c.ready = request
	}
	n := copy(b, c.ready)
	c.ready = c.ready[n:]
	return n, nil
}

func (c *kafkaConn) next() ([]byte, error) {
	var size [4]byte
	if _, err := io.ReadFull(c.Conn, size[:]); err != nil {
		return nil, err
	}
	request := make([]byte, 4+binary.BigEndian.Uint32(size[:]))
	copy(request, size[:])
	if _, err := io.ReadFull(c.Conn, request[4:]); err != nil {
		return nil, err
	}
	g := c.gateOf(request)
	if g == nil {
		return request, nil
	}
	if !g.pass() {
		return nil, errCut
	}
	request = hurried(request)
	f, ok := g.take("kafka", nameOf(request))
	if !ok {
		return request, nil
	}
	switch f.what {
	case "cut": // the broker never sees it
		return nil, errCut
	case "slow":
		if !g.wait(f.wait) || !g.pass() {
			return nil, errCut
		}
	case "die": // before the broker sees it
		g.die()
		return nil, errCut
	case "evict": // the member is put out of the group meanwhile
		go g.evict()
	case "repeat": // the network delivers it twice, and one answer
		c.fate(request, "repeat")
		return append(request, request...), nil
	case "lose", "late", "die-after": // the broker acts on it
		c.fate(request, f.what)
	}
	return request, nil
}

// fate notes what becomes of the answer to a request.
func (c *kafkaConn) fate(request []byte, what string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.fates == nil {
		c.fates = map[int32]string{}
	}
	c.fates[int32(binary.BigEndian.Uint32(request[8:]))] = what
}

// rebalanceMax bounds how long the group waits for members in a rebalance.
const rebalanceMax = 2500 * time.Millisecond

// hurried shortens the rebalance timeout of a join. Kafka gives up a member
// whose session has expired in mid rebalance; this broker waits for it until
// the rebalance times out.
func hurried(request []byte) []byte {
	if binary.BigEndian.Uint16(request[4:]) != uint16(kmsg.JoinGroup) {
		return request
	}
	join := kmsg.NewPtrJoinGroupRequest()
	join.SetVersion(int16(binary.BigEndian.Uint16(request[6:])))
	body := 14 + int(binary.BigEndian.Uint16(request[12:]))
	if join.IsFlexible() {
		body++ // no tags in the header
	}
	if err := join.ReadFrom(request[body:]); err != nil {
		return request
	}
	join.RebalanceTimeoutMillis = int32(rebalanceMax.Milliseconds())
	out := join.AppendTo(append([]byte{}, request[:body]...))
	binary.BigEndian.PutUint32(out, uint32(len(out)-4))
	return out
}

// gateOf finds out who the client is.
func (c *kafkaConn) gateOf(request []byte) *gate {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.known && len(request) >= 14 {
		c.known = true
		if n := int16(binary.BigEndian.Uint16(request[12:])); n > 0 && len(request) >= 14+int(n) {
			c.gate = c.gates(string(request[14 : 14+n]))
		}
	}
	return c.gate
}

// Write is called with one whole answer at a time.
func (c *kafkaConn) Write(b []byte) (int, error) {
	c.mu.Lock()
	g := c.gate
	what := ""
	if len(b) >= 8 {
		id := int32(binary.BigEndian.Uint32(b[4:]))
		what = c.fates[id]
		delete(c.fates, id)
		if what == "repeat" {
			c.fates[id] = "swallow"
		}
	}
	c.mu.Unlock()
	if what == "swallow" {
		return len(b), nil
	}
	if what == "die-after" {
		g.die()
	}
	if g != nil {
		if what == "late" && !g.wait(lateAnswer) || what == "lose" || !g.pass() {
			c.Close()
			return 0, errCut
		}
	}
	return c.Conn.Write(b)
}

// lateAnswer is longer than the shortest session.
const lateAnswer = 1500 * time.Millisecond

// reset cuts the connection of a request without an answer.
func reset(w http.ResponseWriter) {
	c, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return // the client has left
	}
	c.(*connection).reset()
}
