package router

import (
	"context"
	"fmt"
	"time"

	"github.com/apache/iceberg-go/io"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"go.uber.org/zap"

	"icerouter/catalog"
)

// connect opens everything an ingest needs, the truth first: the catalog and
// the table, the store of its data files, Kafka and the topics, and last the
// group, which begins to assign partitions at once.
func (in *ingest) connect(ctx context.Context) (err error) {
	defer func() {
		if err != nil {
			in.disconnect(ctx)
		}
	}()
	open := func(ctx context.Context, location string, properties map[string]string) (io.IO, error) {
		return in.stores.Open(ctx, location, properties)
	}
	if in.catalog, err = catalog.Open(ctx, in.catalogConfig, open, in.log); err != nil {
		return err
	}
	if err = in.openTable(ctx); err != nil {
		return err
	}
	if _, err = in.newPlan(); err != nil { // before anybody waits for a group
		return err
	}
	asker, err := connectKafka(ctx, in.kafka, in.log)
	if err != nil {
		return err
	}
	in.asker, in.admin = asker, kadm.NewClient(asker)
	if err = in.lookAtTopics(ctx); err != nil {
		return err
	}
	if in.cfg.DeadLetterTopic != "" {
		client, err := connectKafka(ctx, in.kafka, in.log, kgo.RequiredAcks(kgo.AllISRAcks()), kgo.ProducerBatchMaxBytes(int32(in.cfg.RecordSizeMax)+1<<20), kgo.RecordRetries(20))
		if err != nil {
			return err
		}
		in.dead = &deadLetters{ingest: in.cfg.Name, topic: in.cfg.DeadLetterTopic, client: client}
	}
	return in.join()
}

// startPatience is how long a catalog or a store may take to answer for the
// first time. Later they are waited for; at a start nobody answering is most
// likely a wrong address.
const startPatience = time.Minute

// openTable loads the table, or makes it, and tries the store of its data files.
func (in *ingest) openTable(ctx context.Context) (err error) {
	bounded, cancel := context.WithTimeoutCause(ctx, startPatience, fmt.Errorf("no success within %s", startPatience))
	defer cancel()
	if in.table, err = in.catalog.Table(bounded, in.cfg.Table, in.tableOptions()); err != nil {
		return err
	}
	if in.store, err = in.stores.Open(ctx, in.table.DataLocation(), in.table.StoreProperties()); err != nil {
		return fmt.Errorf("open store of %s: %w", in.table.DataLocation(), err)
	}
	if err = tryStore(bounded, in.store, in.table.DataLocation()); err != nil {
		return fmt.Errorf("try the store of table %s: %w; check catalog.properties (s3.*, gcs.*, adls.*), the rights, and that the store is up", in.cfg.Table, err)
	}
	return nil
}

// lookAtTopics reads the identity of the topics, checks that the dead-letter
// topic is there, and with --once notes the ends.
func (in *ingest) lookAtTopics(ctx context.Context) error {
	if err := in.refreshSource(ctx); err != nil {
		return err
	}
	meta, err := in.admin.Metadata(ctx, in.cfg.Topics...)
	if err != nil {
		return fmt.Errorf("read metadata of topics: %w", err)
	}
	in.topics = map[string][16]byte{}
	all := map[string][]int32{}
	for _, t := range meta.Topics {
		in.topics[t.Topic] = t.ID
		all[t.Topic] = t.Partitions.Numbers()
	}
	// Every assignment checks its partitions again; here nothing is joined yet,
	// and --once has not looked whether it is done already.
	if _, err := in.checkedLedger(ctx, all); err != nil {
		return err
	}
	if in.cfg.DeadLetterTopic != "" {
		if _, _, err := topicIDs(ctx, in.asker, []string{in.cfg.DeadLetterTopic}); err != nil {
			return fmt.Errorf("dead_letter_topic of ingest %s: %w", in.cfg.Name, err)
		}
	}
	if in.options.Once {
		return in.noteEnds(ctx)
	}
	return nil
}

// join makes the group's client. From here on the callbacks run; they use the
// other client, which is there already.
func (in *ingest) join() error {
	opts, _, err := kafkaOptions(in.kafka, in.log)
	if err != nil {
		return err
	}
	group, letGo := context.WithCancel(context.Background())
	in.letGo = letGo
	in.client, err = kgo.NewClient(append(opts,
		kgo.WithContext(group),
		kgo.ConsumerGroup(in.cfg.GroupID()),
		kgo.ConsumeTopics(in.cfg.Topics...),
		kgo.Balancers(kgo.CooperativeStickyBalancer()),
		kgo.SessionTimeout(in.kafka.SessionTimeout),
		kgo.HeartbeatInterval(min(in.kafka.SessionTimeout/4, 3*time.Second)),
		kgo.RebalanceTimeout(rebalanceTimeout),
		kgo.DisableAutoCommit(),
		kgo.ConsumeResetOffset(kgo.NoResetOffset()),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.KeepControlRecords(),
		kgo.WithHooks(&in.inflation),
		kgo.FetchMaxBytes(in.inflation.fetchBytes(in.memory.fetch, 1)), // see bound
		kgo.FetchMaxPartitionBytes(min(in.inflation.fetchBytes(in.memory.fetch, 1), fetchPartitionBytesMax)),
		kgo.FetchMaxWait(500*time.Millisecond),
		kgo.AdjustFetchOffsetsFn(in.onAssigned),
		kgo.OnPartitionsRevoked(in.onRevoked),
		kgo.OnPartitionsLost(in.onLost),
	)...)
	if err != nil {
		return fmt.Errorf("join group %s: %w", in.cfg.GroupID(), err)
	}
	return nil
}

// tableOptions says how the table is made and committed to.
func (in *ingest) tableOptions() catalog.TableOptions {
	o := catalog.TableOptions{
		Ingest:         in.cfg.Name,
		CommitAttempts: in.cfg.CommitAttempts,
		OnAttempt:      in.status.attempted,
	}
	if in.cfg.ExpireSnapshots != "off" {
		o.ExpireKeep, o.ExpireAfter, o.ExpireAlways = in.cfg.KeepSnapshots, in.cfg.KeepSnapshotsFor, in.cfg.ExpireSnapshots == "on"
	}
	if c := in.cfg.Create; c != nil {
		o.Create = &catalog.Create{Partition: c.Partition, Properties: c.Properties, Location: c.Location}
		for _, column := range c.Schema {
			o.Create.Schema = append(o.Create.Schema, catalog.Column(column))
		}
	}
	return o
}

// leaveWaitMax bounds how long leaving the group may take. The client first
// waits for a join under way, and the group answers that only when all its
// members have come back or were given up.
const leaveWaitMax = 10 * time.Second

// disconnect leaves the group and closes what connect opened, in reverse. When
// work ends it lets go of the group without a word; the session then expires.
func (in *ingest) disconnect(work context.Context) {
	if in.client != nil {
		leave, cancel := context.WithTimeout(work, leaveWaitMax)
		if err := in.client.LeaveGroupContext(leave); err != nil {
			in.log.Warn("left the group without its answer; its partitions stand still until the session has expired", zap.Error(err), zap.Duration("session_timeout", in.kafka.SessionTimeout))
		}
		cancel()
		in.letGo()
		in.client.Close()
	}
	if in.dead != nil {
		in.dead.client.Close()
	}
	if in.admin != nil {
		in.admin.Close()
	}
	if in.catalog != nil {
		_ = in.catalog.Close()
	}
}
