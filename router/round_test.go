package router

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/apache/iceberg-go"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/zap"

	"icerouter/catalog"
)

// bare makes an ingest that has a plan and an open cut but no Kafka, catalog or
// store: enough to take records.
func bare(t testing.TB, workers int) *ingest {
	t.Helper()
	schema := iceberg.NewSchema(0,
		iceberg.NestedField{ID: 1, Name: "logStreamId", Type: iceberg.PrimitiveTypes.Int64, Required: true},
		iceberg.NestedField{ID: 2, Name: "message", Type: iceberg.PrimitiveTypes.String},
	)
	spec := iceberg.NewPartitionSpec(iceberg.PartitionField{
		SourceIDs: []int{1}, FieldID: 1000, Name: "bucket", Transform: iceberg.BucketTransform{NumBuckets: 64},
	})
	cfg := DefaultIngest()
	cfg.Name, cfg.Table, cfg.Codec = "test", "ns.t", "snappy"
	in := &ingest{
		cfg: cfg, log: zap.NewNop(), workers: workers, counts: make([][]int32, workers),
		partitions: map[topicPartition]*owned{},
	}
	in.metrics = newMetrics().ingest(cfg.Name)
	in.status = newIngestState(cfg, in.metrics)
	p, err := in.compile(schema, spec)
	if err != nil {
		t.Fatal(err)
	}
	in.open = newCut(context.Background(), p, &catalog.Source{})
	return in
}

// referenceRecords returns n records like the reference load, from offset first.
func referenceRecords(rng *rand.Rand, partition int32, first int64, n int) []*kgo.Record {
	const letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
	text := make([]byte, 962)
	out := make([]*kgo.Record, n)
	for i := range out {
		for j := range text {
			text[j] = letters[rng.IntN(len(letters))]
		}
		value := fmt.Sprintf(`{"logStreamId": %d, "message": "%s"}`, 1000001+rng.IntN(1000000), text)
		out[i] = &kgo.Record{Topic: "t", Partition: partition, Offset: first + int64(i), Value: []byte(value), Timestamp: time.Now()}
	}
	return out
}

func (in *ingest) own(partition int32, next int64) *owned {
	p := &owned{topicPartition: topicPartition{"t", partition}, from: next, next: next}
	in.partitions[p.topicPartition] = p
	return p
}

// A round takes every record once, in files by bucket, whatever the number of
// workers; records fetched before a seek are not taken again.
func TestTake(t *testing.T) {
	for _, workers := range []int{1, 2, 5} {
		in := bare(t, workers)
		rng := rand.New(rand.NewPCG(1, 2))
		var chunks []*chunk
		for p := range int32(3) {
			chunks = append(chunks, split(in.own(p, 100), referenceRecords(rng, p, 90, 5010))...) // 10 of them were taken before
		}
		if err := in.take(context.Background(), chunks); err != nil {
			t.Fatal(err)
		}
		rows, files := int64(0), 0
		for _, f := range in.open.files {
			if f != nil {
				rows += f.rows.Rows()
				files++
			}
		}
		if rows != 15000 || files != 64 || in.open.rows != 15000 {
			t.Errorf("workers %d: got %d rows in %d files, cut says %d; want 15000 in 64", workers, rows, files, in.open.rows)
		}
		for _, p := range in.partitions {
			if p.next != 5100 {
				t.Errorf("workers %d: %s at %d, want 5100", workers, p, p.next)
			}
		}
	}
}

// A record that stops the ingest stops its own partition there; what came
// before it, and the other partitions, are taken.
func TestTakeHalts(t *testing.T) {
	in := bare(t, 2)
	rng := rand.New(rand.NewPCG(1, 2))
	bad := referenceRecords(rng, 0, 0, 6000)
	bad[2500].Value = []byte(`{"logStreamId": "x"}`)
	chunks := append(split(in.own(0, 0), bad), split(in.own(1, 0), referenceRecords(rng, 1, 0, 3000))...)
	err := in.take(context.Background(), chunks)
	var halt *badRecordError
	if !errors.As(err, &halt) || halt.partition != 0 || halt.offset != 2500 || halt.why.Field != "logStreamId" {
		t.Fatalf("got %v, want a halt at t/0 offset 2500, field logStreamId", err)
	}
	if in.open.rows != 5500 {
		t.Errorf("got %d rows, want the 2500 before the bad record and the 3000 of the other partition", in.open.rows)
	}
	for at, want := range map[topicPartition]int64{{"t", 0}: 2500, {"t", 1}: 3000} {
		if got := in.partitions[at].next; got != want {
			t.Errorf("%s at %d, want %d", at, got, want)
		}
	}
}

// Control records and skipped ones move the position; only records start the
// trigger's timer.
func TestTakeControl(t *testing.T) {
	in := bare(t, 1)
	control := controlRecord(t, 7)
	if err := in.take(context.Background(), split(in.own(0, 5), []*kgo.Record{control})); err != nil {
		t.Fatal(err)
	}
	if next := in.partitions[topicPartition{"t", 0}].next; next != 8 || !in.open.since.IsZero() {
		t.Errorf("after a control record: next %d, since %v; want 8 and no timer", next, in.open.since)
	}
	null := &kgo.Record{Topic: "t", Offset: 8}
	if err := in.take(context.Background(), split(in.partitions[topicPartition{"t", 0}], []*kgo.Record{null})); err != nil {
		t.Fatal(err)
	}
	if in.open.since.IsZero() || in.status.status().Skipped["null"] != 1 {
		t.Errorf("after a tombstone: since %v, skipped %v; want a timer and one null", in.open.since, in.status.status().Skipped)
	}
}

// rowBatch.sort groups every placed row by address and keeps the order of rows.
func TestSortRows(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	var counts []int32
	for range 200 {
		b := &rowBatch{}
		for range rng.IntN(500) {
			b.addresses = append(b.addresses, int32(rng.IntN(70))-1)
		}
		limit := rng.IntN(len(b.addresses) + 1)
		counts = b.sort(limit, counts)
		seen, last := 0, int32(-1)
		for _, g := range b.groups {
			if g.address <= last || g.to <= g.from {
				t.Fatalf("groups %v: not ascending", b.groups)
			}
			last = g.address
			for i := g.from; i < g.to; i++ {
				if b.addresses[b.order[i]] != g.address || i > g.from && b.order[i] <= b.order[i-1] {
					t.Fatalf("group %v holds row %d of address %d", g, b.order[i], b.addresses[b.order[i]])
				}
				seen++
			}
		}
		want := 0
		for _, a := range b.addresses[:limit] {
			if a >= 0 {
				want++
			}
		}
		if seen != want {
			t.Fatalf("got %d rows in groups, want %d", seen, want)
		}
	}
}

// Passed gaps are worth a commit of their own only after a while without records.
func TestGapDue(t *testing.T) {
	in := bare(t, 1)
	p := in.own(0, 5)
	now := time.Now()
	if in.gapDue(now) || !in.gapSince.IsZero() {
		t.Error("due though nothing has moved")
	}
	p.next = 6
	if in.gapDue(now) || in.gapDue(now.Add(gapWaitMax-1)) {
		t.Error("due too early")
	}
	if !in.gapDue(now.Add(gapWaitMax)) {
		t.Error("not due after the wait")
	}
	in.open.records = 1
	if in.gapDue(now.Add(gapWaitMax)) || !in.gapSince.IsZero() {
		t.Error("due though a record will carry it")
	}
}

// rounds keeps every chunk, in order, and no round but that of one chunk is
// larger than asked.
func TestRounds(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	for range 100 {
		var chunks []*chunk
		for i := range rng.IntN(20) {
			chunks = append(chunks, &chunk{next: int64(i), records: []*kgo.Record{{Value: make([]byte, rng.IntN(1000))}}})
		}
		seen := 0
		for _, round := range rounds(chunks, 1500) {
			size := 0
			for _, ch := range round {
				if ch.next != int64(seen) {
					t.Fatalf("chunk %d after %d", ch.next, seen-1)
				}
				seen++
				size += len(ch.records[0].Value)
			}
			if size > 1500 && len(round) > 1 {
				t.Fatalf("a round of %d chunks holds %d bytes", len(round), size)
			}
		}
		if seen != len(chunks) {
			t.Fatalf("got %d chunks of %d", seen, len(chunks))
		}
	}
}

func BenchmarkTake(b *testing.B) {
	for _, workers := range []int{1, 2} {
		b.Run(fmt.Sprintf("workers=%d", workers), func(b *testing.B) {
			in := bare(b, workers)
			rng := rand.New(rand.NewPCG(1, 2))
			const n = 10000
			records := [][]*kgo.Record{referenceRecords(rng, 0, 0, n/2), referenceRecords(rng, 1, 0, n/2)}
			parts := []*owned{in.own(0, 0), in.own(1, 0)}
			b.SetBytes(n * 1001)
			for b.Loop() {
				var chunks []*chunk
				for i, p := range parts {
					p.next = 0
					chunks = append(chunks, split(p, records[i])...)
				}
				if err := in.take(context.Background(), chunks); err != nil {
					b.Fatal(err)
				}
				if in.open.measure(); in.open.bytes > 256<<20 {
					b.StopTimer()
					in.discard(in.open)
					in.open = newCut(context.Background(), in.open.plan, &catalog.Source{})
					b.StartTimer()
				}
			}
		})
	}
}

// controlRecord makes a transaction's end marker as a fetch carries it: only
// the client can make one, of the bytes of a batch.
func controlRecord(t *testing.T, offset int64) *kgo.Record {
	t.Helper()
	record := kmsg.Record{Key: []byte{0, 0, 0, 1}, Value: []byte{0, 0, 0, 0, 0, 0}}
	record.Length = int32(len(record.AppendTo(nil)) - 1)
	batch := kmsg.RecordBatch{
		FirstOffset: offset, PartitionLeaderEpoch: -1, Magic: 2, Attributes: 1<<5 | 1<<4,
		ProducerID: 1, NumRecords: 1, Records: record.AppendTo(nil),
	}
	raw := batch.AppendTo(nil)
	batch.Length = int32(len(raw) - 12)
	raw = batch.AppendTo(nil)
	fetched := kmsg.NewFetchResponseTopicPartition()
	fetched.RecordBatches = raw
	got, _ := kgo.ProcessFetchPartition(kgo.ProcessFetchPartitionOpts{KeepControlRecords: true, DisableCRCValidation: true, Topic: "t", Offset: offset}, &fetched, kgo.DefaultDecompressor(), nil)
	if got.Err != nil || len(got.Records) != 1 || !got.Records[0].Attrs.IsControl() {
		t.Fatalf("control batch: %v, %d records", got.Err, len(got.Records))
	}
	return got.Records[0]
}
