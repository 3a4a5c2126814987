//go:build real

package real_test

import (
	"encoding/json"
	"fmt"
	"math/big"
	"sort"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// place is where a scene plays.
type place struct {
	client *kgo.Client
	lake   lake
}

// typedColumn is a column whose values are computed from the payload by project.
type typedColumn struct{ name, typ string }

// The types of a table, read from their text apart from the router's own
// reading: a nested type is one of the three below, another its text.
type (
	structType struct{ fields []field }
	field      struct {
		name string
		typ  any
	}
	listType struct{ element any }
	mapType  struct{ value any } // keys are texts
)

func parseType(t *testing.T, text string) any {
	t.Helper()
	p := typeParser{text: text}
	typ := p.parse()
	if p.text = strings.TrimSpace(p.text); p.text != "" {
		t.Fatalf("type %s: rest %q", text, p.text)
	}
	return typ
}

type typeParser struct{ text string }

// until takes the text up to one of the stops.
func (p *typeParser) until(stops string) string {
	i := strings.IndexAny(p.text, stops)
	if i < 0 {
		i = len(p.text)
	}
	word := strings.TrimSpace(p.text[:i])
	p.text = p.text[i:]
	return word
}

func (p *typeParser) next() { p.text = strings.TrimSpace(p.text[1:]) }

func (p *typeParser) parse() any {
	switch word := p.until("<(,>"); word {
	case "struct":
		s := &structType{}
		for more := true; more; more = p.text[0] == ',' {
			p.next()
			name := p.until(":")
			p.next()
			s.fields = append(s.fields, field{name, p.parse()})
		}
		p.next()
		return s
	case "list":
		p.next()
		l := &listType{p.parse()}
		p.next()
		return l
	case "map":
		p.next()
		p.parse()
		p.next()
		m := &mapType{p.parse()}
		p.next()
		return m
	case "decimal":
		word += p.until(")") + ")"
		p.next()
		return word
	default:
		return word
	}
}

// project computes what a reader must print of a payload's value in a column of a type.
func project(t *testing.T, typ, value any) any {
	t.Helper()
	if value == nil {
		return nil
	}
	switch typ := typ.(type) {
	case *structType:
		object := value.(map[string]any)
		row := map[string]any{}
		for _, f := range typ.fields {
			row[f.name] = project(t, f.typ, object[f.name])
		}
		return row
	case *listType:
		row := []any{}
		for _, element := range value.([]any) {
			row = append(row, project(t, typ.element, element))
		}
		return row
	case *mapType:
		pairs := [][2]any{}
		for key, v := range value.(map[string]any) {
			pairs = append(pairs, [2]any{key, project(t, typ.value, v)})
		}
		sort.Slice(pairs, func(i, j int) bool { return pairs[i][0].(string) < pairs[j][0].(string) })
		return pairs
	}
	return projectPrimitive(t, typ.(string), value)
}

func projectPrimitive(t *testing.T, typ string, value any) any {
	t.Helper()
	number, isNumber := value.(json.Number)
	switch {
	case strings.HasPrefix(typ, "decimal("):
		var precision, scale int
		if _, err := fmt.Sscanf(typ, "decimal(%d, %d)", &precision, &scale); err != nil {
			t.Fatal(err)
		}
		exact, ok := new(big.Rat).SetString(number.String())
		if !ok {
			t.Fatalf("no decimal: %v", value)
		}
		return exact.FloatString(scale)
	case typ == "timestamptz" && isNumber:
		seconds, err := number.Int64()
		if err != nil {
			t.Fatal(err)
		}
		return time.Unix(seconds, 0).UTC().Format(microsFormat) + "+00:00"
	case typ == "timestamptz":
		at, err := time.Parse(time.RFC3339Nano, value.(string))
		if err != nil {
			t.Fatal(err)
		}
		return at.UTC().Format(microsFormat) + "+00:00"
	case typ == "float":
		f, err := strconv.ParseFloat(number.String(), 32)
		if err != nil {
			t.Fatal(err)
		}
		return json.RawMessage(double(f))
	case typ == "double":
		f, err := number.Float64()
		if err != nil {
			t.Fatal(err)
		}
		return json.RawMessage(double(f))
	}
	return value
}
