package writers

import (
	"fmt"

	"github.com/apache/iceberg-go"
)

// Kind is the physical form in which a leaf column's values travel in a Batch
// and lie in a Parquet page.
type Kind uint8

const (
	Bool   Kind = iota // Column.Fixed: 0 or 1
	Int32              // Column.Fixed, sign-extended: int, date, decimal of at most 9 digits
	Int64              // Column.Fixed: long, time, timestamp, timestamptz (microseconds), decimal of at most 18 digits
	Float              // Column.Fixed: the bits of a float32
	Double             // Column.Fixed: the bits of a float64
	Bytes              // Column.Arena: string, binary
	Fixed              // Column.Arena, Leaf.Width bytes each: uuid, fixed, decimal of more than 18 digits (big-endian two's complement)
)

// Leaf is one primitive column of a table, at any depth.
type Leaf struct {
	Index  int          // place in Layout.Leaves, Batch.Columns and the Parquet file
	Name   string       // Iceberg's full name, as "tags.element.key"
	Path   []string     // Parquet path, as ["tags", "list", "element", "key"]
	ID     int          // Iceberg field id
	Type   iceberg.Type // a primitive type
	Kind   Kind
	Width  int   // bytes a value, for Fixed; else 0
	MaxDef uint8 // definition level of a value that is there
	MaxRep uint8 // repetition level of the innermost list or map; 0 outside of them
}

// NodeKind says what a Node is.
type NodeKind uint8

const (
	Primitive NodeKind = iota
	Struct
	List // Children: the element
	Map  // Children: key, value
)

// Node is one field of a table's schema, with the Dremel levels that Parquet gives it.
//
// A value of the node that is not null has a definition level of at least Def.
// For List and Map, an entry that exists has at least Def+1, the first entry
// repeats at the level of the parent and the following ones at Rep.
type Node struct {
	Name     string
	ID       int
	Kind     NodeKind
	Required bool
	Type     iceberg.Type
	Children []*Node
	Def      uint8
	Rep      uint8 // List and Map: the level of their own repeated group; else the parent's
	Leaf     int   // Primitive: index into Layout.Leaves; else -1
	// The leaves below (and including) this node are Layout.Leaves[First:End].
	First, End int
}

// Layout is a table schema laid out as Parquet columns. It is immutable and
// may be shared.
//
// Source: Iceberg spec, appendix A "Parquet"; parquet-format LogicalTypes.md
// (three-level lists and maps).
type Layout struct {
	Schema *iceberg.Schema
	Root   *Node // a Struct, required, Def 0
	Leaves []Leaf
}

// NewLayout lays out schema. It refuses types that this program does not write,
// naming the column.
func NewLayout(schema *iceberg.Schema) (*Layout, error) {
	l := &Layout{Schema: schema}
	root := &Node{Kind: Struct, Required: true, Leaf: -1}
	if err := l.fields(root, schema.Fields(), "", nil, 0, 0); err != nil {
		return nil, err
	}
	l.Root = root
	return l, nil
}

// fields adds the columns of a struct to parent.
func (l *Layout) fields(parent *Node, fields []iceberg.NestedField, name string, path []string, def, rep uint8) error {
	parent.First = len(l.Leaves)
	if len(fields) == 0 {
		return fmt.Errorf("column %q: a struct without fields can't be stored in Parquet", name)
	}
	for _, f := range fields {
		full := f.Name
		if name != "" {
			full = name + "." + f.Name
		}
		child, err := l.field(f, full, append(path[:len(path):len(path)], f.Name), def, rep)
		if err != nil {
			return err
		}
		parent.Children = append(parent.Children, child)
	}
	parent.End = len(l.Leaves)
	return nil
}

// field adds one field below a node whose levels are def and rep.
func (l *Layout) field(f iceberg.NestedField, name string, path []string, def, rep uint8) (*Node, error) {
	if !f.Required {
		def++
	}
	if def > 250 || rep > 250 {
		return nil, fmt.Errorf("column %q: nested too deep", name)
	}
	n := &Node{Name: f.Name, ID: f.ID, Required: f.Required, Type: f.Type, Def: def, Rep: rep, Leaf: -1}
	switch t := f.Type.(type) {
	case *iceberg.StructType:
		n.Kind = Struct
		return n, l.fields(n, t.FieldList, name, path, def, rep)
	case *iceberg.ListType:
		n.Kind, n.Rep, n.First = List, rep+1, len(l.Leaves)
		element := iceberg.NestedField{ID: t.ElementID, Name: "element", Type: t.Element, Required: t.ElementRequired}
		child, err := l.field(element, name+".element", append(path[:len(path):len(path)], "list", "element"), def+1, rep+1)
		if err != nil {
			return nil, err
		}
		n.Children, n.End = []*Node{child}, len(l.Leaves)
		return n, nil
	case *iceberg.MapType:
		n.Kind, n.Rep, n.First = Map, rep+1, len(l.Leaves)
		base := append(path[:len(path):len(path)], "key_value")
		key, err := l.field(iceberg.NestedField{ID: t.KeyID, Name: "key", Type: t.KeyType, Required: true},
			name+".key", append(base[:len(base):len(base)], "key"), def+1, rep+1)
		if err != nil {
			return nil, err
		}
		value, err := l.field(iceberg.NestedField{ID: t.ValueID, Name: "value", Type: t.ValueType, Required: t.ValueRequired},
			name+".value", append(base[:len(base):len(base)], "value"), def+1, rep+1)
		if err != nil {
			return nil, err
		}
		n.Children, n.End = []*Node{key, value}, len(l.Leaves)
		return n, nil
	}
	leaf := Leaf{Index: len(l.Leaves), Name: name, Path: path, ID: f.ID, Type: f.Type, MaxDef: def, MaxRep: rep}
	var err error
	if leaf.Kind, leaf.Width, err = physical(f.Type); err != nil {
		return nil, fmt.Errorf("column %q: %w", name, err)
	}
	n.Kind, n.Leaf, n.First, n.End = Primitive, leaf.Index, leaf.Index, leaf.Index+1
	l.Leaves = append(l.Leaves, leaf)
	return n, nil
}

// physical returns how a primitive type is stored.
func physical(t iceberg.Type) (Kind, int, error) {
	switch t := t.(type) {
	case iceberg.BooleanType:
		return Bool, 0, nil
	case iceberg.Int32Type, iceberg.DateType:
		return Int32, 0, nil
	case iceberg.Int64Type, iceberg.TimeType, iceberg.TimestampType, iceberg.TimestampTzType:
		return Int64, 0, nil
	case iceberg.Float32Type:
		return Float, 0, nil
	case iceberg.Float64Type:
		return Double, 0, nil
	case iceberg.StringType, iceberg.BinaryType:
		return Bytes, 0, nil
	case iceberg.UUIDType:
		return Fixed, 16, nil
	case iceberg.FixedType:
		return Fixed, t.Len(), nil
	case iceberg.DecimalType:
		switch p := t.Precision(); {
		case p <= 9:
			return Int32, 0, nil
		case p <= 18:
			return Int64, 0, nil
		default:
			return Fixed, decimalBytes(p), nil
		}
	}
	return 0, 0, fmt.Errorf("type %s is not supported; supported are boolean, int, long, float, double, decimal, date, time, timestamp, timestamptz, string, uuid, fixed, binary, struct, list and map", t)
}

// decimalBytes returns the fewest bytes whose two's complement holds every
// decimal of the given precision. Source: Iceberg spec, appendix A.
func decimalBytes(precision int) int {
	// log2(10) is 3.3219…; one bit more for the sign.
	bits := float64(precision)*3.321928094887362 + 1
	n := int(bits / 8)
	if float64(n*8) < bits {
		n++
	}
	return n
}
