package writers

import (
	"bytes"
	"encoding/binary"
	"math"
	"unicode/utf8"

	"github.com/apache/iceberg-go"
)

// Bounds are cut to these lengths, as every Iceberg writer does by default:
// write.metadata.metrics.default is truncate(16).
const (
	boundRunes = 16 // of a string
	boundBytes = 16 // of a binary value
)

// prefixBytes of a value are enough to bound it: sixteen code points have at
// most sixty-four bytes.
const prefixBytes = boundRunes * utf8.UTFMax

// bounds are the least and the greatest value of a page or a column, without
// nulls and NaNs. They refer to no memory but their own.
type bounds struct {
	some     bool // there is a value; else the rest, but for nans, means nothing
	lo, hi   int64
	flo, fhi float64
	min, max prefix
	nans     int64
}

// prefix is the beginning of a byte string.
type prefix struct {
	length uint8
	longer bool // the value goes on
	b      [prefixBytes]byte
}

func prefixOf(v []byte) (p prefix) {
	p.length, p.longer = uint8(copy(p.b[:], v)), len(v) > prefixBytes
	return p
}

func (p *prefix) bytes() []byte { return p.b[:p.length] }

// compare orders prefixes like the values they begin, as far as they tell: of
// two with the same bytes the one that goes on is the greater.
func (p *prefix) compare(q *prefix) int {
	if c := bytes.Compare(p.bytes(), q.bytes()); c != 0 || p.longer == q.longer {
		return c
	}
	if p.longer {
		return 1
	}
	return -1
}

// measure returns the bounds of PLAIN values of a leaf (of kind Bool: a byte
// each) and how many they are.
func measure(leaf *Leaf, plain []byte) (b bounds, values int) {
	switch leaf.Kind {
	case Bool:
		b.ones(plain)
		return b, len(plain)
	case Int32:
		b.int32s(plain)
		return b, len(plain) / 4
	case Int64:
		b.int64s(plain)
		return b, len(plain) / 8
	case Float:
		for at := 0; at < len(plain); at += 4 {
			b.float(float64(math.Float32frombits(binary.LittleEndian.Uint32(plain[at:]))))
		}
		return b, len(plain) / 4
	case Double:
		for at := 0; at < len(plain); at += 8 {
			b.float(math.Float64frombits(binary.LittleEndian.Uint64(plain[at:])))
		}
		return b, len(plain) / 8
	case Fixed:
		b.fixed(plain, leaf)
		return b, len(plain) / leaf.Width
	}
	return b, b.strings(plain)
}

func (b *bounds) ones(plain []byte) {
	if len(plain) > 0 {
		b.some, b.lo, b.hi = true, 1, 0
	}
	if bytes.IndexByte(plain, 0) >= 0 {
		b.lo = 0
	}
	if bytes.IndexByte(plain, 1) >= 0 {
		b.hi = 1
	}
}

func (b *bounds) int32s(plain []byte) {
	lo, hi := int32(math.MaxInt32), int32(math.MinInt32)
	for ; len(plain) >= 4; plain = plain[4:] {
		v := int32(binary.LittleEndian.Uint32(plain))
		lo, hi, b.some = min(lo, v), max(hi, v), true
	}
	b.lo, b.hi = int64(lo), int64(hi)
}

func (b *bounds) int64s(plain []byte) {
	lo, hi := int64(math.MaxInt64), int64(math.MinInt64)
	for ; len(plain) >= 8; plain = plain[8:] {
		v := int64(binary.LittleEndian.Uint64(plain))
		lo, hi, b.some = min(lo, v), max(hi, v), true
	}
	b.lo, b.hi = lo, hi
}

// float counts NaN and takes everything else.
func (b *bounds) float(v float64) {
	switch {
	case v != v:
		b.nans++
	case !b.some:
		b.some, b.flo, b.fhi = true, v, v
	case v < b.flo:
		b.flo = v
	case v > b.fhi:
		b.fhi = v
	}
}

// fixed bounds values of one width. Longer ones than a prefix have no bounds:
// readers expect a bound of the full width.
func (b *bounds) fixed(plain []byte, leaf *Leaf) {
	if leaf.Width > prefixBytes || len(plain) == 0 {
		return
	}
	// The first byte of a decimal has the sign, and negative ones come first.
	var sign byte
	if _, decimal := leaf.Type.(iceberg.DecimalType); decimal {
		sign = 0x80
	}
	lo, hi := plain[:leaf.Width], plain[:leaf.Width]
	for ; len(plain) > 0; plain = plain[leaf.Width:] {
		v := plain[:leaf.Width]
		if compareFixed(v, lo, sign) < 0 {
			lo = v
		} else if compareFixed(v, hi, sign) > 0 {
			hi = v
		}
	}
	b.some, b.min, b.max = true, prefixOf(lo), prefixOf(hi)
}

func compareFixed(v, w []byte, sign byte) int {
	if first, other := v[0]^sign, w[0]^sign; first != other {
		return int(first) - int(other)
	}
	return bytes.Compare(v, w)
}

// strings bounds values that follow their lengths, and counts them. The first
// eight bytes as a number decide nearly every comparison.
func (b *bounds) strings(plain []byte) (values int) {
	var lo, hi []byte
	least, greatest := uint64(math.MaxUint64), uint64(0)
	for at := 0; at < len(plain); {
		n := int(binary.LittleEndian.Uint32(plain[at:]))
		at += 4
		v := plain[at : at+n]
		key := firstEight(plain[at:], n)
		at += n
		values++
		if key <= least && (lo == nil || key < least || bytes.Compare(v, lo) < 0) {
			lo, least = v, key
		}
		if key >= greatest && (hi == nil || key > greatest || bytes.Compare(v, hi) > 0) {
			hi, greatest = v, key
		}
	}
	if values > 0 {
		b.some, b.min, b.max = true, prefixOf(lo), prefixOf(hi)
	}
	return values
}

// firstEight returns the first eight of the n bytes that rest begins with as a
// number that sorts as they do, with zeros where there are fewer.
func firstEight(rest []byte, n int) uint64 {
	if len(rest) >= 8 {
		key := binary.BigEndian.Uint64(rest)
		if n < 8 {
			key &= ^uint64(0) << (64 - 8*n)
		}
		return key
	}
	var eight [8]byte
	copy(eight[:], rest[:n])
	return binary.BigEndian.Uint64(eight[:])
}

// merge widens b to the values of o.
func (b *bounds) merge(o *bounds, leaf *Leaf) {
	b.nans += o.nans
	if !o.some {
		return
	}
	if !b.some {
		nans := b.nans
		*b = *o
		b.nans = nans
		return
	}
	b.lo, b.hi = min(b.lo, o.lo), max(b.hi, o.hi)
	b.flo, b.fhi = min(b.flo, o.flo), max(b.fhi, o.fhi)
	switch leaf.Kind {
	case Bytes:
		if o.min.compare(&b.min) < 0 {
			b.min = o.min
		}
		if o.max.compare(&b.max) > 0 {
			b.max = o.max
		}
	case Fixed:
		var sign byte
		if _, decimal := leaf.Type.(iceberg.DecimalType); decimal {
			sign = 0x80
		}
		if compareFixed(o.min.bytes(), b.min.bytes(), sign) < 0 {
			b.min = o.min
		}
		if compareFixed(o.max.bytes(), b.max.bytes(), sign) > 0 {
			b.max = o.max
		}
	}
}

// limits are a pair of bounds in bytes. A nil bound is none.
type limits struct {
	lower, upper           []byte
	lowerExact, upperExact bool // a value that is there, not one beyond it
}

// parquet gives the bounds as Parquet's statistics have them: PLAIN values
// without a length. Short byte strings are kept whole, long ones cut.
func (b *bounds) parquet(leaf *Leaf) limits {
	if !b.some {
		return limits{}
	}
	if leaf.Kind == Bool {
		return limits{[]byte{byte(b.lo)}, []byte{byte(b.hi)}, true, true}
	}
	if leaf.Kind == Bytes {
		l := limits{b.min.bytes(), b.max.bytes(), true, true}
		_, text := leaf.Type.(iceberg.StringType)
		if b.min.longer {
			l.lower, l.lowerExact = lowerBound(&b.min, text), false
		}
		if b.max.longer {
			l.upper, l.upperExact = upperBound(&b.max, text), false
		}
		return l
	}
	l := limits{lowerExact: true, upperExact: true}
	l.lower, l.upper = b.plain(leaf)
	return l
}

// iceberg gives the bounds as Iceberg's manifests have them.
//
// Source: Iceberg spec, appendix D "Binary single-value serialization".
func (b *bounds) iceberg(leaf *Leaf) (lower, upper []byte) {
	if !b.some {
		return nil, nil
	}
	if leaf.Kind == Bytes {
		_, text := leaf.Type.(iceberg.StringType)
		return lowerBound(&b.min, text), upperBound(&b.max, text)
	}
	lower, upper = b.plain(leaf)
	if _, decimal := leaf.Type.(iceberg.DecimalType); decimal {
		if leaf.Kind != Fixed {
			lower, upper = binary.BigEndian.AppendUint64(nil, uint64(b.lo)), binary.BigEndian.AppendUint64(nil, uint64(b.hi))
		}
		lower, upper = shortest(lower), shortest(upper)
	}
	return lower, upper
}

// plain gives the bounds of all kinds but Bytes as PLAIN values. Zero is
// bounded by -0 and +0, for nothing says which of the two was meant.
func (b *bounds) plain(leaf *Leaf) (lower, upper []byte) {
	order := binary.LittleEndian
	flo, fhi := b.flo, b.fhi
	if flo == 0 {
		flo = math.Copysign(0, -1)
	}
	if fhi == 0 {
		fhi = 0
	}
	switch leaf.Kind {
	case Bool:
		return []byte{byte(b.lo)}, []byte{byte(b.hi)}
	case Int32:
		return order.AppendUint32(nil, uint32(b.lo)), order.AppendUint32(nil, uint32(b.hi))
	case Int64:
		return order.AppendUint64(nil, uint64(b.lo)), order.AppendUint64(nil, uint64(b.hi))
	case Float:
		return order.AppendUint32(nil, math.Float32bits(float32(flo))), order.AppendUint32(nil, math.Float32bits(float32(fhi)))
	case Double:
		return order.AppendUint64(nil, math.Float64bits(flo)), order.AppendUint64(nil, math.Float64bits(fhi))
	}
	return bytes.Clone(b.min.bytes()), bytes.Clone(b.max.bytes())
}

// shortest drops leading bytes of a big-endian two's complement number that
// only repeat its sign.
func shortest(v []byte) []byte {
	for len(v) > 1 && (v[0] == 0 && v[1] < 0x80 || v[0] == 0xFF && v[1] >= 0x80) {
		v = v[1:]
	}
	return v
}

// lowerBound cuts a least value, which makes it no greater. It returns nil for
// a text that isn't UTF-8.
func lowerBound(p *prefix, text bool) []byte {
	cut, _, ok := p.cut(text)
	if !ok {
		return nil
	}
	return append([]byte{}, cut...)
}

// upperBound cuts a greatest value and counts up the last place that can be, so
// that the bound is not less than the value. It returns nil where there is no
// such bound.
func upperBound(p *prefix, text bool) []byte {
	cut, short, ok := p.cut(text)
	if !ok {
		return nil
	}
	if !short {
		return append([]byte{}, cut...)
	}
	if text {
		return nextText(cut)
	}
	return nextBinary(cut)
}

// cut returns what a bound may keep of a value, whether it is less than all
// of it, and whether that is possible without splitting a code point.
func (p *prefix) cut(text bool) (cut []byte, short, ok bool) {
	v := p.bytes()
	if !text {
		n := min(len(v), boundBytes)
		return v[:n], n < len(v) || p.longer, true
	}
	at := 0
	for runes := 0; runes < boundRunes && at < len(v); runes++ {
		r, n := utf8.DecodeRune(v[at:])
		if r == utf8.RuneError && n < 2 {
			return nil, false, false
		}
		at += n
	}
	return v[:at], at < len(v) || p.longer, true
}

func nextBinary(v []byte) []byte {
	for n := len(v); n > 0; n-- {
		if v[n-1] != 0xFF {
			up := append([]byte{}, v[:n]...)
			up[n-1]++
			return up
		}
	}
	return nil
}

func nextText(v []byte) []byte {
	for len(v) > 0 {
		r, n := utf8.DecodeLastRune(v)
		v = v[:len(v)-n]
		if r == utf8.MaxRune {
			continue
		}
		if r++; r == 0xD800 {
			r = 0xE000 // what lies between are surrogates, no code points of a text
		}
		return utf8.AppendRune(append([]byte{}, v...), r)
	}
	return nil
}
