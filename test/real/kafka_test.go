//go:build real

package real_test

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// What makes names of topics and tables unique, also where REAL_RUN is kept from run to run.
var (
	serial atomic.Int64
	token  = strconv.FormatInt(time.Now().Unix()%1_000_000, 36)
)

// unique returns a name that no other test uses.
func unique(prefix string) string { return fmt.Sprintf("%s_%s_%d", prefix, token, serial.Add(1)) }

// client is a Kafka client for a test's lifetime, on the plaintext listener.
func client(t *testing.T, options ...kgo.Opt) *kgo.Client {
	t.Helper()
	need(t, "kafka")
	return clientAt(t, lab.address("KAFKA_PORT"), options...)
}

func clientAt(t *testing.T, broker string, options ...kgo.Opt) *kgo.Client {
	t.Helper()
	options = append([]kgo.Opt{
		kgo.SeedBrokers(broker),
		kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.MetadataMinAge(100 * time.Millisecond),
		kgo.UnknownTopicRetries(100), // of a topic made a moment ago
		kgo.ProducerBatchMaxBytes(4 << 20),
		kgo.MaxBufferedRecords(100_000),
	}, options...)
	c, err := kgo.NewClient(options...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// makeTopic creates a topic of a fresh name and returns the name.
func makeTopic(t *testing.T, c *kgo.Client, prefix string, partitions int32, settings ...string) string {
	t.Helper()
	name := strings.ReplaceAll(unique(prefix), "_", "-")
	createTopic(t, c, name, partitions, settings...)
	return name
}

// createTopic creates a topic; settings are pairs of key and value.
func createTopic(t *testing.T, c *kgo.Client, name string, partitions int32, settings ...string) {
	t.Helper()
	configs := map[string]*string{"max.message.bytes": kadm.StringPtr("4194304")}
	for i := 0; i+1 < len(settings); i += 2 {
		configs[settings[i]] = kadm.StringPtr(settings[i+1])
	}
	// A topic of that name that was just deleted goes in the background.
	until(t, 30*time.Second, "topic "+name+" created", func() bool {
		answer, err := kadm.NewClient(c).CreateTopic(t.Context(), partitions, 1, configs, name)
		if err == nil {
			err = answer.Err
		}
		if err != nil && !strings.Contains(err.Error(), "TOPIC_ALREADY_EXISTS") {
			t.Fatalf("create topic %s: %v", name, err)
		}
		return err == nil
	})
}

func deleteTopic(t *testing.T, c *kgo.Client, name string) {
	t.Helper()
	answer, err := kadm.NewClient(c).DeleteTopic(t.Context(), name)
	if err == nil {
		err = answer.Err
	}
	if err != nil {
		t.Fatalf("delete topic %s: %v", name, err)
	}
}

// produce sends values round robin to the topic's partitions and waits for all.
func produce(t *testing.T, c *kgo.Client, topic string, partitions int32, values ...string) {
	t.Helper()
	records := make([]*kgo.Record, len(values))
	for i, v := range values {
		records[i] = &kgo.Record{Topic: topic, Partition: int32(i) % partitions, Value: []byte(v)}
	}
	produceRecords(t, c, records...)
}

func produceRecords(t *testing.T, c *kgo.Client, records ...*kgo.Record) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	if err := c.ProduceSync(ctx, records...).FirstErr(); err != nil {
		t.Fatalf("produce: %v", err)
	}
}

// ends returns the high watermark of each partition of a topic.
func ends(t *testing.T, c *kgo.Client, topic string) map[int32]int64 {
	t.Helper()
	listed, err := kadm.NewClient(c).ListEndOffsets(t.Context(), topic)
	if err != nil {
		t.Fatal(err)
	}
	found := map[int32]int64{}
	listed.Each(func(o kadm.ListedOffset) { found[o.Partition] = o.Offset })
	return found
}

// deleteBefore removes the records of a partition before an offset.
func deleteBefore(t *testing.T, c *kgo.Client, topic string, partition int32, offset int64) {
	t.Helper()
	offsets := kadm.Offsets{}
	offsets.Add(kadm.Offset{Topic: topic, Partition: partition, At: offset})
	answer, err := kadm.NewClient(c).DeleteRecords(t.Context(), offsets)
	if err == nil {
		err = answer.Error()
	}
	if err != nil {
		t.Fatalf("delete records of %s before %d: %v", topic, offset, err)
	}
}

// consume returns all records that a topic holds now, up to its end, as a reader of committed records sees them.
func consume(t *testing.T, topic string) []*kgo.Record {
	t.Helper()
	return consumeBy(t, func(options ...kgo.Opt) *kgo.Client { return client(t, options...) }, topic)
}

// consumeBy is consume with a client that dial makes.
func consumeBy(t *testing.T, dial func(...kgo.Opt) *kgo.Client, topic string) []*kgo.Record {
	t.Helper()
	c := dial(kgo.ConsumeTopics(topic), kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.KeepControlRecords())
	left := ends(t, c, topic)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var found []*kgo.Record
	for partition, end := range left {
		if end == 0 {
			delete(left, partition)
		}
	}
	for len(left) > 0 {
		fetches := c.PollFetches(ctx)
		if err := ctx.Err(); err != nil {
			t.Fatalf("consume %s: %v, partitions left: %v", topic, err, left)
		}
		fetches.EachRecord(func(r *kgo.Record) {
			if !r.Attrs.IsControl() {
				found = append(found, r)
			}
			if end, ok := left[r.Partition]; ok && r.Offset >= end-1 {
				delete(left, r.Partition)
			}
		})
	}
	return found
}
