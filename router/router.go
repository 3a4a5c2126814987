// Package router decides when: it polls, buckets, cuts, hands over, drains and
// reports. What the bytes are is for package writers, what is true for package
// catalog.
package router

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"runtime"
	"runtime/debug"
	"slices"
	"time"

	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"

	"icerouter/catalog"
	"icerouter/writers"
)

// Options are what the command line adds to the configuration.
type Options struct {
	Once     bool   // stop at the ends of the topics as of start
	Version  string // for /status and metrics
	Progress func() // called after each commit and when an ingest looks idle; may be nil

	// Dial makes the connections to brokers, to a REST catalog or PostgreSQL, and to S3, as
	// net.Dialer.DialContext does, which is what nil means. It may be called
	// from several goroutines at once.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
}

// Restarts of an ingest or a publish that failed: the wait doubles up to the maximum.
const (
	restartWaitMin = time.Second
	restartWaitMax = time.Minute
)

// Router runs the configured ingests and publishes and the HTTP server.
type Router struct {
	cfg     Config
	options Options
	log     *zap.Logger
	metrics *metrics
	states  []*ingestState
	out     []*publishState
	feeds   []*feed // of the publishes; an ingest of the same table nudges them
	started time.Time
}

// New assembles a router. It talks to nobody yet.
func New(cfg Config, log *zap.Logger, o Options) (*Router, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	cfg.secrets = newSecrets(append(slices.Clone(cfg.secrets.values), cfg.harvest()...)) // a Config made in code has none yet
	cfg.Kafka.dial, cfg.Catalog.Dial = o.Dial, o.Dial
	if o.Version == "" {
		o.Version = "devel"
	}
	r := &Router{cfg: cfg, options: o, log: log, metrics: newMetrics(), started: time.Now()}
	for _, in := range cfg.Ingest {
		r.states = append(r.states, newIngestState(in, r.metrics.ingest(in.Name)))
	}
	for _, p := range cfg.Publish {
		r.out = append(r.out, newPublishState(p, r.metrics.publish(p.Name)))
		r.feeds = append(r.feeds, newFeed())
	}
	return r, nil
}

// Status returns what the router is doing. Its texts show no secret.
func (r *Router) Status() Status {
	s := Status{Version: r.options.Version, Started: r.started}
	for _, in := range r.states {
		now := in.status()
		now.Error, now.FirstError = r.cfg.Redact(now.Error), r.cfg.Redact(now.FirstError)
		s.Ingests = append(s.Ingests, now)
	}
	for _, p := range r.out {
		now := p.status()
		now.Error, now.FirstError = r.cfg.Redact(now.Error), r.cfg.Redact(now.FirstError)
		s.Publishes = append(s.Publishes, now)
	}
	return s
}

// Run runs until ctx ends (then it drains: the last cuts are committed), until
// hard ends or the stop timeout is over (then it lets go at once; nothing is
// lost, the next start resumes), or until no ingest and no publish is left
// running. With Once it returns when each of them has reached its end.
func (r *Router) Run(ctx, hard context.Context) error {
	debug.SetMemoryLimit(budgetOf(int64(r.cfg.MemoryMax)).heap)
	work, cancel := context.WithCancel(hard)
	defer cancel()
	unwatch := context.AfterFunc(ctx, func() {
		time.AfterFunc(r.cfg.StopTimeout, cancel)
	})
	defer unwatch()

	closeHTTP, err := r.serve()
	if err != nil {
		return err
	}
	defer closeHTTP()
	r.logStart()

	var upkeep errgroup.Group
	defer upkeep.Wait()
	kept, leave := context.WithCancel(work)
	defer leave()
	upkeep.Go(func() error { trimSpares(kept); return nil })
	stores := writers.NewStores(r.log)
	stores.Dial = r.options.Dial
	defer stores.Close()
	// Metadata is written through an interface that knows no context: only this ends such a write.
	defer context.AfterFunc(work, func() { _ = stores.Close() })()
	all, stopAll := context.WithCancel(ctx)
	defer stopAll()
	routes := r.routes(stores)
	failures := make([]error, len(routes))
	var g errgroup.Group
	for i, one := range routes {
		g.Go(func() error {
			failures[i] = r.supervise(all, work, one)
			if failures[i] != nil && r.cfg.OnFailure == "stop_all" {
				stopAll()
			}
			return nil
		})
	}
	g.Wait()
	return errors.Join(failures...)
}

// route is an ingest or a publish, as supervise sees it.
type route struct {
	kind, name string
	run        func(ctx, work context.Context, log *zap.Logger, first bool) error
	state      routeState
	lost       string // what a stop without an end leaves, and what becomes of it
}

type routeState interface {
	become(state string, err error)
	ran() bool
	restarted()
	rowsDone() int64
}

// routes lists everything that is configured.
func (r *Router) routes(stores *writers.Stores) (out []route) {
	for i, in := range r.cfg.Ingest {
		out = append(out, route{"ingest", in.Name, func(ctx, work context.Context, log *zap.Logger, _ bool) error {
			return r.newIngest(i, stores, log).run(ctx, work)
		}, r.states[i], "stopped before the last cut was committed; its records are read again at the next start"})
	}
	for i, p := range r.cfg.Publish {
		out = append(out, route{"publish", p.Name, func(ctx, work context.Context, log *zap.Logger, first bool) error {
			return r.newPublish(i, stores, log, first).run(ctx, work)
		}, r.out[i], "stopped before the last transactions had ended; their rows are published at the next start"})
	}
	return out
}

// supervise runs one route, again and again while its failures may pass by
// themselves. It returns an error when the route waits for a person, when it
// never came up, or when it failed in a run with Once. A stop between two
// starts is a stop like any other.
func (r *Router) supervise(ctx, work context.Context, one route) error {
	state := one.state
	log := r.log.With(zap.String(one.kind, one.name))
	wait := restartWaitMin
	for first := true; ; first = false {
		began := time.Now()
		err := one.run(ctx, work, log, first)
		switch {
		case err == nil:
			state.become(StateDone, nil)
			log.Info("done", zap.Int64("rows", state.rowsDone()))
			return nil
		case halts(err):
			state.become(StateHalted, err)
			log.Error("halted", zap.Error(err))
			return fmt.Errorf("%s %s: %w", one.kind, one.name, err)
		case ctx.Err() != nil || work.Err() != nil:
			if errors.Is(err, context.Canceled) && work.Err() != nil {
				err = fmt.Errorf("%s: %w", one.lost, err)
			}
			state.become(StateFailed, err)
			log.Error("stopped", zap.Error(err))
			return fmt.Errorf("%s %s: %w", one.kind, one.name, err)
		}
		state.become(StateFailed, err)
		if !state.ran() || r.options.Once || r.cfg.OnFailure == "stop_all" {
			log.Error("failed", zap.Error(err))
			return fmt.Errorf("%s %s: %w", one.kind, one.name, err)
		}
		if time.Since(began) > 2*restartWaitMax {
			wait = restartWaitMin // it ran well for a while: this is a new failure
		}
		pause := wait/2 + rand.N(wait/2)
		log.Error("failed; starting again", zap.Error(err), zap.Duration("wait", pause))
		select {
		case <-time.After(pause):
		case <-ctx.Done(): // nothing is open; what was lost on the way is read again at the next start
			log.Warn("stopped while waiting to start again", zap.Error(err))
			return nil
		}
		wait = min(2*wait, restartWaitMax)
		state.restarted()
	}
}

// newIngest assembles the ingest of section i.
func (r *Router) newIngest(i int, stores *writers.Stores, log *zap.Logger) *ingest {
	cfg := r.cfg.Ingest[i]
	workers := runtime.GOMAXPROCS(0)
	return &ingest{
		cfg: cfg, kafka: r.cfg.Kafka, catalogConfig: catalog.Config(r.cfg.Catalog), options: r.options, log: log,
		metrics: r.states[i].metrics, status: r.states[i], workers: workers,
		memory:     budgetOf(int64(r.cfg.MemoryMax)).of(r.routeCount()),
		nudge:      func() { r.nudge(cfg.Table) },
		stores:     stores,
		partitions: map[topicPartition]*owned{},
		counts:     make([][]int32, workers),
		slots:      make(chan struct{}, cfg.CutsInFlightMax),
		filled:     make(chan struct{}),
		hints:      make(chan catalog.Offsets, 1),
	}
}

// newPublish assembles the publish of section i. First is its first run in this process.
func (r *Router) newPublish(i int, stores *writers.Stores, log *zap.Logger, first bool) *publish {
	r.feeds[i].restart()
	table := r.cfg.Publish[i].Table
	made := slices.ContainsFunc(r.cfg.Ingest, func(in IngestConfig) bool { return in.Table == table && in.Create != nil })
	return &publish{
		cfg: r.cfg.Publish[i], kafka: r.cfg.Kafka, catalogConfig: catalog.Config(r.cfg.Catalog), options: r.options, log: log,
		status: r.out[i], memory: budgetOf(int64(r.cfg.MemoryMax)).of(r.routeCount()).rows, lays: first, awaits: made, stores: stores, feed: r.feeds[i],
	}
}

// routeCount is among how many the memory is shared.
func (r *Router) routeCount() int { return len(r.cfg.Ingest) + len(r.cfg.Publish) }

// nudge tells the publishes of a table that it was committed to.
func (r *Router) nudge(table string) {
	for i, p := range r.cfg.Publish {
		if p.Table == table {
			r.feeds[i].nudge()
		}
	}
}

// serve starts the HTTP server, if there is to be one.
func (r *Router) serve() (stop func(), err error) {
	if r.cfg.HTTP.Listen == "" {
		return func() {}, nil
	}
	l, err := net.Listen("tcp", r.cfg.HTTP.Listen)
	if err != nil {
		return nil, fmt.Errorf("listen on http.listen = %q: %w; choose a free address, or \"\" for none", r.cfg.HTTP.Listen, err)
	}
	server := &http.Server{Handler: handler(r.Status, r.metrics, r.log), ReadHeaderTimeout: 10 * time.Second}
	var g errgroup.Group
	g.Go(func() error {
		if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			r.log.Error("http server ended", zap.Error(err))
		}
		return nil
	})
	r.log.Info("listening", zap.String("http", l.Addr().String()))
	return func() {
		_ = server.Close()
		_ = g.Wait()
	}, nil
}

// logStart prints the effective values that surprise people when they are not
// what they think.
func (r *Router) logStart() {
	if r.cfg.MemoryMax < memoryTightBytes {
		r.log.Warn("memory_max is less than the program and its smallest heap need; the process will be larger",
			zap.Stringer("memory_max", r.cfg.MemoryMax), zap.Stringer("bounded_from", Bytes(memoryTightBytes)))
	}
	for _, in := range r.cfg.Ingest {
		r.log.Info("ingest", zap.String("name", in.Name), zap.Strings("topics", in.Topics), zap.String("table", in.Table),
			zap.String("group", in.GroupID()), zap.Duration("trigger", in.Trigger), zap.Stringer("trigger_bytes", in.TriggerBytes),
			zap.Stringer("target_file_size", in.TargetFileSize), zap.String("on_bad_record", in.OnBadRecord),
			zap.Stringer("memory_max", r.cfg.MemoryMax), zap.Bool("once", r.options.Once))
	}
	for _, p := range r.cfg.Publish {
		r.log.Info("publish", zap.String("name", p.Name), zap.String("table", p.Table), zap.String("topic", p.Topic), zap.String("start", p.Start),
			zap.String("group", p.GroupID()), zap.String("positions", p.Positions()), zap.Int("shards", p.Shards), zap.Duration("poll_interval", p.PollInterval),
			zap.Duration("transaction_interval", p.TransactionInterval), zap.String("codec", p.Codec), zap.Stringer("memory_max", r.cfg.MemoryMax), zap.Bool("once", r.options.Once))
	}
}
