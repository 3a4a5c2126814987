package router

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"icerouter/catalog"
)

// TestFilesOfAnotherShard: a shard that waits for what another one is loading
// stops waiting when it is given up.
func TestFilesOfAnotherShard(t *testing.T) {
	f := newFeed()
	key := listKey{snapshot: 1}
	other, first := f.list(key)
	if !first {
		t.Fatal("somebody loads it already")
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		_, err := f.files(ctx, nil, key)
		ended <- err
	}()
	cancel()
	select {
	case err := <-ended:
		if !errors.Is(err, context.Canceled) {
			t.Errorf("given up: %v", err)
		}
	case <-time.After(time.Minute):
		t.Fatal("it waits for the other shard")
	}
	other.files = []catalog.DataFile{{Path: "a"}}
	close(other.loaded)
	if files, err := f.files(t.Context(), nil, key); err != nil || len(files) != 1 {
		t.Errorf("once it is loaded: %v, %v", files, err)
	}
}

// TestTopicsWhileAsked: what is known of the topics is there while the brokers
// take their time to tell whether it is still so.
func TestTopicsWhileAsked(t *testing.T) {
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(3, "out"))
	if err != nil {
		t.Fatal(err)
	}
	defer cluster.Close()
	client, err := kgo.NewClient(kgo.SeedBrokers(cluster.ListenAddrs()...))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	book := &topicBook{admin: kadm.NewClient(client)}
	if _, err := book.find("out"); err != nil {
		t.Fatal(err)
	}
	asked, answer := make(chan struct{}), make(chan struct{})
	cluster.ControlKey(int16(kmsg.DescribeConfigs), func(kmsg.Request) (kmsg.Response, error, bool) {
		close(asked)
		<-answer
		return nil, nil, false
	})
	refreshed := make(chan error, 1)
	go func() { refreshed <- book.refresh(t.Context()) }()
	<-asked
	found := make(chan int32, 1)
	go func() {
		e, _ := book.find("out")
		found <- e.partitions
	}()
	select {
	case n := <-found:
		if n != 3 {
			t.Errorf("%d partitions are known, want 3", n)
		}
	case <-time.After(time.Minute):
		t.Error("rows wait for the brokers' answer about a topic that is known")
	}
	close(answer)
	if err := <-refreshed; err != nil {
		t.Error(err)
	}
}
