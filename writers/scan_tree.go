package writers

import (
	"errors"
	"fmt"

	"github.com/apache/iceberg-go"
)

// fileNode is one field of a Parquet file's schema. Lists and maps of every
// form that the format knows have the same form here: a List has its element,
// a Map its key and its value.
//
// Levels mean what they mean in Node: a value that is not null has a definition
// level of at least def; an entry of a list or map has at least def+1, the
// first repeats at the parent's level and the following ones at rep.
type fileNode struct {
	element  *fileElement
	name     string // full name, with the names that the file has
	kind     NodeKind
	id       int // -1: none
	def, rep uint8
	entry    uint8 // List and Map: the definition level of an entry
	children []*fileNode
	leaf     int // Primitive: place of the column in the file; else -1
	maxRep   uint8
}

// fileTree is the schema of a file.
type fileTree struct {
	root   *fileNode
	leaves int
}

// Numbers of the types that only readers meet. Source: parquet.thrift.
const (
	physicalBool, physicalInt32, physicalInt64, physicalInt96       = 0, 1, 2, 3
	physicalFloat, physicalDouble, physicalBytes, physicalFixed     = 4, 5, 6, 7
	convertedMapKeyValue, convertedTimeMillis, convertedStampMillis = 2, 7, 9
	convertedUint32, convertedUint64                                = 13, 14
	logicalInteger                                                  = 10
)

// treeDepthMax bounds the nesting of a file's schema.
const treeDepthMax = 120

// treeBuilder walks the elements, which lie depth first.
type treeBuilder struct {
	elements []fileElement
	at       int
	leaves   int
}

// newFileTree puts the schema of a file together.
func newFileTree(elements []fileElement) (*fileTree, error) {
	b := &treeBuilder{elements: elements}
	if len(elements) == 0 {
		return nil, errors.New("the footer has no schema")
	}
	root := &fileNode{element: &elements[0], kind: Struct, id: -1, leaf: -1}
	b.at = 1
	if err := b.children(root, "", int(elements[0].children), 0, 0, 0); err != nil {
		return nil, fmt.Errorf("the file's schema: %w", err)
	}
	if b.at != len(elements) {
		return nil, fmt.Errorf("the file's schema: %d of %d fields lie outside of it", len(elements)-b.at, len(elements))
	}
	return &fileTree{root: root, leaves: b.leaves}, nil
}

// children reads n fields below to.
func (b *treeBuilder) children(to *fileNode, name string, n int, def, rep uint8, depth int) error {
	for range n {
		child, err := b.field(name, def, rep, depth+1)
		if err != nil {
			return err
		}
		to.children = append(to.children, child)
	}
	return nil
}

// next takes the next element.
func (b *treeBuilder) next(depth int) (*fileElement, error) {
	if b.at >= len(b.elements) || depth > treeDepthMax {
		return nil, errors.New("a field is missing, or they nest too deep")
	}
	e := &b.elements[b.at]
	b.at++
	if e.children < 0 || e.repetition < required || e.repetition > repeated {
		return nil, fmt.Errorf("field %q makes no sense", e.name)
	}
	return e, nil
}

// field reads one field of a group whose levels are def and rep.
func (b *treeBuilder) field(above string, def, rep uint8, depth int) (*fileNode, error) {
	e, err := b.next(depth)
	if err != nil {
		return nil, err
	}
	n := &fileNode{element: e, name: joinNames(above, e.name), id: int(e.id), leaf: -1}
	if e.repetition == repeated { // a list without a group around it: required, of required elements
		n.kind, n.def, n.rep, n.entry, n.maxRep = List, def, rep+1, def+1, rep+1
		element := &fileNode{element: e, name: n.name, id: -1, leaf: -1}
		n.children = []*fileNode{element}
		return n, b.body(element, def+1, rep+1, depth)
	}
	if e.repetition == optional {
		def++
	}
	return n, b.body(n, def, rep, depth)
}

// body reads what a field holds, when its own repetition is dealt with.
func (b *treeBuilder) body(n *fileNode, def, rep uint8, depth int) error {
	e := n.element
	n.def, n.rep, n.maxRep = def, rep, rep
	switch {
	case e.physical >= 0 && e.children == 0:
		n.kind, n.leaf = Primitive, b.leaves
		b.leaves++
		return nil
	case e.logical == logicalList || e.converted == convertedList:
		if e.children == 1 && b.at < len(b.elements) && b.elements[b.at].repetition == repeated {
			return b.list(n, depth)
		}
	case e.logical == logicalMap || e.converted == convertedMap || e.converted == convertedMapKeyValue:
		if e.children == 1 && b.at < len(b.elements) && b.elements[b.at].repetition == repeated && b.elements[b.at].children == 2 {
			return b.entries(n, depth)
		}
	}
	n.kind = Struct
	return b.children(n, n.name, int(e.children), def, rep, depth)
}

// list reads a list of three levels, or of two as older writers made them.
//
// Source: parquet-format LogicalTypes.md, "Lists", backward compatibility.
func (b *treeBuilder) list(n *fileNode, depth int) error {
	n.kind, n.entry, n.rep = List, n.def+1, n.rep+1
	def, rep := n.entry, n.rep
	middle, err := b.next(depth + 1)
	if err != nil {
		return err
	}
	two := middle.children != 1 || middle.name == "array" || middle.name == n.element.name+"_tuple" ||
		b.at < len(b.elements) && b.elements[b.at].repetition == repeated
	if two {
		element := &fileNode{element: middle, name: joinNames(n.name, middle.name), id: int(middle.id), leaf: -1}
		n.children = []*fileNode{element}
		return b.body(element, def, rep, depth+1)
	}
	return b.children(n, joinNames(n.name, middle.name), 1, def, rep, depth+1)
}

// entries reads a map.
func (b *treeBuilder) entries(n *fileNode, depth int) error {
	n.kind, n.entry, n.rep = Map, n.def+1, n.rep+1
	middle, err := b.next(depth + 1)
	if err != nil {
		return err
	}
	return b.children(n, joinNames(n.name, middle.name), 2, n.entry, n.rep, depth+1)
}

func joinNames(above, name string) string {
	if above == "" {
		return name
	}
	return above + "." + name
}

// mapNames gives the fields without an id those of a name mapping.
//
// Source: Iceberg spec, "Column Projection" and "Name Mapping Serialization".
func (t *fileTree) mapNames(mapping iceberg.NameMapping) {
	t.root.mapNames(mapping)
}

func (n *fileNode) mapNames(fields []iceberg.MappedField) {
	names := func(child *fileNode, i int) string {
		switch n.kind {
		case List:
			return "element"
		case Map:
			return [2]string{"key", "value"}[i]
		}
		return child.element.name
	}
	for i, child := range n.children {
		for k := range fields {
			f := &fields[k]
			if !containsName(f.Names, names(child, i)) {
				continue
			}
			if child.id < 0 && f.FieldID != nil {
				child.id = *f.FieldID
			}
			child.mapNames(f.Fields)
			break
		}
	}
}

func containsName(names []string, name string) bool {
	for _, n := range names {
		if n == name {
			return true
		}
	}
	return false
}

// anyID tells whether a field below n has an id.
func (n *fileNode) anyID() bool {
	for _, child := range n.children {
		if child.id >= 0 || child.anyID() {
			return true
		}
	}
	return false
}
