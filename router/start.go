package router

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"go.uber.org/zap"

	"icerouter/catalog"
)

// haltError stops an ingest until a person acts: going on would lose or repeat
// records, and only the operator may decide that.
type haltError struct{ text string }

func (e *haltError) Error() string { return e.text }

func haltf(format string, args ...any) error { return &haltError{fmt.Sprintf(format, args...)} }

// checkedLedger reads the ledger and compares it with the cluster that we are
// connected to. Where they contradict each other it stops, or mends the ledger
// as far as the configuration allows.
//
// The first offsets are listed before the ledger is read, the ends after it. A
// ledger that other instances move meanwhile, and retention behind it, then
// never look like records that are gone, or a log that was truncated. The ids
// of the topics are read before and after all of it: offsets belong to them.
func (in *ingest) checkedLedger(ctx context.Context, want map[string][]int32) (catalog.Ledger, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	patience := time.AfterFunc(identityPatience, func() {
		cancel(fmt.Errorf("the brokers did not agree on the ids of the topics within %s", identityPatience))
	})
	defer patience.Stop()
	for {
		ledger, err := in.compareLedger(ctx, want)
		if !errors.Is(err, errOtherTopics) {
			return ledger, err
		}
		in.log.Info("comparing the ledger again", zap.Error(err))
		if err := sleep(ctx, 200*time.Millisecond); err != nil {
			return ledger, fmt.Errorf("compare ledger: %w", err)
		}
	}
}

// errOtherTopics says that what was asked of the brokers may be about topics of
// other ids than the ledger's, or that a broker doesn't know the newest yet.
var errOtherTopics = errors.New("a topic was made again a moment ago")

// identityPatience is how long brokers may tell different ids of one topic.
const identityPatience = 30 * time.Second

// compareLedger compares once. An error is errOtherTopics when the answers don't
// belong together.
func (in *ingest) compareLedger(ctx context.Context, want map[string][]int32) (catalog.Ledger, error) {
	if err := in.refreshSource(ctx); err != nil {
		return catalog.Ledger{}, err
	}
	source := *in.source.Load()
	starts, err := in.listed(ctx, "start", in.admin.ListStartOffsets)
	if err != nil {
		return catalog.Ledger{}, err
	}
	ledger, err := in.ledger(ctx)
	if err != nil {
		return ledger, err
	}
	if err := in.sameSource(ctx, source); err != nil { // now, so that what the ledger knows more is not old news
		return ledger, err
	}
	mended := ledger.Clone()
	if err := in.checkIdentity(&mended); err != nil {
		return ledger, err
	}
	lost, err := in.checkRange(ctx, &mended, want, starts)
	if e := in.sameSource(ctx, source); e != nil {
		return ledger, e
	}
	if err != nil {
		// The ledger may have moved while the log was asked, and retention after
		// it; or the catalog had told an older one. Halt only for what is still so.
		if now, again := in.ledger(ctx); halts(err) && again == nil && !now.Equal(ledger) {
			return in.compareLedger(ctx, want)
		}
		return ledger, err
	}
	if mended.Equal(ledger) {
		return ledger, nil
	}
	switch err := in.table.Rewind(ctx, ledger, mended); {
	case errors.Is(err, catalog.ErrFenced):
		return in.compareLedger(ctx, want) // another instance has mended it
	case err != nil:
		return ledger, fmt.Errorf("mend ledger of %s: %w", in.cfg.Table, err)
	}
	in.status.lose(lost)
	return in.table.Ledger(ctx)
}

// ledger reads the ledger, and settles a rollback of the table by policy.
func (in *ingest) ledger(ctx context.Context) (catalog.Ledger, error) {
	ledger, err := in.table.Ledger(ctx)
	var rolled *catalog.RollbackError
	if !errors.As(err, &rolled) {
		if err != nil {
			return ledger, fmt.Errorf("read ledger of %s: %w", in.cfg.Table, err)
		}
		return ledger, nil
	}
	if in.cfg.OnRollback != "reread" {
		return ledger, haltf("%v; set on_rollback = \"reread\" to read the rows that were rolled back again, or roll the table forward", err)
	}
	if rolled.Ancestor == nil {
		return ledger, haltf("%v; no snapshot that is left carries a ledger to go back to: restore the table property %s by hand", err, catalog.LedgerProperty(in.cfg.Name))
	}
	in.log.Warn("table was rolled back: reading again from the ledger of its head", zap.Int64("seq", rolled.Property.Seq), zap.Int64("head_seq", rolled.Ancestor.Seq))
	switch err := in.table.Reread(ctx, rolled); {
	case errors.Is(err, catalog.ErrFenced):
		return in.ledger(ctx) // the table has moved on: look again
	case err != nil:
		return ledger, fmt.Errorf("rewind ledger of %s: %w", in.cfg.Table, err)
	}
	return in.table.Ledger(ctx)
}

// refreshSource asks for the ids of the cluster and the topics.
func (in *ingest) refreshSource(ctx context.Context) error {
	cluster, ids, err := topicIDs(ctx, in.asker, in.cfg.Topics)
	if err != nil {
		return err
	}
	in.source.Store(&catalog.Source{Cluster: cluster, TopicIDs: ids})
	return nil
}

// sameSource asks for the ids again, and sees that they are still those of source.
func (in *ingest) sameSource(ctx context.Context, source catalog.Source) error {
	if err := in.refreshSource(ctx); err != nil {
		return err
	}
	if !source.Equal(*in.source.Load()) {
		return errOtherTopics
	}
	return nil
}

// checkIdentity stops when the ledger speaks of another cluster, or of a topic
// that has been deleted and made again: its offsets mean nothing here.
func (in *ingest) checkIdentity(ledger *catalog.Ledger) error {
	const remedy = `; set on_topic_reset = "restart" to read the topic from its first offset, keeping the rows that are in the table, or point the ingest at a new table`
	if ledger.Cluster != "" && ledger.Cluster != in.source.Load().Cluster {
		if in.cfg.OnTopicReset != "restart" {
			return haltf("table %s was filled from Kafka cluster %s, kafka.brokers lead to cluster %s%s", in.cfg.Table, ledger.Cluster, in.source.Load().Cluster, remedy)
		}
		in.log.Warn("another Kafka cluster: starting at the first offsets", zap.String("ledger", ledger.Cluster), zap.String("cluster", in.source.Load().Cluster))
		ledger.Move(*in.source.Load())
		return nil
	}
	for topic, t := range ledger.Topics {
		now, ours := in.source.Load().TopicIDs[topic]
		if !ours || t.ID == now {
			continue
		}
		if slices.Contains(t.Retired, now) { // whoever wrote the ledger knew more than the broker that we asked
			return fmt.Errorf("%w: a broker still tells the id %s of topic %s, the ledger has %s", errOtherTopics, now, topic, t.ID)
		}
		if in.cfg.OnTopicReset != "restart" {
			p, next := t.Highest()
			return haltf("topic %s was deleted and made again: the ledger of %s is at %s/%d offset %d of topic id %s, the topic's id is now %s%s",
				topic, in.cfg.Table, topic, p, next, t.ID, now, remedy)
		}
		in.log.Warn("topic was made again: starting at its first offsets", zap.String("topic", topic), zap.String("ledger", t.ID), zap.String("id", now))
		ledger.Renew(topic, now)
	}
	return nil
}

// checkRange stops when a partition's next offset is not in the log any more
// (retention) or not yet (the log was truncated).
func (in *ingest) checkRange(ctx context.Context, ledger *catalog.Ledger, want map[string][]int32, starts kadm.ListedOffsets) (lost int64, err error) {
	ends, err := in.listed(ctx, "end", in.admin.ListEndOffsets)
	if err != nil {
		return 0, err
	}
	for topic, parts := range want {
		for _, p := range parts {
			next, ok := ledger.Topics[topic].Next[p]
			if !ok {
				continue
			}
			first, known := starts.Lookup(topic, p)
			end, ended := ends.Lookup(topic, p)
			switch {
			case !known || !ended: // it was added a moment ago, and this answer came from before
				return 0, fmt.Errorf("%s/%d: the broker named neither its first nor its last offset", topic, p)
			case next < first.Offset && in.cfg.OnLostRecords != "continue":
				return 0, haltf("%s/%d: the next offset to read is %d, the log begins at %d: %d records are gone (retention or deletion); set on_lost_records = \"continue\" to go on at %d and count them as lost",
					topic, p, next, first.Offset, first.Offset-next, first.Offset)
			case next < first.Offset:
				in.log.Warn("records are gone", zap.String("topic", topic), zap.Int32("partition", p), zap.Int64("from", next), zap.Int64("to", first.Offset-1))
				lost += first.Offset - next
				ledger.Lose(topic, p, first.Offset)
			case next > end.Offset && in.cfg.OnTopicReset != "restart":
				return 0, haltf("%s/%d: the next offset to read is %d, the log ends at %d: it was truncated or made again; set on_topic_reset = \"restart\" to read the partition from its first offset",
					topic, p, next, end.Offset)
			case next > end.Offset:
				in.log.Warn("log was truncated: starting at its first offset", zap.String("topic", topic), zap.Int32("partition", p), zap.Int64("ledger", next), zap.Int64("end", end.Offset))
				ledger.Restart(topic, p, first.Offset)
			}
		}
	}
	return lost, nil
}

// listed asks for an offset of each partition: list is one of kadm's functions.
func (in *ingest) listed(ctx context.Context, which string, list func(context.Context, ...string) (kadm.ListedOffsets, error)) (kadm.ListedOffsets, error) {
	ctx, cancel := context.WithTimeout(ctx, kafkaRequestTimeout)
	defer cancel()
	offsets, err := list(ctx, in.cfg.Topics...)
	if err == nil {
		err = offsets.Error()
	}
	if err != nil {
		return nil, fmt.Errorf("list %s offsets: %w", which, err)
	}
	return offsets, nil
}

// resolve returns where each partition starts, and which partitions are to
// enter the ledger. Only a topic that the ledger has never seen starts where the
// configuration says, and enters it whole: the partitions that other instances
// have would otherwise look as if they had been added to a known topic, and such
// a partition is read from its first offset.
func (in *ingest) resolve(ctx context.Context, ledger catalog.Ledger, want map[string][]int32) (start, fresh catalog.Offsets, err error) {
	start, fresh = catalog.Offsets{}, catalog.Offsets{}
	var first, configured kadm.ListedOffsets
	for topic, parts := range want {
		known, seen := ledger.Topics[topic]
		for _, p := range parts {
			at := topicPartition{topic, p}
			if next, ok := known.Next[p]; ok {
				setOffset(start, at, next)
				continue
			}
			if first == nil {
				if first, configured, err = in.configuredStart(ctx); err != nil {
					return nil, nil, err
				}
			}
			from := configured
			if seen {
				from = first
			}
			o, ok := from.Lookup(topic, p)
			if !ok {
				return nil, nil, fmt.Errorf("%s: no start offset known", at)
			}
			setOffset(start, at, o.Offset)
			setOffset(fresh, at, o.Offset)
		}
		if !seen {
			for p, o := range configured[topic] {
				setOffset(fresh, topicPartition{topic, p}, o.Offset)
			}
		}
	}
	return start, fresh, nil
}

// configuredStart lists the first offsets of the topics, and the offsets that
// start names.
func (in *ingest) configuredStart(ctx context.Context) (first, configured kadm.ListedOffsets, err error) {
	ctx, cancel := context.WithTimeout(ctx, kafkaRequestTimeout)
	defer cancel()
	if first, err = in.admin.ListStartOffsets(ctx, in.cfg.Topics...); err == nil {
		err = first.Error()
	}
	if err != nil {
		return nil, nil, fmt.Errorf("list start offsets: %w", err)
	}
	configured = first
	if at, ok := in.cfg.StartTime(); ok {
		configured, err = in.admin.ListOffsetsAfterMilli(ctx, at.UnixMilli(), in.cfg.Topics...)
	} else if in.cfg.Start == "latest" {
		configured, err = in.admin.ListCommittedOffsets(ctx, in.cfg.Topics...)
	}
	if err == nil {
		err = configured.Error()
	}
	if err != nil {
		return nil, nil, fmt.Errorf("list offsets of start = %q: %w", in.cfg.Start, err)
	}
	return first, configured, nil
}

// newID returns an id that no other append of any instance has.
func newID() string {
	var b [12]byte
	rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:])
}
