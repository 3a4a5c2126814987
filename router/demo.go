package router

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"

	"icerouter/catalog"
	"icerouter/writers"
)

// DemoCommand is `router demo`: a broker, a catalog and a warehouse in one
// folder, a load, and the real router between them, all in this process. It
// runs until ctx ends or as long as --for says; then everything produced is
// brought into the table and from there into a second topic, and compared in both.
// It returns nil only if each record is in the table, and in the second topic,
// exactly once. Mistakes in args are *UsageError.
func DemoCommand(ctx context.Context, args []string) error {
	return runDemo(ctx, args, os.Stdout)
}

func runDemo(ctx context.Context, args []string, out *os.File) error {
	o, err := parseDemo(args, out)
	if errors.Is(err, flag.ErrHelp) {
		return nil
	}
	if err != nil {
		return &UsageError{fmt.Errorf("demo: %w", err)}
	}
	d, err := openDemo(ctx, o, out)
	if err != nil {
		return fmt.Errorf("demo: %w", err)
	}
	defer d.close()
	hard, release := secondSignal(ctx)
	defer release()
	err = d.run(ctx, hard)
	if err == nil {
		err = d.bringBack(hard)
	}
	if err == nil {
		err = d.prove(hard) // the signal that ends the load must not end the proof
	}
	switch {
	case hard.Err() != nil:
		return errors.New("demo: stopped by a second signal, nothing is proven; the next run in this folder goes on from here")
	case err != nil && !errors.Is(err, errUnproven):
		return fmt.Errorf("demo: %w; the log is %s", err, d.logFile())
	}
	return err
}

// demoOptions is what the command line asks for.
type demoOptions struct {
	dir        string
	rate       rate
	partitions int
	trigger    time.Duration
	limit      time.Duration
	http       string
	kafkaPort  int
}

const demoUsage = `router demo runs everything in one process, with nothing else installed: a Kafka broker, an Iceberg
catalog (SQLite), a warehouse on disk, generated records, and the router between them, both ways: from a
topic into the table and from the table into a second topic. Ctrl-C or --for ends it: what was produced is
brought into the table and back out, read by other readers, and proven to be in both exactly once. All of it lies in one folder; the next run in that folder goes on where this one ended,
also after kill -9.

  router demo
  router demo --for 20s --rate 20MB --partitions 16 --trigger 2s
`

// parseDemo reads the command line.
func parseDemo(args []string, usage io.Writer) (demoOptions, error) {
	var o demoOptions
	var speed string
	f := flag.NewFlagSet("demo", flag.ContinueOnError)
	f.StringVar(&o.dir, "dir", "demo", "the `folder` of broker, catalog and warehouse; made if it is missing")
	f.StringVar(&speed, "rate", "5000", "`speed` in records (5000) or bytes (5MB) a second; 0 is flat out")
	f.IntVar(&o.partitions, "partitions", 8, "`number` of Kafka partitions, when the folder is new")
	f.DurationVar(&o.trigger, "trigger", time.Second, "`time` that rows wait before their files are cut")
	f.DurationVar(&o.limit, "for", 0, "`time` to produce, as 20s; 0 is until Ctrl-C")
	f.StringVar(&o.http, "http", "", "`address` of the page, metrics and status; default 127.0.0.1:8080, or a free port if that is taken")
	f.IntVar(&o.kafkaPort, "kafka-port", 0, "`port` of the broker; 0 is a free one")
	if err := parseFlags(f, args, usage, demoUsage); err != nil {
		return o, err
	}
	var problems []error
	refuse := func(format string, args ...any) { problems = append(problems, fmt.Errorf(format, args...)) }
	var err error
	if o.rate, err = parseRate(speed); err != nil {
		problems = append(problems, err)
	}
	if o.dir, err = filepath.Abs(o.dir); err != nil || o.dir == "" {
		refuse("--dir: %w", err)
	}
	if o.partitions < 1 || o.partitions > 1000 {
		refuse("--partitions %d: must be from 1 to 1000", o.partitions)
	}
	if o.limit < 0 {
		refuse("--for %s: must not be negative", o.limit)
	}
	if o.kafkaPort < 0 || o.kafkaPort > 65535 {
		refuse("--kafka-port %d: must be from 0 to 65535", o.kafkaPort)
	}
	return o, errors.Join(problems...)
}

// demo is a running demo.
type demo struct {
	options  demoOptions
	out      *os.File
	log      *zap.Logger
	broker   *kfake.Cluster
	config   Config
	router   *Router
	producer *kgo.Client
	admin    *kadm.Client
	load     load
	stores   *writers.Stores
	catalog  *catalog.Catalog
	table    *catalog.Table // a second handle, beside the router's own
	unlock   func() error

	before int64 // records in the topic when the demo began
	landed int64 // of these, in the table
}

// Names within the demo's world.
const (
	demoName  = "demo"
	demoTopic = "logs"
	demoTable = "demo.logs"
	demoBack  = "logs-back" // the topic that the table is published to
)

// stallMax is how long the router may commit nothing while records wait: past
// this the demo gives up and says so.
const stallMax = 60 * time.Second

// run moves records until ctx ends or the load's time is over, then until the
// ledger has reached the end of the topic.
//
//	load ─▶ broker ─▶ router ─▶ warehouse and catalog
//	             view ◀─┘
func (d *demo) run(ctx, hard context.Context) error {
	g, alive := errgroup.WithContext(hard)
	loading, endLoad := context.WithCancel(alive)
	defer endLoad()
	defer context.AfterFunc(ctx, endLoad)()
	routing, endRouting := context.WithCancel(hard)
	defer endRouting()

	v := newDemoView(d)
	g.Go(func() error {
		defer endRouting()
		err := d.router.Run(routing, hard)
		if err == nil && routing.Err() == nil {
			err = errors.New("the router ended before the load")
		}
		return err
	})
	g.Go(func() error {
		defer endRouting()
		failed := d.load.run(loading, alive, d.producer)
		v.drains()
		return errors.Join(failed, d.drain(alive))
	})
	g.Go(func() error { v.show(routing); return nil })
	return g.Wait()
}

// bringBack publishes what the table has and the second topic hasn't yet, as
// router --once does.
func (d *demo) bringBack(hard context.Context) error {
	config := d.config
	config.Ingest, config.HTTP.Listen = nil, ""
	rest, err := New(config, d.log, Options{Version: demoName, Once: true})
	if err != nil {
		return err
	}
	return rest.Run(hard, hard)
}

// drain waits until the table's ledger has passed all that is in the topic.
func (d *demo) drain(ctx context.Context) error {
	moved, last := time.Now(), int64(-1)
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		ends, err := d.ends(ctx)
		if err != nil {
			return err
		}
		behind, err := d.behind(ctx, ends)
		if err != nil {
			return err
		}
		switch {
		case behind == 0:
			return nil
		case behind != last:
			moved, last = time.Now(), behind
		case time.Since(moved) > stallMax:
			return fmt.Errorf("drain: nothing was committed for %s while %d records wait", stallMax, behind)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil // another part failed and says why
		}
	}
}

// behind counts the records of the topic that the table's ledger has not passed.
func (d *demo) behind(ctx context.Context, ends map[int32]int64) (int64, error) {
	ledger, err := d.table.Ledger(ctx)
	if err != nil {
		return 0, fmt.Errorf("read ledger of %s: %w", demoTable, err)
	}
	var behind int64
	for p, end := range ends {
		behind += end - ledger.Topics[demoTopic].Next[p]
	}
	return behind, nil
}

// ends returns the end offset of each partition of the topic.
func (d *demo) ends(ctx context.Context) (map[int32]int64, error) {
	ctx, cancel := context.WithTimeout(ctx, kafkaRequestTimeout)
	defer cancel()
	listed, err := d.admin.ListEndOffsets(ctx, demoTopic)
	if err == nil {
		err = listed.Error()
	}
	if err != nil {
		return nil, fmt.Errorf("list end offsets of %s: %w", demoTopic, err)
	}
	ends := map[int32]int64{}
	for p, o := range listed[demoTopic] {
		ends[p] = o.Offset
	}
	return ends, nil
}

func (d *demo) back() PublishStatus {
	if s := d.router.Status(); len(s.Publishes) > 0 {
		return s.Publishes[0]
	}
	return PublishStatus{}
}

func (d *demo) status() IngestStatus {
	if s := d.router.Status(); len(s.Ingests) > 0 {
		return s.Ingests[0]
	}
	return IngestStatus{}
}
