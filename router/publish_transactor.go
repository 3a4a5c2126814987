package router

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"go.uber.org/zap"
)

// transactor is a client with the transactional id of a shard. It is good for
// transactions until the first of them doesn't end well; then only the topic
// knows what has happened, and the shard is taken again. One goroutine uses it.
type transactor struct {
	client  *kgo.Client
	failing atomic.Bool

	mu     sync.Mutex
	failed error
}

// Bounds of what a transactor's client holds. The sheets of a transaction are
// bounded by its bytes, so the client's own bounds only have to stay out of the way.
const (
	bufferedRecordsMax = 1 << 20
	batchRecordsBytes  = 1_000_012 // what brokers take by themselves, the client's own default
)

// newTransactor takes the id of shard: whoever had it is fenced, and what it
// left open is aborted, before newTransactor returns.
func newTransactor(ctx context.Context, cfg PublishConfig, kafka KafkaConfig, shard int, log *zap.Logger, more ...kgo.Opt) (*transactor, error) {
	opts, failed, err := kafkaOptions(kafka, log)
	if err != nil {
		return nil, err
	}
	client, err := kgo.NewClient(append(append(opts,
		kgo.TransactionalID(cfg.TransactionalID(shard)),
		kgo.TransactionTimeout(cfg.TransactionTimeout),
		kgo.RequiredAcks(kgo.AllISRAcks()),
		kgo.RecordPartitioner(placed{kgo.StickyKeyPartitioner(nil)}),
		kgo.ProducerBatchCompression(codecOf(cfg.Codec)),
		kgo.MaxBufferedRecords(bufferedRecordsMax),
	), more...)...)
	if err != nil {
		return nil, fmt.Errorf("make kafka client: %w", err)
	}
	bounded, cancel := context.WithTimeout(ctx, kafkaRequestTimeout)
	defer cancel()
	if _, _, err := client.ProducerID(bounded); err != nil {
		client.Close()
		if cause := failed.err(); cause != nil && bounded.Err() != nil {
			err = cause
		}
		return nil, transactionError(cfg, shard, err)
	}
	return &transactor{client: client}, nil
}

func codecOf(name string) kgo.CompressionCodec {
	switch name {
	case "lz4":
		return kgo.Lz4Compression()
	case "snappy":
		return kgo.SnappyCompression()
	case "zstd":
		return kgo.ZstdCompression()
	case "gzip":
		return kgo.GzipCompression()
	}
	return kgo.NoCompression()
}

func (t *transactor) begin() error {
	if err := t.client.BeginTransaction(); err != nil {
		return fmt.Errorf("begin transaction: %w", err)
	}
	return nil
}

// produce adds a record to the transaction. Its memory belongs to the client
// until flush or commit has returned.
func (t *transactor) produce(r *kgo.Record, acknowledged func(*kgo.Record)) {
	t.client.Produce(context.Background(), r, func(r *kgo.Record, err error) {
		if err != nil {
			t.fail(r, err)
		} else if acknowledged != nil {
			acknowledged(r)
		}
	})
}

// done is the promise of records of which nobody wants to know more.
func (t *transactor) done(r *kgo.Record, err error) {
	if err != nil {
		t.fail(r, err)
	}
}

func (t *transactor) fail(r *kgo.Record, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.failed == nil {
		t.failed = fmt.Errorf("produce to %s/%d: %w", r.Topic, r.Partition, err)
		t.failing.Store(true)
	}
}

func (t *transactor) err() error {
	if !t.failing.Load() {
		return nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.failed
}

// flush waits until every record of the transaction is acknowledged.
func (t *transactor) flush(ctx context.Context) error {
	if err := t.client.Flush(ctx); err != nil {
		return fmt.Errorf("flush transaction: %w", err)
	}
	return t.err()
}

// commit flushes and commits. After an error nothing is known but what the
// topic shows, once the id has been taken again.
func (t *transactor) commit(ctx context.Context) error {
	if err := t.flush(ctx); err != nil {
		return err
	}
	if err := t.client.EndTransaction(ctx, kgo.TryCommit); err != nil {
		return fmt.Errorf("commit transaction: %w", err)
	}
	return nil
}

// abortWait bounds how long the abort of an open transaction may take at the
// end. What isn't aborted here is aborted by the next owner, or by its age.
const abortWait = 2 * time.Second

// abort throws an open transaction away, so that readers behind it need not
// wait for the next owner.
func (t *transactor) abort(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, abortWait)
	defer cancel()
	t.client.UnsafeAbortBufferedRecords()
	_ = t.client.EndTransaction(ctx, kgo.TryAbort)
}

// close lets go of the connections.
func (t *transactor) close() { t.client.Close() }

// placed is a partitioner that leaves a record where its Partition says, and
// asks another one where that is negative.
type placed struct{ other kgo.Partitioner }

// ForTopic implements kgo.Partitioner.
func (p placed) ForTopic(topic string) kgo.TopicPartitioner {
	return &placedTopic{p.other.ForTopic(topic)}
}

type placedTopic struct{ kgo.TopicPartitioner }

// RequiresConsistency implements kgo.TopicPartitioner.
func (p *placedTopic) RequiresConsistency(r *kgo.Record) bool {
	return r.Partition >= 0 || p.TopicPartitioner.RequiresConsistency(r)
}

// Partition implements kgo.TopicPartitioner.
func (p *placedTopic) Partition(r *kgo.Record, n int) int {
	if r.Partition >= 0 {
		return int(r.Partition)
	}
	return p.TopicPartitioner.Partition(r, n)
}

// OnNewBatch implements kgo.TopicPartitionerOnNewBatch.
func (p *placedTopic) OnNewBatch() {
	if o, ok := p.TopicPartitioner.(kgo.TopicPartitionerOnNewBatch); ok {
		o.OnNewBatch()
	}
}

// jittered is about d, so that instances that met don't meet again.
func jittered(d time.Duration) time.Duration { return d/2 + rand.N(d) }
