package router

import (
	"encoding/json"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// TestBehindSince begins with the first row that waits and ends when all is
// committed and read.
func TestBehindSince(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		at := topicPartition{"a", 0}
		s := newIngestState(IngestConfig{Name: "a", Trigger: time.Second}, newMetrics().ingest("a"))
		s.running()
		s.owns(map[topicPartition]*owned{at: {from: 10, next: 10}})
		since := func() time.Time { return s.status().BehindSince }

		s.ends(map[topicPartition]int64{at: 10})
		if !since().IsZero() {
			t.Error("behind with nothing to do")
		}
		s.ends(map[topicPartition]int64{at: 15})
		began := time.Now()
		if !since().Equal(began) {
			t.Error("not behind with five records ahead")
		}
		time.Sleep(time.Minute)
		s.at(map[topicPartition]*owned{at: {from: 10, next: 15}})
		s.filling(&cut{since: time.Now()}, 1, 0, time.Second)
		if !since().Equal(began) {
			t.Error("taking records in is not committing them")
		}
		if got := s.status().LagRecords; got != 5 {
			t.Errorf("five records are not in the table, lag is %d", got)
		}
		s.at(map[topicPartition]*owned{at: {from: 10, next: 17}}) // past the last look at the ends
		if got := s.status().LagRecords; got != 7 {
			t.Errorf("seven records are not in the table, lag is %d", got)
		}
		s.filling(&cut{}, 0, 1, time.Second)
		if !since().Equal(began) {
			t.Error("a cut in flight is not committed")
		}
		if c := s.status().complaint(time.Now()); c == "" {
			t.Error("ready after a minute without a commit")
		}
		s.filling(&cut{}, 0, 0, time.Second)
		if got := s.status(); !got.BehindSince.IsZero() || got.LagRecords != 0 {
			t.Errorf("behind with everything committed and only gaps left: %+v", got)
		}
	})
}

// TestStatusRedacts hides secrets in the errors that /status and the page show.
func TestStatusRedacts(t *testing.T) {
	c := plantedConfig()
	c.secrets = secrets{} // made in code
	c.Kafka.Brokers = []string{"localhost:9092"}
	c.Catalog.Type, c.Catalog.Warehouse = "sql", "/w"
	in := DefaultIngest()
	in.Name, in.Topics, in.Table = "a", []string{"a"}, "a.b"
	c.Ingest = []IngestConfig{in}
	r, err := New(c, nil, Options{})
	if err != nil {
		t.Fatal(err)
	}
	r.states[0].become(StateFailed, &haltError{"dial " + c.Catalog.URI + " " + planted["sasl"]})
	if s := r.Status().Ingests[0]; s.Error == "" || s.FirstError == "" {
		t.Error("no error shown")
	} else {
		checkNoSecret(t, s.Error+s.FirstError)
	}
}

// TestLagUnknown: before partitions are assigned and their ends were seen, and
// while nobody says where they are, no lag is told; least of all 0.
func TestLagUnknown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		at := topicPartition{"a", 0}
		m := newMetrics()
		s := newIngestState(IngestConfig{Name: "a", Trigger: time.Second}, m.ingest("a"))
		expect := func(when string, known bool, lag string) {
			t.Helper()
			in := s.status()
			if in.LagUnknown == known || in.lagText() != lag {
				t.Errorf("%s: unknown %t, %s", when, in.LagUnknown, in.lagText())
			}
			body, _ := json.Marshal(in)
			want := `"lag_records":` + lag
			if !known {
				want = `"lag_records":null`
			}
			if !strings.Contains(string(body), want) {
				t.Errorf("%s: %s", when, body)
			}
			m.look(Status{Ingests: []IngestStatus{in}}, time.Now())
			families, err := m.registry.Gather()
			if err != nil {
				t.Fatal(err)
			}
			there := false
			for _, f := range families {
				there = there || f.GetName() == "router_lag_records"
			}
			if there != known {
				t.Errorf("%s: router_lag_records exported: %t", when, there)
			}
		}
		expect("not running", false, "unknown")
		s.running()
		s.ends(map[topicPartition]int64{at: 15})
		expect("without partitions", false, "unknown")
		s.owns(map[topicPartition]*owned{at: {from: 10, next: 10}})
		expect("assigned", true, "5")
		time.Sleep(lagKnownFor + time.Second)
		expect("no word from the broker", false, "unknown")
		time.Sleep(readyGrace)
		if c := s.status().complaint(time.Now()); !strings.Contains(c, "the brokers have not told the ends") {
			t.Errorf("no word from the broker: ready, %q", c)
		}
		s.ends(map[topicPartition]int64{at: 16})
		expect("it is back", true, "6")
		if c := s.status().complaint(time.Now()); c != "" {
			t.Errorf("it is back: %q", c)
		}
		s.running()
		expect("started again", false, "unknown")
		s.owns(nil)
		time.Sleep(assignedAfter)
		s.ends(map[topicPartition]int64{at: 16})
		expect("all partitions are with others", true, "0")
	})
}
