package writers

import "encoding/binary"

// delta reads DELTA_BINARY_PACKED numbers, some at a time.
//
// Source: parquet-format Encodings.md, "Delta Encoding".
type delta struct {
	from      []byte
	at        int
	block     int // values a block
	minis     int // miniblocks a block
	perMini   int
	total     int // values left
	value     int64
	first     bool // value is the next that is handed out
	minDelta  int64
	widths    []byte // of the miniblocks left in the block
	left      int    // values left of the miniblock
	width     int
	bit       int // bits of the miniblock that were read
	miniBytes int
}

// deltaBlockMax bounds the values of a block; writers use 128.
const deltaBlockMax = 1 << 16

// newDelta reads the header. values is how many the page can have.
func newDelta(from []byte, values int) (delta, bool) {
	r := &uncompact{from: from}
	block, minis, total, first := r.unsigned(), r.unsigned(), r.unsigned(), r.signed()
	d := delta{from: from, at: r.at, first: true, value: first}
	if r.bad || block == 0 || block > deltaBlockMax || block%128 != 0 || minis == 0 || minis > 1<<10 || block%minis != 0 || total > uint64(values) {
		return d, false
	}
	d.block, d.minis, d.perMini, d.total = int(block), int(minis), int(block/minis), int(total)
	return d, d.perMini%8 == 0
}

// next reads len(to) numbers. It is false where there are fewer.
func (d *delta) next(to []int64) bool {
	if len(to) > d.total {
		return false
	}
	if len(to) > 0 && d.first {
		to[0] = d.value
		to, d.first, d.total = to[1:], false, d.total-1
	}
	for len(to) > 0 {
		if d.left == 0 && !d.mini() {
			return false
		}
		n := min(d.left, len(to))
		d.unpack(to[:n])
		d.left -= n
		d.total -= n
		if d.left == 0 {
			d.at += d.miniBytes
		}
		to = to[n:]
	}
	return true
}

// mini begins the next miniblock.
func (d *delta) mini() bool {
	if len(d.widths) == 0 {
		v, n := binary.Varint(d.from[d.at:])
		if n <= 0 || d.minis > len(d.from)-d.at-n {
			return false
		}
		d.minDelta = v
		d.widths = d.from[d.at+n : d.at+n+d.minis]
		d.at += n + d.minis
	}
	d.width, d.widths = int(d.widths[0]), d.widths[1:]
	d.left, d.bit = d.perMini, 0
	d.miniBytes = d.perMini * d.width / 8
	if d.width > 64 {
		return false
	}
	if have := len(d.from) - d.at; d.miniBytes > have {
		// The last one may end with its last value.
		d.left = min(d.left, d.total)
		if d.miniBytes = (d.left*d.width + 7) / 8; d.miniBytes > have {
			return false
		}
	}
	return true
}

// unpack reads numbers of the miniblock.
func (d *delta) unpack(to []int64) {
	from := d.from[d.at : d.at+d.miniBytes]
	v, bit, width := d.value, d.bit, d.width
	if width == 0 {
		for i := range to {
			v += d.minDelta
			to[i] = v
		}
		d.value = v
		return
	}
	for i := range to {
		v += d.minDelta + int64(wideBits(from, bit, width))
		to[i] = v
		bit += width
	}
	d.value, d.bit = v, bit
}

// wideBits reads up to 64 bits.
func wideBits(from []byte, bit, width int) uint64 {
	at, shift := bit>>3, bit&7
	if at+9 <= len(from) {
		v := binary.LittleEndian.Uint64(from[at:])>>shift | uint64(from[at+8])<<1<<(63-shift)
		return v & (1<<width - 1)
	}
	var word [9]byte
	copy(word[:], from[at:])
	v := binary.LittleEndian.Uint64(word[:])>>shift | uint64(word[8])<<1<<(63-shift)
	return v & (1<<width - 1)
}

// end returns where the numbers end, without moving.
func (d delta) end() (int, bool) {
	left := d.total - 1
	for left > 0 {
		if !d.mini() {
			return 0, false
		}
		left -= min(d.left, left)
		d.at += d.miniBytes
	}
	return d.at, true
}
