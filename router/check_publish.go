package router

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/twmb/franz-go/pkg/kadm"

	"icerouter/catalog"
)

// checkPublishTopics looks for the topics of a publish, and compares its
// transaction timeout with what the brokers allow.
func (k *checkup) checkPublishTopics(ctx context.Context, i int, all kadm.TopicDetails) {
	p := k.publishes[i]
	key := func(name string) string { return fmt.Sprintf("publish[%d].%s", i, name) }
	fixed := !topicPart.MatchString(p.cfg.Topic)
	if fixed {
		if what := missingTopic(all, p.cfg.Topic); what != "" {
			k.problem(key("topic"), "%s", what)
		} else {
			k.well("publish "+p.cfg.Name, "topic %s, %d partitions", p.cfg.Topic, len(all[p.cfg.Topic].Partitions))
		}
	}
	if letters := p.cfg.DeadLetterTopic; letters != "" {
		if what := missingTopic(all, letters); what != "" {
			k.problem(key("dead_letter_topic"), "%s", what)
		}
	}
	if most, ok := k.brokerTimeoutMax(ctx, p); ok && p.cfg.TransactionTimeout.Milliseconds() > most {
		k.problem(key("transaction_timeout"), "the brokers allow at most %s (transaction.max.timeout.ms): lower the one or raise the other", millisText(most))
	}
}

// brokerTimeoutMax asks a broker for transaction.max.timeout.ms.
func (k *checkup) brokerTimeoutMax(ctx context.Context, p *publish) (ms int64, ok bool) {
	brokers, err := p.marks.admin.ListBrokers(ctx)
	if err != nil || len(brokers) == 0 {
		return 0, false
	}
	configs, err := p.marks.admin.DescribeBrokerConfigs(ctx, brokers[0].NodeID)
	if err != nil {
		return 0, false // some may not see it; the start says it then
	}
	for _, r := range configs {
		for _, c := range r.Configs {
			if n, err := strconv.ParseInt(c.MaybeValue(), 10, 64); err == nil && c.Key == "transaction.max.timeout.ms" {
				return n, true
			}
		}
	}
	return 0, false
}

func millisText(ms int64) string { return fmt.Sprintf("%q", millis(ms).Sub(millis(0))) }

// checkSource looks at the table of a publish and at the columns that it names.
func (k *checkup) checkSource(ctx context.Context, c *catalog.Catalog, i int) {
	p := k.publishes[i]
	key := func(name string) string { return fmt.Sprintf("publish[%d].%s", i, name) }
	table, err := c.Look(ctx, p.cfg.Table, catalog.TableOptions{})
	made := slices.ContainsFunc(k.cfg.Ingest, func(in IngestConfig) bool { return in.Table == p.cfg.Table && in.Create != nil })
	switch {
	case errors.Is(err, catalog.ErrNoTable) && made:
		k.well("publish "+p.cfg.Name, "table %s is not there yet, an ingest will create it", p.cfg.Table)
		return
	case errors.Is(err, catalog.ErrNoTable):
		k.problem(key("table"), "the table does not exist; create it, or correct the name")
		return
	case err != nil:
		k.problem(key("table"), "%v", err)
		return
	}
	view, err := table.Follow(ctx)
	if err == nil {
		err = view.History()
	}
	if err != nil {
		k.problem(key("table"), "%v", err)
		return
	}
	names, err := view.NameMapping()
	if err == nil {
		_, err = newPublishPlan(p.cfg, view.Schema(), names)
	}
	if err != nil {
		for _, one := range flatten(err) {
			var wrong *columnError
			if errors.As(one, &wrong) {
				k.problem(key(wrong.key), "%s", wrong.text)
			} else {
				k.problem(key("table"), "%v", one)
			}
		}
		return
	}
	p.table, p.uuid = table, view.UUID()
	p.feed.show(view, nil)
	k.well("publish "+p.cfg.Name, "table %s, %d columns", p.cfg.Table, len(view.Schema().Fields()))
}

// checkPosition compares the positions with the table. It fences nobody.
func (k *checkup) checkPosition(ctx context.Context, i int) {
	p := k.publishes[i]
	view, _, _ := p.feed.now()
	if p.marks == nil || view == nil {
		return
	}
	key := fmt.Sprintf("publish[%d].table", i)
	topics, err := p.marks.admin.ListTopics(ctx, p.cfg.Positions())
	if err != nil {
		k.problem(key, "look for position topic %s: %v", p.cfg.Positions(), err)
		return
	}
	var all []mark
	if topics.Has(p.cfg.Positions()) && topics[p.cfg.Positions()].Err == nil {
		if all, err = p.allMarks(ctx); err != nil {
			k.problem(key, "%v", err)
			return
		}
	}
	if len(all) == 0 {
		if _, err := p.firstMarks(view); err != nil {
			k.problem(key, "%v", err)
			return
		}
		k.well("publish "+p.cfg.Name, "no position yet: starts at start = %q", p.cfg.Start)
		return
	}
	if newestOf(all).Table != p.uuid {
		k.problem(key, "%v", p.replaced(fmt.Errorf("table %s: its uuid is %s now, the positions are of %s", p.cfg.Table, p.uuid, newestOf(all).Table)))
		return
	}
	behind := 0
	for n, m := range all {
		r := &reader{p: p, shard: n, mark: m, at: m.At, view: view, free: spareSheet()}
		line, err := r.ahead(ctx)
		if err != nil {
			k.problem(key, "shard %d: %v", n, err)
			return
		}
		behind = max(behind, len(line))
	}
	k.well("publish "+p.cfg.Name, "%d shards, %d snapshots behind", len(all), behind)
}

// spareSheet is a sheet for a reader that only looks ahead.
func spareSheet() <-chan *sheet {
	free := make(chan *sheet, 1)
	free <- newSheet()
	return free
}
