package router

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
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
	compacted  bool          // takes no record without a key
	before     time.Duration // how far behind the broker's clock a timestamp may be; negative: as far as it likes
	after      time.Duration // and ahead of it
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
	known, ok := b.known(topic)
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
	e.missing = missing
	return b.note(topic, e), err
}

// known returns what the book has of a topic. Nobody waits for an answer of the
// brokers with the lock held: what is known is there for the others meanwhile.
func (b *topicBook) known(topic string) (topicEntry, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	e, ok := b.entries[topic]
	return e, ok
}

// note keeps what the brokers have said of a topic, and returns it within the
// configured bounds.
func (b *topicBook) note(topic string, e topicEntry) topicEntry {
	b.mu.Lock()
	defer b.mu.Unlock()
	if e.missing == nil {
		if b.batch == 0 || e.sizeMax < b.batch {
			b.batch = e.sizeMax
		}
		if b.sizeMax > 0 {
			e.sizeMax = min(e.sizeMax, b.sizeMax)
		}
	}
	e.looked = time.Now()
	if b.entries == nil {
		b.entries = map[string]topicEntry{}
	}
	b.entries[topic] = e
	return e
}

// ask asks the brokers about a topic.
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
	e := topicEntry{partitions: int32(len(all[topic].Partitions)), sizeMax: topicBytesUsed, before: -1, after: -1}
	appended := false
	if configs, err := b.admin.DescribeTopicConfigs(ctx, topic); err == nil && len(configs) == 1 && configs[0].Err == nil {
		for _, c := range configs[0].Configs {
			n, err := strconv.ParseInt(c.MaybeValue(), 10, 64)
			switch {
			case c.Key == "cleanup.policy":
				e.compacted = strings.Contains(c.MaybeValue(), "compact")
			case c.Key == "message.timestamp.type" && c.MaybeValue() == "LogAppendTime":
				appended = true
			case err != nil:
			case c.Key == "max.message.bytes":
				e.sizeMax = int(min(max(n, topicBytesMin), topicBytesMax))
			case c.Key == "message.timestamp.before.max.ms":
				e.before = millisecondsUpTo(n)
			case c.Key == "message.timestamp.after.max.ms":
				e.after = millisecondsUpTo(n)
			}
		}
		if appended { // the broker writes its own time, whatever the record says
			e.before, e.after = -1, -1
		}
	}
	return e, nil
}

// millisecondsUpTo is a limit in milliseconds; one that no timestamp exceeds is none.
func millisecondsUpTo(n int64) time.Duration {
	if n < 0 || n > math.MaxInt64/int64(time.Millisecond) {
		return -1
	}
	return time.Duration(n) * time.Millisecond
}

// refuses tells why the topic would not take a record. A broker refuses the
// whole batch, neighbours and all, and doesn't say which record it was.
func (e topicEntry) refuses(r *kgo.Record) error {
	if e.compacted && r.Key == nil {
		return &badRow{"key", fmt.Sprintf("the row makes a record without a key, and topic %s is compacted", r.Topic)}
	}
	if r.Timestamp.IsZero() || e.before < 0 && e.after < 0 {
		return nil
	}
	const slack = time.Second // the broker looks a little later, by a clock of its own
	switch age := time.Since(r.Timestamp); {
	case e.before >= 0 && age > e.before-slack:
		return &badRow{"timestamp", fmt.Sprintf("the record's timestamp, %s, is older than topic %s takes (message.timestamp.before.max.ms, %s)", r.Timestamp.UTC().Format(time.RFC3339), r.Topic, e.before)}
	case e.after >= 0 && -age > e.after-slack:
		return &badRow{"timestamp", fmt.Sprintf("the record's timestamp, %s, is further ahead than topic %s takes (message.timestamp.after.max.ms, %s)", r.Timestamp.UTC().Format(time.RFC3339), r.Topic, e.after)}
	}
	return nil
}

// refresh looks again at every topic that is known: partitions may have been added.
func (b *topicBook) refresh(ctx context.Context) error {
	b.mu.Lock()
	topics := slices.Sorted(maps.Keys(b.entries))
	b.mu.Unlock()
	for _, topic := range topics {
		if known, _ := b.known(topic); known.missing != nil {
			continue
		}
		e, err := b.ask(ctx, topic)
		if err != nil {
			return err
		}
		b.note(topic, e)
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
