package catalog

import (
	"strings"
	"testing"

	"github.com/apache/iceberg-go"
)

func TestParseType(t *testing.T) {
	for in, want := range map[string]string{
		"long": "long", " Long ": "long", "decimal(18,4)": "decimal(18, 4)", "decimal( 38 )": "decimal(38, 0)", "fixed[16]": "fixed[16]",
		"list<string>": "list<string>", "map<string, list<int>>": "map<string, list<int>>",
		"struct<a: int not null, b: struct<c: uuid>>": "struct<1: a: required int, 2: b: optional struct<3: c: optional uuid>>",
		"struct<`odd name`:date>":                     "struct<1: odd name: optional date>",
	} {
		got, err := ParseType(in)
		if err != nil {
			t.Errorf("ParseType(%q): %v", in, err)
			continue
		}
		if plain := strings.NewReplacer("optional ", "", "required ", "").Replace; plain(got.String()) != plain(want) {
			t.Errorf("ParseType(%q) = %s, want %s", in, got, want)
		}
	}
	s, err := ParseType("struct<a: int not null, b: list<long not null>, c: map<string, int not null>>")
	if err != nil {
		t.Fatal(err)
	}
	f := s.(*iceberg.StructType).FieldList
	if !f[0].Required || f[1].Required || !f[1].Type.(*iceberg.ListType).ElementRequired || !f[2].Type.(*iceberg.MapType).ValueRequired {
		t.Errorf("not null is lost: %v", s)
	}
}

func TestParseTypeRefuses(t *testing.T) {
	for in, want := range map[string]string{
		"":                                "expected a type at the end",
		"bigint":                          "write long",
		"strng":                           "did you mean string?",
		"quark":                           "known are boolean, int,",
		"decimal":                         "decimal(18, 4)",
		"decimal(39, 2)":                  "must be 1 to 38",
		"decimal(4, 5)":                   "at most the precision",
		"fixed":                           "fixed[16]",
		"fixed[0]":                        "at least 1",
		"list<int":                        "expected > at the end",
		"list":                            "list<string>",
		"map<string>":                     "between a map's key and value",
		"struct<>":                        "name of a struct's field",
		"struct<a int>":                   "expected : after field \"a\"",
		"struct<a: int, a: int>":          "twice",
		"struct<a: int not>":              "expected null after not",
		"int int":                         "left over",
		strings.Repeat("list<", 70) + "x": "nested deeper",
	} {
		if _, err := ParseType(in); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("ParseType(%q) = %v, want an error with %q", cut(in, 40), err, want)
		}
	}
}

func TestCompile(t *testing.T) {
	c := Create{
		Schema: []Column{
			{Name: "id", Type: "long", Required: true}, {Name: "name", Type: "string"}, {Name: "ts", Type: "timestamptz"},
			{Name: "place", Type: "struct<city: string, at: struct<lat: double>>"}, {Name: "tags", Type: "list<struct<k: string>>"},
		},
		Partition: []string{"bucket(id, 64)", "truncate(name, 8)", "ts_hour = hour(ts)", "place.city", "void(name)"},
	}
	schema, spec, err := c.Compile()
	if err != nil {
		t.Fatal(err)
	}
	if f, _ := schema.FindFieldByName("id"); f.ID != 1 || !f.Required {
		t.Errorf("id is %v", f)
	}
	var got []string
	for f := range spec.Fields() {
		p := spec.Field(f)
		source, _ := schema.FindColumnName(p.SourceID())
		got = append(got, p.Name+"="+p.Transform.String()+"("+source+")")
	}
	want := "id_bucket=bucket[64](id) name_trunc=truncate[8](name) ts_hour=hour(ts) place_city=identity(place.city) name_null=void(name)"
	if strings.Join(got, " ") != want {
		t.Errorf("spec is %v\nwant %s", got, want)
	}
	if spec.Field(4).FieldID != 1004 {
		t.Errorf("the fifth field has id %d", spec.Field(4).FieldID)
	}
}

func TestCompileNamesEveryProblem(t *testing.T) {
	columns := []Column{{Name: "id", Type: "long"}, {Name: "f", Type: "float"}, {Name: "day", Type: "date"}, {Name: "s", Type: "struct<x: int>"}, {Name: "l", Type: "list<int>"}, {Name: "ts", Type: "timestamp"}}
	for _, test := range []struct {
		name string
		c    Create
		want []string
	}{
		{"no columns", Create{}, []string{"at least one column"}},
		{"columns", Create{Schema: []Column{{Name: "a", Type: "lng"}, {Name: "", Type: "int"}, {Name: "A", Type: "int"}, {Name: "b"}}},
			[]string{`column "a": type "lng"`, "did you mean long?", "schema[1]: the column has no name", "only in case", `column "b": the type is missing`}},
		{"dotted", Create{Schema: []Column{{Name: "a.b", Type: "int"}, {Name: "a", Type: "struct<b: int>"}}}, []string{`column "a.b": a column and a nested field`}},
		{"partition", Create{Schema: columns, Partition: []string{"bucket(64, id)", "bucket(f, 4)", "hour(day)", "idd", "s", "l.element", "bukket(id, 2)", "bucket(id)", "bucket(id, 0)", "year(id, 2)", "= id", "day = bucket(id, 2)", "day(ts", ""}},
			[]string{"the column comes first: bucket(id, 64)", `column "f" is float, which bucket does not take: it can be partitioned by the column itself`,
				`column "day" is date, which hour does not take`, `no column "idd" (did you mean id?)`, "take one of its fields (s.x)",
				"more than one value a row", "did you mean bucket?", "bucket(id, 16)", "at least 1", "a column and nothing else", "before = is missing",
				"is a column's name", "closing parenthesis", "is empty"}},
		{"properties", Create{Schema: columns, Properties: map[string]string{"format-version": "9", "gc.enabled": "yes", "write.metadata.previous-versions-max": "-1",
			"write.metadata.compression-codec": "lz4", "router.x.ledger": "{}", "owner": "anything"}},
			[]string{`property "format-version": "9": must be "1", "2" or "3"`, `property "gc.enabled": "yes": must be "true" or "false"`, `"-1": must be a whole number`,
				`"lz4": must be "none" or "gzip"`, `property "router.x.ledger": that is where a ledger goes`}},
		{"twice", Create{Schema: columns, Partition: []string{"day(ts)", "hour(ts)", "bucket(id, 4)", "b2 = bucket(id, 4)", "ts_day = bucket(id, 8)"}},
			[]string{"keep the finest (day or hour)", `the same as field "id_bucket"`, `"ts_day" is taken`}},
	} {
		_, _, err := test.c.Compile()
		if err == nil {
			t.Errorf("%s: no error", test.name)
			continue
		}
		for _, want := range test.want {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v\nlacks %q", test.name, err, want)
			}
		}
	}
}
