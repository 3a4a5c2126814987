package writers

import (
	"fmt"
	"math"
	"math/rand/v2"

	"github.com/apache/iceberg-go"
)

// randomSchema makes a schema of random types to the given depth. Field ids are
// random, too, but unique.
func randomSchema(r *rand.Rand, fields, depth int) *iceberg.Schema {
	g := &schemaGenerator{r: r, ids: r.Perm(4096)}
	return iceberg.NewSchema(r.IntN(9), g.fields(fields, depth)...)
}

type schemaGenerator struct {
	r   *rand.Rand
	ids []int
}

func (g *schemaGenerator) id() int {
	id := g.ids[0] + 1
	g.ids = g.ids[1:]
	return id
}

func (g *schemaGenerator) fields(n, depth int) []iceberg.NestedField {
	fields := make([]iceberg.NestedField, n)
	for i := range fields {
		fields[i] = iceberg.NestedField{ID: g.id(), Name: fmt.Sprintf("f%d", i), Required: g.r.IntN(3) == 0, Type: g.kind(depth)}
	}
	return fields
}

func (g *schemaGenerator) kind(depth int) iceberg.Type {
	if depth > 0 {
		switch g.r.IntN(5) {
		case 0:
			return &iceberg.StructType{FieldList: g.fields(1+g.r.IntN(3), depth-1)}
		case 1:
			return &iceberg.ListType{ElementID: g.id(), Element: g.kind(depth - 1), ElementRequired: g.r.IntN(2) == 0}
		case 2:
			return &iceberg.MapType{KeyID: g.id(), KeyType: g.kind(0), ValueID: g.id(), ValueType: g.kind(depth - 1), ValueRequired: g.r.IntN(2) == 0}
		}
	}
	return primitives[g.r.IntN(len(primitives))]
}

// primitives are all types of a leaf, decimals in each physical form.
var primitives = []iceberg.Type{
	iceberg.PrimitiveTypes.Bool, iceberg.PrimitiveTypes.Int32, iceberg.PrimitiveTypes.Int64,
	iceberg.PrimitiveTypes.Float32, iceberg.PrimitiveTypes.Float64, iceberg.PrimitiveTypes.Date,
	iceberg.PrimitiveTypes.Time, iceberg.PrimitiveTypes.Timestamp, iceberg.PrimitiveTypes.TimestampTz,
	iceberg.PrimitiveTypes.String, iceberg.PrimitiveTypes.Binary, iceberg.PrimitiveTypes.UUID,
	iceberg.FixedTypeOf(7), iceberg.FixedTypeOf(90),
	iceberg.DecimalTypeOf(9, 2), iceberg.DecimalTypeOf(18, 4), iceberg.DecimalTypeOf(38, 10),
}

// randomBatch fills b with rows. density is the share of values that are there:
// 1 makes none null and no list empty. distinct is how many different values
// a leaf has; 0: any number.
func randomBatch(r *rand.Rand, layout *Layout, rows int, density float64, distinct int) *Batch {
	b := NewBatch(layout)
	g := &rowGenerator{r: r, b: b, density: density, distinct: distinct}
	for range rows {
		for _, n := range layout.Root.Children {
			g.put(n, 0, 0)
		}
		b.Rows++
		for i, leaf := range layout.Leaves {
			c := &b.Columns[i]
			if leaf.MaxRep > 0 {
				c.Entry = append(c.Entry, uint32(len(c.Def)))
				c.Value = append(c.Value, uint32(c.Values(leaf.Kind)))
			}
		}
	}
	return b
}

type rowGenerator struct {
	r        *rand.Rand
	b        *Batch
	density  float64
	distinct int
}

// absent puts an entry without a value into all leaves below n.
func (g *rowGenerator) absent(n *Node, def, rep uint8) {
	for i := n.First; i < n.End; i++ {
		g.levels(i, def, rep)
	}
}

func (g *rowGenerator) levels(leaf int, def, rep uint8) {
	c, l := &g.b.Columns[leaf], &g.b.Layout.Leaves[leaf]
	if l.MaxDef > 0 {
		c.Def = append(c.Def, def)
	}
	if l.MaxRep > 0 {
		c.Rep = append(c.Rep, rep)
	}
}

// put adds a random value of n, for a parent of definition level def.
func (g *rowGenerator) put(n *Node, def, rep uint8) {
	if !n.Required && g.r.Float64() >= g.density {
		g.absent(n, def, rep)
		return
	}
	switch n.Kind {
	case Primitive:
		g.levels(n.Leaf, n.Def, rep)
		g.value(n.Leaf)
	case Struct:
		for _, child := range n.Children {
			g.put(child, n.Def, rep)
		}
	default:
		count := 1 + g.r.IntN(4)
		if g.r.Float64() >= g.density {
			count = 0
		}
		if count == 0 {
			g.absent(n, n.Def, rep)
		}
		for range count {
			for _, child := range n.Children {
				g.put(child, n.Def+1, rep)
			}
			rep = n.Rep
		}
	}
}

func (g *rowGenerator) value(leaf int) {
	if g.distinct > 0 {
		defer func(r *rand.Rand) { g.r = r }(g.r)
		g.r = rand.New(rand.NewPCG(uint64(leaf), uint64(g.r.IntN(g.distinct))))
	}
	c, l := &g.b.Columns[leaf], &g.b.Layout.Leaves[leaf]
	switch l.Kind {
	case Bool:
		c.Fixed = append(c.Fixed, int64(g.r.IntN(2)))
	case Int32:
		c.Fixed = append(c.Fixed, int64(int32(g.number())))
	case Int64:
		c.Fixed = append(c.Fixed, g.number())
	case Float:
		c.Fixed = append(c.Fixed, int64(math.Float32bits(float32(g.float()))))
	case Double:
		c.Fixed = append(c.Fixed, int64(math.Float64bits(g.float())))
	case Fixed:
		for range l.Width {
			c.Arena = append(c.Arena, byte(g.r.Uint32()))
		}
		c.End = append(c.End, uint32(len(c.Arena)))
	case Bytes:
		if _, text := l.Type.(iceberg.StringType); text {
			c.Arena = append(c.Arena, g.text()...)
		} else {
			for range g.length() {
				c.Arena = append(c.Arena, byte(g.r.Uint32()))
			}
		}
		c.End = append(c.End, uint32(len(c.Arena)))
	}
}

func (g *rowGenerator) number() int64 {
	switch g.r.IntN(8) {
	case 0:
		return math.MinInt64
	case 1:
		return math.MaxInt64
	case 2:
		return 0
	}
	return int64(g.r.Uint64()) >> g.r.IntN(64)
}

func (g *rowGenerator) float() float64 {
	switch g.r.IntN(10) {
	case 0:
		return math.NaN()
	case 1:
		return math.Copysign(0, -1)
	case 2:
		return math.Inf(1 - 2*g.r.IntN(2))
	}
	return g.r.NormFloat64()
}

func (g *rowGenerator) length() int {
	if g.r.IntN(20) == 0 {
		return g.r.IntN(400)
	}
	return g.r.IntN(24)
}

var alphabet = []rune("aaaabcdefgh éß中\U0001F600\uD7FF\uE000\uFFFF\U0010FFFF\x00")

func (g *rowGenerator) text() []byte {
	var s []rune
	for range g.length() {
		s = append(s, alphabet[g.r.IntN(len(alphabet))])
	}
	return []byte(string(s))
}
