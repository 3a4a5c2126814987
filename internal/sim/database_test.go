//go:build synctests

package sim

import (
	"net"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgproto3"
)

// database is a PostgreSQL server in memory, behind the lake: its one row of
// iceberg_tables is the lake's table. It speaks the wire protocol, so that the
// product's own catalog, database/sql, bun and pgx are all in the scene, and it
// understands just the statements that they send.
//
// Real SQLite is not used: it locks files and waits for them in the machine's
// time, and a driver in its place would see no connections, which is where most
// of what goes wrong with a database happens.
//
// Transactions are read committed. A row that is changed is locked until its
// transaction ends; a second change waits, and then sees what has become of it.
type database struct {
	lake  *lake
	gates func(name string) *gate
	ended sync.WaitGroup

	mu       sync.Mutex
	sessions map[uint32]*session
	last     uint32
	holder   *session      // of the row's lock
	freed    chan struct{} // closed when the holder lets go
}

func newDatabase(l *lake, gates func(string) *gate) *database {
	return &database{lake: l, gates: gates, sessions: map[uint32]*session{}}
}

// serve accepts connections until the listener is closed.
func (d *database) serve(l net.Listener) {
	for {
		c, err := l.Accept()
		if err != nil {
			break
		}
		d.ended.Go(func() { d.greet(c) })
	}
	d.ended.Wait()
}

// greet begins a session, or cancels one.
func (d *database) greet(c net.Conn) {
	defer c.Close()
	backend := pgproto3.NewBackend(c, c)
	first, err := backend.ReceiveStartupMessage()
	if err != nil {
		return
	}
	switch m := first.(type) {
	case *pgproto3.CancelRequest:
		d.mu.Lock()
		defer d.mu.Unlock()
		if s := d.sessions[m.ProcessID]; s != nil {
			s.cancel()
		}
	case *pgproto3.StartupMessage:
		g := d.gates(m.Parameters["user"])
		if g == nil || !g.pass() {
			c.(*connection).reset()
			return
		}
		s := &session{database: d, gate: g, conn: c.(*connection), backend: backend, status: 'I', statements: map[string]string{}, cancelled: make(chan struct{})}
		d.mu.Lock()
		d.last++
		id := d.last
		d.sessions[id] = s
		d.mu.Unlock()
		s.run(id)
		s.rollback()
		d.mu.Lock()
		defer d.mu.Unlock()
		delete(d.sessions, id)
	}
}

// lock waits until the session has the row's lock. It reports whether it has.
func (d *database) lock(s *session) bool {
	for {
		d.mu.Lock()
		if d.holder == nil || d.holder == s {
			if d.holder == nil {
				d.holder, d.freed = s, make(chan struct{})
			}
			d.mu.Unlock()
			return true
		}
		freed := d.freed
		d.mu.Unlock()
		select {
		case <-freed:
		case <-s.cancelled:
			return false
		case <-s.gate.closed:
			return false
		}
	}
}

func (d *database) unlock(s *session) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.holder == s {
		d.holder = nil
		close(d.freed)
	}
}

// session is one connection.
type session struct {
	database   *database
	gate       *gate
	conn       *connection
	backend    *pgproto3.Backend
	status     byte // 'I'dle, in a 'T'ransaction, or in one that has fail'E'd
	statements map[string]string
	portal     string
	change     *change // what its transaction has changed
	fate       *fault  // what its commit will meet
	once       sync.Once
	cancelled  chan struct{}
}

func (s *session) cancel() { s.once.Do(func() { close(s.cancelled) }) }

// change is a row that a transaction has written.
type change struct {
	namespace   bool // of the namespaces; else of the tables
	expect, now string
	create      bool
}

// failure is an error that PostgreSQL tells.
type failure struct{ code, text string }

// run answers until the connection ends.
func (s *session) run(id uint32) {
	s.backend.Send(&pgproto3.AuthenticationOk{})
	for name, value := range map[string]string{"server_version": "17.2", "client_encoding": "UTF8", "standard_conforming_strings": "on", "TimeZone": "UTC"} {
		s.backend.Send(&pgproto3.ParameterStatus{Name: name, Value: value})
	}
	s.backend.Send(&pgproto3.BackendKeyData{ProcessID: id, SecretKey: []byte{0, 0, 0, 1}})
	s.ready()
	skip := false // until the next sync, after an error
	for s.flush() {
		m, err := s.backend.Receive()
		if err != nil || !s.gate.pass() {
			s.conn.reset()
			return
		}
		if _, sync := m.(*pgproto3.Sync); skip && !sync {
			continue
		}
		switch m := m.(type) {
		case *pgproto3.Terminate:
			return
		case *pgproto3.Query:
			if a, ok := s.do(m.String); !ok {
				return
			} else {
				s.tell(a, true)
			}
			s.ready()
		case *pgproto3.Parse:
			s.statements[m.Name] = m.Query
			s.backend.Send(&pgproto3.ParseComplete{})
		case *pgproto3.Describe:
			if m.ObjectType == 'S' {
				s.backend.Send(&pgproto3.ParameterDescription{})
				s.describe(s.statements[m.Name])
			} else {
				s.describe(s.portal)
			}
		case *pgproto3.Bind:
			s.portal = s.statements[m.PreparedStatement]
			s.backend.Send(&pgproto3.BindComplete{})
		case *pgproto3.Execute:
			a, ok := s.do(s.portal)
			if !ok {
				return
			}
			s.tell(a, false)
			skip = a.failure != nil
		case *pgproto3.Close:
			delete(s.statements, m.Name)
			s.backend.Send(&pgproto3.CloseComplete{})
		case *pgproto3.Sync:
			skip = false
			s.ready()
		}
	}
}

func (s *session) ready() { s.backend.Send(&pgproto3.ReadyForQuery{TxStatus: s.status}) }

// flush sends the answers. It reports whether the connection is still there.
func (s *session) flush() bool {
	if !s.gate.pass() {
		s.conn.reset()
		return false
	}
	return s.backend.Flush() == nil
}

// describe tells which columns a statement returns.
func (s *session) describe(statement string) {
	names := columnsOf(statement)
	if names == nil {
		s.backend.Send(&pgproto3.NoData{})
		return
	}
	d := &pgproto3.RowDescription{}
	for _, name := range names {
		d.Fields = append(d.Fields, pgproto3.FieldDescription{Name: []byte(name), DataTypeOID: 25, DataTypeSize: -1, TypeModifier: -1})
	}
	s.backend.Send(d)
}

// answer is what a statement returns.
type answer struct {
	statement string
	tag       string
	rows      [][]string
	failure   *failure
}

// tell sends an answer, with its columns if nobody has asked for them before.
func (s *session) tell(a answer, columns bool) {
	if a.failure != nil {
		if s.status == 'T' {
			s.status = 'E'
		}
		s.backend.Send(&pgproto3.ErrorResponse{Severity: "ERROR", SeverityUnlocalized: "ERROR", Code: a.failure.code, Message: a.failure.text})
		return
	}
	if columns && columnsOf(a.statement) != nil {
		s.describe(a.statement)
	}
	for _, row := range a.rows {
		m := &pgproto3.DataRow{}
		for _, value := range row {
			m.Values = append(m.Values, []byte(value))
		}
		s.backend.Send(m)
	}
	if a.tag == "" {
		s.backend.Send(&pgproto3.EmptyQueryResponse{})
		return
	}
	s.backend.Send(&pgproto3.CommandComplete{CommandTag: []byte(a.tag)})
}

// meet lets a statement meet its fault. done is whether it is to be answered
// now; not ok: the connection has ended.
func (s *session) meet(f fault, statement string, act func() answer) (a answer, done, ok bool) {
	fail := func(code, text string) (answer, bool, bool) {
		s.rollback()
		return answer{failure: &failure{code, text}}, true, true
	}
	switch f.what {
	case "slow":
		if s.gate.wait(f.wait) {
			return answer{}, false, true
		}
	case "evict":
		go s.gate.evict()
		return answer{}, false, true
	case "refuse": // not done
		return fail("57P03", "the database system is starting up")
	case "conflict": // not done
		if f.wait.Milliseconds()%2 == 0 {
			return fail("40P01", "deadlock detected")
		}
		return fail("40001", "could not serialize access due to concurrent update")
	case "forbid": // not done
		return fail("42501", "permission denied for table iceberg_tables")
	case "absent":
		return answer{statement: statement, tag: "SELECT 0"}, true, true
	case "stale": // from a replica that is behind, every other time
		if !s.gate.alternate() {
			return answer{}, false, true
		}
		if location := s.database.lake.older(int(f.wait.Milliseconds())); location != "" {
			return answer{statement: statement, tag: "SELECT 1", rows: [][]string{rowOf(statement, location)}}, true, true
		}
		return answer{}, false, true
	case "wrong": // done, and told as if it were not
		act()
		return fail("57P01", "terminating connection due to administrator command")
	case "deny": // done, and told as if somebody else had been faster: a proxy has sent it twice
		act()
		return fail("40001", "could not serialize access due to concurrent update")
	case "garble": // done, and the answer is nonsense
		act()
		_, _ = s.conn.Write([]byte("HTTP/1.1 200 OK\r\n\r\n<html>welcome</html>"))
	case "torn": // done, and half the answer arrives
		act()
		_, _ = s.conn.Write([]byte{'C', 0, 0, 0, 11, 'C', 'O'})
		s.conn.Close()
		return answer{}, false, false
	case "lose": // done, and nobody hears of it
		act()
	case "late": // given up, and done afterwards
		s.database.lake.late.Add(1)
		s.conn.reset()
		time.Sleep(f.wait)
		act()
		s.database.lake.late.Done()
	case "die":
		s.gate.die()
	case "die-after":
		act()
		s.gate.die()
	}
	s.conn.reset() // "cut" too
	return answer{}, false, false
}
