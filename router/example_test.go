package router

import (
	"os"
	"reflect"
	"regexp"
	"strings"
	"testing"
)

// The example's three kinds of comment: prose, options at their default, and
// keys that change something.
var (
	exampleOption = regexp.MustCompile(`^# (\S.*)$`)
	exampleSwitch = regexp.MustCompile(`^### (\S.*)$`)
	exampleProse  = regexp.MustCompile(`^##( .*)?$`)
)

func readExample(t *testing.T) []string {
	t.Helper()
	text, err := os.ReadFile("../config.example.toml")
	if err != nil {
		t.Fatal(err)
	}
	return strings.Split(string(text), "\n")
}

func parseExample(t *testing.T, lines []string) Config {
	t.Helper()
	c, r := parseConfig(strings.Join(lines, "\n"))
	for _, p := range r.problems {
		t.Errorf("config.example.toml:%d: %s: %s", r.lines.of(p.Key), p.Key, p.What)
	}
	if len(r.warnings) > 0 {
		t.Errorf("warnings: %v", r.warnings)
	}
	c.secrets = secrets{}
	return c
}

// TestExampleDefaults uncomments every option: nothing may change.
func TestExampleDefaults(t *testing.T) {
	lines := readExample(t)
	plain := parseExample(t, lines)
	for i, line := range lines {
		if m := exampleOption.FindStringSubmatch(line); m != nil {
			lines[i] = m[1]
		}
	}
	if all := parseExample(t, lines); !reflect.DeepEqual(plain, all) {
		t.Errorf("an option is not at its default:\nas it is:    %+v %+v\nuncommented: %+v %+v", plain.Ingest, plain.HTTP, all.Ingest, all.HTTP)
	}
	want := Default()
	want.Kafka.Brokers, want.Catalog.Type, want.Catalog.URI = plain.Kafka.Brokers, plain.Catalog.Type, plain.Catalog.URI
	in := DefaultIngest()
	in.Name, in.Topics, in.Table, in.Create = plain.Ingest[0].Name, plain.Ingest[0].Topics, plain.Ingest[0].Table, plain.Ingest[0].Create
	want.Ingest = []IngestConfig{in}
	if !reflect.DeepEqual(plain, want) {
		t.Errorf("the example turns more than the required keys:\ngot  %+v\nwant %+v", plain, want)
	}
}

// TestExampleLoads switches the optional sections on, too.
func TestExampleLoads(t *testing.T) {
	t.Setenv("S3_KEY", "the key's id")
	lines := readExample(t)
	for i, line := range lines {
		if m := exampleOption.FindStringSubmatch(line); m != nil {
			lines[i] = m[1]
		}
		if m := exampleSwitch.FindStringSubmatch(line); m != nil {
			lines[i] = strings.ReplaceAll(m[1], "${file:/run/credentials/router.service/", "${file:testdata/secret/")
		}
	}
	c, r := parseConfig(strings.Join(lines, "\n"))
	for _, p := range r.problems {
		t.Errorf("line %d: %s: %s", r.lines.of(p.Key), p.Key, p.What)
	}
	if c.Kafka.TLS == nil || c.Kafka.SASL == nil || len(c.Catalog.Properties) != 4 {
		t.Errorf("a section is not there: %+v", c.Kafka)
	}
	want := DefaultPublish()
	want.Name, want.Table, want.Topic, want.Key, want.Headers = "orders-out", "shop.orders", "orders-replay", Names{"id"}, map[string]string{"region": "region"}
	if !reflect.DeepEqual(c.Publish, []PublishConfig{want}) {
		t.Errorf("a default of [[publish]] is not the one that the example shows:\ngot  %+v\nwant %+v", c.Publish, want)
	}
}

// TestExampleComplete finds every key of the structs in the example, and no
// line that is of no kind.
func TestExampleComplete(t *testing.T) {
	lines := readExample(t)
	found := map[string]bool{}
	section := ""
	key := regexp.MustCompile(`^(?:# |### )?(?:(\[\[?)([a-z.]+)\]\]?|([a-z_]+)\s*=)`)
	for i, line := range lines {
		if strings.HasPrefix(line, "#") && !exampleOption.MatchString(line) && !exampleSwitch.MatchString(line) && !exampleProse.MatchString(line) {
			t.Errorf("line %d is neither prose (##), an option (#) nor a switch (###): %s", i+1, line)
		}
		if m := key.FindStringSubmatch(line); m != nil {
			if m[1] != "" {
				section = m[2] + "."
				found[m[2]] = true
			} else {
				found[section+m[3]] = true
			}
		}
	}
	column := map[string]bool{"name": true, "type": true, "required": true, "doc": true}
	var walk func(reflect.Type, string)
	walk = func(typ reflect.Type, inside string) {
		for name, i := range tomlFields(typ) {
			path := inside + name
			if inside == "ingest.create.schema." {
				if !column[name] {
					t.Errorf("column key %s is not explained in the example", name)
				}
				continue
			}
			if !found[path] {
				t.Errorf("%s is not in the example", path)
			}
			f := typ.Field(i).Type
			for f.Kind() == reflect.Pointer || f.Kind() == reflect.Slice {
				f = f.Elem()
			}
			if f.Kind() == reflect.Struct {
				walk(f, path+".")
			}
		}
	}
	walk(reflect.TypeFor[Config](), "")
}
