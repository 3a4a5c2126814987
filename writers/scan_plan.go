package writers

import (
	"errors"
	"fmt"

	"github.com/apache/iceberg-go"
)

// filePlan is how the rows of one file are read and written. It is immutable.
type filePlan struct {
	leaves []leafPlan
	levels []bool // a leaf: only its levels are asked for
	texts  []*outNode
	root   *outNode
	extras []*outNode // a struct each, of one field without a name
}

// planBuilder matches a table's schema to a file's, by field id.
type planBuilder struct {
	scan      *Scan
	constants map[int]any
	plan      *filePlan
}

// newFilePlan plans the file of a tree. It names the column that can't be read.
func (s *Scan) newFilePlan(tree *fileTree, constants map[int]any) (*filePlan, error) {
	if !tree.root.anyID() && s.options.NameMapping == nil && len(tree.root.children) > 0 {
		return nil, errors.New("its columns have no field ids, and the table has no name mapping (property schema.name-mapping.default) to find them by")
	}
	if s.options.NameMapping != nil {
		tree.mapNames(s.options.NameMapping)
	}
	b := &planBuilder{scan: s, constants: constants, plan: &filePlan{}}
	root, err := b.structure(&outNode{kind: outStruct}, s.fields, tree.root, "")
	if err != nil {
		return nil, err
	}
	b.plan.root = root
	for _, x := range s.extras {
		node, err := b.extra(x, tree.root)
		if err != nil {
			return nil, err
		}
		b.plan.extras = append(b.plan.extras, node)
	}
	return b.plan, nil
}

// position is where a field stands.
type position uint8

const (
	inStruct position = iota
	inList
	inMap   // the value
	asKey   // of a map
	inExtra // the only one
)

// field plans one field. n is nil when the file has no such column.
func (b *planBuilder) field(f iceberg.NestedField, n *fileNode, above string, in position) (*outNode, error) {
	out := &outNode{name: joinNames(above, f.Name)}
	switch in {
	case inStruct:
		out.prefix = append(append(append(append(out.prefix, '"'), escaped(f.Name)...), '"'), ':')
		if !b.scan.omitNulls {
			out.null = append(out.prefix[:len(out.prefix):len(out.prefix)], "null,"...)
		}
	case inExtra:
	default:
		out.null = []byte("null,")
	}
	if n == nil {
		return out, b.absent(out, f)
	}
	out.prefix, out.null = roomy(out.prefix), roomy(out.null)
	out.def, out.rep, out.entry = n.def, n.rep, n.entry
	var err error
	switch t := f.Type.(type) {
	case *iceberg.StructType:
		out.kind = outStruct
		if n.kind != Struct {
			return nil, mismatched(out, n, t)
		}
		_, err = b.structure(out, t.FieldList, n, out.name)
	case *iceberg.ListType:
		out.kind = outList
		if n.kind != List {
			return nil, mismatched(out, n, t)
		}
		element := iceberg.NestedField{ID: t.ElementID, Name: "element", Type: t.Element, Required: t.ElementRequired}
		err = b.children(out, []iceberg.NestedField{element}, n, inList)
	case *iceberg.MapType:
		if n.kind != Map {
			return nil, mismatched(out, n, t)
		}
		err = b.mapping(out, t, n)
	default:
		if n.kind != Primitive {
			return nil, mismatched(out, n, t)
		}
		err = b.primitive(out, f.Type, n, in)
	}
	return out, err
}

func mismatched(out *outNode, n *fileNode, t iceberg.Type) error {
	what := "a group"
	switch n.kind {
	case Primitive:
		what = n.element.String()
	case List:
		what = "a list"
	case Map:
		what = "a map"
	}
	return fmt.Errorf("column %q: the file has %s, which can't be read as %s", out.name, what, t)
}

// structure plans the fields of a struct.
func (b *planBuilder) structure(out *outNode, fields []iceberg.NestedField, n *fileNode, name string) (*outNode, error) {
	for _, f := range fields {
		var there *fileNode
		for _, child := range n.children {
			if child.id == f.ID {
				there = child
				break
			}
		}
		child, err := b.field(f, there, name, inStruct)
		if err != nil {
			return nil, err
		}
		if child.kind == outConstant && len(child.text) == 0 {
			continue
		}
		out.children = append(out.children, child)
		out.leaves = append(out.leaves, child.leaves...)
	}
	if len(out.leaves) == 0 && name != "" { // whether the struct is there shows in some column of it
		leaf, err := b.presence(n)
		if err != nil {
			return nil, fmt.Errorf("column %q: %w", name, err)
		}
		out.leaves = append(out.leaves, leaf)
	}
	if len(out.leaves) > 0 {
		out.leaf = out.leaves[0]
	}
	return out, nil
}

// children plans the element of a list, or key and value of a map.
func (b *planBuilder) children(out *outNode, fields []iceberg.NestedField, n *fileNode, in ...position) error {
	if len(n.children) != len(fields) {
		return fmt.Errorf("column %q: it has %d parts in the file", out.name, len(n.children))
	}
	for i, f := range fields {
		child, err := b.field(f, n.children[i], out.name, in[i])
		if err != nil {
			return err
		}
		out.children = append(out.children, child)
		out.leaves = append(out.leaves, child.leaves...)
	}
	out.leaf = out.leaves[0]
	return nil
}

// mapping plans a map: an object if its keys are texts, else a list.
func (b *planBuilder) mapping(out *outNode, t *iceberg.MapType, n *fileNode) error {
	key := iceberg.NestedField{ID: t.KeyID, Name: "key", Type: t.KeyType, Required: true}
	value := iceberg.NestedField{ID: t.ValueID, Name: "value", Type: t.ValueType, Required: t.ValueRequired}
	if primitiveType(t.KeyType) {
		out.kind = outMap
		return b.children(out, []iceberg.NestedField{key, value}, n, asKey, inMap)
	}
	out.kind = outList
	if len(n.children) != 2 {
		return fmt.Errorf("column %q: it has %d parts in the file", out.name, len(n.children))
	}
	pair := &outNode{kind: outStruct, name: out.name, def: n.entry, rep: n.rep}
	if err := b.children(pair, []iceberg.NestedField{key, value}, n, inStruct, inStruct); err != nil {
		return err
	}
	out.children, out.leaves, out.leaf = []*outNode{pair}, pair.leaves, pair.leaf
	return nil
}

func primitiveType(t iceberg.Type) bool {
	switch t.(type) {
	case *iceberg.StructType, *iceberg.ListType, *iceberg.MapType:
		return false
	}
	return true
}

// primitive plans a leaf.
func (b *planBuilder) primitive(out *outNode, t iceberg.Type, n *fileNode, in position) error {
	leaf, err := physicalPlan(t, n)
	if err != nil {
		return fmt.Errorf("column %q: %w", out.name, err)
	}
	if out.form, err = b.scan.options.formOf(t, leaf.bytes); err != nil {
		return fmt.Errorf("column %q: %w", out.name, err)
	}
	out.form.quoted = out.form.quoted || in == asKey
	if in == asKey {
		out.null = nil
	}
	out.leaf = b.leaf(leaf, false)
	out.leaves = []int{out.leaf}
	if in != inExtra {
		b.plan.texts[out.leaf] = out
	}
	return nil
}

// leaf adds a column to what is read, unless it is read already.
func (b *planBuilder) leaf(leaf leafPlan, levels bool) int {
	p := b.plan
	for i := range p.leaves {
		if p.leaves[i].column != leaf.column {
			continue
		}
		if p.levels[i] && !levels {
			p.leaves[i], p.levels[i] = leaf, false
		}
		return i
	}
	p.leaves, p.levels, p.texts = append(p.leaves, leaf), append(p.levels, levels), append(p.texts, nil)
	return len(p.leaves) - 1
}

// presence adds some column below n for the sake of its levels.
func (b *planBuilder) presence(n *fileNode) (int, error) {
	for n.kind != Primitive {
		if len(n.children) == 0 {
			return 0, errors.New("the file has it as a group without columns")
		}
		n = n.children[0]
	}
	e := n.element
	leaf := leafPlan{column: n.leaf, name: n.name, physical: e.physical, maxDef: n.def, maxRep: n.maxRep,
		bytes: e.physical == physicalBytes || e.physical == physicalFixed, width: int(e.width)}
	switch e.physical {
	case physicalInt32, physicalFloat:
		leaf.width = 4
	case physicalInt64, physicalDouble:
		leaf.width = 8
	case physicalInt96:
		leaf.width = 12
	}
	return b.leaf(leaf, true), nil
}

// absent plans a field that the file does not have: a constant of its
// partition, else the default that it had when it was added, else null.
//
// Source: Iceberg spec, "Column Projection".
func (b *planBuilder) absent(out *outNode, f iceberg.NestedField) error {
	out.kind = outConstant
	v, partition := b.constants[f.ID]
	if !partition {
		v = f.InitialDefault
	}
	if v == nil {
		if f.Required && !partition {
			return fmt.Errorf("column %q: it is required, has no default, and the file does not have it", out.name)
		}
		out.text = out.null
		out.constant = &scanConstant{null: true}
		return nil
	}
	if t, ok := f.Type.(*iceberg.StructType); ok { // its default is an empty struct
		return b.absentStruct(out, t)
	}
	c, err := newConstant(f.Type, v)
	if err != nil {
		return fmt.Errorf("column %q: %w", out.name, err)
	}
	text, form, err := b.scan.options.constantText(f.Type, c)
	if err != nil {
		return fmt.Errorf("column %q: %w", out.name, err)
	}
	out.form, out.constant = form, &c
	out.text = append(append(out.prefix[:len(out.prefix):len(out.prefix)], text...), ',')
	return nil
}

// absentStruct plans a struct whose fields have their defaults.
func (b *planBuilder) absentStruct(out *outNode, t *iceberg.StructType) error {
	text := append(out.prefix[:len(out.prefix):len(out.prefix)], '{')
	for _, f := range t.FieldList {
		child, err := b.field(f, nil, out.name, inStruct)
		if err != nil {
			return err
		}
		text = append(text, child.text...)
	}
	out.text = append(shut(text, '{', '}'), ',')
	return nil
}

func escaped(name string) []byte {
	text, _ := appendEscaped(nil, []byte(name))
	return text
}
