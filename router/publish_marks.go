package router

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/zap"
)

// marks is the position topic of a publish: partition i keeps the mark of
// shard i. Only its last committed record counts; compaction removes the rest.
type marks struct {
	cfg    PublishConfig
	client *kgo.Client // for questions; it produces nothing
	admin  *kadm.Client
	log    *zap.Logger
	id     [16]byte
	parts  int
}

func newMarks(cfg PublishConfig, client *kgo.Client, log *zap.Logger) *marks {
	return &marks{cfg: cfg, client: client, admin: kadm.NewClient(client), log: log}
}

// How the position topic is made. It is small and compacted soon, since every
// transaction adds a record to it.
var positionTopicConfig = map[string]*string{
	"cleanup.policy":            kadm.StringPtr("compact"),
	"segment.bytes":             kadm.StringPtr("16777216"),
	"segment.ms":                kadm.StringPtr("3600000"),
	"min.cleanable.dirty.ratio": kadm.StringPtr("0.1"),
	"delete.retention.ms":       kadm.StringPtr("60000"),
}

// open makes the position topic, or adds partitions where there are fewer than
// shards, and sees that it keeps what is written to it.
func (m *marks) open(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, kafkaRequestTimeout)
	defer cancel()
	topic := m.cfg.Positions()
	answer, err := m.admin.CreateTopic(ctx, int32(m.cfg.Shards), -1, positionTopicConfig, topic)
	if err == nil {
		err = answer.Err
	}
	switch {
	case err == nil:
		m.log.Info("created position topic", zap.String("topic", topic), zap.Int("partitions", m.cfg.Shards))
	case !errors.Is(err, kerr.TopicAlreadyExists):
		if there, e := m.admin.ListTopics(ctx, topic); e != nil || !there.Has(topic) || there[topic].Err != nil {
			return fmt.Errorf("create position topic %s: %w; allow this login to create it, or make it with cleanup.policy=compact and %d partitions", topic, err, m.cfg.Shards)
		}
	}
	if err := m.look(ctx); err != nil {
		return err
	}
	if m.parts < m.cfg.Shards {
		grown, err := m.admin.UpdatePartitions(ctx, m.cfg.Shards, topic)
		if err == nil {
			err = grown.Error()
		}
		if err != nil && !errors.Is(err, kerr.InvalidPartitions) { // another instance was first
			return fmt.Errorf("position topic %s has %d partitions, shards = %d need as many: add partitions: %w", topic, m.parts, m.cfg.Shards, err)
		}
		m.log.Info("added partitions to the position topic", zap.String("topic", topic), zap.Int("from", m.parts), zap.Int("to", m.cfg.Shards))
	}
	return m.checkPolicy(ctx)
}

// look waits until the topic's partitions are known and have leaders: a topic
// that was made a moment ago is not everywhere at once.
func (m *marks) look(ctx context.Context) error {
	topic := m.cfg.Positions()
	for {
		all, err := m.admin.ListTopics(ctx, topic)
		if err == nil {
			err = all[topic].Err
		}
		if err == nil && len(all[topic].Partitions) > 0 {
			m.id, m.parts = all[topic].ID, len(all[topic].Partitions)
			return nil
		}
		if e := sleep(ctx, 100*time.Millisecond); e != nil {
			return fmt.Errorf("look at position topic %s: %w", topic, errors.Join(err, e))
		}
	}
}

// checkPolicy refuses a topic whose records would be deleted with time: the
// positions would be lost with them.
func (m *marks) checkPolicy(ctx context.Context) error {
	topic := m.cfg.Positions()
	configs, err := m.admin.DescribeTopicConfigs(ctx, topic)
	if err == nil && len(configs) == 1 {
		err = configs[0].Err
	}
	if err != nil || len(configs) != 1 {
		m.log.Warn("the cleanup policy of the position topic can't be seen; it must be compact", zap.String("topic", topic), zap.Error(err))
		return nil
	}
	for _, c := range configs[0].Configs {
		if c.Key == "cleanup.policy" && c.MaybeValue() != "compact" {
			return haltf("position topic %s has cleanup.policy=%s: positions would be deleted with time; set it to compact", topic, c.MaybeValue())
		}
	}
	return nil
}

// ends returns the high watermark of every partition.
func (m *marks) ends(ctx context.Context) ([]int64, error) {
	return m.offsets(ctx, m.admin.ListEndOffsets)
}

func (m *marks) offsets(ctx context.Context, list func(context.Context, ...string) (kadm.ListedOffsets, error)) ([]int64, error) {
	ctx, cancel := context.WithTimeout(ctx, kafkaRequestTimeout)
	defer cancel()
	topic := m.cfg.Positions()
	listed, err := list(ctx, topic)
	if err == nil {
		err = listed.Error()
	}
	if errors.Is(err, kerr.UnknownTopicOrPartition) {
		return nil, fmt.Errorf("position topic %s: %w: it was deleted while this publish ran", topic, err)
	}
	if err != nil {
		return nil, fmt.Errorf("list offsets of position topic %s: %w", topic, err)
	}
	out := make([]int64, len(listed[topic]))
	for i := range out {
		o, ok := listed[topic][int32(i)]
		if !ok {
			return nil, fmt.Errorf("list offsets of position topic %s: partition %d is missing in the answer", topic, i)
		}
		out[i] = o.Offset
	}
	return out, nil
}

// unblockAfter is how long an open transaction may hide the end of a partition
// before it is aborted.
const unblockAfter = 3 * time.Second

// settledEnds returns the ends of the partitions once no transaction is open
// before them, in those of the partitions that are asked for. Whoever has fenced
// a shard's id knows that nothing of the shard is open; only a change of the
// layout, which writes to all partitions with the id of shard 0, may be. If that
// lasts, its instance is gone or hangs: fencing it ends it.
func (m *marks) settledEnds(ctx context.Context, partitions ...int) ([]int64, error) {
	ends, err := m.ends(ctx)
	if err != nil {
		return nil, err
	}
	began, unblocked := time.Now(), false
	for {
		stable, err := m.offsets(ctx, m.admin.ListCommittedOffsets)
		if err != nil {
			return nil, err
		}
		open := false
		for _, i := range partitions {
			if i >= len(ends) || i >= len(stable) {
				return nil, fmt.Errorf("position topic %s has no partition %d", m.cfg.Positions(), i)
			}
			open = open || stable[i] < ends[i]
		}
		if !open {
			return ends, nil
		}
		if !unblocked && time.Since(began) > unblockAfter {
			unblocked = true
			m.log.Warn("a transaction is open in the position topic; aborting it")
			if err := m.fence(ctx, 0); err != nil {
				return nil, err
			}
		}
		if err := sleep(ctx, 20*time.Millisecond); err != nil {
			return nil, fmt.Errorf("wait for open transactions in position topic %s: %w", m.cfg.Positions(), err)
		}
	}
}

// The window that is looked at first for the last mark, and how it grows. Each
// transaction leaves a record and a marker.
const (
	markWindow       = 64
	markWindowGrowth = 8
)

// last returns the last committed mark of a partition before end, which
// settledEnds has given. found is false when there is none.
func (m *marks) last(ctx context.Context, partition int, end int64) (last mark, found bool, err error) {
	if end == 0 {
		return mark{}, false, nil
	}
	starts, err := m.offsets(ctx, m.admin.ListStartOffsets)
	if err != nil {
		return mark{}, false, err
	}
	for window, to := int64(markWindow), end; to > starts[partition]; window *= markWindowGrowth {
		from := max(starts[partition], to-window)
		if last, found, err = m.lastBetween(ctx, partition, from, to); found || err != nil {
			return last, found, err
		}
		to = from
	}
	return mark{}, false, nil
}

// lastBetween returns the last mark with an offset from from on, before to.
func (m *marks) lastBetween(ctx context.Context, partition int, from, to int64) (last mark, found bool, err error) {
	leader, err := m.leader(ctx, partition)
	if err != nil {
		return mark{}, false, err
	}
	for idle := 0; from < to; {
		records, next, err := fetchAt(ctx, m.client, leader, m.cfg.Positions(), m.id, int32(partition), from)
		if err != nil {
			return mark{}, false, err
		}
		for _, r := range records {
			if r.Offset >= to || string(r.Key) != markKey(partition) {
				continue
			}
			if last, err = decodeMark(r.Value); err != nil {
				return mark{}, false, haltf("position topic %s/%d offset %d: not a position of this program: %v", m.cfg.Positions(), partition, r.Offset, err)
			}
			found = true
		}
		if next > from {
			from, idle = next, 0
			continue
		}
		if idle++; idle > 100 {
			return mark{}, false, fmt.Errorf("read position topic %s/%d: nothing at offset %d though the end is %d", m.cfg.Positions(), partition, from, to)
		}
	}
	return last, found, nil
}

func (m *marks) leader(ctx context.Context, partition int) (brokerOf, error) {
	all, err := m.admin.ListTopics(ctx, m.cfg.Positions())
	if err != nil {
		return brokerOf{}, fmt.Errorf("find leader of %s/%d: %w", m.cfg.Positions(), partition, err)
	}
	p, ok := all[m.cfg.Positions()].Partitions[int32(partition)]
	if !ok || p.Leader < 0 {
		return brokerOf{}, fmt.Errorf("find leader of %s/%d: it has none now", m.cfg.Positions(), partition)
	}
	return brokerOf{p.Leader, p.LeaderEpoch}, nil
}

// all returns the last mark of each partition before ends, and how many there are.
func (m *marks) all(ctx context.Context, ends []int64) (out []mark, found int, err error) {
	out = make([]mark, len(ends))
	for i, end := range ends {
		one, ok, err := m.last(ctx, i, end)
		if err != nil {
			return nil, 0, err
		}
		if ok {
			out[i] = one
			found++
		}
	}
	return out, found, nil
}

func markKey(shard int) string { return fmt.Sprintf("shard/%d", shard) }

// record is the mark of a shard as a record of its partition.
func (m *marks) record(shard int, value mark) *kgo.Record {
	return &kgo.Record{Topic: m.cfg.Positions(), Partition: int32(shard), Key: []byte(markKey(shard)), Value: value.encode()}
}

// fence makes sure that nobody who has taken shard before now can write with its
// id any more, and that no transaction of it is open.
func (m *marks) fence(ctx context.Context, shard int) error {
	id := m.cfg.TransactionalID(shard)
	req := kmsg.NewPtrInitProducerIDRequest()
	req.TransactionalID, req.ProducerID, req.ProducerEpoch = &id, -1, -1
	req.TransactionTimeoutMillis = int32(m.cfg.TransactionTimeout.Milliseconds())
	for {
		resp, err := req.RequestWith(ctx, m.client)
		if err == nil {
			err = kerr.ErrorForCode(resp.ErrorCode)
		}
		if err == nil {
			return nil
		}
		if !errors.Is(err, kerr.ConcurrentTransactions) && !kerr.IsRetriable(err) {
			return transactionError(m.cfg, shard, err)
		}
		if e := sleep(ctx, 20*time.Millisecond); e != nil {
			return transactionError(m.cfg, shard, errors.Join(err, e))
		}
	}
}

// transactionError says what to do about a transactional id that can't be used.
func transactionError(cfg PublishConfig, shard int, err error) error {
	id := cfg.TransactionalID(shard)
	switch {
	case errors.Is(err, kerr.InvalidTransactionTimeout):
		return fmt.Errorf("take transactional id %s: transaction_timeout = %q is more than the brokers' transaction.max.timeout.ms allows: lower the one or raise the other: %w", id, cfg.TransactionTimeout, err)
	case errors.Is(err, kerr.TransactionalIDAuthorizationFailed):
		return fmt.Errorf("take transactional id %s: allow this login Write and Describe on transactional ids with the prefix router-%s-: %w", id, cfg.Name, err)
	}
	return fmt.Errorf("take transactional id %s: %w", id, err)
}

// sleep waits for d, or until ctx ends, which is its error.
func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
