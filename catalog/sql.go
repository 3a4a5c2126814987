package catalog

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/apache/iceberg-go"
	sqlcatalog "github.com/apache/iceberg-go/catalog/sql"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/stdlib" // and the database/sql driver "pgx"
	_ "modernc.org/sqlite"           // the database/sql driver "sqlite"
)

// sqliteSettings make SQLite safe for several processes and for a power cut:
// WAL, a wait instead of an error when another writes, a sync before a commit is
// acknowledged, and the write lock taken when a transaction begins.
const sqliteSettings = "_pragma=busy_timeout(15000)&_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)&_txlock=immediate"

const sqlURIForms = "sqlite:PATH or postgres://USER:PASSWORD@HOST:5432/DATABASE"

// openSQL connects to a JDBC-style catalog (tables iceberg_tables and
// iceberg_namespace_properties, made when missing), which Java, Spark and
// PyIceberg can share under the same catalog name.
func (c *Catalog) openSQL(ctx context.Context) error {
	driver, dsn, dialect, err := sqlSource(c.config.URI)
	if err != nil {
		return err
	}
	warehouse, err := absoluteWarehouse(c.config.Warehouse)
	if err != nil {
		return err
	}
	db, err := c.openDatabase(driver, dsn)
	if err != nil {
		return fmt.Errorf("open database: %w", err)
	}
	c.closers = append(c.closers, db.Close)
	db.SetMaxOpenConns(8)
	db.SetConnMaxIdleTime(5 * time.Minute)
	err = db.PingContext(ctx)
	for n := 1; n <= startTriesMax && startsTogether(err); n++ {
		if err := (&course{last: err}).sleep(ctx, backoff(n, true, 0)); err != nil {
			return err
		}
		err = db.PingContext(ctx)
	}
	if err != nil {
		return fmt.Errorf("connect to %s: %w%s", place(c.config.URI), err, sqlRemedy(err, dialect))
	}
	properties := maps.Clone(c.properties)
	if warehouse != "" {
		properties["warehouse"] = warehouse
	}
	cat, err := sqlcatalog.NewCatalog(c.config.Name, db, dialect, iceberg.Properties(properties))
	for n := 1; n <= startTriesMax && startsTogether(err); n++ {
		if err := (&course{last: err}).sleep(ctx, backoff(n, true, 0)); err != nil {
			return err
		}
		cat, err = sqlcatalog.NewCatalog(c.config.Name, db, dialect, iceberg.Properties(properties))
	}
	if err != nil {
		return fmt.Errorf("make catalog tables in %s: %w%s", place(c.config.URI), err, sqlRemedy(err, dialect))
	}
	c.closers = append(c.closers, cat.Close)
	c.io, c.trimsLogs = cat, true
	return nil
}

// openDatabase makes the pool of connections. It connects to nobody yet.
func (c *Catalog) openDatabase(driver, dsn string) (*sql.DB, error) {
	if driver != "pgx" || c.config.Dial == nil {
		return sql.Open(driver, dsn)
	}
	config, err := pgx.ParseConfig(dsn)
	if err != nil {
		return nil, err
	}
	config.DialFunc = c.config.Dial
	config.LookupFunc = func(_ context.Context, host string) ([]string, error) { return []string{host}, nil } // whoever dials knows the way
	return stdlib.OpenDB(*config), nil
}

// startTriesMax bounds the tries of instances that start at the same time.
const startTriesMax = 10

// startsTogether tells whether another instance is just making the same
// database: PostgreSQL's "create table if not exists" isn't safe for two, and
// SQLite doesn't wait when it switches to WAL.
func startsTogether(err error) bool {
	var pg *pgconn.PgError
	if errors.As(err, &pg) {
		return pg.Code == "23505" || pg.Code == "42P07" || pg.Code == "42710"
	}
	return err != nil && strings.Contains(err.Error(), "database is locked")
}

// sqlSource turns a catalog's uri into a driver's source name.
func sqlSource(uri string) (driver, dsn string, dialect sqlcatalog.SupportedDialect, err error) {
	switch {
	case uri == "":
		return "", "", "", fmt.Errorf("uri is missing: set [catalog] uri to %s", sqlURIForms)
	case strings.HasPrefix(uri, "postgres://"), strings.HasPrefix(uri, "postgresql://"):
		return "pgx", uri, sqlcatalog.Postgres, nil
	case strings.HasPrefix(uri, "sqlite:"):
		dsn, err := sqliteSource(strings.TrimPrefix(uri, "sqlite:"))
		return "sqlite", dsn, sqlcatalog.SQLite, err
	}
	scheme, _, ok := strings.Cut(uri, ":")
	if !ok {
		return "", "", "", fmt.Errorf("uri: must be %s", sqlURIForms)
	}
	return "", "", "", fmt.Errorf("uri: %q is not a database known here: must be %s", cut(scheme, 20), sqlURIForms)
}

// sqliteFile is the file of a sqlite uri's path, absolute, and its options.
func sqliteFile(path string) (file, query string, err error) {
	path, query, _ = strings.Cut(path, "?")
	if strings.HasPrefix(path, "//") {
		path = "/" + strings.TrimLeft(path, "/")
	}
	if path == "" || path == ":memory:" {
		return "", "", errors.New("uri: sqlite needs a file, as sqlite:/var/lib/router/catalog.db")
	}
	if file, err = filepath.Abs(path); err != nil {
		return "", "", fmt.Errorf("uri: %w", err)
	}
	return file, query, nil
}

// thereAlready refuses a catalog that opening it would make.
func thereAlready(c Config) error {
	path, sqlite := strings.CutPrefix(c.URI, "sqlite:")
	if c.Type != "sql" || !sqlite {
		return nil
	}
	file, _, err := sqliteFile(path)
	if err != nil {
		return err
	}
	if _, err := os.Stat(file); err != nil {
		return fmt.Errorf("connect to %s: %w (check the path in [catalog] uri; a relative one counts from the folder the program is started in)", file, err)
	}
	return nil
}

// sqliteSource makes the database's folder and returns the driver's name of the file.
func sqliteSource(path string) (string, error) {
	path, query, err := sqliteFile(path)
	if err != nil {
		return "", err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return "", fmt.Errorf("make folder of the SQLite database: %w", err)
	}
	u := url.URL{Scheme: "file", Path: path, OmitHost: true}
	source := u.String() + "?" + sqliteSettings
	if query != "" {
		source += "&" + query
	}
	return source, nil
}

// absoluteWarehouse turns a bare path into a file URL that means the same in every process.
func absoluteWarehouse(warehouse string) (string, error) {
	if warehouse == "" || strings.Contains(warehouse, "://") {
		return strings.TrimRight(warehouse, "/"), nil
	}
	path, err := filepath.Abs(strings.TrimPrefix(warehouse, "file:"))
	if err != nil {
		return "", fmt.Errorf("warehouse %q: %w", warehouse, err)
	}
	return "file://" + path, nil
}

// place is a database's uri without user, password and options.
func place(uri string) string {
	u, err := url.Parse(uri)
	if err != nil || u.Host == "" {
		path, _, _ := strings.Cut(uri, "?")
		return path
	}
	return u.Scheme + "://" + u.Host + u.Path
}

// sqlRemedy says what to look at.
func sqlRemedy(err error, dialect sqlcatalog.SupportedDialect) string {
	var pg *pgconn.PgError
	var connect *pgconn.ConnectError
	switch {
	case errors.As(err, &pg) && (pg.Code == "28P01" || pg.Code == "28000"):
		return " (check user and password in [catalog] uri)"
	case errors.As(err, &pg) && pg.Code == "3D000":
		return " (make the database, or check its name in [catalog] uri)"
	case errors.As(err, &pg) && pg.Code == "42501":
		return " (the user may not create tables: grant it, or let an administrator create iceberg_tables and iceberg_namespace_properties)"
	case errors.As(err, &connect), errors.Is(err, context.DeadlineExceeded):
		return " (check host and port in [catalog] uri, and that the server runs and is reachable from here)"
	case dialect == sqlcatalog.SQLite:
		return " (check that the file and its folder can be written)"
	}
	return ""
}
