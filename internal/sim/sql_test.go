//go:build synctests

package sim

import (
	"encoding/json"
	"fmt"

	"github.com/apache/iceberg-go/table"
	"github.com/google/uuid"
)

// sqlEvery says of how many random scenes one has a SQL catalog.
const sqlEvery = 4

// sqlLake is what a lake is in a database: a row that says where the table's
// metadata is, which its writers put into the store. The lake's lock guards it.
type sqlLake struct {
	address   string
	at        string // the location of the metadata; empty: there is no table
	namespace bool
	broken    func(format string, arguments ...any)
}

// uri is the database as an instance calls it.
func (s *sqlLake) uri(user string) string {
	return fmt.Sprintf("postgres://%s:secret@%s/lake?sslmode=disable", user, s.address)
}

// useSQL makes the catalog a database. REQUIRES: no instance has started.
func (w *world) useSQL() error {
	l, err := w.network.Listen("", "")
	if err != nil {
		return err
	}
	w.lake.mu.Lock()
	w.lake.sql = &sqlLake{address: l.Addr().String(), broken: w.audit.violation}
	w.lake.mu.Unlock()
	w.ended.Go(func() { newDatabase(w.lake, w.gate).serve(l) })
	w.close = append(w.close, func() { _ = l.Close() })
	w.objects.deleted = func(by, name string) {
		w.audit.deleting(w.lake.current(), by, name)
		if name == w.lake.place() {
			w.audit.violation("%s deletes the table's metadata %s", by, name)
		}
	}
	w.cfg.Catalog.Type, w.cfg.Catalog.Warehouse = "sql", bucket
	w.cfg.Catalog.URI = w.lake.sql.uri("nobody")
	w.audited.uri = w.lake.sql.uri(auditName)
	return nil
}

func (l *lake) place() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.location()
}

// put stores metadata of another writer, and leads the row there. REQUIRES: l.mu is held.
func (l *lake) put(meta table.Metadata) error {
	b, err := json.Marshal(meta)
	if err != nil {
		return err
	}
	l.sql.at = fmt.Sprintf("%s/metadata/%05d-%s.metadata.json", meta.Location(), l.version, uuid.NewString())
	l.objects.create(l.sql.at, b)
	return nil
}
