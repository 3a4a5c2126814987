//go:build real

package real_test

import (
	"fmt"
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
	topic := makeTopic(t, c, "outages", before)
	uri := "http://" + own.address("REST_CATALOG_PORT")
	l := lake{
		name:   "apache",
		config: fmt.Sprintf("[catalog]\ntype = \"rest\"\nuri = %q\n", uri) + own.s3Properties(),
		reader: append([]string{"--catalog", "rest", "--uri", uri}, own.s3Arguments()...),
	}
	table := unique("outages") + ".records"
	in := auditIngest("outages", table, topic)
	in.trigger = "500ms"
	settings := config{kafka: fmt.Sprintf("[kafka]\nbrokers = [%q]\n%s", own.address("KAFKA_PORT"), shortSession), lake: l, ingests: []ingest{in}}
	instance := func() *process { // that has come up
		settings.listen = fmt.Sprint("127.0.0.1:", freePort(t))
		p := launch(t, "--config", settings.write(t))
		until(t, 2*time.Minute, "an instance running", func() bool { return status(t.Context(), settings.listen, "outages").State == "running" })
		return p
	}

	load := startLoad(t, c, topic, before)
	first, second := instance(), instance()
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
	answer, err := kadm.NewClient(c).UpdatePartitions(t.Context(), after, topic)
	if err == nil {
		err = answer.Error()
	}
	if err != nil {
		t.Fatal(err)
	}
	until(t, time.Minute, "the producer knowing the new partitions", func() bool {
		c.ForceMetadataRefresh()
		_, _, err := c.PartitionLeader(topic, after-1)
		return err == nil
	})
	load.partitions.Store(after)
	first.term()
	if e := first.wait(40 * time.Second); e.code != 0 {
		t.Errorf("the instance that was asked to stop ended with code %d", e.code)
	}
	third := instance()
	pause(t, 5*time.Second)
	produced := load.stop(t)
	for i, p := range []*process{second, third} {
		if !p.running() {
			t.Errorf("instance %d gave up with code %d", i+2, p.exit.code)
		}
		p.term()
	}
	for _, p := range []*process{second, third} {
		if e := p.wait(40 * time.Second); e.code != 0 {
			t.Errorf("an instance that was asked to stop ended with code %d", e.code)
		}
	}
	settings.listen = ""
	mustOnce(t, settings.write(t))
	audit(t, l, table, produced, ends(t, c, topic))
	nothingMissing(t, l, table, own.bucketFolder())
}
