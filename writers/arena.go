package writers

import (
	"fmt"
)

// blockBytes is how much memory an arena takes at a time: small against the
// megabytes of a file, large against a compressed page.
const blockBytes = 64 << 10

// arena keeps compressed pages, in the order in which they were closed,
// until the file is put together. It grows by blocks and never moves.
type arena struct {
	blocks []*[blockBytes]byte
	used   int64
}

// write appends p; a page may lie across blocks.
func (a *arena) write(p []byte) {
	for len(p) > 0 {
		at := int(a.used % blockBytes)
		if at == 0 {
			a.blocks = append(a.blocks, takeBlock())
		}
		n := copy(a.blocks[len(a.blocks)-1][at:], p)
		a.used += int64(n)
		p = p[n:]
	}
}

// pieces appends to to the slices that together are the n bytes at place at.
func (a *arena) pieces(to [][]byte, at, n int64) [][]byte {
	if at < 0 || n < 0 || at+n > a.used {
		panic(fmt.Sprintf("arena of %d bytes: read %d at %d", a.used, n, at))
	}
	for n > 0 {
		within := at % blockBytes
		part := min(n, blockBytes-within)
		to = append(to, a.blocks[at/blockBytes][within:within+part])
		at, n = at+part, n-part
	}
	return to
}

func (a *arena) capacity() int64 { return int64(len(a.blocks)) * blockBytes }

func (a *arena) reset() {
	for _, b := range a.blocks {
		blocks.put(b)
	}
	clear(a.blocks)
	*a = arena{blocks: a.blocks[:0]}
	if cap(a.blocks) > 1024 {
		a.blocks = nil
	}
}
