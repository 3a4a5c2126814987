package router

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// schemaDefault is the reference record of the benchmarks: an id out of a
// million and a text, 1,001 bytes with what is around them.
const schemaDefault = `{"logStreamId": "{{integer(1000001,2000000)}}", "message": "{{alphaNumeric(962)}}"}`

// generator makes the values and keys of records from compiled templates. The
// same seed gives the same records, but for the clock. It is not safe for
// concurrent use.
type generator struct {
	src   *chance
	value []piece
	key   []piece // nil: records have no key
}

// piece appends one part of a record to dst.
type piece func(dst []byte, src *chance) []byte

// newGenerator compiles a schema, which is a JSON object whose texts may hold
// templates, and the template of the key, "" for none. Its errors name the
// place in the schema and the character in the template.
func newGenerator(schema, key string, seed uint64) (*generator, error) {
	c := &schemaCompiler{decoder: json.NewDecoder(strings.NewReader(schema))}
	c.decoder.UseNumber()
	if err := c.object("", 0); err != nil {
		return nil, fmt.Errorf("schema: %w", err)
	}
	if _, err := c.decoder.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("schema: text after the end of the object")
	}
	g := &generator{src: newChance(seed)}
	if key != "" {
		t, err := compileTemplate(key, false)
		if err != nil {
			return nil, fmt.Errorf("key: %w", err)
		}
		if t.field != "" {
			if err := c.watch(t.field); err != nil {
				return nil, fmt.Errorf("key: %w", err)
			}
		}
		g.key = t.pieces
	}
	c.text("")
	g.value = c.pieces
	return g, nil
}

// appendRecord appends the next record's value and then its key to dst, and
// returns where the key begins.
func (g *generator) appendRecord(dst []byte) (record []byte, key int) {
	g.src.begin(len(dst))
	for _, p := range g.value {
		dst = p(dst, g.src)
	}
	key = len(dst)
	for _, p := range g.key {
		dst = p(dst, g.src)
	}
	g.src.sequence++
	return dst, key
}

// separator stands between fields and elements. The space makes the reference
// record the 1,001 bytes that the published figures speak of.
const separator = ", "

// schemaDepthMax bounds how deep a schema nests; deeper is a mistake.
const schemaDepthMax = 64

// schemaCompiler turns JSON into pieces: what is fixed between two templates
// becomes one piece of text.
type schemaCompiler struct {
	decoder *json.Decoder
	pieces  []piece
	fixed   []byte            // text not yet in pieces
	fields  map[string][2]int // of a top-level field: its value is pieces[from:to]
}

// object compiles the object that comes next.
func (c *schemaCompiler) object(path string, depth int) error {
	token, err := c.decoder.Token()
	if err != nil {
		return c.syntax(path, err)
	}
	if token != json.Delim('{') {
		return errors.New("must be a JSON object, as " + schemaDefault)
	}
	return c.members(path, depth)
}

// members compiles an object after its opening brace.
func (c *schemaCompiler) members(path string, depth int) error {
	c.fixed = append(c.fixed, '{')
	seen := map[string]bool{}
	for c.decoder.More() {
		token, err := c.decoder.Token()
		if err != nil {
			return c.syntax(path, err)
		}
		name, _ := token.(string)
		if seen[name] {
			return fmt.Errorf("field %q is there twice", child(path, name))
		}
		if len(seen) > 0 {
			c.fixed = append(c.fixed, separator...)
		}
		seen[name] = true
		c.fixed = append(appendQuoted(c.fixed, name), ": "...)
		if depth > 0 {
			if err := c.next(child(path, name), depth); err != nil {
				return err
			}
			continue
		}
		c.text("")
		from := len(c.pieces)
		if err := c.next(name, depth); err != nil {
			return err
		}
		c.text("")
		if c.fields == nil {
			c.fields = map[string][2]int{}
		}
		c.fields[name] = [2]int{from, len(c.pieces)}
	}
	c.fixed = append(c.fixed, '}')
	return c.close(path)
}

// elements compiles an array after its opening bracket.
func (c *schemaCompiler) elements(path string, depth int) error {
	c.fixed = append(c.fixed, '[')
	for i := 0; c.decoder.More(); i++ {
		if i > 0 {
			c.fixed = append(c.fixed, separator...)
		}
		if err := c.next(path+"["+strconv.Itoa(i)+"]", depth); err != nil {
			return err
		}
	}
	c.fixed = append(c.fixed, ']')
	return c.close(path)
}

// next compiles the value that comes next.
func (c *schemaCompiler) next(path string, depth int) error {
	if depth == schemaDepthMax {
		return fmt.Errorf("field %q: nested deeper than %d", path, schemaDepthMax)
	}
	token, err := c.decoder.Token()
	if err != nil {
		return c.syntax(path, err)
	}
	switch v := token.(type) {
	case json.Delim:
		if v == '{' {
			return c.members(path, depth+1)
		}
		return c.elements(path, depth+1)
	case json.Number:
		c.fixed = append(c.fixed, v...)
	case bool:
		c.fixed = strconv.AppendBool(c.fixed, v)
	case nil:
		c.fixed = append(c.fixed, "null"...)
	case string:
		return c.template(path, v)
	}
	return nil
}

// template compiles a text. A text that is one template of a number or boolean
// and nothing else is a JSON number or boolean; others are JSON strings.
func (c *schemaCompiler) template(path, text string) error {
	t, err := compileTemplate(text, true)
	if err != nil {
		return fmt.Errorf("field %q: %w", path, err)
	}
	if t.bare {
		c.text("")
		c.pieces = append(c.pieces, t.pieces...)
		return nil
	}
	c.text(`"`)
	c.pieces = append(c.pieces, t.pieces...)
	c.fixed = append(c.fixed, '"')
	return nil
}

// text ends the fixed text with more and makes it a piece.
func (c *schemaCompiler) text(more string) {
	c.fixed = append(c.fixed, more...)
	if len(c.fixed) > 0 {
		c.pieces = append(c.pieces, textPiece(string(c.fixed)))
		c.fixed = c.fixed[:0]
	}
}

// watch makes the pieces note where the value of a top-level field lies, for
// the key.
func (c *schemaCompiler) watch(field string) error {
	c.text("")
	at, ok := c.fields[field]
	if !ok {
		return fmt.Errorf("field(%s): the schema has no such field at its top", field)
	}
	from := func(dst []byte, src *chance) []byte { src.fieldFrom = len(dst); return dst }
	to := func(dst []byte, src *chance) []byte { src.fieldTo = len(dst); return dst }
	watched := append([]piece{}, c.pieces[:at[0]]...)
	watched = append(append(watched, from), c.pieces[at[0]:at[1]]...)
	c.pieces = append(append(watched, to), c.pieces[at[1]:]...)
	return nil
}

// close reads the bracket that ends an object or array.
func (c *schemaCompiler) close(path string) error {
	if _, err := c.decoder.Token(); err != nil {
		return c.syntax(path, err)
	}
	return nil
}

// syntax says where the JSON is wrong.
func (c *schemaCompiler) syntax(path string, err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		err = errors.New("the JSON ends too early")
	}
	place := fmt.Sprintf("at byte %d", c.decoder.InputOffset())
	if path != "" {
		place += fmt.Sprintf(", in field %q", path)
	}
	return fmt.Errorf("%s: %w", place, err)
}

// child names a field inside of another.
func child(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}

// appendQuoted appends text as a JSON string.
func appendQuoted(dst []byte, text string) []byte {
	dst = append(dst, '"')
	dst = append(dst, escapeJSON(text)...)
	return append(dst, '"')
}

// escapeJSON returns text as it stands between the quotes of a JSON string.
func escapeJSON(text string) string {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(text); err != nil {
		panic(fmt.Sprintf("encode %q as JSON: %v", text, err)) // a string always can be
	}
	return b.String()[1 : b.Len()-2]
}
