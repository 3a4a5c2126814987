package catalog

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/apache/iceberg-go"
)

// ParseType reads a column type as people write it: "long", "decimal(18, 4)",
// "fixed[16]", "list<string>", "map<string, long>", "struct<a: int not null, b: string>".
//
// Elements, values and fields are optional unless "not null" follows their
// type; map keys are required always. Names of fields with unusual characters
// stand in backquotes. Nested fields get ids from 1 on; a catalog gives them
// others when it creates the table.
//
// Source: Iceberg spec, "Schemas and Data Types"; the notation is that of Spark's DDL.
func ParseType(s string) (iceberg.Type, error) {
	id := 0
	p := typeParser{text: s, nextID: func() int { id++; return id }}
	t, err := p.parse()
	if err != nil {
		return nil, fmt.Errorf("type %q: %w", s, err)
	}
	return t, nil
}

// typeDepthMax bounds the nesting of a type, so that the parser's recursion is bounded.
const typeDepthMax = 64

// plainTypes are the types without parameters.
var plainTypes = map[string]iceberg.Type{
	"boolean": iceberg.PrimitiveTypes.Bool, "int": iceberg.PrimitiveTypes.Int32, "long": iceberg.PrimitiveTypes.Int64,
	"float": iceberg.PrimitiveTypes.Float32, "double": iceberg.PrimitiveTypes.Float64, "date": iceberg.PrimitiveTypes.Date,
	"time": iceberg.PrimitiveTypes.Time, "timestamp": iceberg.PrimitiveTypes.Timestamp,
	"timestamptz": iceberg.PrimitiveTypes.TimestampTz, "string": iceberg.PrimitiveTypes.String,
	"uuid": iceberg.PrimitiveTypes.UUID, "binary": iceberg.PrimitiveTypes.Binary,
}

// foreignTypes says what other systems' type names are called here.
var foreignTypes = map[string]string{
	"bool": "boolean", "integer": "int", "int32": "int", "int64": "long", "bigint": "long", "smallint": "int", "tinyint": "int",
	"short": "int", "byte": "int", "real": "float", "float32": "float", "float64": "double", "number": "double",
	"numeric": "decimal(18, 4)", "datetime": "timestamp", "timestamp_ntz": "timestamp", "timestamp_ltz": "timestamptz",
	"timestamp_tz": "timestamptz", "varchar": "string", "char": "string", "text": "string", "json": "string",
	"bytes": "binary", "blob": "binary", "bytea": "binary", "array": "list<...>", "record": "struct<...>", "object": "struct<...>",
}

const typesThatAre = "boolean, int, long, float, double, decimal(P, S), date, time, timestamp, timestamptz, string, uuid, fixed[N], binary, struct<...>, list<...> and map<...>"

// typeParser is a recursive descent parser over one type.
type typeParser struct {
	text   string
	pos    int
	depth  int
	nextID func() int
}

func (p *typeParser) parse() (iceberg.Type, error) {
	t, err := p.element()
	if err != nil {
		return nil, err
	}
	if rest := strings.TrimSpace(p.text[p.pos:]); rest != "" {
		return nil, fmt.Errorf("%q is left over after the type", rest)
	}
	return t, nil
}

// element reads one type at the current place.
func (p *typeParser) element() (iceberg.Type, error) {
	p.depth++
	defer func() { p.depth-- }()
	if p.depth > typeDepthMax {
		return nil, fmt.Errorf("nested deeper than %d", typeDepthMax)
	}
	name := strings.ToLower(p.word())
	switch name {
	case "decimal":
		return p.decimal()
	case "fixed":
		return p.fixed()
	case "struct":
		return p.structure()
	case "list":
		return p.list()
	case "map":
		return p.mapping()
	case "":
		return nil, fmt.Errorf("expected a type at %s", p.place())
	}
	if t, ok := plainTypes[name]; ok {
		return t, nil
	}
	if ours, ok := foreignTypes[name]; ok {
		return nil, fmt.Errorf("unknown type %q: write %s", name, ours)
	}
	candidates := []string{"decimal", "fixed", "struct", "list", "map"}
	for known := range plainTypes {
		candidates = append(candidates, known)
	}
	if near := nearest(name, candidates); near != "" {
		return nil, fmt.Errorf("unknown type %q (did you mean %s?)", name, near)
	}
	return nil, fmt.Errorf("unknown type %q: known are %s", name, typesThatAre)
}

func (p *typeParser) decimal() (iceberg.Type, error) {
	if !p.take('(') {
		return nil, fmt.Errorf("decimal needs precision and scale, as in decimal(18, 4)")
	}
	precision, err := p.number()
	if err != nil {
		return nil, err
	}
	scale := 0
	if p.take(',') {
		if scale, err = p.number(); err != nil {
			return nil, err
		}
	}
	if !p.take(')') {
		return nil, fmt.Errorf("expected ) at %s", p.place())
	}
	if precision < 1 || precision > 38 {
		return nil, fmt.Errorf("precision of decimal(%d, %d) must be 1 to 38", precision, scale)
	}
	if scale > precision {
		return nil, fmt.Errorf("scale of decimal(%d, %d) must be at most the precision", precision, scale)
	}
	return iceberg.DecimalTypeOf(precision, scale), nil
}

func (p *typeParser) fixed() (iceberg.Type, error) {
	shut := byte(']')
	if !p.take('[') {
		if !p.take('(') {
			return nil, fmt.Errorf("fixed needs a length, as in fixed[16]")
		}
		shut = ')'
	}
	n, err := p.number()
	if err != nil {
		return nil, err
	}
	if !p.take(shut) {
		return nil, fmt.Errorf("expected %c at %s", shut, p.place())
	}
	if n < 1 {
		return nil, fmt.Errorf("length of fixed[%d] must be at least 1", n)
	}
	return iceberg.FixedTypeOf(n), nil
}

func (p *typeParser) structure() (iceberg.Type, error) {
	if !p.take('<') {
		return nil, fmt.Errorf("struct needs fields, as in struct<a: int, b: string>")
	}
	var fields []iceberg.NestedField
	for {
		name := p.fieldName()
		if name == "" {
			return nil, fmt.Errorf("expected the name of a struct's field at %s", p.place())
		}
		if slices.ContainsFunc(fields, func(f iceberg.NestedField) bool { return f.Name == name }) {
			return nil, fmt.Errorf("field %q is there twice in one struct", name)
		}
		if !p.take(':') {
			return nil, fmt.Errorf("expected : after field %q at %s", name, p.place())
		}
		id := p.nextID()
		t, err := p.element()
		if err != nil {
			return nil, fmt.Errorf("field %q: %w", name, err)
		}
		required, err := p.notNull()
		if err != nil {
			return nil, fmt.Errorf("field %q: %w", name, err)
		}
		fields = append(fields, iceberg.NestedField{ID: id, Name: name, Type: t, Required: required})
		if p.take(',') {
			continue
		}
		if !p.take('>') {
			return nil, fmt.Errorf("expected , or > after field %q at %s", name, p.place())
		}
		return &iceberg.StructType{FieldList: fields}, nil
	}
}

func (p *typeParser) list() (iceberg.Type, error) {
	if !p.take('<') {
		return nil, fmt.Errorf("list needs an element type, as in list<string>")
	}
	id := p.nextID()
	t, err := p.element()
	if err != nil {
		return nil, err
	}
	required, err := p.notNull()
	if err != nil {
		return nil, err
	}
	if !p.take('>') {
		return nil, fmt.Errorf("expected > at %s", p.place())
	}
	return &iceberg.ListType{ElementID: id, Element: t, ElementRequired: required}, nil
}

func (p *typeParser) mapping() (iceberg.Type, error) {
	if !p.take('<') {
		return nil, fmt.Errorf("map needs key and value types, as in map<string, long>")
	}
	keyID, valueID := p.nextID(), p.nextID()
	key, err := p.element()
	if err != nil {
		return nil, err
	}
	if _, err = p.notNull(); err != nil {
		return nil, err
	}
	if !p.take(',') {
		return nil, fmt.Errorf("expected , between a map's key and value at %s", p.place())
	}
	value, err := p.element()
	if err != nil {
		return nil, err
	}
	required, err := p.notNull()
	if err != nil {
		return nil, err
	}
	if !p.take('>') {
		return nil, fmt.Errorf("expected > at %s", p.place())
	}
	return &iceberg.MapType{KeyID: keyID, KeyType: key, ValueID: valueID, ValueType: value, ValueRequired: required}, nil
}

// notNull reads an optional "not null".
func (p *typeParser) notNull() (bool, error) {
	before := p.pos
	if strings.ToLower(p.word()) != "not" {
		p.pos = before
		return false, nil
	}
	if strings.ToLower(p.word()) != "null" {
		return false, fmt.Errorf("expected null after not at %s", p.place())
	}
	return true, nil
}

// fieldName reads a bare name or one in backquotes.
func (p *typeParser) fieldName() string {
	p.space()
	if p.pos < len(p.text) && p.text[p.pos] == '`' {
		if end := strings.IndexByte(p.text[p.pos+1:], '`'); end >= 0 {
			name := p.text[p.pos+1 : p.pos+1+end]
			p.pos += end + 2
			return name
		}
		return ""
	}
	return p.word()
}

// word reads letters, digits, underscores and whatever isn't ASCII.
func (p *typeParser) word() string {
	p.space()
	start := p.pos
	for p.pos < len(p.text) {
		c := p.text[p.pos]
		if c != '_' && c < 0x80 && (c < '0' || c > '9') && (c|0x20 < 'a' || c|0x20 > 'z') {
			break
		}
		p.pos++
	}
	return p.text[start:p.pos]
}

func (p *typeParser) number() (int, error) {
	w := p.word()
	n, err := strconv.Atoi(w)
	if err != nil || n < 0 || n > 1<<30 {
		return 0, fmt.Errorf("expected a number at %s, not %q", p.place(), w)
	}
	return n, nil
}

func (p *typeParser) take(c byte) bool {
	p.space()
	if p.pos < len(p.text) && p.text[p.pos] == c {
		p.pos++
		return true
	}
	return false
}

func (p *typeParser) space() {
	for p.pos < len(p.text) && strings.IndexByte(" \t\r\n", p.text[p.pos]) >= 0 {
		p.pos++
	}
}

// place names the current position for an error.
func (p *typeParser) place() string {
	p.space()
	if p.pos >= len(p.text) {
		return "the end"
	}
	return fmt.Sprintf("%q (character %d)", cut(p.text[p.pos:], 12), p.pos+1)
}

// cut shortens s to at most n bytes for an error.
func cut(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return strings.ToValidUTF8(s[:n], "") + "…"
}

// nearest returns the candidate that is only a typing error away from name, or "".
func nearest(name string, candidates []string) string {
	best, bestDistance := "", 1+max(1, len(name)/3)
	for _, c := range candidates {
		d := distance(strings.ToLower(name), strings.ToLower(c))
		if d < bestDistance || d == bestDistance && best != "" && c < best {
			best, bestDistance = c, d
		}
	}
	return best
}

// distance is Levenshtein's.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost++
			}
			diagonal = row[j+1]
			row[j+1] = min(cost, row[j]+1, diagonal+1)
		}
	}
	return row[len(b)]
}
