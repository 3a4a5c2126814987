package router

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strings"

	"github.com/apache/iceberg-go/io"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"go.uber.org/zap"

	"icerouter/catalog"
	"icerouter/writers"
)

// openDemo makes or takes up the demo's folder and starts what the router needs.
func openDemo(ctx context.Context, o demoOptions, out *os.File) (_ *demo, err error) {
	d := &demo{options: o, out: out}
	defer func() {
		if err != nil {
			d.close()
		}
	}()
	if err := d.openFolder(); err != nil {
		return nil, err
	}
	if err := d.openBroker(ctx); err != nil {
		return nil, err
	}
	if err := d.configure(ctx); err != nil {
		return nil, err
	}
	if d.router, err = New(d.config, d.log, Options{Version: demoName}); err != nil {
		return nil, err
	}
	if err := d.openTable(ctx); err != nil {
		return nil, err
	}
	gen, err := newGenerator(schemaDefault, "{{field(logStreamId)}}", rand.Uint64())
	if err != nil {
		return nil, err
	}
	d.load = load{topic: demoTopic, gen: gen, rate: o.rate, limit: o.limit}
	return d, nil
}

// openFolder makes the folder, keeps other demos out of it, and begins the log.
func (d *demo) openFolder() (err error) {
	dir := d.options.dir
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return fmt.Errorf("make --dir: %w", err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return fmt.Errorf("read --dir: %w", err)
	}
	if _, err := os.Stat(d.path("demo.lock")); len(entries) > 0 && err != nil {
		return fmt.Errorf("--dir %s holds other files and no demo; choose another folder", dir)
	}
	if d.unlock, err = lockFile(d.path("demo.lock")); err != nil {
		return err
	}
	logs := zap.NewProductionConfig()
	logs.OutputPaths, logs.ErrorOutputPaths, logs.Sampling = []string{d.logFile()}, []string{d.logFile()}, nil
	if d.log, err = logs.Build(zap.WithCaller(false), zap.AddStacktrace(zap.DPanicLevel)); err != nil {
		return fmt.Errorf("open log: %w", err)
	}
	return nil
}

func (d *demo) path(name string) string { return filepath.Join(d.options.dir, name) }

func (d *demo) logFile() string { return d.path("router.log") }

// openBroker starts the broker on what the folder holds, makes the topic if
// there is none, and connects the load's own client.
func (d *demo) openBroker(ctx context.Context) (err error) {
	opts := []kfake.Opt{kfake.NumBrokers(1), kfake.ClusterID("router-demo"), kfake.DataDir(d.path("broker"))}
	if d.options.kafkaPort != 0 {
		opts = append(opts, kfake.Ports(d.options.kafkaPort))
	}
	if d.broker, err = kfake.NewCluster(opts...); err != nil {
		return fmt.Errorf("start the broker in %s: %w", d.path("broker"), err)
	}
	d.config = Default()
	d.config.Kafka.Brokers = d.broker.ListenAddrs()
	load := generateOptions{codec: "none", acks: "all", batchMax: 1_000_012}
	if d.producer, err = connectKafka(ctx, d.config.Kafka, d.log.Named("load"), load.options()...); err != nil {
		return err
	}
	d.admin = kadm.NewClient(d.producer)
	if err := d.startBackAnew(ctx); err != nil {
		return err
	}
	for _, topic := range []string{demoTopic, demoBack} {
		answer, err := d.admin.CreateTopic(ctx, int32(d.options.partitions), 1, nil, topic)
		if err == nil {
			err = answer.Err
		}
		if err != nil && !errors.Is(err, kerr.TopicAlreadyExists) {
			return fmt.Errorf("create topic %s: %w", topic, err)
		}
	}
	ends, err := d.ends(ctx)
	if err != nil {
		return err
	}
	d.options.partitions = len(ends)
	for _, end := range ends {
		d.before += end
	}
	return nil
}

// configure writes the configuration that a file would hold.
func (d *demo) configure(ctx context.Context) (err error) {
	if d.config.HTTP.Listen, err = d.address(ctx); err != nil {
		return err
	}
	d.config.Catalog = CatalogConfig{
		Name: demoName, Type: "sql", URI: "sqlite:" + d.path("catalog.db"), Warehouse: "file://" + filepath.ToSlash(d.path("warehouse")),
	}
	in := DefaultIngest()
	in.Name, in.Topics, in.Table, in.Trigger = demoName, []string{demoTopic}, demoTable, d.options.trigger
	in.Create = &CreateConfig{
		Schema: []ColumnConfig{
			{Name: "logStreamId", Type: "long", Required: true},
			{Name: "message", Type: "string"},
			{Name: "_kafka_partition", Type: "int", Required: true},
			{Name: "_kafka_offset", Type: "long", Required: true},
		},
		Partition: []string{"bucket(logStreamId, 64)"},
	}
	d.config.Ingest = []IngestConfig{in}
	back := DefaultPublish()
	back.Name, back.Table, back.Topic, back.Shards = demoName, demoTable, demoBack, demoShards
	back.OnLostPosition = policyRestart                                                                  // see startBackAnew
	back.Headers = map[string]string{headerPartition: "_kafka_partition", headerOffset: "_kafka_offset"} // for the proof
	d.config.Publish = []PublishConfig{back}
	if err := d.config.Validate(); err != nil {
		return &UsageError{err} // all that can be wrong came from a flag
	}
	return nil
}

// demoShards are enough for what one process generates.
const demoShards = 2

// startBackAnew deletes the second topic and its positions when the demo before
// was killed. Unlike a real broker, the embedded one has died with the router, maybe
// in the middle of a commit, and is no judge of what was committed. The table is; it
// is published again from its beginning.
func (d *demo) startBackAnew(ctx context.Context) error {
	_, err := os.Stat(d.cleanFile())
	if err == nil {
		err = os.Remove(d.cleanFile())
	} else if errors.Is(err, os.ErrNotExist) {
		_, err = d.admin.DeleteTopics(ctx, demoBack, PublishConfig{Name: demoName}.Positions())
	}
	if err != nil {
		return fmt.Errorf("start topic %s anew: %w", demoBack, err)
	}
	return nil
}

// cleanFile is there while no demo runs in the folder and the last one has ended well.
func (d *demo) cleanFile() string { return d.path("broker.clean") }

// address is where the page is: as asked for, with a port if that was 0.
func (d *demo) address(ctx context.Context) (string, error) {
	switch asked := d.options.http; {
	case asked == "":
		return freeAddress(ctx, Default().HTTP.Listen)
	case strings.HasSuffix(asked, ":0"):
		return freeAddress(ctx, asked)
	default:
		return asked, nil
	}
}

// freeAddress returns address if nobody listens there, else one with a free
// port on the same host; so it does for port 0.
func freeAddress(ctx context.Context, address string) (string, error) {
	var l net.ListenConfig
	first, err := l.Listen(ctx, "tcp", address)
	switch {
	case err == nil && strings.HasSuffix(address, ":0"):
		return first.Addr().String(), first.Close()
	case err == nil:
		return address, first.Close()
	}
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return "", err
	}
	second, err := l.Listen(ctx, "tcp", net.JoinHostPort(host, "0"))
	if err != nil {
		return "", fmt.Errorf("find a free port: %w", err)
	}
	return second.Addr().String(), second.Close()
}

// openTable opens the table, making it if it is missing, beside the router and
// as the router will: what is read through this handle is what any other client
// of the catalog sees.
func (d *demo) openTable(ctx context.Context) (err error) {
	d.stores = writers.NewStores(d.log)
	open := func(ctx context.Context, location string, properties map[string]string) (io.IO, error) {
		return d.stores.Open(ctx, location, properties)
	}
	if d.catalog, err = catalog.Open(ctx, catalog.Config(d.config.Catalog), open, d.log); err != nil {
		return err
	}
	if d.table, err = d.catalog.Table(ctx, demoTable, d.router.newIngest(0, d.stores, d.log).tableOptions()); err != nil {
		return err
	}
	ledger, err := d.table.Ledger(ctx)
	if err != nil {
		return fmt.Errorf("read ledger of %s: %w", demoTable, err)
	}
	for _, next := range ledger.Topics[demoTopic].Next {
		d.landed += next
	}
	return nil
}

// close lets go of everything, in reverse.
func (d *demo) close() {
	if d.catalog != nil {
		_ = d.catalog.Close()
	}
	if d.stores != nil {
		_ = d.stores.Close()
	}
	if d.producer != nil {
		d.producer.Close()
	}
	if d.broker != nil {
		d.broker.Close()
		_ = os.WriteFile(d.cleanFile(), []byte("the broker was closed\n"), 0o600)
	}
	if d.log != nil {
		_ = d.log.Sync()
	}
	if d.unlock != nil {
		_ = d.unlock()
	}
}
