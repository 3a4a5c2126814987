package router

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/maphash"
	"maps"
	"math/bits"
	"slices"
	"strconv"
	"strings"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"golang.org/x/sync/errgroup"

	"icerouter/catalog"
)

// errUnproven ends a demo whose table, or second topic, does not hold each record
// exactly once.
var errUnproven = errors.New("demo: the table, or what was published from it, is not exactly what was produced")

// prove reads the topic from its start and the table's data files, both anew
// and by nothing that the ingest path uses, and compares them record by record:
// each (partition, offset) once, and the same id and text under it; and then the
// topic that the table was published to. It prints how to query the table and, as
// its last line, the counts of the table.
func (d *demo) prove(ctx context.Context) error {
	ends, err := d.ends(ctx)
	if err != nil {
		return err
	}
	p := newProof(ends)
	fmt.Fprintf(d.out, "\nreading %s records and the table's files back, to compare them\n", grouped(p.ahead()))
	if err := p.readTopic(ctx, d.config.Kafka.Brokers[0], demoTopic); err != nil {
		return fmt.Errorf("read back topic %s: %w", demoTopic, err)
	}
	if err := d.table.Read(ctx, []string{"_kafka_partition", "_kafka_offset", "logStreamId", "message"}, p.addRows); err != nil {
		return err
	}
	back := p.another()
	if err := back.readBack(ctx, d.config.Kafka.Brokers[0], demoBack); err != nil {
		return fmt.Errorf("read back topic %s: %w", demoBack, err)
	}
	d.tellHowToQuery()
	r, b := p.result(), back.result()
	for _, line := range b.faults {
		fmt.Fprintln(d.out, demoBack+": "+line)
	}
	fmt.Fprintf(d.out, "back:  produced %d, in topic %s %d, duplicated %d, missing %d\n", b.produced, demoBack, b.inTable, b.duplicated, b.missing)
	for _, line := range r.faults {
		fmt.Fprintln(d.out, line)
	}
	fmt.Fprintf(d.out, "proof: produced %d, in table %d, duplicated %d, missing %d\n", r.produced, r.inTable, r.duplicated, r.missing)
	if !r.holds() || !b.holds() {
		return errUnproven
	}
	return nil
}

// tellHowToQuery prints where the table lies and a line for each of two engines.
func (d *demo) tellHowToQuery() {
	fmt.Fprintf(d.out, "\nthe table is in %s; ask it:\n\n", d.table.Location())
	fmt.Fprintf(d.out, "  duckdb -c \"INSTALL iceberg; LOAD iceberg; SELECT count(*), count(DISTINCT logStreamId) FROM iceberg_scan('%s')\"\n",
		strings.TrimPrefix(d.table.MetadataLocation(), "file://"))
	fmt.Fprintf(d.out, "  python3 -c \"from pyiceberg.catalog.sql import SqlCatalog; print(SqlCatalog('%s', uri='sqlite:///%s').load_table('%s').scan(limit=10).to_arrow())\"\n\n",
		demoName, d.path("catalog.db"), demoTable)
}

// proof compares a topic with a table. Memory: a bit an offset.
type proof struct {
	seed       maphash.Seed
	partitions map[int32]*proofPartition
	stray      int64 // rows of the table that no record of the topic made
}

// proofPartition is one Kafka partition, of which all offsets below end were
// produced.
type proofPartition struct {
	end                  int64
	inTopic, inTable     []uint64 // a bit an offset: has it been seen
	topicSum, tableSum   uint64   // of the hashes of all records or rows seen
	produced, duplicated int64
}

func newProof(ends map[int32]int64) *proof {
	p := &proof{seed: maphash.MakeSeed(), partitions: map[int32]*proofPartition{}}
	for partition, end := range ends {
		words := (end + 63) / 64
		p.partitions[partition] = &proofPartition{end: end, inTopic: make([]uint64, words), inTable: make([]uint64, words)}
	}
	return p
}

// hash mixes a record's place and contents into one number. Sums of it don't
// depend on the order in which records are read.
func (p *proof) hash(partition, offset, id int64, text string) uint64 {
	const odd = 0x9e3779b97f4a7c15
	h := maphash.String(p.seed, text)
	for _, part := range []int64{partition, offset, id} {
		hi, lo := bits.Mul64(h^uint64(part), odd)
		h = hi ^ lo + odd
	}
	return h
}

// readTopic reads every record of topic with a client of its own.
func (p *proof) readTopic(ctx context.Context, broker, topic string) error {
	client, err := kgo.NewClient(kgo.SeedBrokers(broker), kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.ConsumeTopics(topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	if err != nil {
		return err
	}
	defer client.Close()
	for p.ahead() > 0 {
		fetches := client.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			return err
		}
		var g errgroup.Group // partitions share nothing
		fetches.EachPartition(func(part kgo.FetchTopicPartition) {
			g.Go(func() error {
				for _, r := range part.Records {
					if err := p.addRecord(r); err != nil {
						return err
					}
				}
				return nil
			})
		})
		if err := g.Wait(); err != nil {
			return err
		}
	}
	return nil
}

// another compares the same topic with something else.
func (p *proof) another() *proof {
	out := &proof{seed: p.seed, partitions: map[int32]*proofPartition{}}
	for number, part := range p.partitions {
		out.partitions[number] = &proofPartition{end: part.end, inTopic: part.inTopic, topicSum: part.topicSum, produced: part.produced, inTable: make([]uint64, len(part.inTable))}
	}
	return out
}

// readBack reads every record of the topic that the table was published to, as
// a reader of committed records. Its headers say which record it was.
func (p *proof) readBack(ctx context.Context, broker, topic string) error {
	client, err := kgo.NewClient(kgo.SeedBrokers(broker), kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.KeepControlRecords(),
		kgo.ConsumeTopics(topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	if err != nil {
		return err
	}
	defer client.Close()
	ends, err := kadm.NewClient(client).ListCommittedOffsets(ctx, topic)
	if err == nil {
		err = ends.Error()
	}
	if err != nil {
		return err
	}
	left := map[int32]int64{}
	ends.Each(func(o kadm.ListedOffset) {
		if o.Offset > 0 {
			left[o.Partition] = o.Offset
		}
	})
	for len(left) > 0 {
		fetches := client.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			return err
		}
		for _, r := range fetches.Records() {
			if r.Offset >= left[r.Partition]-1 {
				delete(left, r.Partition)
			}
			if r.Attrs.IsControl() {
				continue
			}
			if err := p.addBack(r); err != nil {
				return err
			}
		}
	}
	return nil
}

// addBack counts a record that was published.
func (p *proof) addBack(r *kgo.Record) error {
	var row struct {
		ID   int64  `json:"logStreamId"`
		Text string `json:"message"`
	}
	if err := json.Unmarshal(r.Value, &row); err != nil {
		return fmt.Errorf("partition %d offset %d: %w", r.Partition, r.Offset, err)
	}
	origin := map[string]int64{}
	for _, h := range r.Headers {
		n, err := strconv.ParseInt(string(h.Value), 10, 64)
		if err != nil {
			return fmt.Errorf("partition %d offset %d: header %s: %w", r.Partition, r.Offset, h.Key, err)
		}
		origin[h.Key] = n
	}
	p.addRow(origin[headerPartition], origin[headerOffset], row.ID, row.Text)
	return nil
}

// ahead counts the records that have not been read yet.
func (p *proof) ahead() (n int64) {
	for _, part := range p.partitions {
		n += part.end - part.produced
	}
	return n
}

// addRecord counts a record, unless it is past the end. Records of two
// partitions may be added at once.
func (p *proof) addRecord(r *kgo.Record) error {
	part := p.partitions[r.Partition]
	if part == nil || r.Offset >= part.end {
		return nil
	}
	var row struct {
		ID   int64  `json:"logStreamId"`
		Text string `json:"message"`
	}
	if err := json.Unmarshal(r.Value, &row); err != nil {
		return fmt.Errorf("partition %d offset %d: %w", r.Partition, r.Offset, err)
	}
	if !setBit(part.inTopic, r.Offset) {
		return fmt.Errorf("partition %d offset %d came twice", r.Partition, r.Offset)
	}
	part.produced++
	part.topicSum += p.hash(int64(r.Partition), r.Offset, row.ID, row.Text)
	return nil
}

// addRows counts rows of the table: partition, offset, id and text.
func (p *proof) addRows(rows int, columns []catalog.Values) error {
	for row := range rows {
		partition, offset := columns[0].Int(row), columns[1].Int(row)
		p.addRow(partition, offset, columns[2].Int(row), columns[3].Text(row))
	}
	return nil
}

func (p *proof) addRow(partition, offset, id int64, text string) {
	part := p.partitions[int32(partition)]
	switch {
	case part == nil || int64(int32(partition)) != partition || offset < 0 || offset >= part.end:
		p.stray++
	case !setBit(part.inTable, offset):
		part.duplicated++
	default:
		part.tableSum += p.hash(partition, offset, id, text)
	}
}

// setBit sets a bit and reports whether it was clear.
func setBit(set []uint64, at int64) bool {
	bit := uint64(1) << (at % 64)
	if set[at/64]&bit != 0 {
		return false
	}
	set[at/64] |= bit
	return true
}

// proofResult is what the comparison found.
type proofResult struct {
	produced, inTable, duplicated, missing int64
	faults                                 []string // what the counts don't show
}

// holds reports whether the table holds each record exactly once.
func (r proofResult) holds() bool {
	return r.produced == r.inTable && r.duplicated == 0 && r.missing == 0 && len(r.faults) == 0
}

// result compares what has been read.
func (p *proof) result() proofResult {
	r := proofResult{inTable: p.stray}
	if p.stray > 0 {
		r.faults = append(r.faults, fmt.Sprintf("%d rows are of no record that was produced", p.stray))
	}
	for _, number := range slices.Sorted(maps.Keys(p.partitions)) {
		part := p.partitions[number]
		var seen int64
		for i, word := range part.inTable {
			seen += int64(bits.OnesCount64(word))
			r.missing += int64(bits.OnesCount64(part.inTopic[i] &^ word))
		}
		r.produced += part.produced
		r.duplicated += part.duplicated
		r.inTable += seen + part.duplicated
		if seen == part.produced && part.topicSum != part.tableSum {
			r.faults = append(r.faults, fmt.Sprintf("partition %d: an id or a text in the table is not the one that was produced", number))
		}
	}
	return r
}
