package writers

import (
	"encoding/binary"
	"fmt"
)

// Encodings that only readers meet. Source: parquet.thrift, Encoding.
const (
	encodingPlainDictionary = 2
	encodingDelta           = 5
	encodingDeltaLength     = 6
	encodingDeltaBytes      = 7
	encodingStreamSplit     = 9
)

// values reads the values of one page, some at a time, in whatever encoding
// they have. Numbers come as int64, as Kind says; bytes come as views: the
// place in base in the upper 32 bits, the length in the lower.
type values struct {
	encoding int32
	physical int32
	width    int  // of a value with a fixed width
	nanos    bool // INT96 comes in nanoseconds, else in microseconds
	from     []byte
	at       int // of from
	bit      int // PLAIN booleans
	count    int // BYTE_STREAM_SPLIT: values in a stream
	index    int // BYTE_STREAM_SPLIT: the next
	hybrid   hybrid
	delta    delta
	suffix   delta // DELTA_BYTE_ARRAY: lengths of what follows the prefix
	last     []byte
	lengths  []int64
	lengths2 []int64
	base     []byte // what views point into: from or own
	own      []byte // values that don't lie in from as they are
}

func view(at, n int) uint64 { return uint64(at)<<32 | uint64(uint32(n)) }

func (v *values) at64(w uint64) []byte { return v.base[w>>32:][:uint32(w)] }

// errValues says that a page has fewer values than its header says, or wrong ones.
func errValues(what string) error { return fmt.Errorf("the page's values are damaged: %s", what) }

// open begins a page's values. entries is how many it may have at most.
func (v *values) open(encoding int32, from []byte, entries int) error {
	v.encoding, v.from, v.at, v.bit, v.index, v.base = encoding, from, 0, 0, 0, from
	ok, fits := true, true
	switch encoding {
	case encodingPlain:
	case encodingPlainDictionary, encodingDictionary:
		if len(from) == 0 { // all null
			v.hybrid = newHybrid(nil, 0)
			return nil
		}
		v.hybrid = newHybrid(from[1:], int(from[0]))
		ok = from[0] <= 32
	case encodingRLE:
		fits = v.physical == physicalBool
		if fits && len(from) > 0 {
			n := uint32(0)
			if ok = len(from) >= 4; ok {
				n = binary.LittleEndian.Uint32(from)
				ok = uint64(n) <= uint64(len(from)-4)
			}
			if ok {
				v.hybrid = newHybrid(from[4:4+n], 1)
			}
		}
	case encodingDelta:
		fits = v.physical == physicalInt32 || v.physical == physicalInt64
		v.delta, ok = openDelta(from, entries)
	case encodingDeltaLength:
		fits = v.physical == physicalBytes
		if v.delta, ok = openDelta(from, entries); ok {
			v.at, ok = v.delta.end()
		}
	case encodingDeltaBytes:
		fits = v.physical == physicalBytes || v.physical == physicalFixed
		v.last = v.last[:0]
		if v.delta, ok = openDelta(from, entries); ok {
			if v.at, ok = v.delta.end(); ok {
				rest := from[v.at:]
				if v.suffix, ok = openDelta(rest, entries); ok {
					var n int
					n, ok = v.suffix.end()
					v.at += n
				}
			}
		}
	case encodingStreamSplit:
		fits = v.physical != physicalBool && v.physical != physicalBytes && v.physical != physicalInt96
		v.count = len(from) / max(1, v.width)
		ok = v.count*v.width == len(from)
	default:
		return fmt.Errorf("encoding %d is unknown", encoding)
	}
	if !fits {
		return fmt.Errorf("encoding %d does not fit physical type %d", encoding, v.physical)
	}
	if !ok {
		return errValues("they don't begin as their encoding wants")
	}
	return nil
}

// openDelta is newDelta, for which nothing at all is no values.
func openDelta(from []byte, entries int) (delta, bool) {
	if len(from) == 0 {
		return delta{}, true
	}
	return newDelta(from, entries)
}

// numbers reads len(to) values of a fixed kind.
func (v *values) numbers(to []int64) error {
	switch v.encoding {
	case encodingPlain:
		return v.plainNumbers(to)
	case encodingDelta:
		if !v.delta.next(to) {
			return errValues("there are too few")
		}
		if v.physical == physicalInt32 {
			for i, n := range to {
				to[i] = int64(int32(n))
			}
		}
		return nil
	case encodingRLE:
		var bits [256]uint8
		for len(to) > 0 {
			n := min(len(bits), len(to))
			if !v.hybrid.levels(bits[:n]) {
				return errValues("there are too few")
			}
			for i, b := range bits[:n] {
				to[i] = int64(b & 1)
			}
			to = to[n:]
		}
		return nil
	case encodingStreamSplit:
		return v.splitNumbers(to)
	}
	return fmt.Errorf("encoding %d has no numbers", v.encoding)
}

func (v *values) plainNumbers(to []int64) error {
	if v.physical == physicalBool {
		if (v.bit+len(to)+7)/8 > len(v.from) {
			return errValues("there are too few")
		}
		for i := range to {
			to[i] = int64(v.from[v.bit>>3] >> (v.bit & 7) & 1)
			v.bit++
		}
		return nil
	}
	if len(to)*v.width > len(v.from)-v.at {
		return errValues("there are too few")
	}
	from := v.from[v.at : v.at+len(to)*v.width]
	v.at += len(from)
	switch v.physical {
	case physicalInt32:
		for i := range to {
			to[i] = int64(int32(binary.LittleEndian.Uint32(from[4*i:])))
		}
	case physicalFloat:
		for i := range to {
			to[i] = int64(binary.LittleEndian.Uint32(from[4*i:]))
		}
	case physicalInt64, physicalDouble:
		for i := range to {
			to[i] = int64(binary.LittleEndian.Uint64(from[8*i:]))
		}
	case physicalInt96:
		return v.stamps(to, from)
	default:
		return fmt.Errorf("physical type %d has no numbers", v.physical)
	}
	return nil
}

// stamps reads the timestamps of INT96, nanoseconds of the day and then the
// Julian day, in microseconds since 1970, or nanoseconds if nanos is set. What
// is finer than a microsecond is cut, as other readers do.
func (v *values) stamps(to []int64, from []byte) error {
	const day1970 = 2_440_588
	unit, daysMax := int64(1), int64(100_000_000)
	if v.nanos {
		unit, daysMax = 1000, 106_000
	}
	for i := range to {
		nanos := binary.LittleEndian.Uint64(from[12*i:])
		day := int64(int32(binary.LittleEndian.Uint32(from[12*i+8:]))) - day1970
		if nanos > 1000*microsPerDay || day < -daysMax || day > daysMax {
			return errValues(fmt.Sprintf("an INT96 timestamp of day %d and %d ns", day, nanos))
		}
		to[i] = day*microsPerDay*unit + int64(nanos)*unit/1000
	}
	return nil
}

// splitNumbers gathers numbers from the streams of their bytes.
func (v *values) splitNumbers(to []int64) error {
	if len(to) > v.count-v.index {
		return errValues("there are too few")
	}
	for i := range to {
		word, at := uint64(0), v.index+i
		for k := range v.width {
			word |= uint64(v.from[at]) << (8 * k)
			at += v.count
		}
		if v.physical == physicalInt32 {
			word = uint64(int64(int32(word)))
		}
		to[i] = int64(word)
	}
	v.index += len(to)
	return nil
}
