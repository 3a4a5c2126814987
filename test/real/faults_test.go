//go:build real

package real_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// A configuration that can't be meant ends with code 2 before anything is
// connected, naming file, line, key and what would be right; all problems at once.
func TestBadConfigs(t *testing.T) {
	t.Parallel()
	good := config{kafka: "[kafka]\nbrokers = [\"127.0.0.1:1\"]\n", lake: sqlite(t, t.TempDir()), ingests: []ingest{auditIngest("orders", "shop.orders", "orders")}}.String()
	for _, scene := range []struct {
		name, from, to string
		mentions       []string
	}{
		{"a typo in a key", "topics =", "toppics =", []string{"toppics", "topics"}},
		{"a typo in a section", "[http]", "[htpt]", []string{"htpt", "http"}},
		{"a wrong unit", `trigger = "1s"`, `trigger = "1 sec"`, []string{"trigger", "1 sec"}},
		{"a number for a duration", `trigger = "1s"`, `trigger = 1`, []string{"trigger"}},
		{"a trigger out of bounds", `trigger = "1s"`, `trigger = "0s"`, []string{"trigger", "100ms"}},
		{"a wrong size", "group =", "target_file_size = \"12 megs\"\ngroup =", []string{"target_file_size", "12 megs", "MiB"}},
		{"a wrong word", "group =", "codec = \"snapy\"\ngroup =", []string{"codec", "snapy", "snappy"}},
		{"a wrong type", `type = "long"`, `type = "loong"`, []string{"seq", "loong"}},
		{"a wrong transform", "bucket(seq, 4)", "buckets(seq, 4)", []string{"buckets(seq, 4)", "bucket"}},
		{"a partition field that is no column", "bucket(seq, 4)", "bucket(sequence, 4)", []string{"sequence"}},
		{"no closing quote", `name = "orders"`, `name = "orders`, []string{"line"}},
		{"a secret that isn't there", `brokers = ["127.0.0.1:1"]`, "brokers = [\"127.0.0.1:1\"]\n[kafka.sasl]\nmechanism = \"PLAIN\"\nusername = \"u\"\npassword = \"${NO_SUCH_VARIABLE}\"", []string{"NO_SUCH_VARIABLE", "password"}},
		{"a secret file that isn't there", `brokers = ["127.0.0.1:1"]`, "brokers = [\"127.0.0.1:1\"]\n[kafka.sasl]\nmechanism = \"PLAIN\"\nusername = \"u\"\npassword = \"${file:/no/such/file}\"", []string{"/no/such/file", "password"}},
		{"three at once", "topics =", "codec = \"x\"\nstart = \"erliest\"\ntoppics =", []string{"toppics", "codec", "start", "earliest"}},
	} {
		t.Run(strings.ReplaceAll(scene.name, " ", "-"), func(t *testing.T) {
			t.Parallel()
			text := strings.Replace(good, scene.from, scene.to, 1)
			if text == good {
				t.Fatalf("the config has no %q", scene.from)
			}
			path := filepath.Join(t.TempDir(), "router.toml")
			if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			e := launch(t, "--config", path, "--once").wait(20 * time.Second)
			if e.code != 2 {
				t.Errorf("exit code %d, want 2", e.code)
			}
			e.mentions(t, append(scene.mentions, path)...)
		})
	}
	t.Run("no-file", func(t *testing.T) {
		e := launch(t, "--config", "/no/such/router.toml").wait(20 * time.Second)
		if e.code != 2 {
			t.Errorf("exit code %d, want 2", e.code)
		}
		e.mentions(t, "/no/such/router.toml")
	})
	t.Run("an-unknown-flag", func(t *testing.T) {
		e := launch(t, "--onec").wait(20 * time.Second)
		if e.code != 2 {
			t.Errorf("exit code %d, want 2", e.code)
		}
		e.mentions(t, "onec")
	})
}

// A world that isn't there ends --once with code 1 soon, naming the place and
// the remedy, and never a secret.
func TestBadWorlds(t *testing.T) {
	t.Parallel()
	c := client(t)
	topic := makeTopic(t, c, "worlds", 1)
	produce(t, c, topic, 1, sequence(0, 5)...)
	dead := fmt.Sprint("127.0.0.1:", freePort(t))
	in := auditIngest("worlds", unique("worlds")+".records", topic)
	plain := in
	plain.columns = nil
	lost := in
	lost.topics = []string{"no-such-topic"}
	replaced := func(l lake, from, to string) lake {
		changed := strings.Replace(l.config, from, to, 1)
		if changed == l.config {
			t.Fatalf("the config has no %q", from)
		}
		l.config = changed
		return l
	}
	for _, scene := range []struct {
		name     string
		config   config
		mentions []string
	}{
		{"a missing table", config{lake: apache(t), ingests: []ingest{plain}}, []string{in.table, "ingest.create"}},
		{"a missing topic", config{lake: apache(t), ingests: []ingest{lost}}, []string{"no-such-topic", "topics"}},
		{"a dead broker", config{kafka: fmt.Sprintf("[kafka]\nbrokers = [%q]\n", dead), lake: apache(t), ingests: []ingest{in}}, []string{dead, "kafka.brokers"}},
		{"plaintext to a TLS listener", config{kafka: fmt.Sprintf("[kafka]\nbrokers = [%q]\n", lab.address("KAFKA_SASL_PORT")), lake: apache(t), ingests: []ingest{in}},
			[]string{lab.address("KAFKA_SASL_PORT"), "kafka.tls"}},
		{"an unreachable catalog", config{lake: replaced(apache(t), lab.address("REST_CATALOG_PORT"), dead), ingests: []ingest{in}}, []string{dead, "uri"}},
		{"a catalog that is none", config{lake: replaced(apache(t), lab.address("REST_CATALOG_PORT"), lab.address("S3_PORT")), ingests: []ingest{in}}, []string{lab.address("S3_PORT"), "uri"}},
		{"a wrong PostgreSQL password", config{lake: replaced(postgres(t), postgresPassword, wrongPassword), ingests: []ingest{in}}, []string{lab.address("POSTGRES_PORT"), "uri"}},
		{"a wrong S3 key", config{lake: replaced(postgres(t), s3Secret, wrongPassword), ingests: []ingest{in}}, []string{"s3://warehouse", "secret"}},
		{"an unreachable store", config{lake: replaced(apache(t), lab.address("S3_PORT"), dead), ingests: []ingest{in}}, []string{dead, "s3.endpoint"}},
		{"a missing bucket", config{lake: replaced(postgres(t), "s3://warehouse/", "s3://no-such-bucket/"), ingests: []ingest{in}}, []string{"no-such-bucket"}},
	} {
		t.Run(strings.ReplaceAll(scene.name, " ", "-"), func(t *testing.T) {
			t.Parallel()
			limit := time.Minute
			if scene.name == "an unreachable store" {
				limit = 4 * time.Minute // a store that restarts is waited for
			}
			e := launch(t, "--config", scene.config.write(t), "--once").wait(limit + time.Minute)
			if e.code != 1 {
				t.Errorf("exit code %d, want 1", e.code)
			}
			if e.took > limit {
				t.Errorf("it took %s to say so", e.took)
			}
			e.mentions(t, scene.mentions...)
		})
	}
}

// A disk that is full is told with the path; when there is room again, the
// rows arrive, each once.
func TestFullDisk(t *testing.T) {
	t.Parallel()
	const partitions, n = 2, 4000
	c := client(t)
	topic := makeTopic(t, c, "full", partitions)
	columns := reference(3)
	produce(t, c, topic, partitions, recordsOf(columns, n)...)
	folder := t.TempDir()
	l := sqlite(t, folder)
	warehouse := filepath.Join(folder, "warehouse")
	path := config{lake: l, ingests: []ingest{{name: "full", topics: []string{topic}, table: "full.records", columns: columns, partition: []string{"bucket(logStreamId, 4)"}}}}.write(t)
	// A namespace of its own, so that the mount needs no rights and ends with the processes.
	const script = `mkdir -p "$1"; mount -t tmpfs -o size=8m tmpfs "$1"; head -c 6500000 /dev/zero >"$1/ballast"
		if "$2" --config "$3" --once; then echo first=0; else echo first=$?; fi
		rm "$1/ballast"
		if "$2" --config "$3" --once; then echo second=0; else echo second=$?; fi
		cp -a "$1" "$1.kept"`
	e := launchCommand(t, exec.Command("unshare", "-rm", "sh", "-ec", script, "sh", warehouse, lab.bin, path)).wait(4 * time.Minute)
	e.mentions(t, "no space left on device", warehouse, "first=1\n", "second=0\n")
	if err := os.Remove(warehouse); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(warehouse+".kept", warehouse); err != nil {
		t.Fatal(err)
	}
	sameLines(t, "after the full disk", l.read(t, "duckdb", question{table: "full.records"}), rows(t, columns, n, nil))
}
