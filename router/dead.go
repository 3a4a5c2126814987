package router

import (
	"context"
	"fmt"
	"strconv"
	"sync"

	"github.com/twmb/franz-go/pkg/kgo"

	"icerouter/writers"
)

// What on_bad_record and on_null say.
const (
	policyHalt       = "halt"
	policySkip       = "skip"
	policyDeadLetter = "dead_letter"
)

// reasonNull is the reason of a record without a value.
const reasonNull writers.Reason = "null"

// The headers that a dead letter carries besides the record's own.
const (
	headerTopic     = "router.topic"
	headerPartition = "router.partition"
	headerOffset    = "router.offset"
	headerTimestamp = "router.timestamp"
	headerField     = "router.field"
	headerReason    = "router.reason"
	headerDetail    = "router.detail"
	headerIngest    = "router.ingest"
)

// deadLetter is a record that is not a row, and why.
type deadLetter struct {
	record *kgo.Record
	why    *writers.RecordError
}

// deadLetters writes records that don't fit to the dead-letter topic: original
// key, value and headers, plus headers that say where from and why.
//
// A cut is committed only after the dead letters taken with it are
// acknowledged by all replicas, so none is lost. After a crash between the two
// the record is read again and its dead letter written again; the topic,
// partition and offset headers tell the copies apart from other records.
type deadLetters struct {
	ingest string
	topic  string
	client *kgo.Client

	mu     sync.Mutex
	failed error
}

// send starts writing a dead letter. The record's memory is copied.
func (d *deadLetters) send(ctx context.Context, l deadLetter) {
	r := l.record
	headers := append([]kgo.RecordHeader(nil), r.Headers...)
	for _, h := range [][2]string{
		{headerTopic, r.Topic},
		{headerPartition, strconv.Itoa(int(r.Partition))},
		{headerOffset, strconv.FormatInt(r.Offset, 10)},
		{headerTimestamp, strconv.FormatInt(writers.TimestampMillis(r.Timestamp), 10)},
		{headerField, l.why.Field},
		{headerReason, string(l.why.Reason)},
		{headerDetail, l.why.Detail},
		{headerIngest, d.ingest},
	} {
		headers = append(headers, kgo.RecordHeader{Key: h[0], Value: []byte(h[1])})
	}
	letter := &kgo.Record{Topic: d.topic, Key: clone(r.Key), Value: clone(r.Value), Headers: headers, Timestamp: r.Timestamp}
	at := fmt.Sprintf("%s/%d offset %d", r.Topic, r.Partition, r.Offset)
	d.client.Produce(ctx, letter, func(_ *kgo.Record, err error) {
		if err != nil {
			d.mu.Lock()
			defer d.mu.Unlock()
			if d.failed == nil {
				d.failed = fmt.Errorf("write dead letter of %s to %s: %w", at, d.topic, err)
			}
		}
	})
}

// flush waits until every dead letter sent so far is acknowledged. It is safe
// to call on an ingest without a dead-letter topic.
func (d *deadLetters) flush(ctx context.Context) error {
	if d == nil {
		return nil
	}
	if err := d.client.Flush(ctx); err != nil {
		return fmt.Errorf("write dead letters to %s: %w", d.topic, err)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.failed
}

// clone copies bytes and keeps nil apart from empty.
func clone(b []byte) []byte {
	if b == nil {
		return nil
	}
	return append([]byte{}, b...)
}
