//go:build synctests

package sim

import (
	"context"
	"fmt"
	"regexp"
	"strings"

	"github.com/apache/iceberg-go/table"
)

// The statements of an Iceberg SQL catalog, as bun writes them for PostgreSQL.

var (
	selectList  = regexp.MustCompile(`^SELECT (.*?) FROM `)
	quoted      = regexp.MustCompile(`"(\w+)"(?: AS "(\w+)")?$`)
	setLocation = regexp.MustCompile(`SET .*"metadata_location" = '([^']*)'.* WHERE `)
	oldLocation = regexp.MustCompile(`WHERE .*metadata_location = '([^']*)'`)
	newLocation = regexp.MustCompile(`VALUES .*'([^']*metadata\.json)'`)
)

// columnsOf names what a statement returns; nil for one without rows.
func columnsOf(statement string) (names []string) {
	switch {
	case strings.HasPrefix(statement, "SELECT EXISTS"):
		return []string{"exists"}
	case strings.HasPrefix(statement, "SELECT 1 "):
		return []string{"?column?"}
	}
	m := selectList.FindStringSubmatch(statement)
	if m == nil {
		return nil
	}
	for _, item := range strings.Split(m[1], ", ") {
		q := quoted.FindStringSubmatch(item)
		if q == nil {
			panic("column " + item + " of " + statement)
		}
		names = append(names, q[1])
	}
	return names
}

// rowOf is the table's row as a statement asks for it.
func rowOf(statement, location string) (row []string) {
	for _, name := range columnsOf(statement) {
		row = append(row, map[string]string{
			"catalog_name": "lake", "table_namespace": "ns", "table_name": "t", "iceberg_type": "TABLE", "metadata_location": location,
		}[name])
	}
	return row
}

// do executes a statement. ok is false when the connection has ended.
func (s *session) do(statement string) (a answer, ok bool) {
	word, _, _ := strings.Cut(strings.ToLower(strings.TrimSpace(statement)), " ")
	if s.status == 'E' && word != "rollback" && word != "commit" {
		return answer{failure: &failure{"25P02", "current transaction is aborted, commands ignored until end of transaction block"}}, true
	}
	call := ""
	switch {
	case word == "update":
		call = "commit"
	case word == "insert" && strings.Contains(statement, `"iceberg_tables"`):
		call = "create"
	case word == "select" && strings.Contains(statement, `"metadata_location"`):
		call = "load"
	}
	act := func() answer { return s.act(word, statement) }
	var f fault // none
	if call != "" {
		met, ok := s.gate.take("catalog", call)
		switch {
		case ok && call != "load" && !early(met):
			s.fate = &met // the commit meets it
		case ok:
			f = met
		}
	} else if word == "commit" && s.fate != nil {
		f, s.fate = *s.fate, nil
	}
	if f.what != "" {
		a, done, ok := s.meet(f, statement, act)
		if done || !ok {
			return a, ok
		}
		if !s.gate.pass() {
			s.conn.reset()
			return answer{}, false
		}
	}
	return act(), true
}

// early tells whether a fault of a transaction comes before its commit.
func early(f fault) bool {
	switch f.what {
	case "cut", "refuse", "conflict", "forbid", "slow", "die", "evict":
		return f.wait.Milliseconds()%4 < 2
	}
	return false
}

// act does what a statement says.
func (s *session) act(word, statement string) answer {
	a := answer{statement: statement}
	l := s.database.lake
	switch word {
	case "begin":
		a.tag, s.status = "BEGIN", 'T'
	case "savepoint", "release":
		a.tag = strings.ToUpper(word)
	case "rollback":
		a.tag = "ROLLBACK"
		if strings.Contains(strings.ToLower(statement), " to ") { // a savepoint, before all that was changed
			s.change, s.status = nil, 'T'
			break
		}
		s.rollback()
	case "commit":
		return s.commit(a)
	case "create":
		a.tag = "CREATE TABLE"
	case "select":
		a.rows, a.tag = l.selected(statement), "SELECT 1"
		if len(a.rows) == 0 {
			a.tag = "SELECT 0"
		}
	case "update", "insert":
		if !s.database.lock(s) {
			return answer{failure: &failure{"57014", "canceling statement due to user request"}}
		}
		s.change, a.tag, a.failure = l.write(word, statement)
	case "--", ";", "": // a ping
	default:
		panic(fmt.Sprintf("the database does not know the statement %q", statement))
	}
	return a
}

// rollback ends the session's transaction without a trace.
func (s *session) rollback() {
	s.change, s.fate, s.status = nil, nil, 'I'
	s.database.unlock(s)
}

// commit ends the session's transaction.
func (s *session) commit(a answer) answer {
	defer s.rollback()
	a.tag = "COMMIT"
	switch {
	case s.status == 'E':
		a.tag = "ROLLBACK"
	case s.change != nil:
		a.failure = s.database.lake.install(s.gate.name, *s.change)
	}
	return a
}

// selected are the rows that a query returns.
func (l *lake) selected(statement string) [][]string {
	l.mu.Lock()
	defer l.mu.Unlock()
	is := func(b bool) [][]string { return [][]string{{map[bool]string{true: "true", false: "false"}[b]}} }
	switch {
	case strings.Contains(statement, "information_schema"):
		return [][]string{{"1"}}
	case strings.HasPrefix(statement, "SELECT EXISTS"):
		return is(l.sql.namespace && (l.meta != nil || strings.Contains(statement, "iceberg_namespace_properties")))
	case strings.Contains(statement, `FROM "iceberg_namespace_properties"`):
		row := []string{}
		for _, name := range columnsOf(statement) {
			row = append(row, map[string]string{"catalog_name": "lake", "namespace": "ns", "property_key": "exists", "property_value": "true"}[name])
		}
		return [][]string{row}
	case l.meta == nil:
		return nil
	}
	return [][]string{rowOf(statement, l.sql.at)}
}

// write is what a transaction would change. Its session has the row's lock.
func (l *lake) write(word, statement string) (*change, string, *failure) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if word == "update" {
		set, where := setLocation.FindStringSubmatch(statement), oldLocation.FindStringSubmatch(statement)
		if set == nil {
			panic("no metadata location in " + statement)
		}
		if l.meta == nil || where != nil && where[1] != l.sql.at {
			return nil, "UPDATE 0", nil
		}
		return &change{expect: l.sql.at, now: set[1]}, "UPDATE 1", nil
	}
	c := &change{create: true}
	if c.namespace = strings.Contains(statement, "iceberg_namespace_properties"); !c.namespace {
		c.now = newLocation.FindStringSubmatch(statement)[1]
	}
	if c.namespace && l.sql.namespace || !c.namespace && l.meta != nil {
		return nil, "", &failure{"23505", "duplicate key value violates unique constraint"}
	}
	return c, "INSERT 0 1", nil
}

// install is the commit of what a transaction has written. The auditor sees it
// under the same lock.
func (l *lake) install(by string, c change) *failure {
	l.mu.Lock()
	defer l.mu.Unlock()
	if c.namespace {
		l.sql.namespace = true
		return nil
	}
	if c.expect != l.sql.at { // another writer does not go by the row's lock
		return &failure{"40001", "could not serialize access due to concurrent update"}
	}
	t, err := table.NewFromLocation(context.Background(), ident, c.now, l.store, nil)
	if err != nil {
		l.sql.broken("%s makes %s the table's metadata, which can't be read: %v", by, c.now, err)
		return &failure{"XX000", err.Error()}
	}
	before := l.meta
	l.remember()
	l.meta, l.sql.at = t.Metadata(), c.now
	l.version++
	if before != nil {
		l.applied(by, before, l.meta)
	}
	return nil
}

// older is the location of a state that is over, or nothing.
func (l *lake) older(n int) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.places) == 0 {
		return ""
	}
	return l.places[n%len(l.places)]
}

// remember keeps the present state for wrong answers. REQUIRES: l.mu is held.
func (l *lake) remember() {
	if l.meta == nil {
		return
	}
	l.past = append(l.past[max(0, len(l.past)-staleMax+1):], l.meta)
	l.places = append(l.places[max(0, len(l.places)-staleMax+1):], l.location())
}
