//go:build real

package real_test

import (
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// Broker, catalog and store die and come back while two instances run and
// records come in; the topic gets more partitions, an instance leaves in good
// order and another comes. Nobody has to do anything, and every record is in
// the table once.
func TestServersComeAndGo(t *testing.T) {
	t.Parallel()
	const before, after = 3, 5 // partitions
	own := lab.another(t)
	own.need(t, "kafka", "s3", "rest-catalog")
	c := clientAt(t, own.address("KAFKA_PORT"))
	s := newScene(t, place{c, own.apache()}, own.address("KAFKA_PORT"), "outages", before)
	s.settings.ingests[0].trigger = "500ms"
	s.begin(before)
	first, second := s.instance().up(), s.instance().up()
	pause(t, time.Second)
	own.comeAndGo(t, func(string) { pause(t, 2*time.Second) }, "rest-catalog", "s3", "kafka")
	answer, err := kadm.NewClient(c).UpdatePartitions(t.Context(), after, s.topic)
	if err == nil {
		err = answer.Error()
	}
	if err != nil {
		t.Fatal(err)
	}
	s.load.partitions.Store(after)
	s.leave(first.up()) // one that waits to try again after a failure ends with it
	third := s.instance().up()
	pause(t, 5*time.Second)
	s.alive(second, third)
	s.leave(second.up(), third.up())
	s.finish()
}

// Broker, catalog and store die and come back while two instances bring records
// into a table and out of it. Each record comes out once.
func TestPublishServersComeAndGo(t *testing.T) {
	t.Parallel()
	own := lab.another(t)
	own.need(t, "kafka", "s3", "rest-catalog")
	dial := func(options ...kgo.Opt) *kgo.Client { return clientAt(t, own.address("KAFKA_PORT"), options...) }
	p := newPublicationAt(t, dial, own.apache(), own.address("KAFKA_PORT"), "publish-outages", 4)
	p.count()
	first, second := p.start(4).up(), p.start(4).up()
	own.comeAndGo(t, func(what string) {
		t.Logf("%s, published after %s", what, p.catchUp(5*time.Minute).Round(100*time.Millisecond))
	}, "rest-catalog", "s3", "kafka")
	p.leave(first.up(), second.up())
	p.finish()
}

// comeAndGo ends servers, each by a kill and in peace, and starts them again.
func (w *world) comeAndGo(t *testing.T, after func(what string), servers ...string) {
	t.Helper()
	for _, server := range servers {
		for _, end := range []string{"kill", "stop"} {
			if _, err := w.script(server, []string{end}); err != nil {
				t.Fatal(err)
			}
			pause(t, 1500*time.Millisecond)
			if _, err := w.script(server, []string{"start"}); err != nil {
				t.Fatal(err)
			}
			after(server + ", " + end)
		}
	}
}
