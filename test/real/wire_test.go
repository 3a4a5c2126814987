//go:build real

package real_test

import (
	"net"
	"sync"
	"testing"

	"golang.org/x/sync/errgroup"
)

// wire is the network before a server: it forwards TCP connections until it is
// told to misbehave. It is safe for concurrent use.
type wire struct {
	target   string
	listener net.Listener
	pumps    errgroup.Group

	mu      sync.Mutex
	state   wireState
	changed chan struct{} // closed when state, or a connection's dead, changes
	links   map[*link]bool
	closed  bool
}

type wireState int

const (
	wireWhole   wireState = iota
	wireCut               // connections are reset, new ones too
	wireStalled           // nothing moves in either direction; all goes on when the wire is mended
	wireDeaf              // requests arrive, answers don't; the connections are reset when the wire is mended
)

// link is one connection through the wire.
type link struct {
	client, server *net.TCPConn
	dead           bool // neither side hears of the other again, and none is told
	lost           bool // an answer was lost
	held           bool // bytes wait
}

// newWire returns a wire before an address.
func newWire(t *testing.T, target string) *wire {
	l, err := listenApart()
	if err != nil {
		t.Fatal(err)
	}
	w := &wire{target: target, listener: l, changed: make(chan struct{}), links: map[*link]bool{}}
	w.pumps.Go(w.accept)
	t.Cleanup(func() {
		l.Close()
		w.change(func() {
			w.closed = true
			w.resetAll(func(*link) bool { return true })
		})
		w.pumps.Wait()
	})
	return w
}

func (w *wire) address() string { return w.listener.Addr().String() }

// cut resets every connection and refuses new ones.
func (w *wire) cut() {
	w.change(func() {
		w.state = wireCut
		w.resetAll(func(*link) bool { return true })
	})
}

// stall lets nothing through in either direction, without a word.
func (w *wire) stall() { w.change(func() { w.state = wireStalled }) }

// deafen lets requests through and holds the answers.
func (w *wire) deafen() { w.change(func() { w.state = wireDeaf }) }

// halfOpen lets the connections that are there die without a word; new ones are whole.
func (w *wire) halfOpen() {
	w.change(func() {
		for l := range w.links {
			l.dead = true
		}
	})
}

// mend makes the wire whole.
func (w *wire) mend() {
	w.change(func() {
		w.state = wireWhole
		w.resetAll(func(l *link) bool { return l.lost })
	})
}

// holds says whether a request or an answer waits on the stalled wire.
func (w *wire) holds() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	for l := range w.links {
		if l.held {
			return true
		}
	}
	return false
}

func (w *wire) change(do func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	do()
	close(w.changed)
	w.changed = make(chan struct{})
}

// resetAll ends the chosen connections so that both sides see them broken. REQUIRES: w.mu is held.
func (w *wire) resetAll(chosen func(*link) bool) {
	for l := range w.links {
		if chosen(l) {
			l.reset()
			delete(w.links, l)
		}
	}
}

func (l *link) reset() {
	for _, c := range []*net.TCPConn{l.client, l.server} {
		c.SetLinger(0)
		c.Close()
	}
}

func (w *wire) accept() error {
	for {
		c, err := w.listener.Accept()
		if err != nil {
			return nil // closed
		}
		w.pumps.Go(func() error { w.connect(c.(*net.TCPConn)); return nil })
	}
}

// connect forwards one connection until either side ends it.
func (w *wire) connect(client *net.TCPConn) {
	s, err := net.Dial("tcp", w.target)
	if err != nil { // the server is down
		client.SetLinger(0)
		client.Close()
		return
	}
	l := &link{client: client, server: s.(*net.TCPConn)}
	w.mu.Lock()
	if w.closed || w.state == wireCut {
		w.mu.Unlock()
		l.reset()
		return
	}
	w.links[l] = true
	w.mu.Unlock()
	var g errgroup.Group
	g.Go(func() error { w.pump(l, l.client, l.server, false); return nil })
	g.Go(func() error { w.pump(l, l.server, l.client, true); return nil })
	g.Wait()
	w.mu.Lock()
	delete(w.links, l)
	w.mu.Unlock()
	l.client.Close()
	l.server.Close()
}

// pump copies one direction of a connection; answers: from the server.
func (w *wire) pump(l *link, from, to *net.TCPConn, answers bool) {
	defer to.CloseWrite()
	buffer := make([]byte, 64<<10)
	for {
		n, err := from.Read(buffer)
		if n > 0 && !w.pass(l, answers) {
			return
		}
		if n > 0 {
			if _, err := to.Write(buffer[:n]); err != nil {
				from.CloseRead()
				return
			}
		}
		if err != nil {
			w.pass(l, answers) // the end of a connection does not get through either
			return
		}
	}
}

// pass waits until bytes may go on; false: they never may.
func (w *wire) pass(l *link, answers bool) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	for {
		switch {
		case w.closed || !w.links[l]:
			return false
		case l.dead, w.state == wireStalled:
			l.held = true
		case w.state == wireDeaf && answers:
			l.lost = true
		default:
			l.held = false
			return true
		}
		changed := w.changed
		w.mu.Unlock()
		<-changed
		w.mu.Lock()
	}
}
