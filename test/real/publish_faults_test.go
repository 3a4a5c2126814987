//go:build real

package real_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"golang.org/x/sync/errgroup"
)

// The network before Kafka, catalog and store fails in every way it can, one
// after another, while two instances bring records into a table and out of it.
// When it is whole again both go on by themselves, soon, and each record comes
// out once.
func TestPublishNetworkFails(t *testing.T) {
	t.Parallel()
	kafka, dial := behindWire(t)
	l := apache(t)
	catalog, store := newWire(t, lab.address("REST_CATALOG_PORT")), newWire(t, lab.address("S3_PORT"))
	p := newPublicationAt(t, dial, l, kafka.address(), "publish-network", 4)
	p.settings.sections = p.section(4)
	p.count()
	wired := apache(t, catalog.address())
	wired.config = strings.ReplaceAll(wired.config, lab.address("S3_PORT"), store.address())
	instances := []*instance{p.instance(wired).up(), p.instance(wired).up()}
	lines := map[string]*wire{"kafka": kafka, "catalog": catalog, "store": store}
	fail := func(what string, how func(*wire), names ...string) {
		for _, name := range names {
			how(lines[name])
		}
		pause(t, between(p.random, time.Second, 4*time.Second))
		for _, name := range names {
			lines[name].mend()
		}
		t.Logf("%s: %s, published after %s", what, strings.Join(names, " and "), p.catchUp(5*time.Minute).Round(100*time.Millisecond))
		p.alive(instances...)
	}
	fail("nothing", func(*wire) {})
	for _, name := range []string{"kafka", "catalog", "store"} {
		fail("cut", (*wire).cut, name)
		fail("stalled", (*wire).stall, name)
		fail("deaf", (*wire).deafen, name)
	}
	// Nothing tells of a connection that is half open but the patience with an answer, which is a minute for a commit.
	fail("half open", (*wire).halfOpen, "kafka", "catalog", "store")
	p.quit(instances...)
	p.settings.lake = l
	p.finish()
}

// catchUp waits until as many records as are in the topic now are published, and returns how long that took.
func (p *publication) catchUp(limit time.Duration) time.Duration {
	p.t.Helper()
	began, want := time.Now(), 0
	for _, end := range ends(p.t, p.client, p.topic) {
		want += int(end)
	}
	until(p.t, limit, fmt.Sprint(want, " records published"), func() bool { return int(p.counted.Load()) >= want })
	return time.Since(began)
}

// count counts what readers of committed records see, from now to the end of the test.
func (p *publication) count() {
	c := p.dial(kgo.ConsumeTopics(p.out), kgo.FetchIsolationLevel(kgo.ReadCommitted()))
	ctx, cancel := context.WithCancel(p.t.Context())
	var g errgroup.Group
	g.Go(func() error {
		for ctx.Err() == nil {
			p.counted.Add(int64(c.PollFetches(ctx).NumRecords()))
		}
		return nil
	})
	p.t.Cleanup(func() {
		cancel()
		_ = g.Wait()
	})
}
