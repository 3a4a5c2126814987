package router

import (
	"context"
	"errors"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"icerouter/catalog"
)

// The group's offsets are a hint for lag tools; the ledger is the truth. A lost
// one is repaired by the next commit, so nothing fails here. Above all nothing
// waits here: while the group is balancing the client holds every commit of
// offsets back, for as long as the slowest member takes.

// hint leaves offsets for tellGroup, and never waits. What is there already and
// was not told yet goes along.
func (in *ingest) hint(offsets catalog.Offsets) {
	for {
		select {
		case in.hints <- offsets:
			return
		case older := <-in.hints:
			offsets = over(older, offsets)
		}
	}
}

// over returns older, replaced by newer where both have a partition.
func over(older, newer catalog.Offsets) catalog.Offsets {
	out := catalog.Offsets{}
	for _, offsets := range []catalog.Offsets{older, newer} {
		for topic, parts := range offsets {
			for p, next := range parts {
				setOffset(out, topicPartition{topic, p}, next)
			}
		}
	}
	return out
}

// tellGroupMax bounds how long one commit of offsets may take. A rebalance may
// take longer; then the next one tells more.
const tellGroupMax = 5 * time.Second

// tellGroup commits the offsets of landed appends to the group until there are
// no more to come.
func (in *ingest) tellGroup(work context.Context) error {
	for hint := range in.hints {
		offsets := map[string]map[int32]kgo.EpochOffset{}
		for topic, parts := range hint {
			offsets[topic] = map[int32]kgo.EpochOffset{}
			for p, next := range parts {
				offsets[topic][p] = kgo.EpochOffset{Epoch: -1, Offset: next}
			}
		}
		ctx, cancel := context.WithTimeout(work, tellGroupMax)
		in.client.CommitOffsetsSync(ctx, offsets, nil)
		cancel()
	}
	return nil
}

// putOut reports whether the group has given this member up, for having been
// silent too long. The client joins again by itself.
func putOut(err error) bool {
	var session *kgo.ErrGroupSession
	return errors.As(err, &session) &&
		(errors.Is(err, kerr.UnknownMemberID) || errors.Is(err, kerr.IllegalGeneration) || errors.Is(err, kerr.RebalanceInProgress))
}
