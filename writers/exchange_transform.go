package writers

import (
	"encoding/binary"
	"math"
	"math/bits"
	"time"
	"unicode/utf8"

	"github.com/apache/arrow-go/v18/arrow/decimal128"
	"github.com/apache/iceberg-go"
	"github.com/twmb/murmur3"
)

// bucket hashes the value and takes the remainder.
// Source: Iceberg spec, appendix B "32-bit Hash Requirements".
func (p *partitionField) bucket(leaf *Leaf, buckets int) {
	n := int64(buckets)
	p.buckets, p.value = buckets, int32Value
	_, decimal := leaf.Type.(iceberg.DecimalType)
	fixed := leaf.Kind == Fixed
	switch {
	case decimal:
		// Not the number's own hash, whatever its physical form: the fewest bytes that hold it.
		p.number = func(c *Column, i int) (int64, bool) {
			if fixed {
				return int64(murmur3.Sum32(trimSign(c.Bytes(i)))&math.MaxInt32) % n, true
			}
			var wide [8]byte
			binary.BigEndian.PutUint64(wide[:], uint64(c.Fixed[i]))
			return int64(murmur3.Sum32(trimSign(wide[:]))&math.MaxInt32) % n, true
		}
	case fixed || leaf.Kind == Bytes:
		p.number = func(c *Column, i int) (int64, bool) {
			return int64(murmur3.Sum32(c.Bytes(i))&math.MaxInt32) % n, true
		}
	default:
		p.number = func(c *Column, i int) (int64, bool) {
			return int64(hashLong(c.Fixed[i])&math.MaxInt32) % n, true
		}
	}
}

// trimSign drops the leading bytes of a big-endian two's complement that its
// sign makes redundant. One byte stays.
func trimSign(b []byte) []byte {
	for len(b) > 1 && (b[0] == 0 && b[1]&0x80 == 0 || b[0] == 0xff && b[1]&0x80 != 0) {
		b = b[1:]
	}
	return b
}

// hashLong is murmur3 x86 32 with seed 0 of the eight little-endian bytes of v,
// written out for that length.
func hashLong(v int64) uint32 {
	const c1, c2 = 0xcc9e2d51, 0x1b873593
	var h uint32
	for _, k := range [2]uint32{uint32(v), uint32(uint64(v) >> 32)} {
		h ^= bits.RotateLeft32(k*c1, 15) * c2
		h = bits.RotateLeft32(h, 13)*5 + 0xe6546b64
	}
	h ^= 8
	h ^= h >> 16
	h *= 0x85ebca6b
	h ^= h >> 13
	h *= 0xc2b2ae35
	return h ^ h>>16
}

// truncate takes numbers down to a multiple of width, strings to their first
// width code points and binary to its first width bytes.
func (p *partitionField) truncate(leaf *Leaf, width int) {
	w := int64(width)
	switch t := leaf.Type.(type) {
	case iceberg.Int32Type:
		p.number, p.value = floorNumber(w, math.MinInt32), int32Value
	case iceberg.Int64Type:
		p.number, p.value = floorNumber(w, math.MinInt64), numberValue(t)
	case iceberg.DecimalType:
		p.truncateDecimal(leaf, t, w)
	case iceberg.StringType:
		p.bytes = bytesValue(t)
		p.piece = func(key []byte, c *Column, i int) ([]byte, bool) {
			return append(key, firstRunes(c.Bytes(i), width)...), true
		}
	case iceberg.BinaryType:
		p.bytes = bytesValue(t)
		p.piece = func(key []byte, c *Column, i int) ([]byte, bool) {
			b := c.Bytes(i)
			return append(key, b[:min(len(b), width)]...), true
		}
	}
}

// floorNumber returns what takes a number down to a multiple of width, unless
// that is below lowest.
func floorNumber(width, lowest int64) func(*Column, int) (int64, bool) {
	return func(c *Column, i int) (int64, bool) {
		v := c.Fixed[i]
		over := v - floorDivide(v, width)*width
		if v < lowest+over {
			return 0, false
		}
		return v - over, true
	}
}

// truncateDecimal takes the unscaled value down to a multiple of width. The
// result may have one digit more than the type has.
func (p *partitionField) truncateDecimal(leaf *Leaf, t iceberg.DecimalType, width int64) {
	if leaf.Kind != Fixed {
		lowest := int64(1)
		for range t.Precision() {
			lowest *= 10
		}
		p.number, p.value = floorNumber(width, 1-lowest), numberValue(t)
		return
	}
	p.bytes = bytesValue(t)
	w, precision, size := uint64(width), int32(t.Precision()), leaf.Width
	_, wrap := bits.Div64(0, math.MaxUint64, w)
	_, wrap = bits.Div64(wrap, math.MaxUint64, w) // 2^128-1 modulo w
	wrap = (wrap + 1) % w
	p.piece = func(key []byte, c *Column, i int) ([]byte, bool) {
		v, err := decimalOfBytes(c.Bytes(i))
		if err != nil {
			return key, false
		}
		high, low := uint64(v.HighBits()), v.LowBits()
		over := bits.Rem64(high, low, w)
		if v.Sign() < 0 { // the bits are 2^128 too many
			over = (over + w - wrap) % w
		}
		low, borrow := bits.Sub64(low, over, 0)
		high -= borrow
		var wide [16]byte
		binary.BigEndian.PutUint64(wide[:8], high)
		binary.BigEndian.PutUint64(wide[8:], low)
		return append(key, wide[16-size:]...), decimal128.New(int64(high), low).FitsInPrecision(precision)
	}
}

// firstRunes returns the first n code points of s.
func firstRunes(s []byte, n int) []byte {
	if len(s) <= n {
		return s
	}
	at := 0
	for ; n > 0 && at < len(s); n-- {
		if s[at] < utf8.RuneSelf {
			at++
			continue
		}
		_, size := utf8.DecodeRune(s[at:])
		at += size
	}
	return s[:at]
}

const (
	microsADay   = int64(24 * time.Hour / time.Microsecond)
	microsAnHour = int64(time.Hour / time.Microsecond)
)

// calendar reduces dates and timestamps to days since 1970-01-01 and these to
// the unit.
func (p *partitionField) calendar(leaf *Leaf, unit func(day int64) int64) {
	p.value = int32Value
	if _, ok := leaf.Type.(iceberg.DateType); ok {
		p.number = func(c *Column, i int) (int64, bool) { return unit(c.Fixed[i]), true }
		return
	}
	// The days of all timestamps fit into 32 bits, and so do their months and years.
	p.number = func(c *Column, i int) (int64, bool) { return unit(floorDivide(c.Fixed[i], microsADay)), true }
}

// hours counts whole hours since 1970-01-01T00:00. The farthest timestamps have
// more of them than an int holds.
func hours(c *Column, i int) (int64, bool) {
	n := floorDivide(c.Fixed[i], microsAnHour)
	return n, n == int64(int32(n))
}

// yearOfDay returns years since 1970.
func yearOfDay(day int64) int64 {
	return int64(time.Unix(day*86400, 0).UTC().Year()) - 1970
}

// monthOfDay returns months since January 1970.
func monthOfDay(day int64) int64 {
	year, month, _ := time.Unix(day*86400, 0).UTC().Date()
	return (int64(year)-1970)*12 + int64(month) - 1
}

// floorDivide divides and rounds toward negative infinity. REQUIRES: b > 0.
func floorDivide(a, b int64) int64 {
	q := a / b
	if a%b < 0 {
		q--
	}
	return q
}
