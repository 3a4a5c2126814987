//go:build real

package real_test

import (
	"context"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// behindWire starts a Kafka of the test's own that tells its clients to come
// through a wire, and makes clients that go past it.
func behindWire(t *testing.T) (*wire, func(...kgo.Opt) *kgo.Client) {
	own := lab.another(t)
	broker := own.address("KAFKA_PORT")
	w := newWire(t, broker)
	own.kafka = fmt.Sprintf("advertised.listeners=PLAINTEXT://%s,SASL_SSL://%s", w.address(), own.address("KAFKA_SASL_PORT"))
	own.need(t, "kafka")
	past := kgo.Dialer(func(ctx context.Context, network, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, network, broker)
	})
	return w, func(options ...kgo.Opt) *kgo.Client { return clientAt(t, broker, append(options, past)...) }
}

// The network before Kafka, catalog and store fails in every way it can, one
// after another, while two instances run and records come in. When it is whole
// again they go on by themselves, and every record is in the table once.
func TestNetworkFails(t *testing.T) {
	t.Parallel()
	const partitions = 4
	kafka, dial := behindWire(t)
	l := apache(t)
	catalog, store := newWire(t, lab.address("REST_CATALOG_PORT")), newWire(t, lab.address("S3_PORT"))
	wired := apache(t, catalog.address())
	wired.config = strings.ReplaceAll(wired.config, lab.address("S3_PORT"), store.address())
	s := newScene(t, place{dial(), l}, kafka.address(), "network", partitions)
	s.begin(partitions)
	instances := []*instance{s.instance(wired).up(), s.instance(wired).up()}
	random := dice(t)
	lines := map[string]*wire{"kafka": kafka, "catalog": catalog, "store": store}
	fail := func(what string, how func(*wire), names ...string) {
		for _, name := range names {
			how(lines[name])
		}
		pause(t, between(random, time.Second, 4*time.Second))
		for _, name := range names {
			lines[name].mend()
		}
		took := s.catchUp(4 * time.Minute)
		t.Logf("%s: %s, caught up after %s", what, strings.Join(names, " and "), took.Round(100*time.Millisecond))
		s.alive(instances...)
	}
	for _, name := range []string{"kafka", "catalog", "store"} {
		fail("cut", (*wire).cut, name)
		fail("stalled", (*wire).stall, name)
		fail("deaf", (*wire).deafen, name)
	}
	// Nothing tells of a connection that is half open but the patience with an answer, which is a minute for a commit.
	fail("half open", (*wire).halfOpen, "kafka", "catalog", "store")
	s.quit(instances...)
	s.settings.lake = l
	s.finish()
}
