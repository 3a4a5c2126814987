package writers

import (
	"fmt"
	"math"
	"sync"
	"sync/atomic"

	"github.com/apache/iceberg-go"
)

// Exchange gives every row of a Batch the address of its partition: a small
// number that stands for one tuple of partition values, so that rows can be
// dealt to files by comparing integers.
//
// Addresses are dense from 0 in the order of first sight and keep their meaning
// for the Exchange's life; the Exchange keeps the tuple of every address.
// All methods may be called by several goroutines at once.
//
// Source: Iceberg spec, "Partition Transforms" and appendix B "32-bit Hash
// Requirements".
type Exchange struct {
	layout *Layout
	fields []partitionField
	road   func(*Exchange, *Batch, []int32) []int32 // chosen once, by the shape of the spec

	// The only field's number is looked up in buckets if that is bounded, else in numbers.
	buckets []atomic.Int32 // address+1 by bucket, 0 when not seen; the last is the null partition's

	mu         sync.RWMutex
	numbers    map[int64]int32
	null       int32 // the null partition's address beside numbers; -1 when not seen
	tuples     map[string]int32
	partitions []map[int]any

	scratch sync.Pool // *tupleScratch
}

// bucketsMax bounds the table of a single bucket field; a larger one takes the
// road of any other number.
const bucketsMax = 1 << 16

// tupleScratch is what one call needs to build tuples.
type tupleScratch struct {
	key  []byte
	next []int // next value of each field's column
}

// NewExchange prepares the exchange of rows of layout into the partitions of
// spec. It refuses transforms that it does not know and sources that are
// missing, repeated or of the wrong type, naming the field and the column.
func NewExchange(l *Layout, spec iceberg.PartitionSpec) (*Exchange, error) {
	x := &Exchange{layout: l, null: -1}
	for _, f := range spec.Fields() {
		field, err := newPartitionField(l, f)
		if err != nil {
			return nil, fmt.Errorf("partition field %q: %w", f.Name, err)
		}
		x.fields = append(x.fields, field)
	}
	x.scratch.New = func() any { return &tupleScratch{next: make([]int, len(x.fields))} }
	switch {
	case len(x.fields) == 0:
		x.partitions = []map[int]any{{}}
		x.road = (*Exchange).nowhere
	case len(x.fields) == 1 && x.fields[0].buckets > 0 && x.fields[0].buckets <= bucketsMax:
		x.buckets = make([]atomic.Int32, x.fields[0].buckets+1)
		x.road = (*Exchange).byBucket
	case len(x.fields) == 1 && x.fields[0].number != nil:
		x.numbers = map[int64]int32{}
		x.road = (*Exchange).byNumber
	default:
		x.tuples = map[string]int32{}
		x.road = (*Exchange).byTuple
	}
	return x, nil
}

// Addresses appends one partition address a row of b to out[:0] and returns it.
// A row whose value no partition can hold has -1; Refusal says why. b is only
// read.
func (x *Exchange) Addresses(b *Batch, out []int32) []int32 {
	return x.road(x, b, out[:0])
}

// Partition returns the values of an address by partition field id, in the Go
// types that iceberg-go takes for partition values; nil is null. The map is
// shared and must not be changed.
func (x *Exchange) Partition(address int32) map[int]any {
	x.mu.RLock()
	defer x.mu.RUnlock()
	return x.partitions[address]
}

// Len returns how many addresses were given out so far.
func (x *Exchange) Len() int {
	x.mu.RLock()
	defer x.mu.RUnlock()
	return len(x.partitions)
}

// Refusal says why a row of b has the address -1, or returns nil if it has
// another one.
func (x *Exchange) Refusal(b *Batch, row int) *RecordError {
	for i := range x.fields {
		f := &x.fields[i]
		if f.void || !f.has(b, row) {
			continue
		}
		c, value := &b.Columns[f.column], 0
		for r := range row {
			if f.has(b, r) {
				value++
			}
		}
		if f.holds(c, value) {
			continue
		}
		return &RecordError{
			Reason: ReasonPartition,
			Field:  x.layout.Leaves[f.column].Name,
			Detail: fmt.Sprintf("%s of %s is outside of the range of %s, so that no partition can hold the row", f.transform, f.quote(c, value), f.result),
		}
	}
	return nil
}

// nowhere is the road of an unpartitioned table.
func (x *Exchange) nowhere(b *Batch, out []int32) []int32 {
	for range b.Rows {
		out = append(out, 0)
	}
	return out
}

// byBucket is the road of a single bucket field: the bucket is an index.
func (x *Exchange) byBucket(b *Batch, out []int32) []int32 {
	f, value := &x.fields[0], 0
	c := &b.Columns[f.column]
	for row := range b.Rows {
		bucket := int64(f.buckets)
		if f.has(b, row) {
			bucket, _ = f.number(c, value)
			value++
		}
		address := x.buckets[bucket].Load() - 1
		if address < 0 {
			address = x.admitBucket(bucket)
		}
		out = append(out, address)
	}
	return out
}

// admitBucket gives a bucket its address, unless another goroutine just did.
func (x *Exchange) admitBucket(bucket int64) int32 {
	x.mu.Lock()
	defer x.mu.Unlock()
	if address := x.buckets[bucket].Load() - 1; address >= 0 {
		return address
	}
	f := &x.fields[0]
	var value any
	if bucket < int64(f.buckets) {
		value = f.value(bucket)
	}
	address := x.admit(map[int]any{f.id: value})
	x.buckets[bucket].Store(address + 1)
	return address
}

// byNumber is the road of a single field whose values are numbers. Rows that
// lie together often share a day or a region, so the last answer is kept.
func (x *Exchange) byNumber(b *Batch, out []int32) []int32 {
	f, value := &x.fields[0], 0
	c := &b.Columns[f.column]
	last, lastAddress := int64(0), int32(-1)
	x.mu.RLock()
	for row := range b.Rows {
		if !f.has(b, row) {
			if x.null < 0 {
				x.mu.RUnlock()
				x.admitNull()
				x.mu.RLock()
			}
			out = append(out, x.null)
			continue
		}
		number, ok := f.number(c, value)
		value++
		if !ok {
			out = append(out, -1)
			continue
		}
		if number != last || lastAddress < 0 {
			address, known := x.numbers[number]
			if !known {
				x.mu.RUnlock()
				address = x.admitNumber(number)
				x.mu.RLock()
			}
			last, lastAddress = number, address
		}
		out = append(out, lastAddress)
	}
	x.mu.RUnlock()
	return out
}

// admitNull gives the null partition its address, unless it has one.
func (x *Exchange) admitNull() {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.null < 0 {
		x.null = x.admit(map[int]any{x.fields[0].id: nil})
	}
}

// admitNumber gives a number its address, unless it has one.
func (x *Exchange) admitNumber(number int64) int32 {
	x.mu.Lock()
	defer x.mu.Unlock()
	if address, known := x.numbers[number]; known {
		return address
	}
	f := &x.fields[0]
	address := x.admit(map[int]any{f.id: f.value(number)})
	x.numbers[number] = address
	return address
}

// byTuple is the road of everything else: the partition values, encoded one
// after another, are the key.
func (x *Exchange) byTuple(b *Batch, out []int32) []int32 {
	s := x.scratch.Get().(*tupleScratch)
	defer x.scratch.Put(s)
	clear(s.next)
	x.mu.RLock()
	for row := range b.Rows {
		held := x.tuple(b, row, s)
		if !held {
			out = append(out, -1)
			continue
		}
		address, known := x.tuples[string(s.key)]
		if !known {
			x.mu.RUnlock()
			address = x.admitTuple(s.key)
			x.mu.RLock()
		}
		out = append(out, address)
	}
	x.mu.RUnlock()
	return out
}

// tuple encodes the partition values of a row into s.key and moves s.next past
// the row. It reports whether a partition can hold all of them.
func (x *Exchange) tuple(b *Batch, row int, s *tupleScratch) bool {
	key, held := s.key[:0], true
	for i := range x.fields {
		f := &x.fields[i]
		if f.void {
			continue
		}
		if !f.has(b, row) {
			key = append(key, 0)
			continue
		}
		value := s.next[i]
		s.next[i]++ // even for a refused row: the next one's value follows
		var ok bool
		key, ok = f.encode(append(key, 1), &b.Columns[f.column], value)
		held = held && ok
	}
	s.key = key
	return held
}

// admitTuple gives an encoded tuple its address, unless it has one.
func (x *Exchange) admitTuple(key []byte) int32 {
	x.mu.Lock()
	defer x.mu.Unlock()
	if address, known := x.tuples[string(key)]; known {
		return address
	}
	owned := string(key)
	partition, rest := make(map[int]any, len(x.fields)), key
	for i := range x.fields {
		f := &x.fields[i]
		partition[f.id] = nil
		if f.void {
			continue
		}
		there := rest[0] == 1
		rest = rest[1:]
		if there {
			partition[f.id], rest = f.decode(rest)
		}
	}
	if len(rest) != 0 {
		panic(fmt.Sprintf("partition tuple %x: %d bytes too many", key, len(rest)))
	}
	address := x.admit(partition)
	x.tuples[owned] = address
	return address
}

// admit appends a partition and returns its address. REQUIRES: x.mu is locked.
func (x *Exchange) admit(partition map[int]any) int32 {
	if len(x.partitions) == math.MaxInt32 {
		panic("exchange: more than 2147483647 partitions")
	}
	x.partitions = append(x.partitions, partition)
	return int32(len(x.partitions) - 1)
}
