//go:build real

package real_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// kills is how often an instance dies in TestKilledAtRandomMoments.
const kills = 50

// auditColumns tell of each row which record it was.
func auditColumns() []column {
	none := func(int) (string, string) { return "", "" }
	return []column{
		{"seq", "long", true, none}, {"text", "string", false, none},
		{"_kafka_partition", "int", false, none}, {"_kafka_offset", "long", false, none},
	}
}

// Two instances share a topic while records come in. Fifty times one of them
// is killed as by power loss, at a random moment, and started again. In the
// end every record is in the table once, and no file that the table names is
// missing.
func TestKilledAtRandomMoments(t *testing.T) {
	t.Parallel()
	const partitions = 6
	c := client(t)
	l := apache(t)
	topic := makeTopic(t, c, "killed", partitions)
	table := unique("killed") + ".records"
	path := config{lake: l, kafka: plaintext() + shortSession, ingests: []ingest{{
		name: "killed", topics: []string{topic}, table: table, trigger: "400ms", columns: auditColumns(), partition: []string{"bucket(seq, 8)"},
	}}}.write(t)

	load := startLoad(t, c, topic, partitions)
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	var instances [2]*process
	for i := range instances {
		instances[i] = launch(t, "--config", path)
	}
	for range kills {
		pause(t, time.Duration(200+random.IntN(3800))*time.Millisecond)
		i := random.IntN(len(instances))
		if !instances[i].running() {
			t.Fatalf("instance %d ended by itself with code %d", i, instances[i].exit.code)
		}
		instances[i].kill()
		instances[i] = launch(t, "--config", path)
	}
	produced := load.stop(t)
	for _, p := range instances {
		p.kill()
	}
	before := l.count(t, table)
	mustOnce(t, path)
	t.Logf("%d records; %d rows were in the table when the last instance died", produced, before)
	if before == 0 {
		t.Errorf("no row was committed before the last kill: the kills hit nothing")
	}
	audit(t, l, table, produced, ends(t, c, topic))
	nothingMissing(t, l, table, lab.bucketFolder())
}

// shortSession lets the group notice a dead member soon.
const shortSession = "session_timeout = \"3s\"\n"

// pause waits, unless the test ends before.
func pause(t *testing.T, d time.Duration) {
	t.Helper()
	select {
	case <-time.After(d):
	case <-t.Context().Done():
		t.Fatal(t.Context().Err())
	}
}

// load produces records with a growing number in them until it is stopped.
type load struct {
	cancel     context.CancelFunc
	done       chan error
	sent       atomic.Int64
	partitions atomic.Int32
}

func startLoad(t *testing.T, c *kgo.Client, topic string, partitions int32) *load {
	ctx, cancel := context.WithCancel(t.Context())
	l := &load{cancel: cancel, done: make(chan error, 1)}
	l.partitions.Store(partitions)
	go func() { l.done <- l.run(ctx, c, topic) }()
	t.Cleanup(cancel)
	return l
}

func (l *load) run(ctx context.Context, c *kgo.Client, topic string) error {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	text := strings.Repeat("x", 100)
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		records := make([]*kgo.Record, 20)
		for i := range records {
			seq := l.sent.Load() + int64(i)
			records[i] = &kgo.Record{Topic: topic, Partition: int32(seq % int64(l.partitions.Load())), Value: fmt.Appendf(nil, `{"seq":%d,"text":%q}`, seq, text)}
		}
		// Not ctx: what was begun is finished, so that the count is exact.
		if err := c.ProduceSync(context.WithoutCancel(ctx), records...).FirstErr(); err != nil {
			return err
		}
		l.sent.Add(int64(len(records)))
	}
}

// stop returns how many records there are.
func (l *load) stop(t *testing.T) int {
	t.Helper()
	l.cancel()
	if err := <-l.done; err != nil {
		t.Fatalf("produce: %v", err)
	}
	return int(l.sent.Load())
}

// audit checks that records 0 to produced-1 are in the table, each once, and
// each offset of each partition once.
func audit(t *testing.T, l lake, table string, produced int, ends map[int32]int64) {
	t.Helper()
	n := l.numbers(t, table, `SELECT count(*) AS "rows", count(DISTINCT seq) AS seqs, coalesce(min(seq), 0) AS low, coalesce(max(seq), -1) AS high,
		count(DISTINCT (_kafka_partition, _kafka_offset)) AS places FROM {table}`)
	if n["rows"] != produced || n["seqs"] != produced || n["places"] != produced || n["low"] != 0 || n["high"] != produced-1 {
		t.Errorf("%d records were produced; the table has %d rows with %d numbers from %d to %d and %d places",
			produced, n["rows"], n["seqs"], n["low"], n["high"], n["places"])
	}
	for partition, end := range ends {
		n := l.numbers(t, table, fmt.Sprintf(`SELECT count(*) AS "rows", coalesce(min(_kafka_offset), 0) AS low, coalesce(max(_kafka_offset), -1) AS high
			FROM {table} WHERE _kafka_partition = %d`, partition))
		if n["rows"] != int(end) || n["low"] != 0 || n["high"] != int(end)-1 {
			t.Errorf("partition %d ends at %d; the table has %d rows of it, offsets %d to %d", partition, end, n["rows"], n["low"], n["high"])
		}
	}
}

// nothingMissing checks that every file that the table's metadata names is
// there, in the folder where the S3 server keeps the bucket.
func nothingMissing(t *testing.T, l lake, table, bucket string) {
	t.Helper()
	lines := l.read(t, "pyiceberg", question{table: table, references: true})
	if len(lines) < 3 {
		t.Errorf("%s names only %d files", table, len(lines))
	}
	for _, line := range lines {
		var reference struct{ Path string }
		if err := json.Unmarshal([]byte(line), &reference); err != nil {
			t.Fatal(err)
		}
		name, ok := strings.CutPrefix(reference.Path, "s3://warehouse/")
		if !ok {
			t.Errorf("%s is not in the bucket", reference.Path)
			continue
		}
		if _, err := os.Stat(filepath.Join(bucket, name)); err != nil {
			t.Errorf("the table names a file that is missing: %v", err)
		}
	}
}
