package router

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"
)

// GenerateCommand is `router generate`: it fills a topic with records made from
// a schema, at a rate. It prints a summary on standard output and returns nil
// only if the brokers acknowledged every record. Mistakes in args are
// *UsageError.
func GenerateCommand(ctx context.Context, args []string) error {
	return generate(ctx, args, os.Stdout, os.Stderr)
}

func generate(ctx context.Context, args []string, out, progress io.Writer) error {
	o, err := parseGenerate(args, out)
	if errors.Is(err, flag.ErrHelp) {
		return nil
	}
	if err != nil {
		return &UsageError{fmt.Errorf("generate: %w", err)}
	}
	if o.stdout {
		return o.print(ctx, out)
	}
	client, err := connectKafka(ctx, o.kafka, zap.NewNop(), o.options()...)
	if err != nil {
		return fmt.Errorf("generate: %w", err)
	}
	defer client.Close()
	if err := o.prepareTopic(ctx, kadm.NewClient(client)); err != nil {
		return fmt.Errorf("generate: %w", err)
	}

	hard, release := secondSignal(ctx)
	defer release()
	started := time.Now()
	running, ended := context.WithCancel(ctx)
	defer ended()
	var g errgroup.Group
	if o.report {
		g.Go(func() error { o.load.report(running, progress); return nil })
	}
	g.Go(func() error { defer ended(); return o.load.run(ctx, hard, client) })
	err = g.Wait()

	took := time.Since(started).Seconds()
	acked, bytes := o.load.acked.Load(), o.load.bytes.Load()
	fmt.Fprintf(out, "records %d, bytes %d, seconds %.3f, MB/s %.2f, records/s %.0f, errors %d\n",
		acked, bytes, took, float64(bytes)/1e6/took, float64(acked)/took, o.load.offered.Load()-acked)
	if err != nil {
		return fmt.Errorf("generate: %w", err)
	}
	return nil
}

// generateOptions is what the command line asks for.
type generateOptions struct {
	kafka       KafkaConfig
	load        load
	create      bool
	partitions  int
	replication int
	acks        string
	codec       string
	batchMax    Bytes
	report      bool
	stdout      bool
}

// parseGenerate reads the command line.
func parseGenerate(args []string, usage io.Writer) (*generateOptions, error) {
	o := &generateOptions{kafka: Default().Kafka, batchMax: 1_000_012}
	o.kafka.ClientID = "router-generate"
	var brokers, config, schema, key, speed string
	var seed uint64
	f := flag.NewFlagSet("generate", flag.ContinueOnError)
	f.SetOutput(io.Discard)
	f.StringVar(&brokers, "brokers", "", "Kafka `addresses`, with commas between; default localhost:9092")
	f.StringVar(&config, "config", "", "take [kafka] (brokers, TLS, SASL) from this configuration `file`")
	f.StringVar(&o.load.topic, "topic", "", "the `topic` to fill")
	f.BoolVar(&o.create, "create", false, "make the topic if it does not exist")
	f.IntVar(&o.partitions, "partitions", 1, "with --create: the `number` of partitions")
	f.IntVar(&o.replication, "replication", -1, "with --create: `copies` of a partition; -1 is the cluster's default")
	f.StringVar(&schema, "schema", schemaDefault, "a `JSON` object with templates in its texts, or the name of a file with one; default the reference record")
	f.StringVar(&key, "key", "", "`template` of the record key; field(name) copies a field of the value; default no key")
	f.StringVar(&speed, "rate", "0", "`speed` in records (5000) or bytes (50MB) a second; 0 is flat out")
	f.Int64Var(&o.load.count, "count", 0, "stop after so many `records`; 0 is no end")
	f.DurationVar(&o.load.limit, "for", 0, "stop after this `time`, as 30s; 0 is no end")
	f.StringVar(&o.codec, "compression", "snappy", "`codec` of batches: none, gzip, snappy, lz4 or zstd")
	f.StringVar(&o.acks, "acks", "all", "`who` must have a record: all in-sync brokers, the leader, or none")
	f.Func("batch-max", "largest batch, and so record, as a `size`; default 1MB", func(text string) error {
		return o.batchMax.UnmarshalText([]byte(text))
	})
	f.Uint64Var(&seed, "seed", 0, "the same `number` makes the same records, but for the clock; 0 is a new one each run")
	f.BoolVar(&o.report, "report", false, "one line a second on standard error")
	f.BoolVar(&o.stdout, "stdout", false, "write the values as lines to standard output, not to Kafka")
	if err := parseFlags(f, args, usage, generateUsage()); err != nil {
		return nil, err
	}

	var problems []error
	if o.load.topic == "" && !o.stdout {
		problems = append(problems, errors.New("--topic is missing"))
	}
	problems = append(problems, o.brokers(brokers, config), o.bounds())
	var err error
	if o.load.rate, err = parseRate(speed); err != nil {
		problems = append(problems, err)
	}
	if seed == 0 {
		seed = rand.Uint64()
	}
	text, err := readSchema(schema)
	if err == nil {
		o.load.gen, err = newGenerator(text, key, seed)
	}
	return o, errors.Join(append(problems, err)...)
}

// brokers fills in where Kafka is: flags win over the file.
func (o *generateOptions) brokers(list, config string) error {
	if config != "" {
		c, _, err := Load(config)
		if err != nil {
			return err
		}
		id := o.kafka.ClientID
		o.kafka = c.Kafka
		o.kafka.ClientID = id
	}
	if list != "" {
		o.kafka.Brokers = strings.Split(list, ",")
	}
	if len(o.kafka.Brokers) == 0 {
		o.kafka.Brokers = []string{"localhost:9092"}
	}
	return nil
}

// bounds checks what flags can't.
func (o *generateOptions) bounds() error {
	var problems []error
	refuse := func(format string, args ...any) { problems = append(problems, fmt.Errorf(format, args...)) }
	if o.partitions < 1 || o.partitions > 100_000 {
		refuse("--partitions %d: must be from 1 to 100000", o.partitions)
	}
	if o.replication != -1 && (o.replication < 1 || o.replication > 100) {
		refuse("--replication %d: must be -1, or from 1 to 100", o.replication)
	}
	if o.load.count < 0 {
		refuse("--count %d: must not be negative", o.load.count)
	}
	if o.load.limit < 0 {
		refuse("--for %s: must not be negative", o.load.limit)
	}
	if o.batchMax < 1<<10 || o.batchMax > 1<<30 {
		refuse("--batch-max %s: must be from 1KiB to 1GiB", o.batchMax)
	}
	if _, ok := generateCodecs[o.codec]; !ok {
		refuse("--compression %q: must be one of %s", o.codec, strings.Join(slices.Sorted(maps.Keys(generateCodecs)), ", "))
	}
	if _, ok := generateAcks[o.acks]; !ok {
		refuse("--acks %q: must be all, leader or none", o.acks)
	}
	return errors.Join(problems...)
}

var generateCodecs = map[string]kgo.CompressionCodec{
	"none": kgo.NoCompression(), "gzip": kgo.GzipCompression(), "snappy": kgo.SnappyCompression(),
	"lz4": kgo.Lz4Compression(), "zstd": kgo.ZstdCompression(),
}

var generateAcks = map[string]kgo.Acks{"all": kgo.AllISRAcks(), "leader": kgo.LeaderAck(), "none": kgo.NoAck()}

// readSchema returns a schema given as JSON, or as the name of its file.
func readSchema(schema string) (string, error) {
	if strings.HasPrefix(strings.TrimSpace(schema), "{") {
		return schema, nil
	}
	text, err := os.ReadFile(schema)
	if err != nil {
		return "", fmt.Errorf("read --schema: %w", err)
	}
	return string(text), nil
}

const (
	generateBufferBytesMax = 64 << 20 // unacknowledged records: enough to keep every partition's requests full
	generateGiveUp         = 2 * time.Minute
)

// options are the producer's.
func (o *generateOptions) options() []kgo.Opt {
	opts := []kgo.Opt{
		kgo.ProducerBatchCompression(generateCodecs[o.codec]),
		kgo.RequiredAcks(generateAcks[o.acks]),
		kgo.ProducerBatchMaxBytes(int32(o.batchMax)),
		kgo.BrokerMaxWriteBytes(max(100<<20, int32(o.batchMax)+1<<20)),
		kgo.MaxBufferedBytes(max(generateBufferBytesMax, 2*int(o.batchMax))),
		kgo.MaxBufferedRecords(1 << 20),
		kgo.RecordDeliveryTimeout(generateGiveUp),
	}
	if o.acks != "all" {
		opts = append(opts, kgo.DisableIdempotentWrite())
	}
	return opts
}

// prepareTopic makes the topic if that is asked for, and refuses to go on
// without one.
func (o *generateOptions) prepareTopic(ctx context.Context, admin *kadm.Client) error {
	ctx, cancel := context.WithTimeout(ctx, kafkaRequestTimeout)
	defer cancel()
	topic := o.load.topic
	if o.create {
		answer, err := admin.CreateTopic(ctx, int32(o.partitions), int16(o.replication), nil, topic)
		if err == nil {
			err = answer.Err
		}
		if err != nil && !errors.Is(err, kerr.TopicAlreadyExists) {
			return fmt.Errorf("create topic %s with %d partitions: %w", topic, o.partitions, err)
		}
	}
	for {
		topics, err := admin.ListTopics(ctx, topic)
		if err == nil {
			err = topics[topic].Err
		}
		switch {
		case err == nil:
			return nil
		case o.create && errors.Is(err, kerr.UnknownTopicOrPartition) && ctx.Err() == nil:
			// Brokers learn of a new topic one after another.
			select {
			case <-ctx.Done():
			case <-time.After(100 * time.Millisecond):
			}
		case errors.Is(err, kerr.UnknownTopicOrPartition):
			return fmt.Errorf("topic %q does not exist; --create makes it", topic)
		default:
			return fmt.Errorf("read metadata of topic %s: %w", topic, err)
		}
	}
}

// print writes values as lines, at the rate, until count, limit or ctx ends it.
func (o *generateOptions) print(ctx context.Context, out io.Writer) error {
	l := &o.load
	if l.limit > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, l.limit)
		defer cancel()
	}
	w := bufio.NewWriterSize(out, 1<<16)
	pace := newPace(l.rate)
	var text []byte
	for n := int64(0); (l.count == 0 || n < l.count) && ctx.Err() == nil; n++ {
		var key int
		text, key = l.gen.appendRecord(text[:0])
		if !pace.wait(ctx, len(text)) {
			break
		}
		if _, err := w.Write(append(text[:key], '\n')); err != nil {
			return fmt.Errorf("generate: write standard output: %w", err)
		}
		if l.rate.perSecond > 0 && w.Buffered() > 0 && l.rate.perSecond < 1000 {
			if err := w.Flush(); err != nil {
				return fmt.Errorf("generate: write standard output: %w", err)
			}
		}
	}
	if err := w.Flush(); err != nil {
		return fmt.Errorf("generate: write standard output: %w", err)
	}
	return nil
}

// report writes a line a second until ctx ends.
func (l *load) report(ctx context.Context, out io.Writer) {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	started, last := time.Now(), time.Now()
	var records, bytes int64
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-tick.C:
			r, b := l.acked.Load(), l.bytes.Load()
			seconds := now.Sub(last).Seconds()
			fmt.Fprintf(out, "%5.0fs  %13s records  %9s  %11s/s  %8.2f MB/s\n", now.Sub(started).Seconds(),
				grouped(r), megabytes(b), grouped(int64(float64(r-records)/seconds)), float64(b-bytes)/1e6/seconds)
			records, bytes, last = r, b, now
		}
	}
}
