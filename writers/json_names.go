package writers

import "hash/maphash"

// nameTable finds a struct's field by its name. It is made once and only read.
type nameTable struct {
	seed  maphash.Seed
	slots []nameSlot // a power of two, at most half full
}

type nameSlot struct {
	hash  uint64
	name  string
	field *field // nil: the slot is free
}

func newNameTable(seed maphash.Seed, fields []*field) nameTable {
	size := 4
	for size < 2*len(fields) {
		size *= 2
	}
	t := nameTable{seed: seed, slots: make([]nameSlot, size)}
	for _, f := range fields {
		h := maphash.String(seed, f.own)
		i := int(h) & (size - 1)
		for t.slots[i].field != nil {
			i = (i + 1) & (size - 1)
		}
		t.slots[i] = nameSlot{h, f.own, f}
	}
	return t
}

// find returns the field of that name, or nil.
func (t *nameTable) find(name []byte) *field {
	h := maphash.Bytes(t.seed, name)
	for i := int(h) & (len(t.slots) - 1); t.slots[i].field != nil; i = (i + 1) & (len(t.slots) - 1) {
		if t.slots[i].hash == h && t.slots[i].name == string(name) {
			return t.slots[i].field
		}
	}
	return nil
}

// nameSet tells whether an object had a name before: a map's keys, and the
// names of a struct that no column has. One set serves all objects of a
// record, told apart by their serials. The hash is seeded, so that nobody can
// choose names that meet.
type nameSet struct {
	seed  maphash.Seed
	slots []setSlot // a power of two, at most half full
	used  int
	epoch uint32 // slots of other epochs are free
	names []byte
}

type setSlot struct {
	hash     uint64
	serial   uint64
	from, to uint32 // in names
	epoch    uint32
}

// setSlotsKept is how large a set may stay after a record, so that one odd
// record doesn't cost memory for ever.
const setSlotsKept = 1 << 14

// reset forgets all names.
func (s *nameSet) reset() {
	if s.used == 0 {
		return
	}
	if len(s.slots) > setSlotsKept {
		s.slots, s.names = nil, nil
	}
	s.used, s.names = 0, s.names[:0]
	if s.epoch++; s.epoch == 0 {
		clear(s.slots)
		s.epoch = 1
	}
}

// add notes that the object of that serial has name, and returns false when it
// had it before.
func (s *nameSet) add(serial uint64, name []byte) bool {
	if 2*s.used >= len(s.slots) {
		s.grow()
	}
	h := maphash.Bytes(s.seed, name) ^ serial*0x9E3779B97F4A7C15
	mask := len(s.slots) - 1
	i := int(h) & mask
	for ; s.slots[i].epoch == s.epoch; i = (i + 1) & mask {
		if at := &s.slots[i]; at.hash == h && at.serial == serial && string(s.names[at.from:at.to]) == string(name) {
			return false
		}
	}
	from := len(s.names)
	s.names = append(s.names, name...)
	s.slots[i] = setSlot{hash: h, serial: serial, from: uint32(from), to: uint32(len(s.names)), epoch: s.epoch}
	s.used++
	return true
}

// grow doubles the slots.
func (s *nameSet) grow() {
	old := s.slots
	s.slots = make([]setSlot, max(64, 2*len(old)))
	if s.epoch == 0 {
		s.epoch = 1
	}
	mask := len(s.slots) - 1
	for _, at := range old {
		if at.epoch != s.epoch {
			continue
		}
		i := int(at.hash) & mask
		for s.slots[i].epoch == s.epoch {
			i = (i + 1) & mask
		}
		s.slots[i] = at
	}
}
