//go:build real

package real_test

import (
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
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
	for _, server := range []string{"rest-catalog", "s3", "kafka"} {
		for _, end := range []string{"kill", "stop"} {
			if _, err := own.script(server, []string{end}); err != nil {
				t.Fatal(err)
			}
			pause(t, 1500*time.Millisecond)
			if _, err := own.script(server, []string{"start"}); err != nil {
				t.Fatal(err)
			}
			pause(t, 2*time.Second)
		}
	}
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
