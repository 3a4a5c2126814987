package router

import (
	"context"
	"fmt"
	"io"
	"sync"
	"time"

	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"

	"icerouter/writers"
)

// checkTimeout bounds the whole of Check: whoever waits for it is a person.
const checkTimeout = 2 * time.Minute

// Check asks everything the configuration names and writes to out what is well
// and what is not, every problem at once, each with its key and the remedy. It
// changes nothing but a small object, which it puts into each store and
// deletes (and opening a SQLite catalog makes its file). The error counts the
// problems.
//
//	brokers → topics → group ┐
//	                         ├→ ledger against topics
//	catalog → table → store  ┘
//
// and for a publish: topics → position against the table → columns → transactional id.
func Check(ctx context.Context, cfg Config, out io.Writer) error {
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	out = cfg.MaskWriter(out)
	cfg.Log.Level, cfg.Log.Format = "warn", "console"
	log, err := NewLog(cfg, out)
	if err != nil {
		return err
	}
	k := &checkup{cfg: cfg, log: log, stores: writers.NewStores(log)}
	defer k.stores.Close() //nolint:errcheck // stores that were only looked at
	for _, in := range cfg.Ingest {
		in.OnRollback = "halt" // looking mends nothing
		k.ingests = append(k.ingests, &ingest{cfg: in, kafka: cfg.Kafka, log: log, workers: 1})
	}
	for _, p := range cfg.Publish {
		k.publishes = append(k.publishes, &publish{cfg: p, kafka: cfg.Kafka, log: log, stores: k.stores, feed: newFeed()})
	}
	k.well("config", "%d ingests, %d publishes", len(cfg.Ingest), len(cfg.Publish))

	var g errgroup.Group
	g.Go(func() error { k.checkKafka(ctx); return nil })
	g.Go(func() error { k.checkCatalog(ctx); return nil })
	_ = g.Wait() // nothing in it fails: problems are what it finds
	for i := range k.ingests {
		k.checkLedger(ctx, i)
	}
	for i := range k.publishes {
		k.checkPosition(ctx, i)
	}
	for _, c := range k.closers {
		c()
	}
	return k.report(out)
}

// checkup is one run of Check.
type checkup struct {
	cfg       Config
	log       *zap.Logger
	stores    *writers.Stores
	ingests   []*ingest // assembled as far as it goes without a group
	publishes []*publish

	mu       sync.Mutex
	found    []string // what is well
	problems []Problem
	closers  []func()
}

func (k *checkup) well(what, format string, args ...any) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.found = append(k.found, what+": "+fmt.Sprintf(format, args...))
}

func (k *checkup) problem(key, format string, args ...any) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.problems = append(k.problems, Problem{Key: key, What: fmt.Sprintf(format, args...)})
}

func (k *checkup) later(c func()) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.closers = append(k.closers, c)
}

// report writes what was found, problems last.
func (k *checkup) report(out io.Writer) error {
	for _, line := range k.found {
		fmt.Fprintln(out, "ok      "+line)
	}
	for i := range k.problems {
		k.cfg.file.place(&k.problems[i])
	}
	sortByLine(k.problems)
	for _, p := range k.problems {
		fmt.Fprintln(out, "problem "+p.line(k.cfg.file.path))
	}
	switch len(k.problems) {
	case 0:
		fmt.Fprintln(out, "all is well")
		return nil
	case 1:
		return fmt.Errorf("check found 1 problem")
	}
	return fmt.Errorf("check found %d problems", len(k.problems))
}
