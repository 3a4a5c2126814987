package catalog

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/apache/iceberg-go/catalog/rest"
	"github.com/apache/iceberg-go/table"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
)

// closedPort returns an address nobody listens on.
func closedPort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// TestOpenErrorsHelpAndKeepSecrets plants secrets wherever a user may put
// them, makes opening fail, and reads the error as the user would.
func TestOpenErrorsHelpAndKeepSecrets(t *testing.T) {
	const secret = "s3cr3t-Zx81"
	html := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(401)
		fmt.Fprintf(w, "<html>not you: %s %s</html>", r.Header.Get("Authorization"), r.Header.Get("X-Api"))
	}))
	defer html.Close()
	echo := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(403)
		fmt.Fprintf(w, `{"error": {"message": "header was %s, query %s", "type": "Forbidden", "code": 403}}`, r.Header.Get("Authorization"), r.URL.RawQuery)
	}))
	defer echo.Close()
	tokens := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r.ParseForm()
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(400)
		fmt.Fprintf(w, `{"error": "invalid_client", "error_description": "no client with %s"}`, r.Form.Get("client_secret"))
	}))
	defer tokens.Close()
	closed := closedPort(t)
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		c    Config
		want []string
	}{
		"closed port":       {Config{Type: "rest", URI: "http://" + closed, Properties: map[string]string{"token": secret}}, []string{closed, "check [catalog] uri"}},
		"401 html":          {Config{Type: "rest", URI: html.URL, Properties: map[string]string{"token": secret, "header.X-Api": secret}}, []string{html.URL, "check credential, token"}},
		"403 echo":          {Config{Type: "rest", URI: echo.URL, Properties: map[string]string{"token": secret}}, []string{"check the grants"}},
		"token refused":     {Config{Type: "rest", URI: echo.URL, Properties: map[string]string{"credential": "client:" + secret, "oauth2-server-uri": tokens.URL}}, []string{"invalid_client", "check credential"}},
		"token port closed": {Config{Type: "rest", URI: echo.URL, Properties: map[string]string{"credential": "client:" + secret, "oauth2-server-uri": "http://" + closed + "/t"}}, []string{closed}},
		"password in uri":   {Config{Type: "rest", URI: "http://user:" + secret + "@" + closed}, []string{closed}},
		"postgres closed":   {Config{Type: "sql", URI: "postgres://user:" + secret + "@" + closed + "/lake?sslmode=disable"}, []string{closed, "check host and port"}},
		"postgres option":   {Config{Type: "sql", URI: "postgres://" + closed + "/lake?user=me&password=" + secret}, []string{closed}},
		"sqlite in a file":  {Config{Type: "sql", URI: "sqlite:" + file + "/x/catalog.db"}, []string{"make folder"}},
		"sqlite no name":    {Config{Type: "sql", URI: "sqlite:"}, []string{"sqlite needs a file"}},
		"no uri":            {Config{Type: "rest"}, []string{"uri is missing", "http://localhost:8181"}},
		"no sql uri":        {Config{Type: "sql"}, []string{"uri is missing", "postgres://"}},
		"mysql":             {Config{Type: "sql", URI: "mysql://u:" + secret + "@h/d"}, []string{`"mysql" is not a database known here`}},
		"odd type":          {Config{Type: "iceberg"}, []string{`type "iceberg"`, `"rest" or "sql"`}},
	} {
		c, err := Open(t.Context(), test.c, newDisk().open, zap.NewNop())
		if err == nil {
			c.Close()
			t.Errorf("%s: no error", name)
			continue
		}
		for _, want := range test.want {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v\nlacks %q", name, err, want)
			}
		}
		for _, form := range []string{"%v", "%+v", "%#v", "%q"} {
			if strings.Contains(fmt.Sprintf(form, err), secret) && form != "%#v" {
				t.Errorf("%s: the secret is in %s", name, fmt.Sprintf(form, err))
			}
		}
	}
}

func TestScrubbedErrorKeepsItsKind(t *testing.T) {
	s := newScrubber(Config{Properties: map[string]string{"s3.secret-access-key": "abcd+efgh/1234", "s3.region": "us-east-1"}, URI: "postgres://u:p%40ss-word@h/d"})
	err := s.error(fmt.Errorf("PUT abcd+efgh/1234 %%: abcd%%2Befgh%%2F1234 in us-east-1 by p@ss-word, Authorization: Bearer xyz.abc.def, http://a:bc@h/ password=hunter2 \"access_token\": \"tok\": %w", rest.ErrForbidden))
	for _, gone := range []string{"abcd", "efgh", "p@ss", "xyz.abc", "a:bc@", "hunter2", `"tok"`} {
		if strings.Contains(err.Error(), gone) {
			t.Errorf("%v\nshows %s", err, gone)
		}
	}
	if !strings.Contains(err.Error(), "us-east-1") || !errors.Is(err, rest.ErrForbidden) {
		t.Errorf("%v: the region or the kind is lost", err)
	}
	if err := s.error(table.ErrCommitFailed); err != table.ErrCommitFailed {
		t.Errorf("a harmless error was changed: %v", err)
	}
}

// TestSecretsStayOutOfCommits: errors of appends and the log keep them too.
func TestSecretsStayOutOfCommits(t *testing.T) {
	const secret = "tok-5ecret-77"
	w := newWorld(t)
	server, uri := w.serve()
	server.token = secret
	core, logs := observer.New(zap.DebugLevel)
	c, err := Open(t.Context(), Config{Name: "lake", Type: "rest", URI: uri, Properties: map[string]string{"token": secret}}, w.disk.open, zap.New(core))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	var seen []string
	tbl := w.table(c, TableOptions{CommitAttempts: 1, OnAttempt: func(a CommitAttempt) { seen = append(seen, fmt.Sprint(a.Err)) }})
	server.setCommit(func(rw http.ResponseWriter, r *http.Request, _ func() (int, []byte)) bool {
		server.answer(rw, 400, map[string]any{"error": map[string]any{"message": "you sent " + r.Header.Get("Authorization"), "type": "", "code": 400}})
		return true
	})
	_, err = tbl.Append(t.Context(), next(t, tbl, 0, 10, 1))
	if err == nil || !strings.Contains(err.Error(), "you sent Bearer") {
		t.Errorf("append: %v", err)
	}
	for _, e := range logs.All() {
		seen = append(seen, fmt.Sprint(e.Message, e.ContextMap()))
	}
	seen = append(seen, fmt.Sprint(err))
	for _, s := range seen {
		if strings.Contains(s, secret) {
			t.Errorf("the token is in %s", s)
		}
	}
	if len(seen) < 3 {
		t.Errorf("only %d texts to look at", len(seen))
	}
}

func TestMissingTable(t *testing.T) {
	w := newWorld(t)
	c := w.open()
	for name, want := range map[string]string{"shop.orders": "ingest orders: the table does not exist: create it, or add [ingest.create]", "orders": "must be NAMESPACE.TABLE", "a..b": "is empty"} {
		if _, err := c.Table(t.Context(), name, TableOptions{Ingest: "orders"}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	bad := Create{Schema: []Column{{Name: "id", Type: "lng"}}}
	if _, err := c.Table(t.Context(), "shop.orders", TableOptions{Ingest: "orders", Create: &bad}); err == nil || !strings.Contains(err.Error(), "[ingest.create] of ingest orders: column \"id\"") {
		t.Errorf("bad create: %v", err)
	}
	config := w.config()
	config.Warehouse = ""
	bare, err := Open(t.Context(), config, w.disk.open, zap.NewNop())
	if err != nil {
		t.Fatal(err)
	}
	defer bare.Close()
	if _, err := bare.Table(t.Context(), "shop.orders", TableOptions{Ingest: "orders", Create: &ordersCreate}); err == nil || !strings.Contains(err.Error(), "set [catalog] warehouse") {
		t.Errorf("no warehouse: %v", err)
	}
}

func TestNewTable(t *testing.T) {
	w := newWorld(t)
	c := w.open()
	create := ordersCreate
	create.Properties = map[string]string{"write.metadata.previous-versions-max": "7", "owner": "me"}
	tbl, err := c.Table(t.Context(), "deep.shop.orders", TableOptions{Ingest: "orders", Create: &create})
	if err != nil {
		t.Fatal(err)
	}
	p := tbl.Properties()
	for key, want := range map[string]string{"write.metadata.previous-versions-max": "7", "owner": "me", createdByKey: "router", "write.metadata.compression-codec": "gzip", "write.metadata.delete-after-commit.enabled": "true"} {
		if p[key] != want {
			t.Errorf("property %s is %q, want %q", key, p[key], want)
		}
	}
	meta := metaOf(t, c, "deep.shop.orders")
	if s := meta.CurrentSnapshot(); s == nil || s.Summary.Properties["total-records"] != "0" || s.SequenceNumber != 1 {
		t.Errorf("first snapshot: %v", s)
	}
	if want := "file://" + w.dir + "/wh/deep.shop.db/orders/data"; tbl.DataLocation() != want {
		t.Errorf("data go to %s, want %s", tbl.DataLocation(), want)
	}
	if spec := tbl.Spec(); partitionText(spec, tbl.Schema()) != "bucket(id, 64)" {
		t.Errorf("spec %v", spec)
	}
	if _, ok := tbl.StoreProperties()[doorKey]; ok {
		t.Error("the door is among the store's properties")
	}
}

func TestExistingTableIsTheContract(t *testing.T) {
	w := newWorld(t)
	w.table(w.open(), TableOptions{})
	core, logs := observer.New(zap.WarnLevel)
	c, err := Open(t.Context(), w.config(), w.disk.open, zap.New(core))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	other := Create{Schema: []Column{{Name: "id", Type: "string"}, {Name: "extra", Type: "list<int>"}}, Partition: []string{"id"}}
	tbl := w.table(c, TableOptions{Create: &other})
	if f, ok := tbl.Schema().FindFieldByName("id"); !ok || f.Type.String() != "long" {
		t.Errorf("schema %v", tbl.Schema())
	}
	if logs.Len() != 1 {
		t.Fatalf("%d warnings", logs.Len())
	}
	text := fmt.Sprint(logs.All()[0].ContextMap()["differences"])
	for _, want := range []string{"column id is long in the table, not string", "column extra is not in the table", "column message is only in the table", "partitioned by [bucket(id, 64)] in the table, not by [id]"} {
		if !strings.Contains(text, want) {
			t.Errorf("%s\nlacks %q", text, want)
		}
	}
	w.table(c, TableOptions{})
	if logs.Len() != 1 {
		t.Error("a table as wanted is warned of")
	}
}

func TestTablesDoNotChooseTheStore(t *testing.T) {
	merged := map[string]string{"s3.endpoint": "http://evil", "s3.region": "evil-1", "s3.access-key-id": "vended", "owner": "x", doorKey: "1"}
	got := ownProperties(merged, map[string]string{"s3.endpoint": "http://ours"}, map[string]string{"s3.endpoint": "http://evil", "s3.region": "evil-1", "owner": "x"})
	if got["s3.endpoint"] != "http://ours" || got["s3.access-key-id"] != "vended" || len(got) != 3 {
		t.Errorf("properties %v", got)
	}
}

func TestServerConfigReachesTheStore(t *testing.T) {
	w := newWorld(t)
	_, uri := w.serve()
	tbl := w.table(w.openREST(uri), TableOptions{})
	if got := tbl.StoreProperties()["s3.endpoint"]; got != "http://from-server" {
		t.Errorf("s3.endpoint is %q", got)
	}
}

func TestRetryAfterHasABound(t *testing.T) {
	now := mustTime(t, "Tue, 01 Dec 2026 09:00:00 GMT")
	for value, want := range map[string]string{"": "0s", "5": "5s", "99999999999": "0s", "3600": "1m0s", "-1": "0s", "Tue, 01 Dec 2026 09:00:09 GMT": "9s", "Tue, 01 Dec 2026 08:00:00 GMT": "0s", "soon": "0s"} {
		if got := retryAfter(value, now).String(); got != want && !(value == "99999999999" && got == "1m0s") {
			t.Errorf("%q: %s, want %s", value, got, want)
		}
	}
}
