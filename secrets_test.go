package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kfake"
)

// TestSecretsEchoed talks to servers that are out to betray us: they answer
// every request with an error that repeats its headers and its body. No secret
// comes out, by the daemon or by check, at the most talkative level.
func TestSecretsEchoed(t *testing.T) {
	seen := false
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body) //nolint:errcheck // whatever came is echoed
		seen = seen || strings.Contains(string(body)+fmt.Sprint(r.Header), "planted")
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusUnauthorized)
		fmt.Fprintf(w, `{"error": {"message": %q, "type": "NotAuthorizedException", "code": 401}}`, fmt.Sprint(r.URL, r.Header, string(body)))
	}))
	defer server.Close()
	broker, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(1, "orders"))
	if err != nil {
		t.Fatal(err)
	}
	defer broker.Close()
	t.Setenv("ROUTER_TEST_TOKEN", "planted-token")
	for name, properties := range map[string]string{
		"oauth":  `credential = "planted-client:planted-client-secret"`,
		"token":  `token = "${ROUTER_TEST_TOKEN}"`,
		"header": `"header.Authorization" = "Basic planted-basic"`,
		"s3":     "\"s3.endpoint\" = \"" + server.URL + "\"\n\"s3.region\" = \"us-east-1\"\n\"s3.access-key-id\" = \"planted-key-id\"\n\"s3.secret-access-key\" = \"planted-secret-key\"",
	} {
		t.Run(name, func(t *testing.T) {
			kind := fmt.Sprintf("type = \"rest\"\nuri = %q", server.URL)
			if name == "s3" {
				kind = fmt.Sprintf("type = \"sql\"\nuri = \"sqlite:%s/catalog.db\"\nwarehouse = \"s3://bucket/warehouse\"", t.TempDir())
			}
			path := writeConfig(t, fmt.Sprintf(`
[kafka]
brokers = [%q]
[catalog]
%s
[catalog.properties]
%s
[http]
listen = "127.0.0.1:0"
[log]
level = "debug"
[[ingest]]
name = "orders"
topics = ["orders"]
table = "shop.orders"
[ingest.create]
schema = [ { name = "id", type = "long" } ]
`, broker.ListenAddrs()[0], kind, properties))
			for _, args := range [][]string{{"--config", path, "--once"}, {"check", "--config", path}} {
				seen = false
				ctx, cancel := context.WithCancel(t.Context())
				var out bytes.Buffer
				p := &program{stdout: &out, stderr: &out, ctx: ctx, hard: ctx}
				code := p.run(args)
				cancel()
				if code != exitFailed {
					t.Errorf("router %v: exit %d\n%s", args, code, out.String())
				}
				if !seen {
					t.Errorf("router %v never showed a secret to the server: the test proves nothing", args)
				}
				if i := strings.Index(out.String(), "planted"); i >= 0 {
					t.Errorf("router %v shows a secret:\n…%s…", args, out.String()[max(i-300, 0):min(i+100, out.Len())])
				}
			}
		})
	}
}
