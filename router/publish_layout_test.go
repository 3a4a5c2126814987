package router

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest"
)

// openMarks returns the position topic of a publish on a broker of its own.
func openMarks(t *testing.T, broker *kfake.Cluster, shards int) *marks {
	t.Helper()
	cfg := DefaultPublish()
	cfg.Name, cfg.Shards = "p", shards
	client, err := kgo.NewClient(kgo.SeedBrokers(broker.ListenAddrs()...))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	m := &marks{cfg: cfg, client: client, admin: kadm.NewClient(client), log: zaptest.NewLogger(t, zaptest.Level(zap.InfoLevel))}
	if err := m.open(t.Context()); err != nil {
		t.Fatal(err)
	}
	return m
}

func newBroker(t *testing.T, opts ...kfake.Opt) (*kfake.Cluster, KafkaConfig) {
	t.Helper()
	broker, err := kfake.NewCluster(append(opts, kfake.NumBrokers(1))...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(broker.Close)
	cfg := Default().Kafka
	cfg.Brokers = broker.ListenAddrs()
	return broker, cfg
}

// begins is the plan of a start with so many shards.
func begins(shards int) func([]mark, int) ([]mark, error) {
	return func(old []mark, found int) ([]mark, error) {
		if found == 0 {
			return firstLayout(1, shards, "uuid", position{N: 1, Snapshot: 10, Done: true}), nil
		}
		if newestOf(old).Shards == shards {
			return nil, nil
		}
		return relayout(old, shards), nil
	}
}

// A client's knowledge of a topic may be some seconds old. A layout that has more
// shards than it knows partitions of is waited for, and not taken for a hole.
func TestLayoutOfUnknownPartitions(t *testing.T) {
	broker, kafka := newBroker(t)
	late := openMarks(t, broker, 1)
	if err := late.look(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := openMarks(t, broker, 3).change(t.Context(), kafka, begins(3)); err != nil {
		t.Fatal(err)
	}
	keep := func([]mark, int) ([]mark, error) { return nil, nil }
	got, err := late.change(t.Context(), kafka, keep)
	if err != nil || len(got) != 3 || got[2].Shards != 3 {
		t.Errorf("got %+v, %v", got, err)
	}
}

// A layout is made once, grows and shrinks, and is read back as it was written;
// a mark far behind its partition's end is found.
func TestLayout(t *testing.T) {
	broker, kafka := newBroker(t)
	m := openMarks(t, broker, 2)
	for range 2 {
		got, err := m.change(t.Context(), kafka, begins(2))
		if err != nil {
			t.Fatal(err)
		}
		if len(got) != 2 || got[0].Generation != 1 || got[1].Shards != 2 {
			t.Fatalf("got %+v", got)
		}
	}
	shard, err := newTransactor(t.Context(), m.cfg, kafka, 1, m.log)
	if err != nil {
		t.Fatal(err)
	}
	defer shard.close()
	at := position{N: 2, Snapshot: 20, File: 3}
	value := mark{Generation: 1, Shards: 2, Table: "uuid", At: at}
	for i := range 400 {
		if err := shard.begin(); err != nil {
			t.Fatal(err)
		}
		record := m.record(1, value)
		if i > 0 {
			record.Key = []byte("something else")
		}
		shard.produce(record, nil)
		if err := shard.commit(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	wider := openMarks(t, broker, 5)
	got, err := wider.change(t.Context(), kafka, begins(5))
	if err != nil {
		t.Fatal(err)
	}
	if len(got) != 5 || got[4].Generation != 2 || got[1].of(1) != at || got[1].of(6) != (position{N: 1, Snapshot: 10, Done: true}) {
		t.Fatalf("got %+v", got)
	}
	if got, err = wider.change(t.Context(), kafka, begins(1)); err != nil || len(got) != 5 || got[3].Shards != 1 {
		t.Fatalf("got %+v, %v", got, err)
	}
	if got[0].of(1) != at || got[0].of(2) != (position{N: 1, Snapshot: 10, Done: true}) {
		t.Errorf("shard 0 has %+v", got[0])
	}
	if err = shard.begin(); err == nil {
		shard.produce(m.record(1, value), nil)
		err = shard.commit(t.Context())
	}
	if !fenced(err) {
		t.Errorf("an owner of the former layout got %v, want to be fenced", err)
	}
}

// While the number of shards changes again and again, owners of shards move
// their positions on. No position goes back, whoever meets whom.
func TestLayoutUnderWork(t *testing.T) {
	broker, kafka := newBroker(t)
	m := openMarks(t, broker, 8)
	if _, err := m.change(t.Context(), kafka, begins(3)); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	var mu sync.Mutex
	committed := map[int]position{} // by slot: what an owner was told to be committed
	var g sync.WaitGroup
	for shard := range 8 {
		g.Go(func() {
			for ctx.Err() == nil {
				if err := ownForAWhile(ctx, m, kafka, shard, func(slot int, p position) {
					mu.Lock()
					defer mu.Unlock()
					if p.compare(committed[slot]) < 0 {
						t.Errorf("slot %d goes back from %+v to %+v", slot, committed[slot], p)
					}
					committed[slot] = p
				}); err != nil && ctx.Err() == nil && !fenced(err) {
					t.Errorf("shard %d: %v", shard, err)
					return
				}
				_ = sleep(ctx, jittered(300*time.Millisecond)) // as an owner does that was fenced
			}
		})
	}
	all := func() bool {
		mu.Lock()
		defer mu.Unlock()
		return len(committed) == slots
	}
	deadline := time.Now().Add(2 * time.Minute)
	for round := 0; round < 6 || !all() && time.Now().Before(deadline); round++ {
		if round >= 6 { // on a busy machine the owners have not had their turn yet
			time.Sleep(500 * time.Millisecond)
		}
		shards := []int{4, 8, 2, 1, 3}[round%5]
		other := openMarks(t, broker, 8) // another instance
		var both sync.WaitGroup
		for _, one := range []*marks{m, other} {
			both.Go(func() {
				if _, err := one.change(t.Context(), kafka, begins(shards)); err != nil && !errors.Is(err, errMet) {
					t.Errorf("change to %d shards: %v", shards, err)
				}
			})
		}
		both.Wait()
	}
	stop()
	g.Wait()
	final, err := m.change(t.Context(), kafka, begins(5))
	if err != nil {
		t.Fatal(err)
	}
	for slot, want := range committed {
		if got := final[slot%5].of(slot); got.compare(want) < 0 {
			t.Errorf("slot %d is at %+v, but %+v was committed", slot, got, want)
		}
	}
	if len(committed) != slots {
		t.Errorf("%d slots were moved, want all", len(committed))
	}
}

// ownForAWhile takes a shard as its owner does, and moves its slots on.
func ownForAWhile(ctx context.Context, m *marks, kafka KafkaConfig, shard int, moved func(slot int, p position)) error {
	t, err := newTransactor(ctx, m.cfg, kafka, shard, m.log)
	if err != nil {
		return err
	}
	defer t.close()
	own := *m
	ends, err := own.settledEnds(ctx, shard)
	if err != nil {
		return err
	}
	value, found, err := own.last(ctx, shard, ends[shard])
	if err != nil {
		return err
	}
	if !found || shard >= value.Shards {
		return sleep(ctx, 20*time.Millisecond)
	}
	for range 50 {
		at := value.At
		at.N, at.Snapshot, at.Done = at.N+1, at.Snapshot+1, true
		next := value.moved(at)
		if err := t.begin(); err != nil {
			return err
		}
		t.produce(m.record(shard, next), nil)
		if err := t.commit(context.WithoutCancel(ctx)); err != nil {
			return err
		}
		value = next
		for slot := shard; slot < slots; slot += value.Shards {
			moved(slot, value.of(slot))
		}
		if ctx.Err() != nil {
			return nil
		}
	}
	return nil
}

// A change that dies with its transaction open hides the ends of all
// partitions; who waits for them aborts it.
func TestLayoutAbandoned(t *testing.T) {
	broker, kafka := newBroker(t)
	m := openMarks(t, broker, 3)
	first, err := m.change(t.Context(), kafka, begins(3))
	if err != nil {
		t.Fatal(err)
	}
	dead, err := newTransactor(t.Context(), m.cfg, kafka, 0, m.log)
	if err != nil {
		t.Fatal(err)
	}
	if err := dead.begin(); err != nil {
		t.Fatal(err)
	}
	for i, one := range relayout(first, 2) {
		dead.produce(m.record(i, one), nil)
	}
	if err := dead.flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	dead.close() // without an end of the transaction
	ends, err := m.settledEnds(t.Context(), 2)
	if err != nil {
		t.Fatal(err)
	}
	if got, found, err := m.last(t.Context(), 2, ends[2]); err != nil || !found || got.Generation != 1 {
		t.Errorf("got %+v, %v, %v; want the layout before", got, found, err)
	}
}

// What must not be taken for a start: a hole in the layout, and a topic whose
// records are deleted with time.
func TestLayoutLost(t *testing.T) {
	broker, kafka := newBroker(t)
	m := openMarks(t, broker, 3)
	if _, err := m.change(t.Context(), kafka, begins(3)); err != nil {
		t.Fatal(err)
	}
	if _, err := m.admin.DeleteRecords(t.Context(), deleteBefore(m.cfg.Positions(), 1, 1)); err != nil {
		t.Fatal(err)
	}
	if _, err := m.change(t.Context(), kafka, begins(3)); !halts(err) || !strings.Contains(fmt.Sprint(err), "no position of shard 1") {
		t.Errorf("got %v", err)
	}
	if _, err := m.admin.AlterTopicConfigs(t.Context(), []kadm.AlterConfig{{Name: "cleanup.policy", Value: kadm.StringPtr("delete")}}, m.cfg.Positions()); err != nil {
		t.Fatal(err)
	}
	if err := m.open(t.Context()); !halts(err) || !strings.Contains(fmt.Sprint(err), "cleanup.policy=delete") {
		t.Errorf("got %v", err)
	}
}

// A timeout above the brokers' is told with both names at the start.
func TestTransactionTimeout(t *testing.T) {
	broker, kafka := newBroker(t, kfake.BrokerConfigs(map[string]string{"transaction.max.timeout.ms": "30000"}))
	m := openMarks(t, broker, 1)
	_, err := m.change(t.Context(), kafka, begins(1))
	if err == nil || !strings.Contains(err.Error(), `transaction_timeout = "1m0s"`) || !strings.Contains(err.Error(), "transaction.max.timeout.ms") {
		t.Errorf("got %v", err)
	}
}
