package router

import (
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"
)

// TestConfigProblems reads each scene of testdata/config as a file and compares
// the complete report.
func TestConfigProblems(t *testing.T) {
	t.Setenv("ROUTER_TEST_PASSWORD", "hunter-two")
	t.Setenv("ROUTER_TEST_TRIGGER", "30 parsecs")
	for _, s := range scenes(t, "config/*.txt") {
		t.Run(strings.TrimSuffix(filepath.Base(s.path), ".txt"), func(t *testing.T) {
			t.Chdir(t.TempDir())
			if err := os.WriteFile("router.toml", []byte(s.sections["router.toml"]), 0o600); err != nil {
				t.Fatal(err)
			}
			if content, ok := s.sections["secret"]; ok {
				if err := os.WriteFile("secret", []byte(content), 0o600); err != nil {
					t.Fatal(err)
				}
				if err := os.Chmod("secret", 0o644); err != nil {
					t.Fatal(err)
				}
			}
			if s.sections["mode"] != "" {
				if err := os.Chmod("router.toml", 0o644); err != nil {
					t.Fatal(err)
				}
			}
			_, warnings, err := Load("router.toml")
			var got strings.Builder
			if err != nil {
				got.WriteString(err.Error() + "\n")
				var bad *ConfigError
				if !errors.As(err, &bad) {
					t.Errorf("Load returned %T, want *ConfigError", err)
				}
			}
			for _, w := range warnings {
				got.WriteString("warning: " + w + "\n")
			}
			if strings.Contains(got.String(), "hunter") || strings.Contains(got.String(), "77712345") {
				t.Errorf("the report shows a secret:\n%s", got.String())
			}
			s.path = strings.Replace(s.path, "testdata", sourceFolder(t)+"/testdata", 1)
			s.want(t, "want", got.String())
		})
	}
}

const minimal = `
[kafka]
brokers = ["localhost:9092"]
[catalog]
type = "rest"
uri = "http://localhost:8181"
[[ingest]]
name = "orders"
topics = ["orders"]
table = "shop.orders"
`

func TestConfigMinimal(t *testing.T) {
	got, r := parseConfig(minimal)
	if len(r.problems)+len(r.warnings) > 0 {
		t.Fatalf("problems %v, warnings %v", r.problems, r.warnings)
	}
	want := Default()
	want.Kafka.Brokers = []string{"localhost:9092"}
	want.Catalog.Type, want.Catalog.URI = "rest", "http://localhost:8181"
	in := DefaultIngest()
	in.Name, in.Topics, in.Table = "orders", []string{"orders"}, "shop.orders"
	want.Ingest = []IngestConfig{in}
	got.secrets = secrets{}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got.Ingest, want.Ingest)
	}
	if got.HTTP.Listen != "127.0.0.1:8080" {
		t.Errorf("HTTP listens at %q by default, not on loopback alone", got.HTTP.Listen)
	}
	if got.Ingest[0].GroupID() != "router-orders" {
		t.Errorf("group %q", got.Ingest[0].GroupID())
	}
	if err := want.Validate(); err != nil {
		t.Error(err)
	}
}

func TestConfigValues(t *testing.T) {
	t.Setenv("ROUTER_TEST_REGION", "eu-north-1")
	t.Setenv("ROUTER_TEST_BROKERS", "a:9092, b:9092")
	text := "memory_max = \"512MB\"\nstop_timeout = \"1m30s\"\n" + strings.Replace(minimal, "localhost:9092", "${ROUTER_TEST_BROKERS}", 1) + `
trigger = "250ms"
trigger_bytes = 0
start = "2024-05-01T12:00:00+02:00"
[ingest.create]
schema = [
  { name = "id", type = "long", required = true }, # a comment
  { name = "tags", type = "list<string>" },
]
partition = ["bucket(id, 64)"]
properties = { "write.data.path" = "s3://b/$${literal}" }
[catalog.properties]
s3.region = "${ROUTER_TEST_REGION}"
"s3.force-virtual-addressing" = false
`
	c, r := parseConfig(text)
	if len(r.problems) > 0 {
		t.Fatal(r.problems)
	}
	in := c.Ingest[0]
	start, _ := in.StartTime()
	for _, check := range []struct{ got, want any }{
		{c.Kafka.Brokers, []string{"a:9092", "b:9092"}}, {c.MemoryMax, Bytes(512e6)}, {c.StopTimeout, 90 * time.Second}, {in.Trigger, 250 * time.Millisecond},
		{in.TriggerBytes, Bytes(0)}, {start.UTC().Hour(), 10}, {len(in.Create.Schema), 2},
		{in.Create.Schema[0], ColumnConfig{Name: "id", Type: "long", Required: true}},
		{in.Create.Properties["write.data.path"], "s3://b/${literal}"},
		{c.Catalog.Properties["s3.region"], "eu-north-1"},
		{c.Catalog.Properties["s3.force-virtual-addressing"], "false"},
		{c.Redact("in eu-north-1"), "in eu-north-1"},
	} {
		if !reflect.DeepEqual(check.got, check.want) {
			t.Errorf("got %v, want %v", check.got, check.want)
		}
	}
}

func TestConfigMissingFile(t *testing.T) {
	_, _, err := Load("nowhere/router.toml")
	var bad *ConfigError
	if !errors.As(err, &bad) || !strings.Contains(err.Error(), "nowhere/router.toml: read config: no such file") {
		t.Errorf("got %v", err)
	}
}

// TestValidateInCode checks a Config that no file holds: it has no lines, and
// its secrets are hidden all the same.
func TestValidateInCode(t *testing.T) {
	c := Default()
	c.Kafka.Brokers = []string{"here"}
	c.Kafka.SASL = &SASLConfig{Mechanism: "PLAIN", Username: "u", Password: "hunter-two"}
	c.Catalog.Type, c.Catalog.URI = "rest", "postgres://u:pass-word-1@h/db"
	err := c.Validate()
	if err == nil {
		t.Fatal("accepted")
	}
	for _, want := range []string{`config: kafka.brokers[0] = "here": must be host:port`, `"postgres://u:***@h/db"`, "ingest: no [[ingest]] and no [[publish]] section"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("no %q in:\n%v", want, err)
		}
	}
	if strings.Contains(err.Error(), "pass-word-1") || strings.Contains(err.Error(), "hunter") {
		t.Errorf("secret in %v", err)
	}
}

func TestBytes(t *testing.T) {
	for text, want := range map[string]Bytes{"0": 0, "1B": 1, "64KiB": 64 << 10, "1 GiB": 1 << 30, "256MB": 256e6, "2TiB": 2 << 40, "3KB": 3000} {
		var b Bytes
		if err := b.UnmarshalText([]byte(text)); err != nil || b != want {
			t.Errorf("%q: %d, %v; want %d", text, b, err, want)
		}
		var again Bytes
		if err := again.UnmarshalText([]byte(b.String())); err != nil || again != b {
			t.Errorf("%q → %q → %d, %v", text, b, again, err)
		}
	}
	for _, text := range []string{"", "1", "GiB", "-1B", "1.5GiB", "1gib", "9999999999TiB", "0x10B"} {
		var b Bytes
		if err := b.UnmarshalText([]byte(text)); err == nil {
			t.Errorf("%q accepted as %d", text, b)
		}
	}
}

// sourceFolder returns this package's folder, also after a Chdir.
func sourceFolder(t *testing.T) string {
	t.Helper()
	return source
}

var source = func() string {
	wd, err := os.Getwd()
	if err != nil {
		panic(err)
	}
	return wd
}()
