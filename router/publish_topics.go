package router

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
)

// topicBook knows the topics that records go to: how many partitions they have
// and how large a record they take. It is safe for concurrent use.
type topicBook struct {
	admin   *kadm.Client
	sizeMax int // of the configuration; 0: what the topic takes

	mu      sync.Mutex
	entries map[string]topicEntry
	batch   int // the smallest batch that any of them takes
}

// topicEntry is what is known of a topic, as of the last look.
type topicEntry struct {
	partitions int32
	sizeMax    int
	missing    *badRow
	looked     time.Time
}

const (
	topicLookAgain = 10 * time.Second // after which a missing topic is asked for again
	topicBytesUsed = 1_048_588        // max.message.bytes where nobody says otherwise
	topicBytesMin  = 1 << 10
	topicBytesMax  = 100 << 20 // more than that in one request no client sends
)

// find returns what is known of a topic. A topic that isn't there is a *badRow.
func (b *topicBook) find(topic string) (topicEntry, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	known, ok := b.entries[topic]
	if ok && (known.missing == nil || time.Since(known.looked) < topicLookAgain) {
		if known.missing != nil {
			return known, known.missing
		}
		return known, nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), kafkaRequestTimeout)
	defer cancel()
	e, err := b.ask(ctx, topic)
	var missing *badRow
	if err != nil && !errors.As(err, &missing) {
		return e, err
	}
	e.missing, e.looked = missing, time.Now()
	if b.entries == nil {
		b.entries = map[string]topicEntry{}
	}
	b.entries[topic] = e
	return e, err
}

func (b *topicBook) ask(ctx context.Context, topic string) (topicEntry, error) {
	if !topicName.MatchString(topic) || topic == "." || topic == ".." {
		return topicEntry{}, &badRow{"topic", fmt.Sprintf("%q is no name for a topic: 1 to 249 of the characters A-Z a-z 0-9 . _ -", topic)}
	}
	all, err := b.admin.ListTopics(ctx, topic)
	if err == nil {
		err = all[topic].Err
	}
	switch {
	case errors.Is(err, kerr.UnknownTopicOrPartition):
		return topicEntry{}, &badRow{"topic", fmt.Sprintf("topic %s does not exist: create it", topic)}
	case err != nil:
		return topicEntry{}, fmt.Errorf("look at topic %s: %w", topic, err)
	}
	e := topicEntry{partitions: int32(len(all[topic].Partitions)), sizeMax: topicBytesUsed}
	if configs, err := b.admin.DescribeTopicConfigs(ctx, topic); err == nil && len(configs) == 1 && configs[0].Err == nil {
		for _, c := range configs[0].Configs {
			if n, err := strconv.Atoi(c.MaybeValue()); err == nil && c.Key == "max.message.bytes" {
				e.sizeMax = min(max(n, topicBytesMin), topicBytesMax)
			}
		}
	}
	if b.batch == 0 || e.sizeMax < b.batch {
		b.batch = e.sizeMax
	}
	if b.sizeMax > 0 {
		e.sizeMax = min(e.sizeMax, b.sizeMax)
	}
	return e, nil
}

// refresh looks again at every topic that is known: partitions may have been added.
func (b *topicBook) refresh(ctx context.Context) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	for topic, known := range b.entries {
		if known.missing != nil {
			continue
		}
		e, err := b.ask(ctx, topic)
		if err != nil {
			return err
		}
		e.looked = time.Now()
		b.entries[topic] = e
	}
	return nil
}

// batchMax is how large a batch every topic takes that has been met so far.
func (b *topicBook) batchMax() int32 {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.batch == 0 {
		return batchRecordsBytes
	}
	return int32(b.batch)
}
