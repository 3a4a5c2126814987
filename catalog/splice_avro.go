package catalog

import (
	"bytes"
	"crypto/rand"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"

	"github.com/klauspost/compress/flate"
)

// avroKind is the shape of a value, as far as skipping it needs to know.
type avroKind uint8

const (
	avroNull avroKind = iota
	avroVarint
	avroBytes
	avroFixed // width bytes
	avroArray // parts[0] each
	avroMap   // parts[0] each, under a string
	avroUnion
	avroRecord
)

type avroType struct {
	kind  avroKind
	width int
	parts []avroType
	names []string // of a record's fields
}

// parseAvro reads a schema in JSON.
func parseAvro(schema []byte) (avroType, error) {
	var node any
	if err := json.Unmarshal(schema, &node); err != nil {
		return avroType{}, fmt.Errorf("read Avro schema: %w", err)
	}
	return avroNode(node, map[string]avroType{})
}

func avroNode(node any, named map[string]avroType) (avroType, error) {
	switch n := node.(type) {
	case string:
		switch n {
		case "null":
			return avroType{kind: avroNull}, nil
		case "int", "long":
			return avroType{kind: avroVarint}, nil
		case "boolean":
			return avroType{kind: avroFixed, width: 1}, nil
		case "float":
			return avroType{kind: avroFixed, width: 4}, nil
		case "double":
			return avroType{kind: avroFixed, width: 8}, nil
		case "bytes", "string":
			return avroType{kind: avroBytes}, nil
		}
		if t, ok := named[n]; ok {
			return t, nil
		}
		return avroType{}, fmt.Errorf("unknown Avro type %q", n)
	case []any:
		t := avroType{kind: avroUnion}
		for _, branch := range n {
			b, err := avroNode(branch, named)
			if err != nil {
				return avroType{}, err
			}
			t.parts = append(t.parts, b)
		}
		return t, nil
	case map[string]any:
		return avroComplex(n, named)
	}
	return avroType{}, fmt.Errorf("unknown Avro schema node %T", node)
}

func avroComplex(n map[string]any, named map[string]avroType) (avroType, error) {
	name, _ := n["name"].(string)
	switch kind := n["type"]; kind {
	case "record":
		t := avroType{kind: avroRecord}
		fields, _ := n["fields"].([]any)
		for _, f := range fields {
			field, _ := f.(map[string]any)
			ft, err := avroNode(field["type"], named)
			if err != nil {
				return avroType{}, err
			}
			fieldName, _ := field["name"].(string)
			t.parts, t.names = append(t.parts, ft), append(t.names, fieldName)
		}
		named[name] = t
		return t, nil
	case "array", "map":
		item, shape := n["items"], avroArray
		if kind == "map" {
			item, shape = n["values"], avroMap
		}
		it, err := avroNode(item, named)
		return avroType{kind: shape, parts: []avroType{it}}, err
	case "fixed":
		size, _ := n["size"].(float64)
		t := avroType{kind: avroFixed, width: int(size)}
		named[name] = t
		return t, nil
	case "enum":
		t := avroType{kind: avroVarint}
		named[name] = t
		return t, nil
	default: // {"type": "long", "logicalType": …}
		return avroNode(kind, named)
	}
}

// avroReader walks over binary Avro. After an error it stays where it is and reads zeros.
type avroReader struct {
	data []byte
	pos  int
	err  error
}

var errAvro = errors.New("Avro data ends too early or is malformed")

func (r *avroReader) fail(err error) {
	if r.err == nil {
		r.err = err
	}
	r.pos = len(r.data)
}

func (r *avroReader) long() int64 {
	v, n := binary.Varint(r.data[r.pos:]) // zigzag, as in Avro
	if n <= 0 {
		r.fail(errAvro)
		return 0
	}
	r.pos += n
	return v
}

func (r *avroReader) bytes(n int64) []byte {
	if n < 0 || n > int64(len(r.data)-r.pos) {
		r.fail(errAvro)
		return nil
	}
	b := r.data[r.pos : r.pos+int(n)]
	r.pos += int(n)
	return b
}

// skip passes over one value.
func (r *avroReader) skip(t *avroType) {
	if r.err != nil {
		return
	}
	switch t.kind {
	case avroVarint:
		r.long()
	case avroBytes:
		r.bytes(r.long())
	case avroFixed:
		r.bytes(int64(t.width))
	case avroRecord:
		for i := range t.parts {
			r.skip(&t.parts[i])
		}
	case avroUnion:
		branch := r.long()
		if branch < 0 || branch >= int64(len(t.parts)) {
			r.fail(errAvro)
			return
		}
		r.skip(&t.parts[branch])
	case avroArray, avroMap:
		for r.err == nil {
			n := r.long()
			if n == 0 {
				return
			}
			if n < 0 { // the block's size follows: no need to look inside
				r.bytes(r.long())
				continue
			}
			for range n {
				before := r.pos
				if t.kind == avroMap {
					r.bytes(r.long())
				}
				r.skip(&t.parts[0])
				if r.pos == before { // items without bytes: a count that lies could keep us for ever
					r.fail(errAvro)
				}
				if r.err != nil {
					return
				}
			}
		}
	}
}

// container reads an Avro object container file.
type container struct {
	r        avroReader
	metadata map[string][]byte
	sync     []byte
	inflate  bool
}

var avroMagic = []byte("Obj\x01")

func openContainer(body []byte) (*container, error) {
	if !bytes.HasPrefix(body, avroMagic) {
		return nil, errors.New("not an Avro file")
	}
	c := &container{r: avroReader{data: body, pos: len(avroMagic)}, metadata: map[string][]byte{}}
	for {
		n := c.r.long()
		if n == 0 || c.r.err != nil {
			break
		}
		if n < 0 {
			n = -n
			c.r.long()
		}
		for range n {
			key := string(c.r.bytes(c.r.long()))
			c.metadata[key] = c.r.bytes(c.r.long())
			if c.r.err != nil {
				break
			}
		}
	}
	c.sync = c.r.bytes(16)
	if c.r.err != nil {
		return nil, c.r.err
	}
	switch codec := string(c.metadata["avro.codec"]); codec {
	case "deflate":
		c.inflate = true
	case "", "null":
	default:
		return nil, fmt.Errorf("Avro codec %s", codec)
	}
	return c, nil
}

// next returns a block's content, or io.EOF.
func (c *container) next() (block []byte, count int64, err error) {
	if c.r.pos == len(c.r.data) {
		return nil, 0, io.EOF
	}
	count = c.r.long()
	block = c.r.bytes(c.r.long())
	if sync := c.r.bytes(16); c.r.err != nil || !bytes.Equal(sync, c.sync) || count < 0 {
		return nil, 0, errAvro
	}
	if c.inflate {
		f := flate.NewReader(bytes.NewReader(block))
		if block, err = io.ReadAll(f); err != nil {
			return nil, 0, fmt.Errorf("inflate Avro block: %w", err)
		}
	}
	return block, count, nil
}

// blockBytes is how much of entries goes into one block.
const blockBytes = 128 << 10

// containerWriter writes an Avro object container file with deflate.
type containerWriter struct {
	out     bytes.Buffer
	block   []byte
	count   int64
	sync    [16]byte
	deflate *flate.Writer
	packed  bytes.Buffer
}

func newContainerWriter(metadata map[string][]byte) (*containerWriter, error) {
	w := &containerWriter{}
	if _, err := rand.Read(w.sync[:]); err != nil {
		return nil, err
	}
	var err error
	if w.deflate, err = flate.NewWriter(nil, 3); err != nil {
		return nil, err
	}
	own := maps.Clone(metadata)
	own["avro.codec"] = []byte("deflate")
	header := append([]byte(nil), avroMagic...)
	header = binary.AppendVarint(header, int64(len(own)))
	for _, key := range slices.Sorted(maps.Keys(own)) {
		header = binary.AppendVarint(header, int64(len(key)))
		header = append(header, key...)
		header = binary.AppendVarint(header, int64(len(own[key])))
		header = append(header, own[key]...)
	}
	header = binary.AppendVarint(header, 0)
	w.out.Write(header)
	w.out.Write(w.sync[:])
	return w, nil
}

func (w *containerWriter) long(v int64) { w.block = binary.AppendVarint(w.block, v) }

// copy copies one value.
func (w *containerWriter) copy(r *avroReader, t avroType) {
	start := r.pos
	r.skip(&t)
	if r.err == nil {
		w.block = append(w.block, r.data[start:r.pos]...)
	}
}

// nullableLong copies a long or, when it is null, writes inherited instead, and tells so.
func (w *containerWriter) nullableLong(t avroType, r *avroReader, inherited int64) bool {
	if t.kind == avroVarint { // v1: not nullable
		w.long(r.long())
		return false
	}
	longBranch := slices.IndexFunc(t.parts, func(p avroType) bool { return p.kind == avroVarint })
	if t.kind != avroUnion || longBranch < 0 {
		r.fail(errAvro)
		return false
	}
	w.long(int64(longBranch))
	if r.long() == int64(longBranch) {
		w.long(r.long())
		return false
	}
	w.long(inherited)
	return true
}

func (w *containerWriter) endEntry() error {
	w.count++
	if len(w.block) < blockBytes {
		return nil
	}
	return w.flush()
}

func (w *containerWriter) flush() error {
	if w.count == 0 {
		return nil
	}
	w.packed.Reset()
	w.deflate.Reset(&w.packed)
	if _, err := w.deflate.Write(w.block); err != nil {
		return err
	}
	if err := w.deflate.Close(); err != nil {
		return err
	}
	head := binary.AppendVarint(nil, w.count)
	head = binary.AppendVarint(head, int64(w.packed.Len()))
	w.out.Write(head)
	w.out.Write(w.packed.Bytes())
	w.out.Write(w.sync[:])
	w.block, w.count = w.block[:0], 0
	return nil
}

func (w *containerWriter) close() ([]byte, error) {
	if err := w.flush(); err != nil {
		return nil, err
	}
	return w.out.Bytes(), nil
}
