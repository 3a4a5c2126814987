//go:build real

package real_test

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// publishing is a [[publish]] of a config, from the oldest snapshot on.
func publishing(table, topic string, shards int, extra ...string) string {
	lines := append([]string{"[[publish]]", fmt.Sprintf("name = %q", topic), fmt.Sprintf("table = %q", table), fmt.Sprintf("topic = %q", topic),
		`start = "earliest"`, `origin_headers = true`, fmt.Sprintf("shards = %d", shards), `poll_interval = "100ms"`, `transaction_interval = "100ms"`}, extra...)
	return strings.Join(lines, "\n")
}

// published is a record that a publish made, and whence.
type published struct {
	seq            int64
	partition      int32 // of the topic it was published to
	snapshot, file string
	row            int64
}

// readPublished reads records that are published with their origin.
func readPublished(t *testing.T, records []*kgo.Record) (found []published) {
	t.Helper()
	for _, r := range records {
		p := published{partition: r.Partition}
		var row struct{ Seq *int64 }
		if err := json.Unmarshal(r.Value, &row); err != nil || row.Seq == nil {
			t.Fatalf("%s/%d offset %d: %s: %v", r.Topic, r.Partition, r.Offset, r.Value, err)
		}
		p.seq = *row.Seq
		for _, h := range r.Headers {
			switch h.Key {
			case "router.snapshot":
				p.snapshot = string(h.Value)
			case "router.file":
				p.file = string(h.Value)
			case "router.row":
				n, err := strconv.ParseInt(string(h.Value), 10, 64)
				if err != nil {
					t.Fatal(err)
				}
				p.row = n
			}
		}
		if p.snapshot == "" || p.file == "" {
			t.Fatalf("%s/%d offset %d does not say whence it is: %v", r.Topic, r.Partition, r.Offset, r.Headers)
		}
		found = append(found, p)
	}
	return found
}

// publishedOnce checks that seq 0 to n-1 were published, each once, and that
// the rows of a bucket are in the order in which the table has them.
func publishedOnce(t *testing.T, records []published, n int, buckets int32) {
	t.Helper()
	times := make([]int, n)
	var strange, lost, twice []int64
	type lane struct{ partition, bucket int32 }
	type progress struct {
		file string
		row  int64
		left map[string]bool // files and snapshots that were left behind
		at   string
	}
	lanes := map[lane]*progress{}
	for _, r := range records {
		if r.seq < 0 || r.seq >= int64(n) {
			strange = append(strange, r.seq)
			continue
		}
		if times[r.seq]++; times[r.seq] > 1 {
			twice = append(twice, r.seq)
		}
		key := lane{r.partition, bucketOf(r.seq, buckets)}
		p := lanes[key]
		if p == nil {
			p = &progress{left: map[string]bool{}}
			lanes[key] = p
		}
		switch {
		case p.left[r.file] || p.left[r.snapshot]:
			t.Errorf("bucket %d: seq %d of file %s comes after rows of later files", key.bucket, r.seq, r.file)
		case p.file == r.file && r.row <= p.row:
			t.Errorf("bucket %d: row %d of file %s comes after row %d", key.bucket, r.row, r.file, p.row)
		}
		if p.file != "" && p.file != r.file {
			p.left[p.file] = true
		}
		if p.at != "" && p.at != r.snapshot {
			p.left[p.at] = true
		}
		p.file, p.row, p.at = r.file, r.row, r.snapshot
	}
	for seq, n := range times {
		if n == 0 {
			lost = append(lost, int64(seq))
		}
	}
	for what, seqs := range map[string][]int64{"missing": lost, "twice": twice, "never in the table": strange} {
		if len(seqs) > 0 {
			t.Errorf("%d rows %s: %s", len(seqs), what, tail(fmt.Sprint(seqs), 400))
		}
	}
}

// Tables that our ingest, Spark and PyIceberg write, compact and change are
// published while that goes on: each appended row once, in order.
func TestPublishTablesOfAllWriters(t *testing.T) {
	t.Parallel()
	const partitions, buckets, n = 3, 4, 100
	for _, writer := range []string{"router", "spark", "pyiceberg"} {
		t.Run(writer, func(t *testing.T) {
			t.Parallel()
			c := client(t)
			l := apache(t)
			namespace := unique("published")
			table := namespace + ".records"
			in, out := makeTopic(t, c, "in", partitions), makeTopic(t, c, "out", partitions)
			ing := auditIngest("published", table, in)
			ing.extra = []string{`expire_snapshots = "off"`}
			ingestOnly := config{lake: l, ingests: []ingest{ing}}.write(t)
			create := func() {
				l.spark(t, "CREATE NAMESPACE "+namespace, fmt.Sprintf("CREATE TABLE %s (seq BIGINT NOT NULL, text STRING) USING iceberg PARTITIONED BY (bucket(%d, seq))", table, buckets))
			}
			var appendRows func(from int)
			switch writer {
			case "router":
				create = func() { mustOnce(t, ingestOnly) }
				appendRows = func(from int) {
					produce(t, c, in, partitions, sequence(from, from+n)...)
					mustOnce(t, ingestOnly)
				}
			case "spark":
				appendRows = func(from int) {
					l.spark(t, fmt.Sprintf("INSERT INTO %s (seq, text) SELECT id, concat('s', id) FROM range(%d, %d)", table, from, from+n))
				}
			case "pyiceberg":
				var a *appender
				appendRows = func(from int) {
					if a == nil {
						a = openAppender(t, l, table)
					}
					if err := a.append("p", from, n); err != nil {
						t.Fatal(err)
					}
				}
			}
			create()
			appendRows(0)
			listen := fmt.Sprint("127.0.0.1:", freePort(t))
			settings := config{lake: l, listen: listen, sections: []string{publishing(table, out, 4)}}
			p := launch(t, "--config", settings.write(t))
			reached := func(rows int) {
				t.Helper()
				until(t, 2*time.Minute, fmt.Sprintf("%d records published", rows), func() bool {
					if !p.running() {
						t.Fatalf("the publish ended with code %d", p.exit.code)
					}
					return sum(ends(t, c, out)) >= int64(rows) && len(consume(t, out)) >= rows
				})
			}
			reached(n)
			appendRows(n)
			l.spark(t, "CALL system.rewrite_data_files(table => '"+table+"', options => map('min-input-files', '2', 'rewrite-all', 'true'))")
			appendRows(2 * n)
			reached(3 * n)
			l.spark(t, "ALTER TABLE "+table+" ADD COLUMN extra STRING AFTER seq", "ALTER TABLE "+table+" ADD PARTITION FIELD truncate(2, text)")
			appendRows(3 * n)
			reached(4 * n)
			l.spark(t, "ALTER TABLE "+table+" DROP COLUMN extra", "CALL system.rewrite_manifests('"+table+"')")
			appendRows(4 * n)
			reached(5 * n)
			p.term()
			if e := p.wait(time.Minute); e.code != 0 {
				t.Errorf("exit code %d, want 0", e.code)
			}
			settings.listen = ""
			mustOnce(t, settings.write(t)) // there is nothing more
			publishedOnce(t, readPublished(t, consume(t, out)), 5*n, buckets)
		})
	}
}

func sum(offsets map[int32]int64) (n int64) {
	for _, o := range offsets {
		n += o
	}
	return n
}
