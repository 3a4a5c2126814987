package writers

import (
	"encoding/binary"
	"fmt"
)

// views reads len(to) values of bytes. What they point into stays until the
// next call of views or open.
func (v *values) views(to []uint64) error {
	switch v.encoding {
	case encodingPlain:
		if v.physical == physicalFixed {
			return v.fixedViews(to)
		}
		return v.plainViews(to)
	case encodingDeltaLength:
		return v.lengthViews(to)
	case encodingDeltaBytes:
		return v.prefixViews(to)
	case encodingStreamSplit:
		return v.splitViews(to)
	}
	return fmt.Errorf("encoding %d has no bytes", v.encoding)
}

func (v *values) plainViews(to []uint64) error {
	at, from := v.at, v.from
	for i := range to {
		if len(from)-at < 4 {
			return errValues("there are too few")
		}
		n := binary.LittleEndian.Uint32(from[at:])
		at += 4
		if uint64(n) > uint64(len(from)-at) {
			return errValues(fmt.Sprintf("one of %d bytes where %d are left", n, len(from)-at))
		}
		to[i] = uint64(at)<<32 | uint64(n)
		at += int(n)
	}
	v.at = at
	return nil
}

func (v *values) fixedViews(to []uint64) error {
	if len(to)*v.width > len(v.from)-v.at {
		return errValues("there are too few")
	}
	for i := range to {
		to[i] = view(v.at, v.width)
		v.at += v.width
	}
	return nil
}

// lengthsOf reads n lengths, none of which is negative.
func (v *values) lengthsOf(d *delta, to []int64, n int) ([]int64, error) {
	if cap(to) < n {
		to = make([]int64, n)
	}
	to = to[:n]
	if !d.next(to) {
		return to, errValues("there are too few lengths")
	}
	for _, n := range to {
		if n < 0 || n > 1<<31-1 {
			return to, errValues(fmt.Sprintf("a length of %d", n))
		}
	}
	return to, nil
}

// lengthViews reads DELTA_LENGTH_BYTE_ARRAY.
func (v *values) lengthViews(to []uint64) (err error) {
	if v.lengths, err = v.lengthsOf(&v.delta, v.lengths, len(to)); err != nil {
		return err
	}
	for i, n := range v.lengths {
		if n > int64(len(v.from)-v.at) {
			return errValues(fmt.Sprintf("one of %d bytes where %d are left", n, len(v.from)-v.at))
		}
		to[i] = view(v.at, int(n))
		v.at += int(n)
	}
	return nil
}

// prefixViews reads DELTA_BYTE_ARRAY: how much of the value before is kept, and
// what follows it.
func (v *values) prefixViews(to []uint64) (err error) {
	if v.lengths, err = v.lengthsOf(&v.delta, v.lengths, len(to)); err != nil {
		return err
	}
	if v.lengths2, err = v.lengthsOf(&v.suffix, v.lengths2, len(to)); err != nil {
		return err
	}
	base, last := v.own[:0], v.last
	for i, prefix := range v.lengths {
		suffix := v.lengths2[i]
		if prefix > int64(len(last)) || suffix > int64(len(v.from)-v.at) {
			return errValues("one has more bytes than there are")
		}
		if len(base)+int(prefix+suffix) > scanPageBytesMax {
			return errValues(fmt.Sprintf("%d of them have more than %d bytes", len(to), scanPageBytesMax))
		}
		start := len(base)
		base = append(base, last[:prefix]...)
		base = append(base, v.from[v.at:v.at+int(suffix)]...)
		v.at += int(suffix)
		last = base[start:]
		if v.physical == physicalFixed && len(last) != v.width {
			return errValues(fmt.Sprintf("one of %d bytes; the column's have %d", len(last), v.width))
		}
		to[i] = view(start, len(last))
	}
	v.own, v.base = base, base
	v.last = append(v.last[:0], last...)
	return nil
}

// splitViews gathers values of a fixed width from the streams of their bytes.
func (v *values) splitViews(to []uint64) error {
	if len(to) > v.count-v.index {
		return errValues("there are too few")
	}
	base := v.own[:0]
	for i := range to {
		to[i] = view(len(base), v.width)
		for k := range v.width {
			base = append(base, v.from[v.index+i+k*v.count])
		}
	}
	v.own, v.base = base, base
	v.index += len(to)
	return nil
}
