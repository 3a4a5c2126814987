package writers

import (
	"fmt"
	"sync"
)

// Share is what one open file gets of a batch: Rows, in this order.
type Share struct {
	Batch *Batch
	Rows  []int32
	To    *Encoder
}

// Scatter appends every share to its encoder, like Append one after the other
// but several times faster: it goes column by column, so that of all the open
// pages only those of one column are written to at a time and stay in the
// cache. The more batches a call brings, the better; shares of one batch should
// be neighbours. Batches and encoders must be of one layout, and the caller must
// own all the encoders.
func Scatter(shares []Share) {
	if len(shares) == 0 {
		return
	}
	layout := shares[0].To.layout
	for i := range shares {
		s := &shares[i]
		if s.Batch.Layout != layout || s.To.layout != layout {
			panic("batches and encoders of different layouts")
		}
		s.To.rows += int64(len(s.Rows))
	}
	places := placeTables.Get().(*placeTable)
	for i := range layout.Leaves {
		scatterColumn(i, shares, places)
	}
	placeTables.Put(places)
}

// placeTable says for each row of a batch where its value is.
type placeTable []int32

// placeTables carries no state from one user to the next, see presses.
var placeTables = sync.Pool{New: func() any { return new(placeTable) }}

// scatterColumn appends one column of all shares.
func scatterColumn(column int, shares []Share, places *placeTable) {
	var last *Batch
	var r rank
	for i := range shares {
		s := &shares[i]
		if len(s.Rows) == 0 {
			continue
		}
		e := s.To
		c, src := &e.columns[column], &s.Batch.Columns[column]
		if c.leaf.MaxRep > 0 {
			e.appendNested(c, src, s.Rows)
			continue
		}
		if s.Batch != last {
			last = s.Batch
			r = rank{def: src.Def, max: c.leaf.MaxDef, dense: src.Values(c.leaf.Kind) == s.Batch.Rows}
			if !r.dense && c.leaf.MaxDef == 0 {
				panic(fmt.Sprintf("column %s: %d values for %d rows", c.leaf.Name, src.Values(c.leaf.Kind), last.Rows))
			}
			if !r.dense && rowsOf(shares[i:]) > s.Batch.Rows/4 {
				r.tabulate(places)
			}
		}
		e.appendFlat(c, src, s.Rows, &r)
	}
}

// rowsOf counts the rows of the shares at the start that are of one batch.
func rowsOf(shares []Share) (rows int) {
	for i := range shares {
		if shares[i].Batch != shares[0].Batch {
			break
		}
		rows += len(shares[i].Rows)
	}
	return rows
}
