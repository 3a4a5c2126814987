package writers

import "encoding/binary"

// hybrid reads Parquet's hybrid of run-length encoding and bit packing, some
// values at a time. It serves levels, dictionary indexes and booleans.
//
// Source: parquet-format Encodings.md, "Run Length Encoding / Bit-Packing Hybrid".
type hybrid struct {
	from  []byte
	width int // bits a value, at most 32
	at    int // byte of the next run, or of the packed run that is being read
	run   int // values left of a run of equal ones
	value uint32
	left  int // values left of a packed run
	bit   int // bits of the packed run that were read
}

func newHybrid(from []byte, width int) hybrid { return hybrid{from: from, width: width} }

// header begins the next run. It is false where there is none.
func (h *hybrid) header() bool {
	head, n := binary.Uvarint(h.from[h.at:])
	if n <= 0 || head>>1 > 1<<31-1 {
		return false
	}
	h.at += n
	if head&1 == 1 {
		h.left, h.bit = int(head>>1)*8, 0
		return true
	}
	h.run, h.value = int(head>>1), 0
	bytes := (h.width + 7) / 8
	if bytes > len(h.from)-h.at {
		return false
	}
	for i := range bytes {
		h.value |= uint32(h.from[h.at+i]) << (8 * i)
	}
	h.at += bytes
	return true
}

// levels reads len(to) levels. It is false where from ends before.
func (h *hybrid) levels(to []uint8) bool {
	for len(to) > 0 {
		switch {
		case h.run > 0:
			n := min(h.run, len(to))
			fill(to[:n], uint8(h.value))
			h.run -= n
			to = to[n:]
		case h.left > 0:
			n := min(h.left, len(to))
			if !h.reach(n) {
				return false
			}
			if h.width == 1 {
				unpackBits(to[:n], h.from[h.at:], h.bit)
			} else {
				unpack(to[:n], h.from[h.at:], h.bit, h.width)
			}
			h.took(n)
			to = to[n:]
		case !h.header():
			return false
		}
	}
	return true
}

// numbers reads len(to) numbers. It is false where from ends before.
func (h *hybrid) numbers(to []uint32) bool {
	for len(to) > 0 {
		switch {
		case h.run > 0:
			n := min(h.run, len(to))
			fill(to[:n], h.value)
			h.run -= n
			to = to[n:]
		case h.left > 0:
			n := min(h.left, len(to))
			if !h.reach(n) {
				return false
			}
			unpack(to[:n], h.from[h.at:], h.bit, h.width)
			h.took(n)
			to = to[n:]
		case !h.header():
			return false
		}
	}
	return true
}

// reach tells whether the packed run has the bytes of n more values.
func (h *hybrid) reach(n int) bool {
	return (h.bit+n*h.width+7)/8 <= len(h.from)-h.at
}

// took moves past n values of the packed run.
func (h *hybrid) took(n int) {
	h.left -= n
	h.bit += n * h.width
	if h.left == 0 {
		h.at += h.bit / 8 // groups of eight end with a byte
		return
	}
	h.at += h.bit / 8
	h.bit &= 7
}

// fill sets all of to, by doubling what is set.
func fill[T uint8 | uint32](to []T, v T) {
	if len(to) == 0 {
		return
	}
	if len(to) < 16 {
		for i := range to {
			to[i] = v
		}
		return
	}
	to[0] = v
	for n := 1; n < len(to); n *= 2 {
		copy(to[n:], to[:n])
	}
}

// unpack reads values of width bits, at most 57, from a bit on. from has all of
// their bytes.
func unpack[T uint8 | uint32 | uint64](to []T, from []byte, bit, width int) {
	mask := uint64(1)<<width - 1
	i := 0
	for ; i < len(to); i++ {
		at := bit >> 3
		if at+8 > len(from) {
			break
		}
		to[i] = T(binary.LittleEndian.Uint64(from[at:]) >> (bit & 7) & mask)
		bit += width
	}
	for ; i < len(to); i++ { // the last bytes
		var word [8]byte
		if at := bit >> 3; at < len(from) {
			copy(word[:], from[at:])
		}
		to[i] = T(binary.LittleEndian.Uint64(word[:]) >> (bit & 7) & mask)
		bit += width
	}
}

// unpackBits reads single bits.
func unpackBits(to []uint8, from []byte, bit int) {
	for len(to) > 0 && bit&7 != 0 {
		to[0] = from[bit>>3] >> (bit & 7) & 1
		to, bit = to[1:], bit+1
	}
	from = from[bit>>3:]
	for ; len(to) >= 8; to, from = to[8:], from[1:] {
		// The first product has a copy of the byte in each byte; what is left of
		// each by the mask, bit i of byte i, is moved to bit 7 by the sum.
		v := uint64(from[0]) * 0x0101010101010101 & 0x8040201008040201
		v = (v + 0x00406070787c7e7f) >> 7 & 0x0101010101010101
		binary.LittleEndian.PutUint64(to, v)
	}
	for i := range to {
		to[i] = from[0] >> i & 1
	}
}
