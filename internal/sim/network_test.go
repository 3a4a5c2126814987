//go:build synctests

package sim

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"strconv"
	"sync"
	"syscall"
	"time"
)

// network is the world's own: connections are memory, and what is written to
// one arrives a little later. Nothing in it waits for the machine, so that a
// bubble's clock runs on whenever everybody waits; and since hardly two things
// arrive at the same instant, a seed plays nearly the same every time.
type network struct {
	mu        sync.Mutex
	rand      *rand.Rand
	listeners map[string]*doorway
	port      int
	clients   []*connection // all there ever were
}

// latencyMax bounds how long bytes are under way.
const latencyMax = 2 * time.Millisecond

func newNetwork(seed uint64) *network {
	return &network{rand: rand.New(rand.NewPCG(seed, 3)), listeners: map[string]*doorway{}, port: 20000}
}

// latency is how long the next bytes are under way.
func (n *network) latency() time.Duration {
	n.mu.Lock()
	defer n.mu.Unlock()
	return 20*time.Microsecond + time.Duration(n.rand.Int64N(1+n.rand.Int64N(int64(latencyMax))))
}

// end cuts what is left: a server that closes forgets a connection that it is
// just accepting.
func (n *network) end() {
	n.mu.Lock()
	clients := n.clients
	n.mu.Unlock()
	for _, c := range clients {
		c.reset()
	}
}

// doorway is a listener.
type doorway struct {
	network *network
	address *net.TCPAddr
	arrived chan net.Conn
	closed  chan struct{}
	once    sync.Once
}

// Listen opens a listener at a port of its own.
func (n *network) Listen(string, string) (net.Listener, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.port++
	l := &doorway{network: n, address: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: n.port}, arrived: make(chan net.Conn), closed: make(chan struct{})}
	n.listeners[l.address.String()] = l
	return l, nil
}

// DialContext connects to a listener.
func (n *network) DialContext(ctx context.Context, _, address string) (net.Conn, error) {
	n.mu.Lock()
	l := n.listeners[address]
	n.port++
	from := &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: n.port}
	n.mu.Unlock()
	if l == nil {
		return nil, &net.OpError{Op: "dial", Net: "tcp", Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}
	}
	there, back := newStream(n), newStream(n)
	client := &connection{in: back, out: there, local: from, remote: l.address}
	server := &connection{in: there, out: back, local: l.address, remote: from}
	select {
	case l.arrived <- server:
		n.mu.Lock()
		defer n.mu.Unlock()
		n.clients = append(n.clients, client)
		return client, nil
	case <-l.closed:
		return nil, &net.OpError{Op: "dial", Net: "tcp", Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (l *doorway) Accept() (net.Conn, error) {
	select {
	case c := <-l.arrived:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l *doorway) Close() error {
	l.once.Do(func() { close(l.closed) })
	return nil
}

func (l *doorway) Addr() net.Addr { return l.address }

// connection is one end of a connection.
type connection struct {
	in, out       *stream
	local, remote *net.TCPAddr
}

func (c *connection) Read(b []byte) (int, error)  { return c.in.read(b) }
func (c *connection) Write(b []byte) (int, error) { return c.out.write(b) }

// Close delivers what is under way, and nothing more.
func (c *connection) Close() error {
	c.in.abandon()
	c.out.end(io.EOF)
	return nil
}

// reset ends the connection as a process that dies does.
func (c *connection) reset() {
	c.in.abandon()
	c.out.end(&net.OpError{Op: "read", Net: "tcp", Err: os.NewSyscallError("read", syscall.ECONNRESET)})
}

func (c *connection) LocalAddr() net.Addr  { return c.local }
func (c *connection) RemoteAddr() net.Addr { return c.remote }
func (c *connection) SetDeadline(t time.Time) error {
	return c.SetReadDeadline(t)
}
func (c *connection) SetReadDeadline(t time.Time) error { c.in.deadline(t); return nil }
func (c *connection) SetWriteDeadline(time.Time) error  { return nil } // a write never waits

// stream is one direction of a connection, with room for everything.
type stream struct {
	network *network
	mu      sync.Mutex
	moved   *sync.Cond
	pieces  []piece
	ended   error // after the pieces
	gone    bool  // nobody reads any more
	last    time.Time
	timer   *time.Timer
	expired bool
	expires int // counts deadlines, so that an old timer does nothing
}

// piece is what one write sent.
type piece struct {
	body []byte
	due  time.Time
}

func newStream(n *network) *stream {
	s := &stream{network: n}
	s.moved = sync.NewCond(&s.mu)
	return s
}

func (s *stream) write(b []byte) (int, error) {
	if len(b) == 0 {
		return 0, nil
	}
	late := s.network.latency()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended != nil {
		return 0, net.ErrClosed
	}
	if s.gone {
		return 0, &net.OpError{Op: "write", Net: "tcp", Err: os.NewSyscallError("write", syscall.EPIPE)}
	}
	s.send(piece{append([]byte(nil), b...), time.Now().Add(late)})
	return len(b), nil
}

// send adds a piece behind those under way. REQUIRES: s.mu is held.
func (s *stream) send(p piece) {
	if p.due.Before(s.last) {
		p.due = s.last
	}
	s.last = p.due
	s.pieces = append(s.pieces, p)
	time.AfterFunc(time.Until(p.due), s.wake)
}

func (s *stream) wake() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.moved.Broadcast()
}

func (s *stream) end(with error) {
	late := s.network.latency()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended == nil {
		s.ended = with
		s.send(piece{nil, time.Now().Add(late)})
	}
}

func (s *stream) abandon() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.gone = true
	s.pieces = nil
	s.moved.Broadcast()
}

func (s *stream) read(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for {
		switch {
		case s.gone:
			return 0, net.ErrClosed
		case s.expired:
			return 0, os.ErrDeadlineExceeded
		case len(b) == 0:
			return 0, nil
		}
		if len(s.pieces) > 0 && !s.pieces[0].due.After(time.Now()) {
			p := &s.pieces[0]
			if p.body == nil {
				return 0, s.ended
			}
			n := copy(b, p.body)
			if p.body = p.body[n:]; len(p.body) == 0 {
				s.pieces = s.pieces[1:]
			}
			return n, nil
		}
		s.moved.Wait()
	}
}

func (s *stream) deadline(t time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.expires++
	if s.timer != nil {
		s.timer.Stop()
		s.timer = nil
	}
	s.expired = !t.IsZero() && !t.After(time.Now())
	if s.expired || t.IsZero() {
		s.moved.Broadcast()
		return
	}
	mine := s.expires
	s.timer = time.AfterFunc(time.Until(t), func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.expires == mine {
			s.expired = true
			s.moved.Broadcast()
		}
	})
}

// address is a listener's as a URL.
func address(l net.Listener) string {
	a := l.Addr().(*net.TCPAddr)
	return fmt.Sprintf("http://%s", net.JoinHostPort(a.IP.String(), strconv.Itoa(a.Port)))
}
