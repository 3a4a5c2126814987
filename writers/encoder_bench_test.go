//go:build unix

package writers

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/apache/iceberg-go"
)

// BenchmarkEncoder scatters batches of 1,024 rows over 64 encoders, as the
// buckets of a table get them, and finishes all files when they hold 256 MB of
// JSON together. Bytes are those of the records' JSON text. There are 16
// batches, few enough to stay in the third-level cache like one that was just
// decoded, and a row goes to another bucket each time, so that a page hardly
// has the same row twice.
func BenchmarkEncoder(b *testing.B) {
	for _, s := range []struct {
		name   string
		layout *Layout
		fill   func(*rand.Rand, *Batch) int64
	}{{"message", messageLayout(), fillMessages}, {"event", eventLayout(), fillEvents}} {
		load := sync.OnceValue(func() *load { return newLoad(s.layout, s.fill) })
		for _, codec := range []string{"none", "snappy", "zstd"} {
			b.Run(fmt.Sprintf("rows=%s/codec=%s", s.name, codec), func(b *testing.B) { load().encode(b, codec) })
		}
	}
}

const (
	benchBuckets = 64
	benchRound   = 16 // batches a poll
)

// load is rows to encode, dealt to buckets in several ways.
type load struct {
	layout  *Layout
	batches []*Batch
	sizes   []int64 // of a batch's JSON text
	deals   [][benchBuckets][]int32
}

func newLoad(layout *Layout, fill func(*rand.Rand, *Batch) int64) *load {
	r := rand.New(rand.NewPCG(1, 2))
	l := &load{layout: layout, deals: make([][benchBuckets][]int32, 61)}
	for range 16 {
		b := NewBatch(layout)
		l.sizes = append(l.sizes, fill(r, b))
		l.batches = append(l.batches, b)
	}
	for i := range l.deals {
		for row := range int32(BatchRowsMax) {
			bucket := r.IntN(benchBuckets)
			l.deals[i][bucket] = append(l.deals[i][bucket], row)
		}
	}
	return l
}

func (l *load) encode(b *testing.B, codec string) {
	encoders := make([]*Encoder, benchBuckets)
	for i := range encoders {
		var err error
		if encoders[i], err = NewEncoder(l.layout, EncoderOptions{Codec: codec}); err != nil {
			b.Fatal(err)
		}
	}
	var stored, open, raw, pending int64
	finish := func() {
		for _, e := range encoders {
			open = max(open, e.open)
			f, err := e.Finish()
			if err != nil {
				b.Fatal(err)
			}
			stored += int64(len(f.Body))
		}
	}
	b.SetBytes(l.sizes[0])
	b.ReportAllocs()
	before := cpuTime(b)
	var shares []Share
	for i := 0; b.Loop(); i++ {
		batch, deal := i%len(l.batches), &l.deals[i%len(l.deals)]
		for k, e := range encoders {
			shares = append(shares, Share{Batch: l.batches[batch], Rows: deal[k], To: e})
		}
		if len(shares) >= benchRound*benchBuckets {
			Scatter(shares)
			shares = shares[:0]
		}
		raw += l.sizes[batch]
		if pending += l.sizes[batch]; pending > 256<<20 {
			finish()
			pending = 0
		}
	}
	Scatter(shares)
	finish()
	b.ReportMetric(float64(raw)/1e6/(cpuTime(b)-before).Seconds(), "cpu-MB/s")
	b.ReportMetric(float64(raw)/float64(stored), "ratio")
	b.ReportMetric(float64(open), "open-B")
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*BatchRowsMax), "ns/row")
}

// cpuTime returns the processor time of the process, for a machine's other
// work makes wall time say little. It includes the garbage collector's.
func cpuTime(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// words are what texts are made of; they compress about threefold.
func words(r *rand.Rand, n int) []byte {
	const letters = "etaoinshrdlucmfwypvbgkjqxz"
	pick := func() byte { return letters[min(r.IntN(26), r.IntN(26))] }
	var s []byte
	for len(s) < n {
		for range 2 + r.IntN(8) {
			s = append(s, pick())
		}
		s = append(s, ' ')
	}
	return s[:n]
}

// messageLayout has an id and a text.
func messageLayout() *Layout {
	layout, err := NewLayout(iceberg.NewSchema(0,
		iceberg.NestedField{ID: 1, Name: "id", Type: iceberg.PrimitiveTypes.Int64, Required: true},
		iceberg.NestedField{ID: 2, Name: "message", Type: iceberg.PrimitiveTypes.String}))
	if err != nil {
		panic(err)
	}
	return layout
}

// fillMessages makes texts of 962 random letters and digits.
func fillMessages(r *rand.Rand, b *Batch) (size int64) {
	const alphaNumeric = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
	for range BatchRowsMax {
		id := r.Int64N(1e9)
		b.Columns[0].Fixed = append(b.Columns[0].Fixed, id)
		c := &b.Columns[1]
		for range 962 {
			c.Arena = append(c.Arena, alphaNumeric[r.IntN(len(alphaNumeric))])
		}
		c.End = append(c.End, uint32(len(c.Arena)))
		c.Def = append(c.Def, 1)
		size += int64(len(fmt.Sprintf(`{"id":%d,"message":""}`, id)) + 962)
		b.Rows++
	}
	return size
}

// eventLayout has the 25 leaves of a web shop's event: ids, times, prices,
// names of few values, a struct, a list and a map; a tenth is null.
func eventLayout() *Layout {
	type field = iceberg.NestedField
	t := iceberg.PrimitiveTypes
	layout, err := NewLayout(iceberg.NewSchema(0,
		field{ID: 1, Name: "event_id", Type: t.UUID, Required: true},
		field{ID: 2, Name: "user_id", Type: t.Int64, Required: true},
		field{ID: 3, Name: "session", Type: t.String},
		field{ID: 4, Name: "kind", Type: t.String, Required: true},
		field{ID: 5, Name: "at", Type: t.TimestampTz, Required: true},
		field{ID: 6, Name: "received", Type: t.TimestampTz},
		field{ID: 7, Name: "day", Type: t.Date},
		field{ID: 8, Name: "country", Type: t.String},
		field{ID: 9, Name: "city", Type: t.String},
		field{ID: 10, Name: "url", Type: t.String},
		field{ID: 11, Name: "referrer", Type: t.String},
		field{ID: 12, Name: "agent", Type: t.String},
		field{ID: 13, Name: "price", Type: iceberg.DecimalTypeOf(12, 2)},
		field{ID: 14, Name: "quantity", Type: t.Int32},
		field{ID: 15, Name: "score", Type: t.Float64},
		field{ID: 16, Name: "ratio", Type: t.Float32},
		field{ID: 17, Name: "new", Type: t.Bool},
		field{ID: 18, Name: "bot", Type: t.Bool, Required: true},
		field{ID: 19, Name: "device", Type: &iceberg.StructType{FieldList: []field{
			{ID: 20, Name: "model", Type: t.String}, {ID: 21, Name: "width", Type: t.Int32}, {ID: 22, Name: "height", Type: t.Int32}}}},
		field{ID: 23, Name: "tags", Type: &iceberg.ListType{ElementID: 24, Element: t.String}},
		field{ID: 25, Name: "labels", Type: &iceberg.MapType{KeyID: 26, KeyType: t.String, ValueID: 27, ValueType: t.String}},
		field{ID: 28, Name: "note", Type: t.String}))
	if err != nil {
		panic(err)
	}
	return layout
}

func fillEvents(r *rand.Rand, b *Batch) int64 {
	g := &eventGenerator{rowGenerator: rowGenerator{r: r, b: b, density: 0.9}}
	for range BatchRowsMax {
		g.row()
	}
	return g.size
}

type eventGenerator struct {
	rowGenerator
	size int64 // of the JSON text
}

func (g *eventGenerator) row() {
	for _, n := range g.b.Layout.Root.Children {
		g.node(n, 0, 0)
	}
	g.b.Rows++
	g.size += 2
	for i, leaf := range g.b.Layout.Leaves {
		c := &g.b.Columns[i]
		if leaf.MaxRep > 0 {
			c.Entry = append(c.Entry, uint32(len(c.Def)))
			c.Value = append(c.Value, uint32(c.Values(leaf.Kind)))
		}
	}
}

func (g *eventGenerator) node(n *Node, def, rep uint8) {
	g.size += int64(len(n.Name)) + 4
	switch {
	case !n.Required && g.r.Float64() >= g.density:
		g.absent(n, def, rep)
		g.size += 4
	case n.Kind == Primitive:
		g.levels(n.Leaf, n.Def, rep)
		g.leaf(n.Leaf)
	case n.Kind == Struct:
		for _, child := range n.Children {
			g.node(child, n.Def, rep)
		}
	default:
		for range 1 + g.r.IntN(3) {
			for _, child := range n.Children {
				g.node(child, n.Def+1, rep)
			}
			rep = n.Rep
		}
	}
}

func (g *eventGenerator) leaf(leaf int) {
	c, l := &g.b.Columns[leaf], &g.b.Layout.Leaves[leaf]
	few := func(n int) []byte { return words(rand.New(rand.NewPCG(uint64(leaf), uint64(g.r.IntN(n)))), 4+leaf%9) }
	var text []byte
	switch l.Name {
	case "event_id":
		for range 16 {
			c.Arena = append(c.Arena, byte(g.r.Uint32()))
		}
		c.End = append(c.End, uint32(len(c.Arena)))
		g.size += 38
		return
	case "session":
		text = fmt.Appendf(nil, "%016x", g.r.Uint64())
	case "url", "referrer":
		text = fmt.Appendf(nil, "https://shop.example/%s/%s?page=%d", few(50), few(1000), g.r.IntN(20))
	case "agent":
		text = append([]byte("Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 Chrome/"), few(40)...)
	case "note":
		text = words(g.r, g.r.IntN(120))
	case "user_id":
		c.Fixed = append(c.Fixed, g.r.Int64N(1e8))
		g.size += 8
		return
	case "at", "received":
		c.Fixed = append(c.Fixed, 1_790_000_000_000_000+int64(g.b.Rows)*1000+g.r.Int64N(1e6))
		g.size += 29
		return
	case "score":
		c.Fixed = append(c.Fixed, float64Bits(g.r.NormFloat64()))
		g.size += 18
		return
	case "ratio":
		c.Fixed = append(c.Fixed, float32Bits(g.r.Float32()))
		g.size += 10
		return
	case "new", "bot":
		c.Fixed = append(c.Fixed, int64(g.r.IntN(2)))
		g.size += 5
		return
	case "day", "quantity", "price", "device.width", "device.height":
		c.Fixed = append(c.Fixed, 1+g.r.Int64N(1000)/int64(1+g.r.IntN(100)))
		g.size += 5
		return
	default:
		text = few(40)
	}
	c.Arena = append(c.Arena, text...)
	c.End = append(c.End, uint32(len(c.Arena)))
	g.size += int64(len(text)) + 2
}
