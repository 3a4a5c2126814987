package router

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// bugIDs are the ids of the bug list in DESIGN.md.
const bugIDs = "1 3-8 10-13 15-16 18-22 24-25 27 29-34 36-40 42-43 45-47 49-57 59-60 63-65 67-71 73-77 79 81-82 84-91 93-97 99 101-109 111-115 117 119-127 " +
	"129-131 133 135-142 144-147 149-156 158-160 162-169 171 173-175 177-189 192-197 199-203 205-213 215"

// TestBugList holds the bug list to the tree: every id is there once, and every
// test that it names exists. What names none says in words why.
func TestBugList(t *testing.T) {
	text, err := os.ReadFile("../DESIGN.md")
	if err != nil {
		t.Fatal(err)
	}
	_, list, ok := strings.Cut(string(text), "\n## 15. The bug list\n")
	if !ok {
		t.Fatal("DESIGN.md has no section 15, the bug list")
	}
	tests := testNames(t)
	named := regexp.MustCompile("`((?:Test|Fuzz|Benchmark)[A-Za-z0-9_]+)`")
	seen := map[string]bool{}
	for _, line := range strings.Split(list, "\n") {
		cells := strings.Split(strings.Trim(line, "| "), " | ")
		if !strings.HasPrefix(line, "| B") {
			continue
		}
		if len(cells) != 3 || strings.TrimSpace(cells[2]) == "" {
			t.Errorf("%s: a row has an id, what went wrong, and who holds it", line)
			continue
		}
		id, held := cells[0], cells[2]
		if seen[id] {
			t.Errorf("%s is there twice", id)
		}
		seen[id] = true
		names := named.FindAllStringSubmatch(held, -1)
		for _, n := range names {
			if !tests[n[1]] {
				t.Errorf("%s: there is no %s", id, n[1])
			}
		}
		why := strings.HasPrefix(held, "does not apply") || strings.HasPrefix(held, "open: ") || held == "publish"
		if len(names) == 0 && !why {
			t.Errorf("%s: %q names no test, and doesn't say why", id, held)
		}
	}
	want := 0
	for _, part := range strings.Fields(bugIDs) {
		first, last, ranged := strings.Cut(part, "-")
		if !ranged {
			last = first
		}
		from, _ := strconv.Atoi(first)
		to, _ := strconv.Atoi(last)
		for n := from; n <= to; n++ {
			want++
			if id := fmt.Sprintf("B%03d", n); !seen[id] {
				t.Errorf("%s is missing", id)
			}
		}
	}
	if len(seen) > want {
		t.Errorf("%d ids, %d are known", len(seen), want)
	}
}

// testNames finds the tests, fuzz targets and benchmarks of the module, under
// whatever build tag.
func testNames(t *testing.T) map[string]bool {
	t.Helper()
	names := map[string]bool{}
	err := filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && strings.HasPrefix(d.Name(), ".") && d.Name() != ".." {
			return filepath.SkipDir
		}
		if !strings.HasSuffix(path, "_test.go") {
			return nil
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		for _, decl := range file.Decls {
			if f, ok := decl.(*ast.FuncDecl); ok && f.Recv == nil {
				names[f.Name.Name] = true
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return names
}
