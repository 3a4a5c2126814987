package catalog

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/apache/iceberg-go"
	"github.com/apache/iceberg-go/table"
)

// Column is one top-level column of a table that is to be created.
type Column struct {
	Name     string
	Type     string // see ParseType
	Required bool
	Doc      string
}

// Create says what a missing table is to look like.
type Create struct {
	Schema     []Column
	Partition  []string          // "bucket(id, 64)", "truncate(name, 8)", "day(ts)", "ts_hour = hour(ts)", "region", "void(x)"
	Properties map[string]string // added to, and stronger than, our defaults
	Location   string            // "": the catalog chooses
}

// Compile returns the schema and the partition spec, or every problem at once
// (errors.Join), each naming the column or the partition field and the remedy.
//
// The field ids are provisional: a catalog numbers them anew when it creates the table.
func (c Create) Compile() (*iceberg.Schema, *iceberg.PartitionSpec, error) {
	fields, problems := c.columns()
	problems = append(problems, c.properties()...)
	if len(problems) > 0 {
		return nil, nil, errors.Join(problems...)
	}
	schema := iceberg.NewSchema(0, fields...)
	spec, problems := c.partition(schema)
	if len(problems) > 0 {
		return nil, nil, errors.Join(problems...)
	}
	return schema, spec, nil
}

// columns compiles the columns. Ids go to the top level first, then to the nested fields, as Java numbers them.
func (c Create) columns() (fields []iceberg.NestedField, problems []error) {
	if len(c.Schema) == 0 {
		return nil, []error{errors.New("schema: at least one column is needed")}
	}
	id := len(c.Schema)
	nextID := func() int { id++; return id }
	seen := map[string]string{}
	for i, col := range c.Schema {
		if strings.TrimSpace(col.Name) == "" {
			problems = append(problems, fmt.Errorf("schema[%d]: the column has no name", i))
			continue
		}
		if first, ok := seen[strings.ToLower(col.Name)]; ok {
			if first == col.Name {
				problems = append(problems, fmt.Errorf("column %q: is there twice", col.Name))
			} else {
				problems = append(problems, fmt.Errorf("column %q: differs from %q only in case, and many engines don't tell them apart", col.Name, first))
			}
			continue
		}
		seen[strings.ToLower(col.Name)] = col.Name
		if strings.TrimSpace(col.Type) == "" {
			problems = append(problems, fmt.Errorf("column %q: the type is missing", col.Name))
			continue
		}
		p := typeParser{text: col.Type, nextID: nextID}
		t, err := p.parse()
		if err != nil {
			problems = append(problems, fmt.Errorf("column %q: type %q: %w", col.Name, col.Type, err))
			continue
		}
		fields = append(fields, iceberg.NestedField{ID: i + 1, Name: col.Name, Type: t, Required: col.Required, Doc: col.Doc})
	}
	if len(problems) == 0 {
		problems = collisions(fields)
	}
	return fields, problems
}

// properties refuses values that no catalog or writer could use, and names that
// are this program's own.
func (c Create) properties() (problems []error) {
	whole := func(v string) bool { n, err := strconv.ParseInt(v, 10, 64); return err == nil && n >= 0 }
	truth := func(v string) bool { return v == "true" || v == "false" }
	rules := map[string]struct {
		ok   func(string) bool
		must string
	}{
		table.PropertyFormatVersion:               {func(v string) bool { return v == "1" || v == "2" || v == "3" }, `"1", "2" or "3"`},
		table.MetadataDeleteAfterCommitEnabledKey: {truth, `"true" or "false"`},
		"gc.enabled":                           {truth, `"true" or "false"`},
		table.MetadataPreviousVersionsMaxKey:   {whole, "a whole number"},
		"history.expire.max-snapshot-age-ms":   {whole, "a whole number"},
		"history.expire.min-snapshots-to-keep": {whole, "a whole number"},
		"write.target-file-size-bytes":         {whole, "a whole number"},
		table.MetadataCompressionKey: {func(v string) bool {
			return v == table.MetadataCompressionCodecNone || v == table.MetadataCompressionCodecGzip
		}, `"none" or "gzip"`},
	}
	for _, key := range slices.Sorted(maps.Keys(c.Properties)) {
		if rule, known := rules[key]; known && !rule.ok(c.Properties[key]) {
			problems = append(problems, fmt.Errorf("property %q: %q: must be %s", key, c.Properties[key], rule.must))
		}
		if strings.HasPrefix(key, "router.") && strings.HasSuffix(key, ".ledger") {
			problems = append(problems, fmt.Errorf("property %q: that is where a ledger goes", key))
		}
	}
	return problems
}

// collisions finds dotted names that mean two columns: a top-level "a.b" beside a struct a with a field b.
func collisions(fields []iceberg.NestedField) (problems []error) {
	seen := map[string]bool{}
	walk(fields, "", func(path string, _ iceberg.NestedField, _ bool) {
		if seen[path] {
			problems = append(problems, fmt.Errorf("column %q: a column and a nested field have the same full name", path))
		}
		seen[path] = true
	})
	return problems
}

// walk visits every field with its full name, and whether it lies inside of a list or map.
func walk(fields []iceberg.NestedField, prefix string, visit func(path string, f iceberg.NestedField, repeated bool)) {
	walkIn(fields, prefix, false, visit)
}

func walkIn(fields []iceberg.NestedField, prefix string, repeated bool, visit func(string, iceberg.NestedField, bool)) {
	for _, f := range fields {
		path := f.Name
		if prefix != "" {
			path = prefix + "." + f.Name
		}
		visit(path, f, repeated)
		switch t := f.Type.(type) {
		case *iceberg.StructType:
			walkIn(t.FieldList, path, repeated, visit)
		case *iceberg.ListType, *iceberg.MapType:
			walkIn(t.(iceberg.NestedType).Fields(), path, true, visit)
		}
	}
}

// partition compiles the partition fields against schema.
func (c Create) partition(schema *iceberg.Schema) (*iceberg.PartitionSpec, []error) {
	var problems []error
	var fields []iceberg.PartitionField
	for _, text := range c.Partition {
		f, err := partitionField(text, schema)
		if err != nil {
			problems = append(problems, fmt.Errorf("partition %q: %w", text, err))
			continue
		}
		if err := againstOthers(f, fields); err != nil {
			problems = append(problems, fmt.Errorf("partition %q: %w", text, err))
			continue
		}
		f.FieldID = iceberg.PartitionDataIDStart + len(fields)
		fields = append(fields, f)
	}
	if len(problems) > 0 {
		return nil, problems
	}
	spec := iceberg.NewPartitionSpec(fields...)
	return &spec, nil
}

// againstOthers refuses a field that an earlier one makes ambiguous or redundant.
func againstOthers(f iceberg.PartitionField, earlier []iceberg.PartitionField) error {
	for _, e := range earlier {
		if e.Name == f.Name {
			return fmt.Errorf("the name %q is taken by another partition field: give this one a name, as in %s_2 = ...", f.Name, f.Name)
		}
		if e.SourceID() != f.SourceID() {
			continue
		}
		_, time1 := e.Transform.(iceberg.TimeTransform)
		_, time2 := f.Transform.(iceberg.TimeTransform)
		if time1 && time2 {
			return fmt.Errorf("year, month, day and hour of one column contain each other: keep the finest (%s or %s)", e.Transform, f.Transform)
		}
		if e.Transform.Equals(f.Transform) {
			return fmt.Errorf("the same as field %q", e.Name)
		}
	}
	return nil
}

const partitionForms = "bucket(COLUMN, N), truncate(COLUMN, N), year(COLUMN), month(COLUMN), day(COLUMN), hour(COLUMN), void(COLUMN) or COLUMN, each with an optional NAME = before it"

// partitionField compiles one field without its id.
func partitionField(text string, schema *iceberg.Schema) (iceberg.PartitionField, error) {
	var none iceberg.PartitionField
	name, expression, named := strings.Cut(text, "=")
	if !named {
		name, expression = "", text
	}
	name, expression = strings.TrimSpace(name), strings.TrimSpace(expression)
	if named && name == "" {
		return none, errors.New("the name before = is missing")
	}
	if expression == "" {
		return none, fmt.Errorf("is empty: write %s", partitionForms)
	}
	column, transform, err := parseTransform(expression)
	if err != nil {
		return none, err
	}
	source, err := partitionSource(column, schema)
	if err != nil {
		return none, err
	}
	if !transform.CanTransform(source.Type) {
		return none, fmt.Errorf("column %q is %s, which %s does not take: %s", column, source.Type, transformName(transform), fitting(source.Type))
	}
	if name == "" {
		name = strings.ReplaceAll(column, ".", "_") + suffix(transform)
	}
	_, identity := transform.(iceberg.IdentityTransform)
	if f, ok := schema.FindFieldByName(name); ok && !(identity && f.ID == source.ID) {
		return none, fmt.Errorf("the partition field's name %q is a column's name: give it another, as in %s_part = %s", name, name, expression)
	}
	return iceberg.PartitionField{SourceIDs: []int{source.ID}, Name: name, Transform: transform}, nil
}

// parseTransform reads "bucket(id, 64)" or a bare column.
func parseTransform(expression string) (column string, t iceberg.Transform, err error) {
	open := strings.IndexByte(expression, '(')
	if open < 0 {
		return expression, iceberg.IdentityTransform{}, nil
	}
	if !strings.HasSuffix(expression, ")") {
		return "", nil, errors.New("the closing parenthesis is missing")
	}
	name := strings.ToLower(strings.TrimSpace(expression[:open]))
	arguments := strings.Split(expression[open+1:len(expression)-1], ",")
	for i := range arguments {
		arguments[i] = strings.TrimSpace(arguments[i])
	}
	column = arguments[0]
	if column == "" {
		return "", nil, fmt.Errorf("%s needs a column", name)
	}
	switch name {
	case "bucket", "truncate":
		n, err := transformWidth(name, arguments)
		if err != nil {
			return "", nil, err
		}
		if name == "bucket" {
			return column, iceberg.BucketTransform{NumBuckets: n}, nil
		}
		return column, iceberg.TruncateTransform{Width: n}, nil
	}
	known := map[string]iceberg.Transform{"year": iceberg.YearTransform{}, "month": iceberg.MonthTransform{},
		"day": iceberg.DayTransform{}, "hour": iceberg.HourTransform{}, "identity": iceberg.IdentityTransform{}, "void": iceberg.VoidTransform{}}
	t, ok := known[name]
	if !ok {
		if near := nearest(name, []string{"bucket", "truncate", "year", "month", "day", "hour", "identity", "void"}); near != "" {
			return "", nil, fmt.Errorf("unknown transform %q (did you mean %s?)", name, near)
		}
		return "", nil, fmt.Errorf("unknown transform %q: write %s", name, partitionForms)
	}
	if len(arguments) != 1 {
		return "", nil, fmt.Errorf("%s takes a column and nothing else", name)
	}
	return column, t, nil
}

// transformWidth reads the number of bucket and truncate.
func transformWidth(name string, arguments []string) (int, error) {
	if len(arguments) != 2 {
		return 0, fmt.Errorf("%s takes a column and a number, as in %s(%s, 16)", name, name, arguments[0])
	}
	n, err := strconv.ParseInt(arguments[1], 10, 32)
	if err != nil {
		if _, swapped := strconv.ParseInt(arguments[0], 10, 32); swapped == nil {
			return 0, fmt.Errorf("the column comes first: %s(%s, %s)", name, arguments[1], arguments[0])
		}
		return 0, fmt.Errorf("%q is not a number that fits: it must be 1 to 2147483647", arguments[1])
	}
	if n < 1 {
		return 0, fmt.Errorf("%s(%s, %d): the number must be at least 1", name, arguments[0], n)
	}
	return int(n), nil
}

// partitionSource finds the column that a partition field is made of.
func partitionSource(column string, schema *iceberg.Schema) (iceberg.NestedField, error) {
	type place struct {
		field    iceberg.NestedField
		repeated bool
	}
	found, ok := place{}, false
	var names []string
	walk(schema.Fields(), "", func(path string, f iceberg.NestedField, repeated bool) {
		names = append(names, path)
		if path == column {
			found, ok = place{f, repeated}, true
		}
	})
	if !ok {
		if near := nearest(column, names); near != "" {
			return iceberg.NestedField{}, fmt.Errorf("there is no column %q (did you mean %s?)", column, near)
		}
		return iceberg.NestedField{}, fmt.Errorf("there is no column %q: the schema has %s", column, strings.Join(names, ", "))
	}
	if found.repeated {
		return iceberg.NestedField{}, fmt.Errorf("column %q lies in a list or map and has more than one value a row", column)
	}
	if _, nested := found.field.Type.(iceberg.NestedType); nested {
		var leaves []string
		for _, n := range names {
			if strings.HasPrefix(n, column+".") {
				leaves = append(leaves, n)
			}
		}
		return iceberg.NestedField{}, fmt.Errorf("column %q is %s: take one of its fields (%s)", column, found.field.Type.Type(), strings.Join(leaves, ", "))
	}
	return found.field, nil
}

// fitting lists the transforms that take a type.
func fitting(t iceberg.Type) string {
	all := []iceberg.Transform{iceberg.BucketTransform{NumBuckets: 16}, iceberg.TruncateTransform{Width: 16}, iceberg.YearTransform{},
		iceberg.MonthTransform{}, iceberg.DayTransform{}, iceberg.HourTransform{}, iceberg.IdentityTransform{}}
	all = slices.DeleteFunc(all, func(tr iceberg.Transform) bool { return !tr.CanTransform(t) })
	names := make([]string, len(all))
	for i, tr := range all {
		names[i] = transformName(tr)
	}
	return "it can be partitioned by " + strings.Join(names, ", ")
}

func transformName(t iceberg.Transform) string {
	name, _, _ := strings.Cut(t.String(), "[")
	if name == "identity" {
		return "the column itself"
	}
	return name
}

// suffix is what Iceberg's own libraries put behind the column to name a partition field.
func suffix(t iceberg.Transform) string {
	switch t.(type) {
	case iceberg.IdentityTransform:
		return ""
	case iceberg.BucketTransform:
		return "_bucket"
	case iceberg.TruncateTransform:
		return "_trunc"
	case iceberg.VoidTransform:
		return "_null"
	}
	return "_" + t.String()
}
