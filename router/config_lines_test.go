package router

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/BurntSushi/toml"
)

func TestScanLines(t *testing.T) {
	for _, s := range scenes(t, "lines/*.txt") {
		text := s.sections["toml"]
		if _, err := toml.Decode(text, &map[string]any{}); err != nil && !strings.Contains(err.Error(), "defined") {
			t.Fatalf("%s: the scene is not TOML: %v", s.path, err)
		}
		lines := scanLines(text)
		var got strings.Builder
		for _, key := range slices.SortedFunc(maps.Keys(lines.places), func(a, b string) int {
			if d := lines.places[a].line - lines.places[b].line; d != 0 {
				return d
			}
			return strings.Compare(a, b)
		}) {
			fmt.Fprintf(&got, "%d %s\n", lines.places[key].line, key)
		}
		for _, r := range lines.repeated {
			fmt.Fprintf(&got, "%d again %s, first on %d\n", r.line, r.key, r.first)
		}
		s.want(t, "want", got.String())
	}
}

func TestParentKey(t *testing.T) {
	for key, want := range map[string]string{
		"a": "", "a.b": "a", "a[0]": "a", "a[12].b": "a[12]", `a."b.c"`: "a", `a."b\".c"`: "a", `"x.y"`: "", `a."b.c".d`: `a."b.c"`,
	} {
		if got := parentKey(key); got != want {
			t.Errorf("parentKey(%s) = %s, want %s", key, got, want)
		}
	}
}

// TestScanLinesBroken cuts and bends a good file at random: the scanner may
// find less in it, and must neither panic nor run on.
func TestScanLinesBroken(t *testing.T) {
	text := minimal + `x = """a\""" # """` + "\ny = { a = [1, {b = 'c'}], \"q.r\" = '''z''' }\n[[ingest.create.schema]]\n"
	const bends = "\"'[]{}=.\\\n#,a"
	random := rand.New(rand.NewPCG(1, 2))
	for i := range 20000 {
		b := []byte(text[:random.IntN(len(text))])
		for range random.IntN(3) {
			if len(b) > 0 {
				b[random.IntN(len(b))] = bends[random.IntN(len(bends))]
			}
		}
		if i%10 == 0 {
			_, r := parseConfig(string(b))
			if err := r.report(configFile{"x", r.lines}, secrets{}); !strings.HasPrefix(err.Error(), "x") && len(r.problems) > 0 {
				t.Fatalf("%v", err)
			}
		}
		lines := scanLines(string(b))
		if n := strings.Count(string(b), "\n") + 1; slices.ContainsFunc(slices.Collect(maps.Values(lines.places)), func(p place) bool { return p.line > n }) {
			t.Fatalf("line past the end in %q", b)
		}
	}
}
