package router

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"go.uber.org/zap"
)

// A layout is the marks of all shards, of one generation. It is changed by one
// Kafka transaction that writes to every partition, so there is never half a
// layout. The transaction has the id of shard 0, and the shards' owners are
// other instances; what keeps them out is an order of steps:
//
//	1. fence every id that has or will have a shard
//	2. read every mark, up to the partition's end
//	3. write the new marks, one a partition, in an open transaction
//	4. fence every other id again
//	5. see that each new mark follows directly on what was read in 2, and nothing follows on it
//	6. commit
//
// An owner that takes its shard between 1 and 4 is fenced by 4; if it has
// committed anything before that, 5 sees it, and nothing is changed. An owner
// that takes its shard after 4 reads its mark after 3: it waits until the
// transaction has ended, and finds the new layout or the old one. Two changes
// fence each other at id 0.

// layoutAttemptsMax bounds how often changes of several instances may meet.
const layoutAttemptsMax = 20

// change brings the layout to what plan makes of the marks that are there (none
// where found is 0) and returns it. Plan returns nil to leave it as it is; it
// may be called several times.
func (m *marks) change(ctx context.Context, kafka KafkaConfig, plan func(old []mark, found int) ([]mark, error)) ([]mark, error) {
	for attempt := 1; ; attempt++ {
		now, err := m.tryChange(ctx, kafka, plan)
		switch {
		case err == nil:
			return now, nil
		case ctx.Err() != nil || halts(err) || attempt == layoutAttemptsMax || !errors.Is(err, errMet):
			return nil, err
		}
		m.log.Info("met another instance while changing the layout of the shards; looking again", zap.Error(err))
		if err := sleep(ctx, jittered(time.Duration(attempt)*100*time.Millisecond)); err != nil {
			return nil, err
		}
	}
}

// errMet says that another instance moved what a change was based on.
var errMet = errors.New("another instance moved it")

func (m *marks) tryChange(ctx context.Context, kafka KafkaConfig, plan func(old []mark, found int) ([]mark, error)) ([]mark, error) {
	if now, enough, err := m.glance(ctx, plan); err != nil || enough {
		return now, err
	}
	shards, err := m.width(ctx)
	if err != nil {
		return nil, err
	}
	writer, err := newTransactor(ctx, m.cfg, kafka, 0, m.log) // fences id 0
	if err != nil {
		return nil, err
	}
	defer writer.close()
	if err := m.fenceFrom(ctx, 1, shards); err != nil { // 1
		return nil, err
	}
	ends, old, next, err := m.planned(ctx, shards, plan) // 2
	if err != nil || next == nil {
		return old, err
	}
	if err := writer.begin(); err != nil {
		return nil, met(err)
	}
	offsets := make([]int64, len(next))
	for i, one := range next { // 3
		writer.produce(m.record(i, one), func(r *kgo.Record) { offsets[i] = r.Offset })
	}
	if err := writer.flush(ctx); err != nil {
		return nil, met(err)
	}
	if err := m.fenceFrom(ctx, 1, shards); err != nil { // 4
		return nil, err
	}
	now, err := m.ends(ctx)
	if err != nil {
		return nil, err
	}
	for i := range next { // 5
		if offsets[i] != ends[i] || now[i] != ends[i]+1 {
			return nil, fmt.Errorf("%w: partition %d of the position topic", errMet, i)
		}
	}
	if err := writer.commit(ctx); err != nil { // 6
		return nil, met(err)
	}
	m.log.Info("layout of shards", zap.Int64("generation", next[0].Generation), zap.Int("shards", next[0].Shards))
	return next, nil
}

// glance looks, and keeps nobody out, whether the layout is there and as plan
// wants it. Most starts need no more.
func (m *marks) glance(ctx context.Context, plan func(old []mark, found int) ([]mark, error)) (now []mark, enough bool, err error) {
	if now, err = m.committed(ctx); err != nil || now == nil {
		return nil, false, err
	}
	next, err := plan(now, len(now))
	return now, next == nil && err == nil, err
}

// committed returns the marks as they are now, to a reader of committed records:
// nil when there are none, or when a change of the layout is on its way and only
// some of them show it.
func (m *marks) committed(ctx context.Context) ([]mark, error) {
	if err := m.look(ctx); err != nil {
		return nil, err
	}
	ends, err := m.offsets(ctx, m.admin.ListCommittedOffsets)
	if err != nil {
		return nil, err
	}
	all, found, err := m.all(ctx, ends)
	if err != nil || found == 0 {
		return nil, err
	}
	if _, err := whole(m.cfg, all); err != nil {
		return nil, nil //nolint:nilerr // who has kept the others out finds out whether it lasts
	}
	return all, nil
}

// width is how many partitions the position topic has: as many ids may be in use.
func (m *marks) width(ctx context.Context) (int, error) {
	err := m.look(ctx)
	return m.parts, err
}

// planned reads the marks and what plan makes of them, when all ids are fenced. A
// layout with a hole is lost: positions of some shards are known and of others not.
// The client's knowledge of the topic may be some seconds old. Where partitions
// were added since, neither have all ids been fenced nor are all marks seen.
func (m *marks) planned(ctx context.Context, fenced int, plan func(old []mark, found int) ([]mark, error)) (ends []int64, old, next []mark, err error) {
	if ends, err = m.settledEnds(ctx, upTo(fenced)...); err != nil {
		return nil, nil, nil, err
	}
	old, found, err := m.all(ctx, ends)
	if err != nil {
		return nil, nil, nil, err
	}
	if len(ends) != fenced || found > 0 && newestOf(old).Shards > len(ends) {
		return nil, nil, nil, fmt.Errorf("%w: partitions were added to the position topic, %d are known yet", errMet, len(ends))
	}
	if found == 0 {
		old = nil
	} else if old, err = whole(m.cfg, old); err != nil {
		return nil, nil, nil, err
	}
	if next, err = plan(old, found); err != nil {
		return nil, nil, nil, err
	}
	if len(next) > m.parts {
		return nil, nil, nil, fmt.Errorf("position topic %s has %d partitions and %d shards need as many", m.cfg.Positions(), m.parts, len(next))
	}
	return ends, old, next, nil
}

// whole returns the marks of the newest generation, and sees that none is missing.
func whole(cfg PublishConfig, all []mark) ([]mark, error) {
	newest := newestOf(all)
	for i := range newest.Shards {
		if i >= len(all) || all[i].Generation != newest.Generation {
			return nil, haltf("position topic %s: the layout of generation %d has %d shards, but there is no position of shard %d: records of the topic were deleted, so it isn't known what has been published; set on_lost_position = \"restart\" and delete the topic to start again where start says",
				cfg.Positions(), newest.Generation, newest.Shards, i)
		}
	}
	return all, nil
}

func (m *marks) fenceFrom(ctx context.Context, first, end int) error {
	for i := first; i < end; i++ {
		if err := m.fence(ctx, i); err != nil {
			return err
		}
	}
	return nil
}

// met tells a change that was fenced from one that broke.
func met(err error) error {
	if fenced(err) {
		return errors.Join(errMet, err)
	}
	return err
}

// fenced reports whether a transaction ended because its id was taken by
// another, or because the brokers had aborted it for its age: they don't tell
// the two apart.
func fenced(err error) bool {
	return errors.Is(err, kerr.ProducerFenced) || errors.Is(err, kerr.InvalidProducerEpoch) ||
		errors.Is(err, kerr.InvalidTxnState) || errors.Is(err, kerr.InvalidProducerIDMapping) || errors.Is(err, kerr.UnknownProducerID)
}

func upTo(n int) []int {
	out := make([]int, n)
	for i := range out {
		out[i] = i
	}
	return out
}

// newestOf returns a mark of the newest generation.
func newestOf(all []mark) mark {
	newest := all[0]
	for _, one := range all[1:] {
		if one.Generation > newest.Generation {
			newest = one
		}
	}
	return newest
}
