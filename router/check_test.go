package router

import (
	"bytes"
	"crypto/tls"
	"encoding/pem"
	"fmt"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/zap"
)

// checkFile writes a config for brokers and a SQLite catalog in dir and checks
// it. The words of more come after the fixed part.
func checkFile(t *testing.T, brokers []string, dir, more string) (report string, err error) {
	t.Helper()
	path := filepath.Join(dir, "router.toml")
	text := fmt.Sprintf("[catalog]\ntype = \"sql\"\nuri = \"sqlite:%s/catalog.db\"\nwarehouse = \"%s/warehouse\"\n[kafka]\nbrokers = [%q]\n", dir, dir, brokers[0]) + more
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	cfg, _, err := Load(path)
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	err = Check(t.Context(), cfg, &out)
	return strings.ReplaceAll(out.String(), dir, "DIR"), err
}

func contains(t *testing.T, text string, wants ...string) {
	t.Helper()
	for _, want := range wants {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in:\n%s", want, text)
		}
	}
}

const newOrders = `
[[ingest]]
name = "orders"
topics = ["orders"]
table = "shop.orders"
timestamp_unit = "millis"
[ingest.create]
schema = [ { name = "id", type = "long", required = true }, { name = "at", type = "timestamptz" } ]
partition = ["bucket(id, 4)"]
`

// TestCheck follows a table from its plan to its ledger, and then takes the
// world apart.
func TestCheck(t *testing.T) {
	dir := t.TempDir()
	broker, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(2, "orders", "letters"), kfake.ClusterID("first"))
	if err != nil {
		t.Fatal(err)
	}
	defer broker.Close()
	report, err := checkFile(t, broker.ListenAddrs(), dir, newOrders)
	if err != nil {
		t.Fatalf("%v\n%s", err, report)
	}
	contains(t, report, "kafka: cluster first, 1 brokers", "topics orders, 2 partitions", "catalog: sql router answers",
		"table shop.orders is not there yet and will be created, 2 columns", "store: DIR/warehouse can be written, read and deleted from", "all is well")
	if left, _ := filepath.Glob(dir + "/warehouse/*"); len(left) > 0 {
		t.Errorf("check left %v", left)
	}

	runOnce(t, broker.ListenAddrs(), dir)
	report, err = checkFile(t, broker.ListenAddrs(), dir, newOrders)
	if err != nil {
		t.Fatalf("%v\n%s", err, report)
	}
	contains(t, report, "table shop.orders, 2 columns, partitioned by id_bucket (bucket[4])", "inside the topics", "all is well")

	report, err = checkFile(t, broker.ListenAddrs(), dir, strings.ReplaceAll(newOrders, "4)", "8)")+`
[[ingest]]
name = "more"
topics = ["order", "orders"]
table = "shop.more"
on_bad_record = "dead_letter"
dead_letter_topic = "leters"
[[ingest]]
name = "meta"
topics = ["orders"]
table = "shop.meta"
[ingest.create]
schema = [ { name = "_kafka_offset", type = "string" } ]
`)
	if err == nil || err.Error() != "check found 4 problems" {
		t.Errorf("got %v", err)
	}
	contains(t, report, `router.toml:19: ingest[1].topics[0] = "order": the topic does not exist`, `did you mean "orders"?`,
		`router.toml:22: ingest[1].dead_letter_topic = "leters"`, `did you mean "letters"?`,
		`router.toml:20: ingest[1].table = "shop.more": the table does not exist; create it, or add [ingest.create]`,
		`ingest[2].create`, `_kafka_offset`, "bucket")

	other, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(2, "orders"), kfake.ClusterID("second"))
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	report, err = checkFile(t, other.ListenAddrs(), dir, newOrders)
	if err == nil {
		t.Error("another cluster is all right?")
	}
	contains(t, report, "filled from Kafka cluster first", "cluster second", "on_topic_reset")
}

// runOnce moves a record, so that there is a table with a ledger.
func runOnce(t *testing.T, brokers []string, dir string) {
	t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(brokers...), kgo.DefaultProduceTopic("orders"))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	if err := client.ProduceSync(t.Context(), kgo.StringRecord(`{"id": 1}`)).FirstErr(); err != nil {
		t.Fatal(err)
	}
	cfg, _, err := Load(filepath.Join(dir, "router.toml"))
	if err != nil {
		t.Fatal(err)
	}
	cfg.HTTP.Listen = ""
	r, err := New(cfg, zap.NewNop(), Options{Once: true})
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Run(t.Context(), t.Context()); err != nil {
		t.Fatal(err)
	}
}

// TestCheckPassword names the login, and shows no password.
func TestCheckPassword(t *testing.T) {
	broker, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.EnableSASL(), kfake.Superuser("SCRAM-SHA-512", "user", "right-password"), kfake.SeedTopics(1, "orders"))
	if err != nil {
		t.Fatal(err)
	}
	defer broker.Close()
	wrong, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.EnableSASL())
	if err != nil {
		t.Fatal(err)
	}
	defer wrong.Close()
	wrong.ControlKey(int16(kmsg.SASLAuthenticate), func(req kmsg.Request) (kmsg.Response, error, bool) {
		wrong.KeepControl()
		resp := req.ResponseKind().(*kmsg.SASLAuthenticateResponse)
		resp.ErrorCode = kerr.SaslAuthenticationFailed.Code // what Apache Kafka answers; kfake itself only hangs up
		return resp, nil, true
	})
	login := "[kafka.sasl]\nmechanism = \"SCRAM-SHA-512\"\nusername = \"user\"\npassword = \"%s-password\"\n"
	report, err := checkFile(t, wrong.ListenAddrs(), t.TempDir(), fmt.Sprintf(login, "wrong")+newOrders)
	if err == nil {
		t.Error("a wrong password is all right?")
	}
	contains(t, report, "router.toml:7: kafka.sasl: ", "check kafka.sasl (mechanism, username, password)", "ok      catalog")
	if strings.Contains(report, "wrong-password") {
		t.Errorf("the report shows the password:\n%s", report)
	}
	if report, err = checkFile(t, broker.ListenAddrs(), t.TempDir(), fmt.Sprintf(login, "right")+newOrders); err != nil {
		t.Errorf("%v\n%s", err, report)
	}
}

// TestCheckTLS tells a wrong authority from a wrong address.
func TestCheckTLS(t *testing.T) {
	server := httptest.NewUnstartedServer(nil)
	server.StartTLS()
	defer server.Close()
	broker, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.TLS(&tls.Config{Certificates: server.TLS.Certificates}), kfake.SeedTopics(1, "orders"))
	if err != nil {
		t.Fatal(err)
	}
	defer broker.Close()
	dir := t.TempDir()
	authority := filepath.Join(dir, "ca.pem")
	if err := os.WriteFile(authority, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}), 0o600); err != nil {
		t.Fatal(err)
	}
	if report, err := checkFile(t, broker.ListenAddrs(), dir, fmt.Sprintf("[kafka.tls]\nca_file = %q\n", authority)+newOrders); err != nil {
		t.Errorf("%v\n%s", err, report)
	}
	report, err := checkFile(t, broker.ListenAddrs(), dir, "[kafka.tls]\n"+newOrders)
	if err == nil {
		t.Error("an unknown authority is all right?")
	}
	contains(t, report, "router.toml:7: kafka.tls: ", "ca_file")

	// B202: the right authority's certificate, for another host.
	report, err = checkFile(t, broker.ListenAddrs(), dir, fmt.Sprintf("[kafka.tls]\nca_file = %q\nserver_name = \"kafka.other.test\"\n", authority)+newOrders)
	if err == nil {
		t.Error("another host's certificate is all right?")
	}
	contains(t, report, "kafka.tls", "kafka.other.test")
}

// TestCheckDead meets a catalog that is not there and a store without rights.
func TestCheckDead(t *testing.T) {
	broker, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(1, "orders"))
	if err != nil {
		t.Fatal(err)
	}
	defer broker.Close()
	path := filepath.Join(t.TempDir(), "router.toml")
	for _, c := range []struct{ catalog, want string }{
		{"type = \"rest\"\nuri = \"http://127.0.0.1:1\"", "router.toml:3: catalog.uri = \"http://127.0.0.1:1\": open catalog"},
		{"type = \"sql\"\nuri = \"postgres://u:planted-pass@127.0.0.1:1/db\"\nwarehouse = \"/w\"", "router.toml:3: catalog.uri = \"postgres://u:***@127.0.0.1:1/db\": open catalog"},
		{"type = \"sql\"\nuri = \"sqlite:" + t.TempDir() + "/c.db\"\nwarehouse = \"/proc/nowhere\"", "router.toml:4: catalog.warehouse = \"/proc/nowhere\": "},
	} {
		text := "[catalog]\n" + c.catalog + fmt.Sprintf("\n[kafka]\nbrokers = [%q]\n", broker.ListenAddrs()[0]) + newOrders
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		cfg, _, err := Load(path)
		if err != nil {
			t.Fatal(err)
		}
		var out bytes.Buffer
		if err := Check(t.Context(), cfg, &out); err == nil || err.Error() != "check found 1 problem" {
			t.Errorf("got %v", err)
		}
		contains(t, out.String(), c.want, "check ")
		if strings.Contains(out.String(), "planted") {
			t.Errorf("secret shown:\n%s", out.String())
		}
	}
}
