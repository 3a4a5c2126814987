//go:build real

package real_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
)

// lake is a catalog with its store, as the router and as the readers are told of it.
type lake struct {
	name   string
	config string   // lines of [catalog]
	reader []string // arguments for read_table.py
	rest   string   // Apache's: the server's address, past any proxy
	bucket string   // Apache's: the folder of the objects
}

// The readers, in the order in which failures are told.
var allReaders = []string{"pyiceberg", "duckdb", "java", "spark"}

// s3Properties are the store's lines of [catalog.properties].
func s3Properties() string { return lab.s3Properties() }

func (w *world) s3Properties() string {
	return fmt.Sprintf("[catalog.properties]\n\"s3.endpoint\" = \"http://%s\"\n\"s3.region\" = \"us-east-1\"\n\"s3.access-key-id\" = %q\n\"s3.secret-access-key\" = %q\n\"s3.path-style-access\" = \"true\"\n",
		w.address("S3_PORT"), s3Access, s3Secret)
}

func s3Arguments() []string { return lab.s3Arguments() }

func (w *world) s3Arguments() []string {
	return []string{"--s3-endpoint", "http://" + w.address("S3_PORT"), "--access-key", s3Access, "--secret-key", s3Secret}
}

// apache is the REST catalog of Apache Iceberg itself. Behind another address than the server's own, it is a proxy's.
func apache(t *testing.T, address ...string) lake {
	t.Helper()
	need(t, "s3", "rest-catalog")
	return lab.apache(address...)
}

func (w *world) apache(address ...string) lake {
	uri := "http://" + w.address("REST_CATALOG_PORT")
	seen := uri
	if len(address) > 0 {
		seen = "http://" + address[0]
	}
	return lake{
		name:   "apache",
		config: fmt.Sprintf("[catalog]\ntype = \"rest\"\nuri = %q\n", seen) + w.s3Properties(),
		reader: append([]string{"--catalog", "rest", "--uri", uri}, w.s3Arguments()...),
		rest:   uri,
		bucket: w.bucketFolder(),
	}
}

// nessie is a REST catalog of another make.
func nessie(t *testing.T) lake {
	t.Helper()
	need(t, "s3", "second-catalog")
	uri := "http://" + lab.address("SECOND_CATALOG_PORT") + "/iceberg"
	return lake{
		name:   "nessie",
		config: fmt.Sprintf("[catalog]\ntype = \"rest\"\nuri = %q\n", uri) + s3Properties(),
		// Readers have the keys; unless told so, it sends them to its own signer of requests.
		reader: append([]string{"--catalog", "rest", "--uri", uri, "--property", "header.X-Iceberg-Access-Delegation=none"}, s3Arguments()...),
	}
}

// postgres is a SQL catalog in PostgreSQL over the same store.
func postgres(t *testing.T) lake {
	t.Helper()
	need(t, "s3", "postgres")
	uri := fmt.Sprintf("postgres://router:%s@%s/catalog", postgresPassword, lab.address("POSTGRES_PORT"))
	return lake{
		name: "postgres",
		config: fmt.Sprintf("[catalog]\nname = \"real\"\ntype = \"sql\"\nuri = %q\nwarehouse = \"s3://warehouse/sql\"\n", uri+"?sslmode=disable") +
			s3Properties(),
		reader: append([]string{"--catalog", "sql", "--uri", uri}, s3Arguments()...),
	}
}

// sqlite is a SQL catalog in a file with a warehouse on disk; no server at all.
func sqlite(t *testing.T, folder string) lake {
	t.Helper()
	database := filepath.Join(folder, "catalog.db")
	return lake{
		name:   "sqlite",
		config: fmt.Sprintf("[catalog]\nname = \"real\"\ntype = \"sql\"\nuri = %q\nwarehouse = %q\n", "sqlite:"+database, "file://"+filepath.Join(folder, "warehouse")),
		reader: []string{"--catalog", "sql", "--uri", "sqlite:///" + database},
	}
}

// question is what a reader is asked of a table.
type question struct {
	table  string
	where  string   // none: all rows
	choose []string // columns; none: all
	query  string   // instead of the two above, DuckDB alone: SQL with {table} for the table

	references bool // instead of rows, PyIceberg alone: the files that the table's metadata names
}

// read returns the rows that a reader finds, as canonical lines in order.
func (l lake) read(t *testing.T, reader string, q question) []string {
	t.Helper()
	args := append([]string{"--reader", reader, "--table", q.table}, l.reader...)
	if q.where != "" {
		args = append(args, "--where", q.where)
	}
	if len(q.choose) > 0 {
		args = append(args, "--select", strings.Join(q.choose, ","))
	}
	if q.query != "" {
		args = append(args, "--query", q.query)
	}
	if q.references {
		args = append(args, "--references")
	}
	lines, err := openReader(t, reader).ask(args)
	if err != nil {
		t.Fatalf("%s reads %s in %s: %v", reader, q.table, l.name, err)
	}
	for i := range lines {
		lines[i] = canonical(t, lines[i])
	}
	slices.Sort(lines)
	return lines
}

// spark runs statements of Spark's SQL.
func (l lake) spark(t *testing.T, statements ...string) {
	t.Helper()
	args := append([]string{"--reader", "spark"}, l.reader...)
	for _, s := range statements {
		args = append(args, "--sql", s)
	}
	if _, err := openReader(t, "spark").ask(args); err != nil {
		t.Fatalf("spark: %s: %v", strings.Join(statements, "; "), err)
	}
}

// count returns how many rows DuckDB counts.
func (l lake) count(t *testing.T, table string) int {
	t.Helper()
	return l.numbers(t, table, "SELECT count(*) AS n FROM {table}")["n"]
}

// numbers returns the one row of whole numbers that a query of DuckDB's answers.
func (l lake) numbers(t *testing.T, table, query string) map[string]int {
	t.Helper()
	lines := l.read(t, "duckdb", question{table: table, query: query})
	if len(lines) != 1 {
		t.Fatalf("%s: %d rows, want 1", query, len(lines))
	}
	row := map[string]json.Number{}
	decoder := json.NewDecoder(strings.NewReader(lines[0]))
	if err := decoder.Decode(&row); err != nil {
		t.Fatalf("%s answers %s: %v", query, lines[0], err)
	}
	numbers := map[string]int{}
	for name, number := range row {
		n, err := strconv.Atoi(number.String())
		if err != nil && number != "" {
			t.Fatalf("%s: column %s: %v", query, name, err)
		}
		numbers[name] = n
	}
	return numbers
}

// readerProcess answers questions one after another, so that a Spark, a Python starts once.
type readerProcess struct {
	mu      sync.Mutex
	in      io.WriteCloser
	out     *bufio.Reader
	command *exec.Cmd
	log     string
}

var readers struct {
	mu   sync.Mutex
	open map[string]*readerProcess
}

// openReader returns the process of a reader, started when it is first asked for.
func openReader(t *testing.T, name string) *readerProcess {
	t.Helper()
	readers.mu.Lock()
	defer readers.mu.Unlock()
	if p := readers.open[name]; p != nil {
		return p
	}
	if _, err := lab.script("readers", []string{"install", name}); err != nil {
		t.Fatal(err)
	}
	p := &readerProcess{command: exec.Command(filepath.Join(lab.scripts, "readers"), "read", "--serve"), log: filepath.Join(lab.run, "reader-"+name+".log")}
	p.command.Env = append(lab.environment(), "AWS_EC2_METADATA_DISABLED=true")
	log, err := os.Create(p.log)
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	p.command.Stderr = log
	if p.in, err = p.command.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, err := p.command.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	p.out = bufio.NewReaderSize(out, 1<<20)
	if err := p.command.Start(); err != nil {
		t.Fatal(err)
	}
	if readers.open == nil {
		readers.open = map[string]*readerProcess{}
	}
	readers.open[name] = p
	return p
}

// ask sends one line of arguments and returns the answer's lines.
func (p *readerProcess) ask(args []string) ([]string, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	var line strings.Builder
	for _, a := range args {
		line.WriteString("'" + strings.ReplaceAll(a, "'", `'"'"'`) + "' ")
	}
	request := strings.Join(strings.Fields(line.String()), " ") // one line, whatever the query looks like
	if _, err := io.WriteString(p.in, request+"\n"); err != nil {
		return nil, err
	}
	lines := []string{}
	for {
		text, err := p.out.ReadString('\n')
		if err != nil {
			return nil, fmt.Errorf("the reader ended: %w (see %s)", err, p.log)
		}
		text = strings.TrimSuffix(text, "\n")
		switch {
		case text == "":
			return lines, nil
		case strings.HasPrefix(text, "error: "):
			return nil, fmt.Errorf("%s (see %s)", text, p.log)
		}
		lines = append(lines, text)
	}
}

// closeReaders ends the readers' processes.
func closeReaders() {
	readers.mu.Lock()
	defer readers.mu.Unlock()
	for _, p := range readers.open {
		p.in.Close()
		p.command.Wait()
	}
}

// canonical writes a line of JSON so that equal rows are equal bytes: keys in
// order, whole numbers as they are, all others as the double they are.
func canonical(t *testing.T, line string) string {
	t.Helper()
	decoder := json.NewDecoder(strings.NewReader(line))
	decoder.UseNumber()
	var value any
	if err := decoder.Decode(&value); err != nil {
		t.Fatalf("no JSON: %s: %v", line, err)
	}
	var b bytes.Buffer
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(normal(value)); err != nil {
		t.Fatal(err)
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// normal gives every number with a point or an exponent one spelling.
func normal(value any) any {
	switch v := value.(type) {
	case json.Number:
		if !strings.ContainsAny(v.String(), ".eE") {
			return v
		}
		f, err := v.Float64()
		if err != nil {
			return v
		}
		return json.RawMessage(strconv.FormatFloat(f, 'e', -1, 64))
	case []any:
		for i := range v {
			v[i] = normal(v[i])
		}
	case map[string]any:
		for k := range v {
			v[k] = normal(v[k])
		}
	}
	return value
}

// sameLines fails the test unless two lists of lines are equal; it shows the first differences.
func sameLines(t *testing.T, what string, got, want []string) {
	t.Helper()
	if slices.Equal(got, want) {
		return
	}
	missing, extra := difference(want, got), difference(got, want)
	t.Errorf("%s: %d rows, want %d; %d missing, %d that should not be there", what, len(got), len(want), len(missing), len(extra))
	for i := 0; i < 2 && i < len(missing); i++ {
		t.Logf("missing: %s", tail(missing[i], 3000))
	}
	for i := 0; i < 2 && i < len(extra); i++ {
		t.Logf("extra:   %s", tail(extra[i], 3000))
	}
}

// difference returns the lines of a, which is sorted, that b lacks, counting repetitions.
func difference(a, b []string) []string {
	left := map[string]int{}
	for _, line := range b {
		left[line]++
	}
	var missing []string
	for _, line := range a {
		if left[line]--; left[line] < 0 {
			missing = append(missing, line)
		}
	}
	return missing
}
