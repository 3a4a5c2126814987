package writers

import (
	"encoding/binary"
	"math/bits"
)

// appendLevels appends levels as a data page of version 1 carries them: a
// length of four bytes, then the hybrid of runs and bit-packed groups.
// max is the highest level that the column can have.
func appendLevels(to []byte, levels []uint8, max uint8) []byte {
	start := len(to)
	to = append(to, 0, 0, 0, 0)
	to = appendHybrid(to, levels, bits.Len8(max))
	binary.LittleEndian.PutUint32(to[start:], uint32(len(to)-start-4))
	return to
}

// appendHybrid encodes values of width bits as Parquet's hybrid of run-length
// encoding and bit packing. Eight equal values in a row are worth a run;
// what lies between runs is packed in groups of eight, for a group can't be
// interrupted.
//
// Source: parquet-format Encodings.md, "Run Length Encoding / Bit-Packing Hybrid".
func appendHybrid[T uint8 | uint32](to []byte, values []T, width int) []byte {
	packed := 0 // where the values begin that are to be packed
	at := 0
	for at < len(values) {
		run := equalValues(values[at:])
		if run < 8 {
			at = min(at+8, len(values))
			continue
		}
		to = appendPacked(to, values[packed:at], width)
		to = binary.AppendUvarint(to, uint64(run)<<1)
		for v, w := uint64(values[at]), width; w > 0; v, w = v>>8, w-8 {
			to = append(to, byte(v))
		}
		at += run
		packed = at
	}
	return appendPacked(to, values[packed:], width)
}

// equalValues returns how many values at the start are equal.
func equalValues[T uint8 | uint32](values []T) int {
	first := values[0]
	n := 1
	for n < len(values) && values[n] == first {
		n++
	}
	return n
}

// appendPacked appends one bit-packed run. The last group is filled up with
// zeros, which a reader leaves unread, so it must end the page unless values
// are a multiple of eight.
func appendPacked[T uint8 | uint32](to []byte, values []T, width int) []byte {
	if len(values) == 0 {
		return to
	}
	groups := (len(values) + 7) / 8
	to = binary.AppendUvarint(to, uint64(groups)<<1|1)
	var pending uint64
	have := 0
	for _, v := range values {
		pending |= uint64(v) << have
		for have += width; have >= 8; have -= 8 {
			to = append(to, byte(pending))
			pending >>= 8
		}
	}
	for missing := (groups*8-len(values))*width + have; missing > 0; missing -= 8 {
		to = append(to, byte(pending))
		pending >>= 8
	}
	return to
}

// appendBits packs values of 0 and 1 as PLAIN booleans, lowest bit first.
func appendBits(to, values []byte) []byte {
	for ; len(values) >= 8; values = values[8:] {
		// The product moves the lowest bit of byte i to bit 56+i.
		to = append(to, byte(binary.LittleEndian.Uint64(values)*0x0102040810204080>>56))
	}
	if len(values) == 0 {
		return to
	}
	var last byte
	for i, v := range values {
		last |= v << i
	}
	return append(to, last)
}
