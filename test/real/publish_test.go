//go:build real

package real_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// publication is several instances that each bring a topic into a table and the
// table into another topic.
type publication struct {
	*scene
	out    string
	random *rand.Rand
	dial   func(...kgo.Opt) *kgo.Client // straight to the broker

	counted atomic.Int64 // records that count has seen
}

// newPublication makes the topics of a publication; nothing runs yet.
func newPublication(t *testing.T, name string, partitions int32) *publication {
	return newPublicationAt(t, func(options ...kgo.Opt) *kgo.Client { return client(t, options...) }, apache(t), "", name, partitions)
}

// newPublicationAt is newPublication with a broker of the test's own.
func newPublicationAt(t *testing.T, dial func(...kgo.Opt) *kgo.Client, l lake, broker, name string, partitions int32) *publication {
	p := &publication{scene: newScene(t, place{dial(), l}, broker, name, partitions), random: dice(t), dial: dial}
	p.out = makeTopic(t, p.client, name+"-out", 5)
	p.load = startLoad(t, p.client, p.topic, partitions)
	return p
}

// section is the [[publish]] with so many shards.
func (p *publication) section(shards int, more ...string) []string {
	return append([]string{
		"[[publish]]", `name = "` + p.out + `"`, `table = "` + p.settings.ingests[0].table + `"`, `topic = "` + p.out + `"`,
		fmt.Sprintf("shards = %d", shards), `poll_interval = "100ms"`, `transaction_interval = "50ms"`,
	}, more...)
}

// start starts an instance with so many shards.
func (p *publication) start(shards int, more ...string) *instance {
	p.settings.sections = p.section(shards, more...)
	return p.instance()
}

// finish lets a last pair of runs bring everything to its end, and audits: the
// readers of committed records see each record once, and in each bucket in the
// order in which it was produced. REQUIRES: no instance runs.
func (p *publication) finish() {
	p.t.Helper()
	produced := p.load.stop(p.t)
	p.settings.sections = nil
	mustOnce(p.t, p.settings.write(p.t))
	both := p.settings
	both.ingests, both.sections = nil, p.section(3)
	mustOnce(p.t, both.write(p.t))
	p.audit(produced)
}

func (p *publication) audit(produced int) {
	p.t.Helper()
	seen := make([]int, produced)
	last := map[string]int64{}
	for _, r := range consumeBy(p.t, p.dial, p.out) {
		var row struct{ Seq *int64 }
		if err := json.Unmarshal(r.Value, &row); err != nil || row.Seq == nil || *row.Seq < 0 || *row.Seq >= int64(produced) {
			p.t.Fatalf("record %s/%d offset %d: %s: %v", r.Topic, r.Partition, r.Offset, r.Value, err)
		}
		seen[*row.Seq]++
		// Records of one partition of the source and one bucket are in order.
		line := fmt.Sprint(*row.Seq%int64(p.load.partitions.Load()), "/", bucketOf(*row.Seq, 4))
		if before, ok := last[line]; ok && *row.Seq <= before {
			p.t.Errorf("%s: record %d came after record %d", line, *row.Seq, before)
		}
		last[line] = *row.Seq
	}
	var missing, twice int
	for _, n := range seen {
		if n == 0 {
			missing++
		}
		if n > 1 {
			twice++
		}
	}
	p.t.Logf("%d records produced, %d missing, %d more than once", produced, missing, twice)
	if missing > 0 || twice > 0 {
		p.t.Errorf("%d records are missing and %d are there more than once, of %d", missing, twice, produced)
	}
}

// published counts what readers of committed records see.
func (p *publication) published() int { return len(consumeBy(p.t, p.dial, p.out)) }

// Two instances are killed at random moments and started again with another
// number of shards; some sleep past their session and wake up as zombies. Each
// record comes out once.
func TestPublishKilledAtRandomMoments(t *testing.T) {
	t.Parallel()
	p := newPublication(t, "publish-killed", 4)
	shards := func() int { return []int{1, 2, 4, 8}[p.random.IntN(4)] }
	instances := []*instance{p.start(4), p.start(4)}
	for n := range size(t, "REAL_KILLS", 20) {
		pause(t, between(p.random, 200*time.Millisecond, 3*time.Second))
		i := p.random.IntN(len(instances))
		if n%4 == 3 {
			zombie := instances[i]
			zombie.freeze()
			pause(t, between(p.random, 500*time.Millisecond, 6*time.Second))
			zombie.thaw()
			continue
		}
		instances[i].kill()
		instances[i] = p.start(shards())
	}
	before := p.published()
	until(t, 3*time.Minute, "records published after the last kill", func() bool { return p.published() > before })
	for _, i := range instances {
		i.kill()
	}
	p.finish()
}

// An instance sleeps longer than a transaction may be open, and the broker aborts
// it. When it wakes up it goes on by itself.
func TestPublishZombie(t *testing.T) {
	t.Parallel()
	p := newPublication(t, "publish-zombie", 2)
	one := p.start(4, `transaction_timeout = "5s"`)
	one.up()
	until(t, 2*time.Minute, "the first records", func() bool { return p.published() > 0 })
	for range size(t, "REAL_ZOMBIES", 5) {
		one.freeze() // alone: nobody takes over, and an open transaction gets too old
		pause(t, between(p.random, 6*time.Second, 9*time.Second))
		one.thaw()
		before := p.published()
		until(t, 2*time.Minute, "records after waking up", func() bool { return p.published() > before })
	}
	one.term()
	if e := one.wait(90 * time.Second); e.code != 0 {
		t.Errorf("exit code %d", e.code)
	}
	p.finish()
}

// What is produced, with keys, headers and timestamps, comes out as it was.
func TestPublishRoundTrip(t *testing.T) {
	t.Parallel()
	c := client(t)
	topic, out := makeTopic(t, c, "there", 3), makeTopic(t, c, "back", 3)
	table := unique("round") + ".trip"
	none := func(int) (string, string) { return "", "" }
	in := auditIngest("trip", table, topic)
	in.columns = append(auditColumns(), column{"_kafka_key", "binary", false, none}, column{"_kafka_timestamp", "timestamptz", false, none},
		column{"_kafka_headers", "list<struct<key: string, value: binary>>", false, none})
	base := time.Now().Add(-time.Minute).Truncate(time.Millisecond) // within the topic's retention
	var records []*kgo.Record
	for i := range 2000 {
		r := &kgo.Record{Topic: topic, Partition: int32(i % 3), Value: fmt.Appendf(nil, `{"seq":%d,"text":"é\n %d"}`, i, i), Timestamp: base.Add(time.Duration(i) * time.Millisecond)}
		switch i % 4 {
		case 0:
			r.Key = fmt.Appendf(nil, "key-%d", i%7)
		case 1:
			r.Key = []byte{}
		case 2:
			r.Key = []byte{0, 255, byte(i)}
		}
		for h := range i % 3 {
			r.Headers = append(r.Headers, kgo.RecordHeader{Key: fmt.Sprint("h", h), Value: []byte{byte(i), 0}})
		}
		if i%5 == 0 {
			r.Headers = append(r.Headers, kgo.RecordHeader{Key: "h0"}, kgo.RecordHeader{Key: "", Value: []byte{}})
		}
		records = append(records, r)
	}
	produceRecords(t, c, records...)
	l := apache(t)
	mustOnce(t, config{lake: l, ingests: []ingest{in}}.write(t))
	mustOnce(t, config{lake: l, sections: []string{"[[publish]]", `name = "` + out + `"`, `table = "` + table + `"`, `topic = "` + out + `"`}}.write(t))
	want, got := described(records), described(consume(t, out))
	sameLines(t, "what came back", got, want)
}

// described is all that a record is, as sorted lines.
func described(records []*kgo.Record) (lines []string) {
	for _, r := range records {
		var b strings.Builder
		fmt.Fprintf(&b, "partition %d key %q nil %t at %d value %s", r.Partition, r.Key, r.Key == nil, r.Timestamp.UnixMilli(), r.Value)
		for _, h := range r.Headers {
			fmt.Fprintf(&b, " %q=%q nil %t", h.Key, h.Value, h.Value == nil)
		}
		lines = append(lines, b.String())
	}
	slices.Sort(lines)
	return lines
}
