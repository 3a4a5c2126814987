package router

import (
	"bufio"
	"bytes"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

// importRule says what the packages of a room must not import, and why.
type importRule struct {
	room   string
	banned string // a path, or a path and everything below it with /...
	why    string
}

var importRules = []importRule{
	{"icerouter", "github.com/twmb/franz-go/...", "main turns a command line into one Router; Kafka is for router"},
	{"icerouter", "github.com/apache/iceberg-go/...", "main turns a command line into one Router; tables are for catalog"},
	{"icerouter", "github.com/parquet-go/parquet-go/...", "main turns a command line into one Router; bytes are for writers"},
	{"icerouter/router", "github.com/parquet-go/parquet-go/...", "router says when; which bytes is for writers"},
	{"icerouter/router", "github.com/apache/arrow-go/...", "router says when; which bytes is for writers"},
	{"icerouter/router", "github.com/apache/iceberg-go/catalog/...", "router says when; what is true is for catalog"},
	{"icerouter/writers", "icerouter/router", "writers do not know who calls them"},
	{"icerouter/writers", "icerouter/catalog", "writers and catalog do not know each other; router introduces them"},
	{"icerouter/writers", "github.com/apache/iceberg-go/table/...", "writers make files; committing them is for catalog"},
	{"icerouter/writers", "github.com/apache/iceberg-go/catalog/...", "writers make files; committing them is for catalog"},
	{"icerouter/catalog", "icerouter/router", "catalog does not know who calls it"},
	{"icerouter/catalog", "icerouter/writers", "writers and catalog do not know each other; router introduces them"},
	{"icerouter/catalog", "github.com/twmb/franz-go/...", "a table knows offsets, not Kafka"},
	{"icerouter/catalog", "github.com/parquet-go/parquet-go/...", "catalog commits files; which bytes is for writers"},
	{"*", "icerouter/internal/sim/...", "the faulty world is for tests only"},
	{"*", "github.com/stretchr/testify/...", "tests say what they want in plain Go"},
}

// TestImports holds the direct imports of each room to the rules.
func TestImports(t *testing.T) {
	cmd := exec.Command("go", "list", "-f", `{{.ImportPath}} {{join .Imports " "}}`, ".", "./router", "./writers", "./catalog")
	cmd.Dir = ".."
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list: %v\n%s", err, stderr.String())
	}
	rooms := 0
	for line := range strings.Lines(string(out)) {
		words := strings.Fields(line)
		rooms++
		for _, imported := range words[1:] {
			for _, r := range importRules {
				if (r.room == words[0] || r.room == "*") && matches(imported, r.banned) {
					t.Errorf("%s imports %s: %s", words[0], imported, r.why)
				}
			}
		}
	}
	if rooms != 4 {
		t.Errorf("looked at %d rooms, want 4:\n%s", rooms, out)
	}
}

func matches(imported, banned string) bool {
	tree, ok := strings.CutSuffix(banned, "/...")
	return imported == tree || ok && strings.HasPrefix(imported, tree+"/")
}

const (
	fileLinesMax     = 500 // more is two nouns
	testLinesMax     = 800 // a table of cases may be long
	functionLinesMax = 70  // more does not fit a screen
)

// A Go file below one of these folders is not the program's.
var foreign = []string{".git", "testdata", "bin", "demo"}

// TestHouse holds every Go file to the limits and the words of the house.
func TestHouse(t *testing.T) {
	files := 0
	err := filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && slices.Contains(foreign, d.Name()):
			return filepath.SkipDir
		case d.IsDir() || !strings.HasSuffix(path, ".go"):
			return nil
		}
		files++
		inspect(t, path)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if files < 20 {
		t.Errorf("looked at %d files only", files)
	}
}

// inspect reports what a Go file does that the house does not.
func inspect(t *testing.T, path string) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	test := strings.HasSuffix(path, "_test.go")
	limit := fileLinesMax
	if test {
		limit = testLinesMax
	}
	if lines := bytes.Count(text, []byte("\n")); lines > limit {
		t.Errorf("%s has %d lines, at most %d: split it by noun", path, lines, limit)
	}
	set := token.NewFileSet()
	file, err := parser.ParseFile(set, path, text, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	at := func(n ast.Node) string { return set.Position(n.Pos()).String() }
	for _, decl := range file.Decls {
		f, ok := decl.(*ast.FuncDecl)
		if !ok {
			continue
		}
		if n := set.Position(f.End()).Line - set.Position(f.Pos()).Line + 1; n > functionLinesMax && !test {
			t.Errorf("%s: %s has %d lines, at most %d: move straight code down, keep the branches up", at(f), f.Name.Name, n, functionLinesMax)
		}
		if f.Name.Name == "init" && f.Recv == nil {
			t.Errorf("%s: init: say it in New", at(f))
		}
		if word := bannedName.FindString(f.Name.Name); word != "" {
			t.Errorf("%s: %s: the name %q says nothing", at(f), f.Name.Name, word)
		}
	}
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.BasicLit:
			if n.Kind == token.STRING && !strings.HasSuffix(path, "deps_test.go") && bannedText.MatchString(n.Value) {
				t.Errorf("%s: %s: say what was tried, verb and noun; that it did not work is plain", at(n), n.Value)
			}
		case *ast.TypeSpec:
			if word := bannedName.FindString(n.Name.Name); word != "" {
				t.Errorf("%s: type %s: the name %q says nothing", at(n), n.Name.Name, word)
			}
		case *ast.GoStmt:
			if !test {
				t.Errorf("%s: a bare go: goroutines are born in an errgroup and joined", at(n))
			}
		case *ast.CallExpr:
			if why := bannedCall(n, test || strings.Contains(path, "/bench/")); why != "" {
				t.Errorf("%s: %s", at(n), why)
			}
		}
		return true
	})
}

var (
	bannedText = regexp.MustCompile(`(?i)\b(failed|unable) to\b|\bcould not\b.*%w`)
	bannedName = regexp.MustCompile(`(?i)manager|helper|^utils?$|util$|^common|impl$`)
)

// bannedCall says why a call is refused, or nothing.
func bannedCall(call *ast.CallExpr, test bool) string {
	sel, ok := call.Fun.(*ast.SelectorExpr)
	if !ok {
		return ""
	}
	pkg, ok := sel.X.(*ast.Ident)
	if !ok {
		return ""
	}
	switch name := pkg.Name + "." + sel.Sel.Name; {
	case name == "zap.L" || name == "zap.S" || name == "zap.ReplaceGlobals":
		return name + ": the logger is handed in"
	case name == "t.Skip" || name == "t.Skipf" || name == "t.SkipNow":
		return name + ": no test is skipped; what a machine cannot run is for make test to say"
	case !test && (name == "fmt.Print" || name == "fmt.Println" || name == "fmt.Printf"):
		return name + ": say where it goes: Fprint to a writer that was handed in"
	}
	return ""
}

// TestServiceUnit holds the systemd unit to what the program does.
func TestServiceUnit(t *testing.T) {
	f, err := os.Open("../systemd/router.service")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	keys := map[string]string{}
	for lines := bufio.NewScanner(f); lines.Scan(); {
		if k, v, ok := strings.Cut(lines.Text(), "="); ok && !strings.HasPrefix(k, "#") {
			keys[k] = v
		}
	}
	stop, err := time.ParseDuration(keys["TimeoutStopSec"])
	if err != nil || stop <= Default().StopTimeout {
		t.Errorf("TimeoutStopSec=%s must be above stop_timeout = %s: %v", keys["TimeoutStopSec"], Default().StopTimeout, err)
	}
	for key, want := range map[string]string{
		"Type": "notify", "WatchdogSec": "2min", "Restart": "on-failure", "RestartPreventExitStatus": "2", "DynamicUser": "yes", "ProtectSystem": "strict", "NoNewPrivileges": "yes",
	} {
		if keys[key] != want {
			t.Errorf("%s=%s, want %s", key, keys[key], want)
		}
	}
}
