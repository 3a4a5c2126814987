package router

import (
	"fmt"
	"slices"
	"strings"
)

// offsetSet is a set of offsets: one bit each while they come, next to nothing
// where they are complete.
type offsetSet struct {
	pages map[int64]*offsetPage
	n     int64
	low   int64 // the least and the highest, once n > 0
	high  int64
}

const offsetPageSize = 4096

type offsetPage struct {
	bits [offsetPageSize / 64]uint64
	n    int
}

// wholePage stands for every page that is complete.
var wholePage = &offsetPage{n: offsetPageSize}

// add reports whether the offset was not in the set before.
func (s *offsetSet) add(offset int64) bool {
	number, at := offset/offsetPageSize, offset%offsetPageSize
	p := s.pages[number]
	switch {
	case p == wholePage:
		return false
	case p == nil:
		if s.pages == nil {
			s.pages = map[int64]*offsetPage{}
		}
		p = &offsetPage{}
		s.pages[number] = p
	}
	bit := uint64(1) << (at % 64)
	if p.bits[at/64]&bit != 0 {
		return false
	}
	p.bits[at/64] |= bit
	if p.n++; p.n == offsetPageSize {
		s.pages[number] = wholePage
	}
	if s.n == 0 {
		s.low, s.high = offset, offset
	}
	s.n, s.low, s.high = s.n+1, min(s.low, offset), max(s.high, offset)
	return true
}

// run is the offsets from first to last.
type run struct{ first, last int64 }

func (r run) n() int64 { return r.last - r.first + 1 }

func (r run) String() string {
	if r.first == r.last {
		return fmt.Sprint(r.first)
	}
	return fmt.Sprintf("%d..%d", r.first, r.last)
}

// missing lists the runs of offsets from from up to, not including, to that
// are not in the set.
func (s *offsetSet) missing(from, to int64) (runs []run, n int64) {
	numbers := make([]int64, 0, len(s.pages))
	for number := range s.pages {
		numbers = append(numbers, number)
	}
	slices.Sort(numbers)
	at := from // everything below is in the set or in a run
	gap := func(end int64) {
		if end = min(end, to); end > at {
			runs, n = append(runs, run{at, end - 1}), n+end-at
		}
	}
	for _, number := range numbers {
		p, first := s.pages[number], number*offsetPageSize
		if p == wholePage {
			gap(first)
			at = max(at, first+offsetPageSize)
			continue
		}
		for i := range int64(offsetPageSize) {
			if p.bits[i/64]&(1<<(i%64)) != 0 {
				gap(first + i)
				at = max(at, first+i+1)
			}
		}
	}
	gap(to)
	return runs, n
}

// within counts the offsets of the set from from up to, not including, to.
func (s *offsetSet) within(from, to int64) int64 {
	if to <= from {
		return 0
	}
	_, missing := s.missing(from, to)
	return to - from - missing
}

// runsShown bounds how many runs a finding names.
const runsShown = 8

// namesOf writes runs for people.
func namesOf(runs []run) string {
	names := make([]string, 0, runsShown+1)
	for i, r := range runs {
		if i == runsShown {
			names = append(names, fmt.Sprintf("and %d more", len(runs)-i))
			break
		}
		names = append(names, r.String())
	}
	return strings.Join(names, ", ")
}
