package router

import (
	"context"
	"fmt"
	"time"

	"go.uber.org/zap"
)

// ledgerLookEvery is how often --once looks whether other instances are done.
const ledgerLookEvery = time.Second

// noteEnds fixes where --once ends: the last stable offset of every partition
// as of start.
func (in *ingest) noteEnds(ctx context.Context) error {
	ends, err := in.stableEnds(ctx)
	if err != nil {
		return err
	}
	in.ends = ends
	total := int64(0)
	for _, end := range ends {
		total += end
	}
	in.log.Info("running once", zap.Int("partitions", len(ends)), zap.Int64("ends", total))
	return nil
}

// stableEnds lists the last stable offset of every partition.
func (in *ingest) stableEnds(ctx context.Context) (map[topicPartition]int64, error) {
	ctx, cancel := context.WithTimeout(ctx, kafkaRequestTimeout)
	defer cancel()
	listed, err := in.admin.ListCommittedOffsets(ctx, in.cfg.Topics...)
	if err == nil {
		err = listed.Error()
	}
	if err != nil {
		return nil, fmt.Errorf("list end offsets: %w", err)
	}
	ends := map[topicPartition]int64{}
	for topic, parts := range listed {
		for p, o := range parts {
			ends[topicPartition{topic, p}] = o.Offset
		}
	}
	return ends, nil
}

// moved reports whether a partition has passed offsets since the last cut.
func (in *ingest) moved() bool {
	for _, p := range in.partitions {
		if p.next != p.from {
			return true
		}
	}
	return false
}

// gapDue reports whether gaps alone are worth a commit at now: control records,
// aborted transactions and compacted batches that were passed a while ago. Were
// the ledger left before them, retention would remove them and a later start
// would take them for lost records.
func (in *ingest) gapDue(now time.Time) bool {
	if in.open.records > 0 || !in.moved() {
		in.gapSince = time.Time{}
		return false
	}
	if in.gapSince.IsZero() {
		in.gapSince = now
	}
	return now.Sub(in.gapSince) >= gapWaitMax
}

// passed reports whether every partition that is ours is at its end.
func (in *ingest) passed() bool {
	for at, p := range in.partitions {
		if p.next < in.ends[at] {
			return false
		}
	}
	return true
}

// finished reports whether --once is done: the table's ledger has passed every
// end. That counts the partitions of other instances, too: if one of them dies
// its partitions come to us.
func (in *ingest) finished(ctx, work context.Context, cuts chan<- *cut) (bool, error) {
	if !in.passed() {
		return false, nil
	}
	if in.open.records > 0 || in.moved() {
		return false, in.cut(work, cuts, false)
	}
	if len(in.slots) > 0 || time.Since(in.looked) < in.lookEvery() {
		return false, nil
	}
	in.looked = time.Now()
	ledger, err := in.table.Ledger(ctx)
	if err != nil {
		return false, fmt.Errorf("read ledger of %s: %w", in.cfg.Table, err)
	}
	for at, end := range in.ends {
		if next, ok := ledger.Topics[at.topic].Next[at.partition]; !ok || next < end {
			return false, nil
		}
	}
	return true, nil
}

// lookEvery is short while all partitions are ours: then only our own commits
// can be missing.
func (in *ingest) lookEvery() time.Duration {
	if len(in.partitions) == len(in.ends) {
		return 0
	}
	return ledgerLookEvery
}

// probe looks behind the silence: a partition that is short of its end and
// brings no record has control records, aborted transactions or compacted
// batches there, which no poll shows.
func (in *ingest) probe(ctx context.Context) error {
	if time.Since(in.lastRecord) < gapProbeAfter {
		return nil
	}
	ends := in.ends
	if !in.options.Once {
		ends = in.status.latestEnds()
	}
	for at, p := range in.partitions {
		end, ok := ends[at]
		if !ok || p.next >= end {
			continue
		}
		next, err := passGaps(ctx, in.client, at.topic, in.topics[at.topic], at.partition, p.next, end)
		if err != nil {
			if ctx.Err() != nil {
				return nil
			}
			in.log.Debug("probe", zap.Error(err)) // the poll meets the same broker and reports what lasts
			continue
		}
		p.next = max(p.next, next)
	}
	in.lastRecord = time.Now().Add(-gapProbeAfter / 2)
	in.status.at(in.partitions)
	return nil
}

// watch keeps the ends of the partitions for the lag until ctx ends.
func (in *ingest) watch(ctx context.Context) error {
	tick := time.NewTicker(lagEvery)
	defer tick.Stop()
	for {
		ends, err := in.stableEnds(ctx)
		if err == nil {
			in.status.ends(ends)
		} else if ctx.Err() == nil {
			in.log.Debug("read ends for the lag", zap.Error(err))
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// lagEvery is how old the lag that we report may be.
const lagEvery = 2 * time.Second
