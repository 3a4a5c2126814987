package router

import (
	"errors"
	"fmt"
	"strings"
)

// compiled is a text with templates such as "user-{{integer(1,9)}}".
type compiled struct {
	pieces []piece
	bare   bool   // one function that makes a JSON number or boolean, and nothing else
	field  string // the field of the value that field(name) copies
}

// compileTemplate compiles text. inJSON says that the result stands between
// the quotes of a JSON string.
func compileTemplate(text string, inJSON bool) (compiled, error) {
	var t compiled
	for rest, at := text, 0; rest != ""; {
		fixed, call, found := strings.Cut(rest, "{{")
		if fixed != "" {
			t.pieces = append(t.pieces, textPiece(literal(fixed, inJSON)))
		}
		if !found {
			return t, nil
		}
		at += len(fixed)
		p := callParser{text: call}
		name, args, err := p.call()
		if err == nil {
			err = t.add(name, args, inJSON)
		}
		if err != nil {
			return compiled{}, fmt.Errorf("template at character %d of %q: %w", at+1, shorten(text, 80), err)
		}
		at += len("{{") + p.at
		rest = call[p.at:]
		t.bare = inJSON && fixed == "" && rest == "" && len(t.pieces) == 1 && functions[name].bare
	}
	return t, nil
}

// add appends the piece of one function.
func (t *compiled) add(name string, args []string, inJSON bool) error {
	if name == "field" {
		if inJSON {
			return errors.New("field(name) can only stand in a key")
		}
		if len(args) != 1 || args[0] == "" {
			return errors.New("field(name) takes the name of one field of the schema")
		}
		if t.field != "" && t.field != args[0] {
			return fmt.Errorf("field(%s) after field(%s): a key can copy one field", args[0], t.field)
		}
		t.field = args[0]
		t.pieces = append(t.pieces, fieldPiece)
		return nil
	}
	f, ok := functions[name]
	if !ok {
		return fmt.Errorf("unknown function %q; known are %s", name, functionNames())
	}
	if len(args) < f.argsMin || len(args) > f.argsMax {
		return fmt.Errorf("%s has %d arguments; write %s", name, len(args), f.form)
	}
	if inJSON {
		for i := range args {
			args[i] = escapeJSON(args[i])
		}
	}
	p, err := f.compile(args)
	if err != nil {
		return fmt.Errorf("%s: %w; write %s", name, err, f.form)
	}
	t.pieces = append(t.pieces, p)
	return nil
}

// literal is fixed text as it stands in the record.
func literal(text string, inJSON bool) string {
	if inJSON {
		return escapeJSON(text)
	}
	return text
}

// callParser reads what stands between the braces: a name and, in parentheses,
// arguments with commas between them. An argument in 'single quotes' is taken
// as it is.
type callParser struct {
	text string
	at   int
}

// call reads a call and its closing braces.
func (p *callParser) call() (name string, args []string, err error) {
	p.spaces()
	name = p.until("(} ")
	p.spaces()
	if p.take("(") {
		if args, err = p.arguments(); err != nil {
			return "", nil, err
		}
		p.spaces()
	}
	if !p.take("}}") {
		return "", nil, errors.New("the closing }} is missing")
	}
	if name == "" {
		return "", nil, errors.New("there is no function between {{ and }}")
	}
	return name, args, nil
}

// arguments reads arguments up to the closing parenthesis.
func (p *callParser) arguments() ([]string, error) {
	if p.spaces(); p.take(")") {
		return nil, nil
	}
	var args []string
	for {
		p.spaces()
		if p.take("'") {
			args = append(args, p.until("'"))
			if !p.take("'") {
				return nil, errors.New("the closing ' is missing")
			}
			p.spaces()
		} else {
			args = append(args, strings.TrimRight(p.until(",)"), " "))
		}
		if p.take(")") {
			return args, nil
		}
		if !p.take(",") {
			return nil, errors.New("the closing ) is missing")
		}
	}
}

// until reads up to one of the given characters.
func (p *callParser) until(stops string) string {
	from := p.at
	if n := strings.IndexAny(p.text[from:], stops); n >= 0 {
		p.at += n
	} else {
		p.at = len(p.text)
	}
	return p.text[from:p.at]
}

// take reads token if it comes next.
func (p *callParser) take(token string) bool {
	if !strings.HasPrefix(p.text[p.at:], token) {
		return false
	}
	p.at += len(token)
	return true
}

func (p *callParser) spaces() {
	for p.take(" ") {
	}
}

// shorten cuts text after n bytes, for errors.
func shorten(text string, n int) string {
	if len(text) <= n {
		return text
	}
	return text[:n] + "…"
}
