package router

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
)

// TestTemplatesDocumented compares the functions with README.md; -rewrite
// writes it.
func TestTemplatesDocumented(t *testing.T) {
	const path, begin, end = "../README.md", "<!-- templates: written by go test ./router -rewrite -->\n", "<!-- end of templates -->"
	var want strings.Builder
	want.WriteString("\n| template | makes |\n|---|---|\n")
	for _, name := range slices.Sorted(maps.Keys(functions)) {
		fmt.Fprintf(&want, "| `%s` | %s |\n", functions[name].form, functions[name].about)
	}
	want.WriteString("\n")
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(text), begin)
	got, after, ok2 := strings.Cut(rest, end)
	switch {
	case !ok || !ok2:
		t.Fatalf("README.md has no place for the templates: %q … %q", begin, end)
	case got == want.String():
	case !*rewrite:
		t.Fatalf("README.md and functions differ; run go test ./router -run Documented -rewrite\ngot:%s\nwant:%s", got, want.String())
	default:
		if err := os.WriteFile(path, []byte(before+begin+want.String()+end+after), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}
