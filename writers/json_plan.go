package writers

import (
	"fmt"
	"hash/maphash"
	"strings"
	"unicode/utf8"

	"github.com/apache/iceberg-go"
)

// op is what the walk does with a value, chosen once for a column.
type op uint8

const (
	opBool op = iota
	opInt
	opLong
	opFloat
	opDouble
	opDecimal // up to 18 digits: Column.Fixed
	opDecimalWide
	opString
	opUUID
	opBase64 // fixed and binary
	opDate
	opTime
	opTimestamp
	opTimestampTZ
	opStruct
	opList
	opMap
)

// numbersRefused is the scale of a column that takes no JSON numbers.
const numbersRefused = -1

// field is a Node with what the walk needs of it in one place.
type field struct {
	op          op
	required    bool
	isKey       bool  // of a map: dates and times may be numbers in a string
	def, rep    uint8 // as in Node
	scale       int8  // decimal and dates: a number times 10^scale is what the column stores, or numbersRefused
	leaf        int
	first, end  int
	width       int     // fixed and wide decimals: bytes; binary: 0
	limit       uint128 // decimal: 10^precision
	name        string  // full name, as Leaf.Name
	own         string  // name inside of its parent
	description string  // what a value looks like, for errors

	children []*field // struct: those that JSON can fill; list: element; map: key, value

	// Of a struct: how its fields are found.
	names   nameTable
	opening *field // the field that came first in the last object
	object  uint64 // serial of the object that is being read

	// Of a struct's child.
	key   string // the name and a quote, as it stands in JSON; "" when the name needs escapes
	after *field // the field that followed in the last object; predicted for the next
	seen  uint64 // serial of the last object that had it
}

// plan turns a layout into fields.
type plan struct {
	layout                               *Layout
	seed                                 maphash.Seed
	timestampScale, dateScale, timeScale int8
}

// units reads the units that JSON numbers have in columns of dates and times.
func (p *plan) units(o JSONOptions) error {
	scales := map[string]int8{"": numbersRefused, "seconds": 6, "millis": 3, "micros": 0}
	var ok bool
	if p.timestampScale, ok = scales[o.Timestamps]; !ok {
		return fmt.Errorf("decode JSON: unit of timestamps %q: must be seconds, millis, micros or nothing", o.Timestamps)
	}
	if p.timeScale, ok = scales[o.Times]; !ok {
		return fmt.Errorf("decode JSON: unit of times %q: must be seconds, millis, micros or nothing", o.Times)
	}
	if p.dateScale, ok = map[string]int8{"": numbersRefused, "days": 0}[o.Dates]; !ok {
		return fmt.Errorf("decode JSON: unit of dates %q: must be days or nothing", o.Dates)
	}
	return nil
}

// root plans the whole row and sets aside the columns that records fill.
func (p *plan) root() (*field, []*stamp, error) {
	n := p.layout.Root
	root := &field{op: opStruct, required: true, leaf: -1, first: n.First, end: n.End, description: "an object"}
	var stamps []*stamp
	for _, child := range n.Children {
		f, err := p.field(child, "")
		if err != nil {
			return nil, nil, err
		}
		s, err := newStamp(f, child)
		if err != nil {
			return nil, nil, err
		}
		if s != nil {
			stamps = append(stamps, s)
			continue
		}
		root.children = append(root.children, f)
	}
	p.index(root)
	return root, stamps, nil
}

// field plans one node below a parent of the given full name.
func (p *plan) field(n *Node, parent string) (*field, error) {
	f := &field{required: n.Required, def: n.Def, rep: n.Rep, scale: numbersRefused, leaf: n.Leaf, first: n.First, end: n.End, name: n.Name, own: n.Name}
	if parent != "" {
		f.name = parent + "." + n.Name
	}
	if !strings.ContainsFunc(n.Name, func(r rune) bool { return r < ' ' || r == '"' || r == '\\' }) && utf8.ValidString(n.Name) {
		f.key = n.Name + `"`
	}
	switch n.Kind {
	case Primitive:
		p.primitive(f, n)
		return f, nil
	case Struct:
		f.op, f.description = opStruct, "an object"
	case List:
		f.op, f.description = opList, "a list"
	case Map:
		f.op, f.description = opMap, "an object"
		if n.Children[0].Kind != Primitive {
			return nil, fmt.Errorf("column %q: a map whose keys are of type %s can't be read from JSON, where names are strings", f.name, n.Children[0].Type)
		}
	}
	for _, child := range n.Children {
		c, err := p.field(child, f.name)
		if err != nil {
			return nil, err
		}
		f.children = append(f.children, c)
	}
	if n.Kind == Map {
		f.children[0].isKey = true
	}
	if n.Kind == Struct {
		p.index(f)
	}
	return f, nil
}

// primitive chooses how a leaf is read.
func (p *plan) primitive(f *field, n *Node) {
	switch t := n.Type.(type) {
	case iceberg.BooleanType:
		f.op, f.description = opBool, "true or false"
	case iceberg.Int32Type:
		f.op, f.description = opInt, "a whole number"
	case iceberg.Int64Type:
		f.op, f.description = opLong, "a whole number"
	case iceberg.Float32Type:
		f.op, f.description = opFloat, "a number"
	case iceberg.Float64Type:
		f.op, f.description = opDouble, "a number"
	case iceberg.StringType:
		f.op, f.description = opString, "a string"
	case iceberg.UUIDType:
		f.op, f.description, f.width = opUUID, "a UUID as 123e4567-e89b-12d3-a456-426614174000", 16
	case iceberg.BinaryType:
		f.op, f.description = opBase64, "a string of base64"
	case iceberg.FixedType:
		f.op, f.description, f.width = opBase64, "a string of base64", t.Len()
	case iceberg.DecimalType:
		f.op, f.description, f.scale = opDecimal, "a number or a string that holds one", int8(t.Scale())
		if p.layout.Leaves[n.Leaf].Kind == Fixed {
			f.op, f.width = opDecimalWide, p.layout.Leaves[n.Leaf].Width
		}
		f.limit = uint128{lo: 1}
		for range t.Precision() {
			f.limit, _ = f.limit.times10()
		}
	case iceberg.DateType:
		f.op, f.description, f.scale = opDate, "a date as 2006-01-02", p.dateScale
	case iceberg.TimeType:
		f.op, f.description, f.scale = opTime, "a time as 15:04:05.000001", p.timeScale
	case iceberg.TimestampType:
		f.op, f.description, f.scale = opTimestamp, "a timestamp as 2006-01-02T15:04:05.000001", p.timestampScale
	case iceberg.TimestampTzType:
		f.op, f.description, f.scale = opTimestampTZ, "a timestamp as 2006-01-02T15:04:05.000001Z", p.timestampScale
	default:
		panic(fmt.Sprintf("column %s: layout gave type %s, which has no physical form", f.name, t))
	}
}

// index prepares the search for the fields of a struct, and predicts that
// they come in the order of the schema.
func (p *plan) index(f *field) {
	f.names = newNameTable(p.seed, f.children)
	for i, child := range f.children {
		if i > 0 {
			f.children[i-1].after = child
		}
	}
	if len(f.children) > 0 {
		f.opening = f.children[0]
	}
}
