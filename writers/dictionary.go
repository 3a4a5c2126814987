package writers

import (
	"bytes"
	"encoding/binary"
	"hash/maphash"
	"math/bits"
	"sync"
)

// dictionary gives the distinct values of a column chunk numbers, in order of
// first sight. Values are taken in their PLAIN form, byte strings with their
// lengths, so that the dictionary page is the dictionary itself.
//
// The table is open addressing over slots of 16 bits of a value's hash and 16
// bits of its number plus one; 0 is free. The hash is seeded, for values come
// from anybody.
type dictionary struct {
	seed  maphash.Seed
	width int    // bytes a value; 0: byte strings
	plain []byte // the values, end to end
	ends  []uint32
	table []uint32
}

// A dictionary is given up beyond these: it must pay in memory, which 64 open
// files have for each column, and in the cache.
const (
	dictionaryValuesMax = 2048
	dictionaryBytesMax  = 1 << 20 // and no more than a page
	dictionarySlotsMin  = 64
)

// dictionaries carries no state from one user to the next, see presses.
var dictionaries = sync.Pool{New: func() any {
	return &dictionary{seed: maphash.MakeSeed(), table: make([]uint32, dictionarySlotsMin)}
}}

func newDictionary(width int) *dictionary {
	d := dictionaries.Get().(*dictionary)
	d.width, d.plain, d.ends = width, d.plain[:0], d.ends[:0]
	d.table = d.table[:dictionarySlotsMin]
	clear(d.table)
	return d
}

func (d *dictionary) free() { dictionaries.Put(d) }

// memory returns the bytes that the dictionary takes.
func (d *dictionary) memory() int64 {
	return int64(cap(d.plain) + 4*cap(d.ends) + 4*cap(d.table))
}

// number appends the numbers of PLAIN values to to. It reports false, and
// is as it was before, when there are too many distinct ones to be worth it.
func (d *dictionary) number(plain []byte, to []uint32, bytesMax int) ([]uint32, bool) {
	values, size := len(d.ends), len(d.plain)
	for at, seen := 0, 0; at < len(plain); seen++ {
		n := d.width
		if n == 0 {
			n = 4 + int(binary.LittleEndian.Uint32(plain[at:]))
		}
		v := plain[at : at+n]
		at += n
		hash := maphash.Bytes(d.seed, v)
		tag := uint32(hash>>32) &^ 0xFFFF
		slot := uint32(hash) & uint32(len(d.table)-1)
		for {
			e := d.table[slot]
			if e == 0 {
				// Where more than every fourth value is a new one, the page is
				// smaller as it is.
				fresh := len(d.ends) - values
				if len(d.ends) >= dictionaryValuesMax || len(d.plain)+n > bytesMax || 4*fresh > seen+512 {
					d.forget(values, size)
					return to, false
				}
				to = append(to, uint32(len(d.ends)))
				d.add(v, slot, tag)
				break
			}
			if i := e&0xFFFF - 1; e&^0xFFFF == tag && bytes.Equal(d.value(i), v) {
				to = append(to, i)
				break
			}
			slot = (slot + 1) & uint32(len(d.table)-1)
		}
	}
	return to, true
}

func (d *dictionary) value(i uint32) []byte {
	if i == 0 {
		return d.plain[:d.ends[0]]
	}
	return d.plain[d.ends[i-1]:d.ends[i]]
}

// add adds a value at a free slot and keeps half of the slots free.
func (d *dictionary) add(v []byte, slot, tag uint32) {
	d.plain = append(d.plain, v...)
	d.ends = append(d.ends, uint32(len(d.plain)))
	d.table[slot] = tag | uint32(len(d.ends))
	if 2*len(d.ends) > len(d.table) {
		d.fill(2 * len(d.table))
	}
}

// forget drops the values that were added last. The table is rebuilt.
func (d *dictionary) forget(values, size int) {
	d.ends, d.plain = d.ends[:values], d.plain[:size]
	d.fill(len(d.table))
}

// fill makes the table anew.
func (d *dictionary) fill(slots int) {
	if slots > cap(d.table) {
		d.table = make([]uint32, slots)
	} else {
		d.table = d.table[:slots]
		clear(d.table)
	}
	for i := range d.ends {
		hash := maphash.Bytes(d.seed, d.value(uint32(i)))
		slot := uint32(hash) & uint32(slots-1)
		for d.table[slot] != 0 {
			slot = (slot + 1) & uint32(slots-1)
		}
		d.table[slot] = uint32(hash>>32)&^0xFFFF | uint32(i+1)
	}
}

// bitWidth returns the bits of a number. A width of 0 is legal for a single
// value, but not every reader expects it.
func (d *dictionary) bitWidth() int { return max(1, bits.Len(uint(len(d.ends)-1))) }

// pays reports whether numbers and dictionary are clearly smaller than the values.
func (d *dictionary) pays(numbers, plainBytes int) bool {
	return len(d.plain)+numbers*d.bitWidth()/8+64 < plainBytes*3/4
}

// appendNumbers appends what an RLE_DICTIONARY page has for values.
func (d *dictionary) appendNumbers(to []byte, numbers []uint32) []byte {
	width := d.bitWidth()
	return appendHybrid(append(to, byte(width)), numbers, width)
}

// numbers finds the dictionary's numbers for the values of the open page, in
// p.numbers. It reports false where the page is to be PLAIN. A column that has
// once turned its dictionary down does not try again in this file.
func (e *Encoder) numbers(c *column, p *press, plain []byte) bool {
	if c.plainOnly || c.openValues == 0 {
		return false
	}
	first := c.dictionary == nil
	if first {
		c.dictionary = newDictionary(c.leaf.bytesEach())
		e.open += c.dictionary.memory()
	}
	d := c.dictionary
	before := d.memory()
	var ok bool
	p.numbers, ok = d.number(plain, p.numbers[:0], min(e.pageBytes, dictionaryBytesMax))
	e.open += d.memory() - before
	if ok && first {
		ok = d.pays(len(p.numbers), len(plain))
	}
	if !ok {
		c.plainOnly = true
		if first {
			e.open -= d.memory()
			d.free()
			c.dictionary = nil
		}
	}
	return ok
}
