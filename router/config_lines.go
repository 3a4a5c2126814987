package router

import (
	"sort"
	"strconv"
	"strings"
)

// scanLines finds where each key of a TOML text stands. The TOML library says
// what a file means but not on which line a key was, and a problem without its
// line is half a problem.
//
// It is lenient: the library judges the syntax, and whatever this scanner does
// not understand it leaves out. Keys are written as joinKey and joinIndex
// write them: ingest[0].create.schema[1].name, catalog.properties."s3.region".
func scanLines(text string) tomlLines {
	s := &lineScanner{text: text, out: tomlLines{places: map[string]place{}}, arrays: map[string]int{}}
	for i, c := range text {
		if c == '\n' {
			s.newlines = append(s.newlines, i)
		}
	}
	s.scan()
	return s.out
}

// tomlLines is where the keys of a text are.
type tomlLines struct {
	places   map[string]place // first place of each key
	repeated []repeat
}

// place is one key: the line it stands on and the text of its value (empty for
// a section header).
type place struct {
	line  int
	value string
}

// repeat is a key or section that was there before. Start and end enclose the
// whole statement, or are equal where it cannot be cut out of the text.
type repeat struct {
	key         string
	line, first int
	section     bool
	start, end  int
}

// of returns the line of key, or of the first key within it ([a.b] makes a,
// too), or of the closest key around it, or 0.
func (l tomlLines) of(key string) int {
	for key != "" {
		if p, ok := l.places[key]; ok {
			return p.line
		}
		if line := l.within(key); line > 0 {
			return line
		}
		key = parentKey(key)
	}
	return 0
}

// within returns the line of the first key within key, or 0.
func (l tomlLines) within(key string) (line int) {
	for name, p := range l.places {
		if rest, ok := strings.CutPrefix(name, key); ok && (rest[0] == '.' || rest[0] == '[') && (line == 0 || p.line < line) {
			line = p.line
		}
	}
	return line
}

// joinKey names a key inside a table.
func joinKey(parent, name string) string {
	if !isBareKey(name) {
		name = strconv.Quote(name)
	}
	if parent == "" {
		return name
	}
	return parent + "." + name
}

// joinIndex names an element of an array.
func joinIndex(parent string, i int) string { return parent + "[" + strconv.Itoa(i) + "]" }

// parentKey removes the last name or index of key.
func parentKey(key string) string {
	if strings.HasSuffix(key, "]") {
		return key[:strings.LastIndexByte(key, '[')]
	}
	quoted := strings.HasSuffix(key, `"`)
	for i := len(key) - 1; i >= 0; i-- {
		if quoted && i < len(key)-1 && key[i] == '"' && (i == 0 || key[i-1] != '\\') {
			quoted = false
		}
		if !quoted && key[i] == '.' {
			return key[:i]
		}
	}
	return ""
}

func isBareKey(name string) bool {
	for _, c := range name {
		if c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '_' || c == '-' {
			continue
		}
		return false
	}
	return name != ""
}

type lineScanner struct {
	text     string
	pos      int
	newlines []int
	section  string         // key of the header that is in force
	arrays   map[string]int // elements seen of each [[array]]
	headers  map[string]int // line of each [section]
	out      tomlLines
}

// scan reads statement after statement: a header, or key = value.
func (s *lineScanner) scan() {
	s.headers = map[string]int{}
	for {
		s.skip(" \t\r\n")
		switch {
		case s.pos >= len(s.text):
			return
		case s.text[s.pos] == '[':
			if !s.header() {
				return
			}
		default:
			start := s.pos
			key, line, fresh := s.assignment(s.section)
			if key == "" {
				return
			}
			if !fresh {
				s.repeat(key, line, start, s.pos)
			}
		}
	}
}

// header reads [a.b] or [[a.b]]. A name of an array on the way means the
// array's newest element.
func (s *lineScanner) header() bool {
	start, line := s.pos, s.line(s.pos)
	array := strings.HasPrefix(s.text[s.pos:], "[[")
	s.pos++
	if array {
		s.pos++
	}
	names := s.names()
	if len(names) == 0 {
		return false
	}
	for s.pos < len(s.text) && s.text[s.pos] == ']' {
		s.pos++
	}
	key := ""
	for i, name := range names {
		key = joinKey(key, name)
		if i < len(names)-1 && s.arrays[key] > 0 {
			key = joinIndex(key, s.arrays[key]-1)
		}
	}
	if array {
		s.record(key, line, "")
		s.arrays[key]++
		key = joinIndex(key, s.arrays[key]-1)
	} else if first, seen := s.headers[key]; seen {
		s.out.repeated = append(s.out.repeated, repeat{key: key, line: line, first: first, section: true, start: start, end: start})
	} else {
		s.headers[key] = line
	}
	s.record(key, line, "")
	s.section = key
	return true
}

// assignment reads key = value under parent. It returns an empty key where the
// text is no assignment.
func (s *lineScanner) assignment(parent string) (key string, line int, fresh bool) {
	line = s.line(s.pos)
	names := s.names()
	if len(names) == 0 || s.pos >= len(s.text) || s.text[s.pos] != '=' {
		return "", 0, false
	}
	s.pos++
	s.skip(" \t")
	key = parent
	for i, name := range names {
		key = joinKey(key, name)
		if _, seen := s.out.places[key]; !seen && i < len(names)-1 {
			s.record(key, line, "")
		}
	}
	start := s.pos
	if !s.value(key) {
		return "", 0, false
	}
	return key, line, s.record(key, line, strings.TrimSpace(s.text[start:s.pos]))
}

// names reads a dotted key, quoted or bare, and the blanks after it.
func (s *lineScanner) names() (names []string) {
	for s.pos < len(s.text) {
		s.skip(" \t")
		if s.pos >= len(s.text) {
			return nil
		}
		start := s.pos
		switch c := s.text[s.pos]; c {
		case '"', '\'':
			if !s.quoted() {
				return nil
			}
			name := s.text[start+1 : s.pos-1]
			if c == '"' {
				if plain, err := strconv.Unquote(`"` + name + `"`); err == nil {
					name = plain
				}
			}
			names = append(names, name)
		default:
			for s.pos < len(s.text) && isBareKey(s.text[s.pos:s.pos+1]) {
				s.pos++
			}
			if s.pos == start {
				return nil
			}
			names = append(names, s.text[start:s.pos])
		}
		s.skip(" \t")
		if s.pos >= len(s.text) || s.text[s.pos] != '.' {
			return names
		}
		s.pos++
	}
	return nil
}

// value moves past a value and records the keys and elements within it.
func (s *lineScanner) value(key string) bool {
	if s.pos >= len(s.text) {
		return false
	}
	switch s.text[s.pos] {
	case '"', '\'':
		return s.quoted()
	case '[':
		return s.list(']', func(i int) bool {
			element, line, start := joinIndex(key, i), s.line(s.pos), s.pos
			if !s.value(element) {
				return false
			}
			s.record(element, line, strings.TrimSpace(s.text[start:s.pos]))
			return true
		})
	case '{':
		return s.list('}', func(int) bool {
			inner, line, fresh := s.assignment(key)
			if inner != "" && !fresh {
				s.repeat(inner, line, 0, 0)
			}
			return inner != ""
		})
	}
	start := s.pos
	for s.pos < len(s.text) && !strings.ContainsRune(",]}#\r\n", rune(s.text[s.pos])) {
		s.pos++
	}
	return s.pos > start
}

// list moves past the elements up to the closing byte.
func (s *lineScanner) list(closing byte, element func(i int) bool) bool {
	s.pos++
	for i := 0; ; i++ {
		s.skip(" \t\r\n,")
		switch {
		case s.pos >= len(s.text):
			return false
		case s.text[s.pos] == closing:
			s.pos++
			return true
		case !element(i):
			return false
		}
	}
}

// quoted moves past a string of any of the four kinds.
func (s *lineScanner) quoted() bool {
	mark := s.text[s.pos : s.pos+1]
	if triple := strings.Repeat(mark, 3); strings.HasPrefix(s.text[s.pos:], triple) {
		mark = triple
	}
	s.pos += len(mark)
	for s.pos < len(s.text) {
		switch {
		case s.text[s.pos] == '\\' && mark[0] == '"':
			s.pos += 2
		case strings.HasPrefix(s.text[s.pos:], mark):
			s.pos += len(mark)
			for len(mark) == 3 && s.pos < len(s.text) && s.text[s.pos] == mark[0] { // """a""""" ends in two quotes
				s.pos++
			}
			return true
		case len(mark) == 1 && s.text[s.pos] == '\n':
			return false
		default:
			s.pos++
		}
	}
	return false
}

// skip moves past the bytes in set and past comments.
func (s *lineScanner) skip(set string) {
	for s.pos < len(s.text) {
		switch c := s.text[s.pos]; {
		case strings.IndexByte(set, c) >= 0:
			s.pos++
		case c == '#':
			for s.pos < len(s.text) && s.text[s.pos] != '\n' {
				s.pos++
			}
		default:
			return
		}
	}
}

// record keeps the first place of a key and tells whether this is it. A header
// above may already stand for a key that a later header gives.
func (s *lineScanner) record(key string, line int, value string) bool {
	if _, seen := s.out.places[key]; seen {
		return false
	}
	s.out.places[key] = place{line: line, value: value}
	return true
}

func (s *lineScanner) repeat(key string, line, start, end int) {
	s.out.repeated = append(s.out.repeated, repeat{key: key, line: line, first: s.out.places[key].line, start: start, end: end})
}

func (s *lineScanner) line(pos int) int { return sort.SearchInts(s.newlines, pos) + 1 }
