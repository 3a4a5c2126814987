package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// publish sends the table of a run into a topic of its own, measures that, and
// sees that each row has come.
func (s *servers) publish(ctx context.Context, o options, number int, folder string, count int64) error {
	c, err := kgo.NewClient(kgo.SeedBrokers(s.kafka()))
	if err != nil {
		return err
	}
	defer c.Close()
	admin, topic := kadm.NewClient(c), fmt.Sprint("back", number)
	answer, err := admin.CreateTopic(ctx, int32(o.partitions), 1, map[string]*string{"retention.ms": kadm.StringPtr("-1")}, topic)
	if err = errors.Join(err, answer.Err); err != nil {
		return fmt.Errorf("create topic: %w", err)
	}
	path := filepath.Join(folder, "back.toml")
	if err := os.WriteFile(path, []byte(s.head(o, number, folder)+fmt.Sprintf("[[publish]]\nname = %q\ntable = \"bench.records\"\ntopic = %q\ncodec = %q\n", topic, topic, o.outCodec)), 0o600); err != nil {
		return err
	}
	used, err := o.run(ctx, path)
	if err != nil {
		return err
	}
	bytes, records, err := s.received(ctx, topic)
	if err != nil {
		return err
	}
	if records != count {
		return fmt.Errorf("topic %s has %d records, the table %d rows", topic, records, count)
	}
	used.print(fmt.Sprint(number, " back"), bytes, 0)
	deleted, err := admin.DeleteTopic(ctx, topic)
	return errors.Join(err, deleted.Err)
}

// received reads a topic to its end as a consumer of committed transactions
// does, and returns the bytes of the values and the number of records.
func (s *servers) received(ctx context.Context, topic string) (bytes, records int64, err error) {
	c, err := kgo.NewClient(kgo.SeedBrokers(s.kafka()), kgo.ConsumeTopics(topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.KeepControlRecords())
	if err != nil {
		return 0, 0, err
	}
	defer c.Close()
	ends, err := kadm.NewClient(c).ListEndOffsets(ctx, topic)
	if err != nil {
		return 0, 0, err
	}
	left := map[int32]int64{}
	ends.Each(func(o kadm.ListedOffset) {
		if o.Offset > 0 {
			left[o.Partition] = o.Offset
		}
	})
	for len(left) > 0 {
		fetches := c.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			return 0, 0, err
		}
		fetches.EachRecord(func(r *kgo.Record) {
			if !r.Attrs.IsControl() {
				bytes, records = bytes+int64(len(r.Value)), records+1
			}
			if r.Offset+1 >= left[r.Partition] {
				delete(left, r.Partition)
			}
		})
	}
	return bytes, records, nil
}
