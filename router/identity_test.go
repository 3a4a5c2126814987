package router

import (
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/zap"

	"icerouter/catalog"
	"icerouter/writers"
)

// opened is the first ingest with its table and a client for questions, not in
// the group yet.
func (w *stage) opened() *ingest {
	w.t.Helper()
	r, err := New(w.cfg, zap.NewNop(), Options{})
	if err != nil {
		w.t.Fatal(err)
	}
	stores := writers.NewStores(zap.NewNop())
	w.t.Cleanup(func() { _ = stores.Close() })
	in := r.newIngest(0, stores, zap.NewNop())
	if in.catalog, err = catalog.Open(w.t.Context(), in.catalogConfig, storeOpener(stores), in.log); err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { _ = in.catalog.Close() })
	if in.asker, err = kgo.NewClient(kgo.SeedBrokers(w.broker.ListenAddrs()...)); err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(in.asker.Close)
	in.admin = kadm.NewClient(in.asker)
	if err := in.openTable(w.t.Context()); err != nil {
		w.t.Fatal(err)
	}
	return in
}

// remake deletes topic a and makes it again, with so many records.
func (w *stage) remake(records int) {
	w.t.Helper()
	if _, err := w.admin.DeleteTopics(w.t.Context(), "a"); err != nil {
		w.t.Fatal(err)
	}
	if _, err := w.admin.CreateTopic(w.t.Context(), 1, 1, nil, "a"); err != nil {
		w.t.Fatal(err)
	}
	w.sent["a"] = nil
	w.produce("a", 1, records)
}

// An instance asked for the topic's id a moment ago. Now the topic is made again
// and another instance reads it: the first must not take the new topic for the
// one that is gone.
func TestTopicMadeAgainUnseen(t *testing.T) {
	w := newStage(t, map[string]int32{"a": 1})
	w.ingest("t", func(c *IngestConfig) { c.OnTopicReset = policyRestart }, "a")
	w.produce("a", 1, 10)
	if err := w.once(); err != nil {
		t.Fatal(err)
	}
	in, want := w.opened(), map[string][]int32{"a": {0}}
	if _, err := in.checkedLedger(t.Context(), want); err != nil {
		t.Fatal(err)
	}
	if _, err := in.admin.Metadata(t.Context(), "a"); err != nil { // what the client remembers
		t.Fatal(err)
	}
	w.remake(30)
	if err := w.once(); err != nil {
		t.Fatal(err)
	}
	ledger, err := in.checkedLedger(t.Context(), want)
	if err != nil || ledger.Topics["a"].Next[0] != 30 {
		t.Errorf("ledger %+v, %v", ledger, err)
	}
}

// A broker that lags still tells the id of the topic before, once or twice.
func TestBrokerTellsRetiredID(t *testing.T) {
	w := newStage(t, map[string]int32{"a": 1})
	w.ingest("t", func(c *IngestConfig) { c.OnTopicReset = policyRestart }, "a")
	w.produce("a", 1, 10)
	if err := w.once(); err != nil {
		t.Fatal(err)
	}
	was := w.broker.TopicInfo("a").TopicID
	w.remake(30)
	if err := w.once(); err != nil {
		t.Fatal(err)
	}
	in := w.opened()
	told := 0
	w.broker.ControlKey(int16(kmsg.Metadata), func(req kmsg.Request) (kmsg.Response, error, bool) {
		asked := req.(*kmsg.MetadataRequest)
		if len(asked.Topics) != 1 || told == 4 {
			w.broker.KeepControl()
			return nil, nil, false
		}
		told++
		w.broker.KeepControl()
		answer := asked.ResponseKind().(*kmsg.MetadataResponse)
		ledger, _ := w.ledgerOf("t")
		answer.ClusterID = &ledger.Cluster
		topic := kmsg.NewMetadataResponseTopic()
		topic.Topic, topic.TopicID = kmsg.StringPtr("a"), was
		answer.Topics = append(answer.Topics, topic)
		return answer, nil, true
	})
	err := in.refreshSource(t.Context())
	if err != nil || in.source.Load().TopicIDs["a"] != topicID(was) {
		t.Fatalf("the broker does not lag: %v, %v", in.source.Load(), err)
	}
	told = 0
	ledger, err := in.checkedLedger(t.Context(), map[string][]int32{"a": {0}})
	if err != nil || ledger.Topics["a"].Next[0] != 30 || told < 2 {
		t.Errorf("ledger %+v, %v; told %d times", ledger, err, told)
	}
}

// Records of another topic of the name than the ledger was compared with are
// not taken.
func TestRecordsOfAnotherTopic(t *testing.T) {
	in := &ingest{}
	in.source.Store(&catalog.Source{TopicIDs: map[string]string{"a": topicID([16]byte{1})}})
	fetches := func(id byte) kgo.Fetches {
		return kgo.Fetches{{Topics: []kgo.FetchTopic{{Topic: "a", TopicID: [16]byte{id}}}}}
	}
	for id, wrong := range map[byte]bool{0: false, 1: false, 2: true} { // 0: the brokers are too old to say
		if err := in.sameTopics(fetches(id)); (err != nil) != wrong {
			t.Errorf("id %d: %v", id, err)
		}
	}
}

// A topic that was made again is read from its first offset, also where a new
// topic would be read from its end.
func TestMadeAgainIsNotNew(t *testing.T) {
	w := newStage(t, map[string]int32{"a": 1})
	w.ingest("t", func(c *IngestConfig) { c.OnTopicReset, c.Start = policyRestart, "latest" }, "a")
	if err := w.once(); err != nil {
		t.Fatal(err)
	}
	w.remake(30)
	if err := w.once(); err != nil {
		t.Fatal(err)
	}
	w.audit("t", "a")
	ledger, _ := w.ledgerOf("t")
	if a := ledger.Topics["a"]; a.Next[0] != 30 || len(a.Retired) != 1 || strings.Contains(strings.Join(a.Retired, " "), a.ID) {
		t.Errorf("ledger %+v", ledger)
	}
}

// What a cut has taken belongs to the topics of its opening, whatever is known
// of them when it is committed: else rows of a topic that was made again in
// between would count as the new topic's.
func TestCutKeepsItsSource(t *testing.T) {
	in := &ingest{}
	in.source.Store(&catalog.Source{Cluster: "c", TopicIDs: map[string]string{"a": "old"}})
	c := newCut(t.Context(), &plan{}, in.source.Load())
	in.source.Store(&catalog.Source{Cluster: "c", TopicIDs: map[string]string{"a": "new"}})
	if id := c.append().Source.TopicIDs["a"]; id != "old" {
		t.Errorf("the append is of topic %s", id)
	}
}
