//go:build synctests

package sim

import (
	"encoding/binary"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// tail reads a topic with everything in it, open transactions and the markers
// that end them, and tells which records are committed as soon as they are. A
// consumer of committed records sees the same ones, but only once no older
// transaction is open before them; the auditor can't wait for that.
type tail struct {
	w     *world
	topic string
	next  map[int32]int64
	open  map[producer][]*kgo.Record
}

// producer is who writes to a partition.
type producer struct {
	partition int32
	id        int64
}

// tailBytesMax bounds an answer, and tells the world's own requests from others.
const tailBytesMax = 4<<20 + 1

func newTail(w *world, topic string) *tail {
	return &tail{w: w, topic: topic, next: map[int32]int64{}, open: map[producer][]*kgo.Record{}}
}

// read returns what was committed since, by partition and in its order.
func (t *tail) read() (committed []*kgo.Record, err error) {
	info := t.w.broker.TopicInfo(t.topic)
	if info == nil {
		return nil, nil // no publish has made it yet
	}
	for _, p := range t.w.broker.PartitionInfos(t.topic) {
		for tries := 0; t.next[p.Partition] < p.HighWatermark; tries++ {
			got, err := t.fetch(info.TopicID, p.Partition)
			if err != nil && tries > 100 {
				return committed, fmt.Errorf("read %s/%d: %w", t.topic, p.Partition, err)
			}
			if err != nil {
				time.Sleep(time.Millisecond)
			}
			committed = append(committed, t.sort(p.Partition, got)...)
		}
	}
	return committed, nil
}

// fetch asks the leader of a partition once.
func (t *tail) fetch(id [16]byte, partition int32) ([]*kgo.Record, error) {
	req := kmsg.NewPtrFetchRequest()
	req.MinBytes, req.MaxBytes = 1, tailBytesMax
	topic := kmsg.NewFetchRequestTopic()
	topic.Topic, topic.TopicID = t.topic, id
	p := kmsg.NewFetchRequestTopicPartition()
	p.Partition, p.FetchOffset, p.PartitionMaxBytes = partition, t.next[partition], tailBytesMax
	topic.Partitions = append(topic.Partitions, p)
	req.Topics = append(req.Topics, topic)
	answer, err := t.w.client.Broker(int(t.w.broker.LeaderFor(t.topic, partition))).RetriableRequest(t.w.ctx, req)
	if err != nil {
		return nil, err
	}
	resp := answer.(*kmsg.FetchResponse)
	if len(resp.Topics) != 1 || len(resp.Topics[0].Partitions) != 1 {
		return nil, fmt.Errorf("an answer with %d topics, error %d", len(resp.Topics), resp.ErrorCode)
	}
	opts := kgo.ProcessFetchPartitionOpts{Offset: t.next[partition], KeepControlRecords: true, Topic: t.topic, Partition: partition}
	got, next := kgo.ProcessFetchPartition(opts, &resp.Topics[0].Partitions[0], kgo.DefaultDecompressor(), nil)
	if got.Err == nil && next == t.next[partition] {
		return nil, fmt.Errorf("nothing at offset %d", next)
	}
	t.next[partition] = max(next, t.next[partition])
	return got.Records, got.Err
}

// sort keeps records of open transactions back, and returns those whose
// transaction is committed now.
func (t *tail) sort(partition int32, records []*kgo.Record) (committed []*kgo.Record) {
	for _, r := range records {
		by := producer{partition, r.ProducerID}
		switch {
		case r.Attrs.IsControl():
			if binary.BigEndian.Uint16(r.Key[2:]) == uint16(kmsg.ControlRecordKeyTypeCommit) {
				committed = append(committed, t.open[by]...)
			}
			delete(t.open, by)
		case r.Attrs.IsTransactional():
			t.open[by] = append(t.open[by], r)
		default:
			committed = append(committed, r)
		}
	}
	return committed
}
