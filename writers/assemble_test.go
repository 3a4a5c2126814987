package writers

import (
	"fmt"
	"math"
	"math/big"
	"testing"

	"github.com/apache/iceberg-go"
)

// Values that assemble gives, so that rows can be compared with reflect.DeepEqual:
//
//	null                                  nil
//	boolean                               bool
//	int, long, date, time, timestamp(tz)  int64
//	float, double                         float32, float64
//	decimal                               numeral, exact and with all digits of its scale: "-0.05"
//	string                                string
//	uuid, fixed, binary                   octets
//	struct                                map[string]any, null fields included
//	list                                  []any
//	map                                   []pair, in the order of the column
type (
	numeral string
	octets  string
	pair    struct{ Key, Value any }
)

// assemble puts the rows of b together again from values and levels. It fails
// the test where the columns contradict each other or the Batch contract.
func assemble(t testing.TB, b *Batch) []map[string]any {
	t.Helper()
	a := &assembly{b: b, entry: make([]int, len(b.Columns)), value: make([]int, len(b.Columns)), end: make([]int, len(b.Columns))}
	rows := make([]map[string]any, b.Rows)
	for row := range rows {
		if err := a.open(row); err != nil {
			t.Fatalf("row %d: %v", row, err)
		}
		v, err := a.read(b.Layout.Root, 0)
		if err == nil {
			err = a.closed(row)
		}
		if err != nil {
			t.Fatalf("row %d: %v", row, err)
		}
		rows[row] = v.(map[string]any)
	}
	if err := a.spent(); err != nil {
		t.Fatal(err)
	}
	return rows
}

// assembly walks all columns of a batch at once.
type assembly struct {
	b     *Batch
	entry []int // a leaf: the next entry
	value []int // a leaf: the next value
	end   []int // a leaf: the entry after the row's last
}

// open begins a row and checks that the columns' row starts are where the
// cursors stand.
func (a *assembly) open(row int) error {
	for i, l := range a.b.Layout.Leaves {
		c := &a.b.Columns[i]
		if l.MaxRep == 0 {
			a.end[i] = row + 1
			continue
		}
		if len(c.Entry) != a.b.Rows+1 || len(c.Value) != a.b.Rows+1 {
			return fmt.Errorf("%s: %d entry and %d value starts for %d rows", l.Name, len(c.Entry), len(c.Value), a.b.Rows)
		}
		if int(c.Entry[row]) != a.entry[i] || int(c.Value[row]) != a.value[i] {
			return fmt.Errorf("%s: starts at entry %d, value %d; the rows before end at %d, %d", l.Name, c.Entry[row], c.Value[row], a.entry[i], a.value[i])
		}
		a.end[i] = int(c.Entry[row+1])
	}
	return nil
}

// closed checks that the row used up its entries, no more and no less.
func (a *assembly) closed(row int) error {
	for i, l := range a.b.Layout.Leaves {
		if a.entry[i] != a.end[i] {
			return fmt.Errorf("%s: the row's entries end at %d, read up to %d", l.Name, a.end[i], a.entry[i])
		}
	}
	return nil
}

// spent checks that nothing is left after the last row.
func (a *assembly) spent() error {
	for i, l := range a.b.Layout.Leaves {
		c := &a.b.Columns[i]
		defs, reps := 0, 0
		if l.MaxDef > 0 {
			defs = a.entry[i]
		}
		if l.MaxRep > 0 {
			reps = a.entry[i]
		}
		if len(c.Def) != defs || len(c.Rep) != reps || c.Values(l.Kind) != a.value[i] {
			return fmt.Errorf("%s: %d definition levels, %d repetition levels, %d values; expected %d, %d, %d",
				l.Name, len(c.Def), len(c.Rep), c.Values(l.Kind), defs, reps, a.value[i])
		}
		if l.Kind == Bytes || l.Kind == Fixed {
			var end uint32
			if len(c.End) > 0 {
				end = c.End[len(c.End)-1]
			}
			if int(end) != len(c.Arena) {
				return fmt.Errorf("%s: values end at %d of %d bytes", l.Name, end, len(c.Arena))
			}
		}
	}
	return nil
}

// levels returns the levels of a leaf's next entry.
func (a *assembly) levels(leaf int) (def, rep uint8, err error) {
	l, c := &a.b.Layout.Leaves[leaf], &a.b.Columns[leaf]
	at := a.entry[leaf]
	if at >= a.end[leaf] || l.MaxDef > 0 && at >= len(c.Def) || l.MaxRep > 0 && at >= len(c.Rep) {
		return 0, 0, fmt.Errorf("%s: no entry %d", l.Name, at)
	}
	if l.MaxDef > 0 {
		def = c.Def[at]
	}
	if l.MaxRep > 0 {
		rep = c.Rep[at]
	}
	if def > l.MaxDef || rep > l.MaxRep {
		return 0, 0, fmt.Errorf("%s: entry %d has levels %d, %d; at most %d, %d", l.Name, at, def, rep, l.MaxDef, l.MaxRep)
	}
	return def, rep, nil
}

// pass takes one entry without a value from all leaves below n; all must have
// the same levels.
func (a *assembly) pass(n *Node, def, rep uint8) error {
	for leaf := n.First; leaf < n.End; leaf++ {
		d, r, err := a.levels(leaf)
		if err != nil {
			return err
		}
		if d != def || r != rep {
			return fmt.Errorf("%s: entry %d has levels %d, %d; its neighbours %d, %d", a.b.Layout.Leaves[leaf].Name, a.entry[leaf], d, r, def, rep)
		}
		a.entry[leaf]++
	}
	return nil
}

// read takes one value of n whose first entry must repeat at rep.
func (a *assembly) read(n *Node, rep uint8) (any, error) {
	def, r, err := a.levels(n.First)
	if err != nil {
		return nil, err
	}
	if r != rep {
		return nil, fmt.Errorf("%s: entry %d repeats at %d, expected %d", a.b.Layout.Leaves[n.First].Name, a.entry[n.First], r, rep)
	}
	if def < n.Def {
		if n.Required || def != n.Def-1 {
			return nil, fmt.Errorf("field %s (required: %t): definition level %d of %d", n.Name, n.Required, def, n.Def)
		}
		return nil, a.pass(n, def, rep)
	}
	switch n.Kind {
	case Struct:
		v := make(map[string]any, len(n.Children))
		for _, child := range n.Children {
			if v[child.Name], err = a.read(child, rep); err != nil {
				return nil, err
			}
		}
		return v, nil
	case List, Map:
		return a.readMany(n, def, rep)
	default:
	}
	v, err := a.leaf(n.Leaf)
	a.entry[n.Leaf]++
	a.value[n.Leaf]++
	return v, err
}

// readMany takes a list or map that is not null.
func (a *assembly) readMany(n *Node, def, rep uint8) (any, error) {
	elements, pairs := []any{}, []pair{}
	for more := def > n.Def; more; {
		v, err := a.read(n.Children[0], rep)
		if err != nil {
			return nil, err
		}
		if n.Kind == Map {
			w, err := a.read(n.Children[1], rep)
			if err != nil {
				return nil, err
			}
			pairs = append(pairs, pair{v, w})
		}
		elements = append(elements, v)
		rep, more = n.Rep, false
		if a.entry[n.First] < a.end[n.First] {
			_, r, err := a.levels(n.First)
			if err != nil {
				return nil, err
			}
			more = r == n.Rep
		}
	}
	if len(elements) == 0 {
		if err := a.pass(n, def, rep); err != nil {
			return nil, err
		}
	}
	if n.Kind == Map {
		return pairs, nil
	}
	return elements, nil
}

// leaf returns the next value of a leaf.
func (a *assembly) leaf(leaf int) (any, error) {
	l, c, at := &a.b.Layout.Leaves[leaf], &a.b.Columns[leaf], a.value[leaf]
	if at >= c.Values(l.Kind) {
		return nil, fmt.Errorf("%s: no value %d", l.Name, at)
	}
	d, isDecimal := l.Type.(iceberg.DecimalType)
	switch {
	case isDecimal && l.Kind == Fixed:
		if len(c.Bytes(at)) != l.Width {
			return nil, fmt.Errorf("%s: value %d has %d bytes, expected %d", l.Name, at, len(c.Bytes(at)), l.Width)
		}
		return decimalNumeral(signedBig(c.Bytes(at)), d.Scale()), nil
	case isDecimal:
		return decimalNumeral(big.NewInt(c.Fixed[at]), d.Scale()), nil
	}
	switch l.Kind {
	case Bool:
		if c.Fixed[at]>>1 != 0 {
			return nil, fmt.Errorf("%s: value %d is %d, expected 0 or 1", l.Name, at, c.Fixed[at])
		}
		return c.Fixed[at] == 1, nil
	case Int32:
		if int64(int32(c.Fixed[at])) != c.Fixed[at] {
			return nil, fmt.Errorf("%s: value %d is %d, no int32", l.Name, at, c.Fixed[at])
		}
		return c.Fixed[at], nil
	case Float:
		return math.Float32frombits(uint32(c.Fixed[at])), nil
	case Double:
		return math.Float64frombits(uint64(c.Fixed[at])), nil
	case Bytes:
		if _, ok := l.Type.(iceberg.StringType); ok {
			return string(c.Bytes(at)), nil
		}
		return octets(c.Bytes(at)), nil
	case Fixed:
		if len(c.Bytes(at)) != l.Width {
			return nil, fmt.Errorf("%s: value %d has %d bytes, expected %d", l.Name, at, len(c.Bytes(at)), l.Width)
		}
		return octets(c.Bytes(at)), nil
	default:
		return c.Fixed[at], nil
	}
}

// signedBig reads big-endian two's complement.
func signedBig(b []byte) *big.Int {
	v := new(big.Int).SetBytes(b)
	if len(b) > 0 && b[0] >= 0x80 {
		v.Sub(v, new(big.Int).Lsh(big.NewInt(1), uint(8*len(b))))
	}
	return v
}

// decimalNumeral writes unscaled × 10^-scale with all digits of the scale.
func decimalNumeral(unscaled *big.Int, scale int) numeral {
	return numeral(new(big.Rat).SetFrac(unscaled, new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(scale)), nil)).FloatString(scale))
}
