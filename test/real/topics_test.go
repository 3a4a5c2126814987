//go:build real

package real_test

import (
	"context"
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// Records are deleted that instances under way have not read yet, once while
// these stand still for a moment and once for longer than the group waits.
// Exactly those that nobody had read are missing in the table, and counted.
func TestRetentionOvertakes(t *testing.T) {
	t.Parallel()
	const partitions = 4
	s := newScene(t, place{client(t), apache(t)}, "", "overtaken", partitions)
	s.settings.ingests[0].extra = append(s.settings.ingests[0].extra, `on_lost_records = "continue"`)
	s.auditor.sparse = true
	s.begin(partitions)
	instances := []*instance{s.instance().up(), s.instance().up()}
	type hole struct{ from, to int64 } // the ledger when records were deleted, and up to which
	var holes []map[int32]hole
	for _, frozen := range []time.Duration{500 * time.Millisecond, 5 * time.Second} {
		s.catchUp(2 * time.Minute)
		for _, i := range instances {
			i.freeze()
		}
		pause(t, frozen)
		made := map[int32]hole{}
		end, ledger := ends(t, s.client, s.topic), s.auditor.next(s.topic)
		for _, p := range []int32{1, 2} {
			deleteBefore(t, s.client, s.topic, p, end[p])
			made[p] = hole{ledger[p], end[p]}
		}
		holes = append(holes, made)
		for _, i := range instances {
			i.thaw()
		}
		s.catchUp(3 * time.Minute)
		s.alive(instances...)
	}
	var counted int64
	for _, i := range instances {
		counted += i.status().Lost
	}
	s.leave(instances...)
	s.load.stop(t)
	mustOnce(t, s.settings.write(t))
	must := s.load.truth
	for _, made := range holes {
		for p, h := range made {
			must = must.without(p, h.from, h.to)
		}
	}
	// What an instance had read before stands in the table, so a hole may begin later than it might.
	absent := s.auditor.finish(t, s.topic, must, s.load.truth)
	var lost int64
	for p, offsets := range absent {
		lost += int64(len(offsets))
		for i, offset := range offsets {
			last := i == len(offsets)-1 || offsets[i+1] != offset+1
			if last && offset+1 != holes[0][p].to && offset+1 != holes[1][p].to {
				t.Errorf("partition %d: records up to %d are missing, deleted were those up to %d and %d", p, offset, holes[0][p].to, holes[1][p].to)
			}
		}
	}
	if counted != lost {
		t.Errorf("%d records counted as lost, %d are missing", counted, lost)
	}
	t.Logf("%d records lost", lost)
}

// Transactions commit and abort while instances are killed in between: the
// table has the records of the former alone, and the ledger ends behind the latter.
func TestTransactionalInput(t *testing.T) {
	t.Parallel()
	const partitions = 3
	s := newScene(t, place{client(t), apache(t)}, "", "committed", partitions)
	random := dice(t)
	s.auditor.sparse = true
	s.auditor.watch(t)
	producer := client(t, kgo.TransactionalID(s.topic))
	aborted := 0
	s.load = startLoadBy(t, partitions, func(ctx context.Context, l *load) error {
		return every(ctx, 10*time.Millisecond, func() error {
			ctx := context.WithoutCancel(ctx)
			records := l.next(s.topic, 1+random.IntN(30))
			end := kgo.TransactionEndTry(random.IntN(4) > 0)
			if err := producer.BeginTransaction(); err != nil {
				return err
			}
			if err := producer.ProduceSync(ctx, records...).FirstErr(); err != nil {
				return err
			}
			if err := producer.EndTransaction(ctx, end); err != nil {
				return err
			}
			if end == kgo.TryAbort {
				aborted += len(records)
				return nil
			}
			return l.produced(records)
		})
	})
	instances := []*instance{s.instance().up(), s.instance().up()}
	for i := range instances {
		pause(t, 2*time.Second)
		instances[i].kill()
		instances[i] = s.instance()
	}
	instances[0].up()
	pause(t, 2*time.Second)
	s.alive(instances...)
	s.leave(instances...)
	s.finish()
	t.Logf("%d records aborted", aborted)
}

// Compaction removes records that instances are about to read: what is left of
// the topic is in the table, and of the rest no record twice.
func TestCompactedInput(t *testing.T) {
	t.Parallel()
	const partitions, keys = 2, 400
	s := newScene(t, place{client(t), apache(t)}, "", "compacting", partitions, "cleanup.policy", "compact", "segment.ms", "200",
		"min.cleanable.dirty.ratio", "0.01", "max.compaction.lag.ms", "200", "delete.retention.ms", "100")
	s.auditor.sparse = true
	s.auditor.watch(t)
	s.load = startLoadBy(t, partitions, func(ctx context.Context, l *load) error {
		return every(ctx, 20*time.Millisecond, func() error {
			records := l.next(s.topic, 20)
			for _, r := range records {
				r.Key = []byte(strconv.FormatInt(l.sent.Load()%keys, 10))
			}
			records[7].Value = nil // a tombstone
			if err := s.client.ProduceSync(context.WithoutCancel(ctx), records...).FirstErr(); err != nil {
				return err
			}
			return l.produced(records)
		})
	})
	first := s.instance().up()
	s.catchUp(2 * time.Minute)
	first.kill() // while nobody reads, compaction comes before us
	before := s.auditor.next(s.topic)
	until(t, 2*time.Minute, "records compacted that were not read", func() bool {
		pause(t, time.Second)
		left := inTopic(t, s.topic)
		for p, next := range before {
			for o := range s.load.truth.without(p, 0, next).seqs[p] {
				if _, ok := left.seqs[p][o]; !ok {
					return true
				}
			}
		}
		return false
	})
	second := s.instance().up()
	s.catchUp(2 * time.Minute)
	s.leave(second)
	produced := s.load.stop(t)
	mustOnce(t, s.settings.write(t))
	absent := s.auditor.finish(t, s.topic, inTopic(t, s.topic), s.load.truth)
	gone := 0
	for _, offsets := range absent {
		gone += len(offsets)
	}
	t.Logf("%d records, %d compacted before they were read", produced, gone)
	if gone == 0 {
		t.Errorf("no record was compacted before it was read: the test has tried nothing")
	}
}

// A topic is deleted and made again under instances that run. By policy they
// read the new one from its beginning; both topics' records are in the table.
func TestTopicRecreatedUnderInstances(t *testing.T) {
	t.Parallel()
	const partitions = 2
	s := newScene(t, place{client(t), apache(t)}, "", "again", partitions)
	s.settings.ingests[0].extra = append(s.settings.ingests[0].extra, `on_topic_reset = "restart"`)
	s.auditor.sparse, s.auditor.reset = true, true
	s.begin(partitions)
	instances := []*instance{s.instance().up(), s.instance().up()}
	s.catchUp(2 * time.Minute)
	first := s.load.stop(t)
	s.catchUp(2 * time.Minute)
	deleteTopic(t, s.client, s.topic)
	createTopic(t, s.client, s.topic, partitions)
	fresh := client(t) // the other one knows the id of the first topic
	old := s.load.truth
	id := s.auditor.topicID(s.topic)
	s.load = startLoadBy(t, partitions, func(ctx context.Context, l *load) error {
		l.sent.Store(int64(first))
		return l.run(ctx, fresh, s.topic)
	})
	until(t, 3*time.Minute, "the new topic in the ledger", func() bool { return s.auditor.topicID(s.topic) != id })
	s.catchUp(3 * time.Minute)
	s.alive(instances...)
	s.leave(instances...)
	produced := s.load.stop(t)
	mustOnce(t, s.settings.write(t))
	s.auditor.where = fmt.Sprintf("seq >= %d", first)
	s.auditor.finish(t, s.topic, s.load.truth, s.load.truth)
	s.settings.lake.rowsAre(t, s.settings.ingests[0].table, fmt.Sprintf("seq < %d", first), old, old)
	t.Logf("%d records of the first topic, %d of both", first, produced)
}
