package router

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"icerouter/catalog"
)

// holdJoins lets the group's joins wait from the nth on. The returned channel
// is closed when one waits.
func (w *stage) holdJoins(n int) (held chan struct{}) {
	held, answer := make(chan struct{}), make(chan struct{})
	w.t.Cleanup(func() { close(answer) })
	var mu sync.Mutex
	w.broker.ControlKey(int16(kmsg.JoinGroup), func(kmsg.Request) (kmsg.Response, error, bool) {
		w.broker.KeepControl()
		mu.Lock()
		defer mu.Unlock()
		if n--; n > 0 {
			return nil, nil, false
		}
		if n == 0 {
			close(held)
		}
		w.broker.SleepControl(func() { <-answer })
		return nil, nil, false
	})
	return held
}

// A stop ends though the group does not answer: it is balancing, and waits for
// somebody else.
func TestStopDuringJoin(t *testing.T) {
	w := newStage(t, map[string]int32{"a": 1})
	w.ingest("t", nil, "a")
	w.cfg.StopTimeout = time.Second
	held := w.holdJoins(1)
	d := w.daemon()
	<-held
	d.stop()
	select {
	case <-d.done:
	case <-time.After(30 * time.Second):
		t.Fatal("still there 30 s after a stop with a stop_timeout of 1 s")
	}
}

// While the group is balancing the partitions that stay go on being committed.
func TestCommitsDuringJoin(t *testing.T) {
	w := newStage(t, map[string]int32{"a": 1})
	w.ingest("t", nil, "a")
	w.cfg.Kafka.SessionTimeout = time.Minute
	first := w.daemon()
	w.produce("a", 1, 10)
	w.awaitRows(first, first, 10)
	held := w.holdJoins(3) // the second instance's two, and the first's that they call for
	w.daemon()
	<-held
	for n := range int64(5) {
		w.produce("a", 1, 10)
		w.awaitRows(first, first, 20+10*n)
	}
}

// A stop before anything was taken is a stop in peace.
func TestStopWhileConnecting(t *testing.T) {
	w := newStage(t, map[string]int32{"a": 1})
	w.ingest("t", nil, "a")
	asked, answer := make(chan struct{}), make(chan struct{})
	t.Cleanup(func() { close(answer) })
	var once sync.Once
	w.broker.ControlKey(int16(kmsg.ListOffsets), func(kmsg.Request) (kmsg.Response, error, bool) {
		w.broker.KeepControl()
		once.Do(func() { close(asked) })
		w.broker.SleepControl(func() { <-answer })
		return nil, nil, false
	})
	d := w.daemon()
	<-asked
	d.stop()
	if err := <-d.done; err != nil {
		t.Errorf("got %v, want no error", err)
	}
}

// A member that the group has given up joins again, and goes on from the
// ledger, without a failure of the ingest.
func TestPutOutOfGroup(t *testing.T) {
	w := newStage(t, map[string]int32{"a": 1})
	w.ingest("t", nil, "a")
	d := w.daemon()
	w.produce("a", 1, 10)
	w.awaitRows(d, d, 10)
	out := w.broker.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Heartbeat}, Group: "router-t", Err: kerr.UnknownMemberID})
	if err := out.Wait(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	w.produce("a", 1, 10)
	w.awaitRows(d, d, 20)
	if n := d.router.Status().Ingests[0].Restarts; n != 0 {
		t.Errorf("the ingest was started again %d times", n)
	}
	d.stop()
	<-d.done
	w.audit("t", "a")
}

// A partition that the broker's answer doesn't have yet is no truncated log.
func TestPartitionNotListedYet(t *testing.T) {
	w := newStage(t, map[string]int32{"a": 1})
	in := &ingest{cfg: IngestConfig{Topics: []string{"a"}}, admin: w.admin}
	ledger := catalog.Ledger{Seq: 1, Topics: map[string]catalog.TopicLedger{"a": {Next: map[int32]int64{0: 0, 1: 12}}}}
	starts, err := in.listed(t.Context(), "start", in.admin.ListStartOffsets)
	if err != nil {
		t.Fatal(err)
	}
	_, err = in.checkRange(t.Context(), &ledger, map[string][]int32{"a": {0, 1}}, starts)
	if err == nil || halts(err) {
		t.Errorf("got %v, want a failure that passes by itself", err)
	}
}

// While a ledger is compared with the log another instance commits, and
// retention follows it: that is no loss.
func TestRetentionBehindOthersCommit(t *testing.T) {
	w := newStage(t, map[string]int32{"a": 1})
	w.ingest("t", nil, "a")
	w.produce("a", 1, 100)
	if err := w.once(); err != nil {
		t.Fatal(err)
	}
	w.produce("a", 1, 100)
	in := w.opened()
	var others atomic.Bool
	w.broker.ControlKey(int16(kmsg.ListOffsets), func(kmsg.Request) (kmsg.Response, error, bool) {
		w.broker.KeepControl()
		if others.Swap(true) {
			return nil, nil, false
		}
		w.broker.SleepControl(func() {
			if err := w.once(); err != nil {
				t.Error(err)
			}
			if _, err := w.admin.DeleteRecords(t.Context(), deleteBefore("a", 0, 200)); err != nil {
				t.Error(err)
			}
		})
		return nil, nil, false
	})
	ledger, err := in.checkedLedger(t.Context(), map[string][]int32{"a": {0}})
	if err != nil || ledger.Topics["a"].Next[0] != 200 {
		t.Errorf("ledger %+v, %v", ledger, err)
	}
}

// onStore is a stage whose warehouse is a store that meets each request first: true: it has answered.
func onStore(t *testing.T, meets func(http.ResponseWriter, *http.Request) bool) *stage {
	t.Helper()
	var objects sync.Map
	store := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if meets(rw, r) {
			return
		}
		switch there, ok := objects.Load(r.URL.Path); {
		case r.Method == http.MethodPut:
			objects.Store(r.URL.Path, body)
		case r.Method == http.MethodDelete:
			objects.Delete(r.URL.Path)
			rw.WriteHeader(204)
		case ok:
			rw.Write(there.([]byte))
		default:
			rw.WriteHeader(404)
		}
	}))
	t.Cleanup(store.Close)
	w := newStage(t, map[string]int32{"a": 1})
	w.ingest("t", nil, "a")
	w.cfg.Catalog.Warehouse = "s3://lake/warehouse"
	w.cfg.Catalog.Properties = map[string]string{"s3.endpoint": store.URL, "s3.region": "us-east-1", "s3.access-key-id": "id", "s3.secret-access-key": "secret"}
	return w
}

// A stop ends though the store takes no metadata, which nobody's context reaches.
func TestStopDuringMetadataWrite(t *testing.T) {
	var refuse atomic.Bool
	refused := make(chan struct{}, 1000)
	w := onStore(t, func(rw http.ResponseWriter, r *http.Request) bool {
		if r.Method != http.MethodPut || !refuse.Load() || !strings.Contains(r.URL.Path, "/metadata/") {
			return false
		}
		rw.WriteHeader(503)
		refused <- struct{}{}
		return true
	})
	w.cfg.StopTimeout = time.Second
	d := w.daemon()
	w.produce("a", 1, 10)
	select {
	case <-d.commits:
	case err := <-d.done:
		t.Fatal(err)
	}
	refuse.Store(true)
	w.produce("a", 1, 10)
	<-refused
	d.stop()
	select {
	case <-d.done:
	case <-time.After(30 * time.Second):
		t.Fatal("still there 30 s after a stop with a stop_timeout of 1 s")
	}
}

// A stop while the ledger is read again, and can't be, is no failure: what was
// open is thrown away already.
func TestStopDuringResync(t *testing.T) {
	var silent atomic.Bool
	asked, stopped := make(chan struct{}, 1000), make(chan struct{})
	w := onStore(t, func(rw http.ResponseWriter, r *http.Request) bool {
		if r.Method != http.MethodGet || !silent.Load() {
			return false
		}
		asked <- struct{}{}
		<-stopped
		rw.WriteHeader(403)
		return true
	})
	d := w.daemon()
	w.produce("a", 1, 10)
	select {
	case <-d.commits:
	case err := <-d.done:
		t.Fatal(err)
	}
	silent.Store(true)
	out := w.broker.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Heartbeat}, Group: "router-t", Err: kerr.UnknownMemberID})
	if err := out.Wait(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	<-asked
	d.stop()
	close(stopped)
	if err := <-d.done; err != nil {
		t.Errorf("got %v, want no error", err)
	}
}
