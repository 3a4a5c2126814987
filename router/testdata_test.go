package router

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

var rewrite = flag.Bool("rewrite", false, "write what the tests found into testdata as what they want")

// scene is one file of testdata: sections that begin with "-- name --".
type scene struct {
	path     string
	names    []string
	sections map[string]string
}

// scenes reads the files of testdata that match pattern.
func scenes(t *testing.T, pattern string) []scene {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join("testdata", pattern))
	if err != nil || len(paths) == 0 {
		t.Fatalf("no scenes match %s: %v", pattern, err)
	}
	var out []scene
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		s := scene{path: path, sections: map[string]string{}}
		current := ""
		for _, line := range strings.SplitAfter(string(text), "\n") {
			if name, ok := strings.CutPrefix(strings.TrimRight(line, "\n"), "-- "); ok && strings.HasSuffix(name, " --") {
				current = strings.TrimSuffix(name, " --")
				s.names = append(s.names, current)
				continue
			}
			s.sections[current] += line
		}
		out = append(out, s)
	}
	return out
}

// want compares got with a section of the scene, or writes it there.
func (s scene) want(t *testing.T, section, got string) {
	t.Helper()
	if got != "" && !strings.HasSuffix(got, "\n") {
		got += "\n"
	}
	if got == s.sections[section] {
		return
	}
	if !*rewrite {
		t.Errorf("%s: %s\ngot:\n%swant:\n%s", s.path, section, got, s.sections[section])
		return
	}
	s.sections[section] = got
	var b strings.Builder
	b.WriteString(s.sections[""])
	for _, name := range s.names {
		b.WriteString("-- " + name + " --\n" + s.sections[name])
	}
	if err := os.WriteFile(s.path, []byte(b.String()), 0o644); err != nil {
		t.Fatal(err)
	}
}
