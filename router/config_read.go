package router

import (
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"time"
)

// configReader carries a parsed TOML table into the Config struct and collects
// everything that is wrong with it. The library's own decoder would stop at the
// first wrong type, take trigger = 10 for ten nanoseconds, and resolve no
// reference.
type configReader struct {
	lines    tomlLines
	problems []Problem
	warnings []Problem
	secrets  []string // values that must not be shown
	literals []string // keys whose secret stands in the file itself
	meant    []string // keys that unknown keys were likely meant to be
}

// readConfig reads the whole file.
func (r *configReader) readConfig(table map[string]any, cfg *Config) {
	r.table("", table, reflect.ValueOf(cfg).Elem())
}

func (r *configReader) problem(key, format string, args ...any) {
	r.problems = append(r.problems, Problem{Key: key, What: fmt.Sprintf(format, args...)})
}

func (r *configReader) warn(key, format string, args ...any) {
	r.warnings = append(r.warnings, Problem{Key: key, What: fmt.Sprintf(format, args...)})
}

// table reads a section into a struct.
func (r *configReader) table(key string, table map[string]any, into reflect.Value) {
	fields := tomlFields(into.Type())
	for _, name := range slices.Sorted(maps.Keys(table)) {
		at := joinKey(key, name)
		if i, known := fields[name]; known {
			r.value(at, table[name], into.Field(i))
			continue
		}
		what, meant := unknownKey(key, name, slices.Sorted(maps.Keys(fields)))
		r.problem(at, "%s", what)
		if meant != "" {
			r.meant = append(r.meant, joinKey(key, meant))
		}
	}
}

// value reads one value into a field, by the field's type.
func (r *configReader) value(key string, value any, into reflect.Value) {
	switch into.Interface().(type) {
	case time.Duration:
		r.duration(key, value, into)
		return
	case Bytes:
		r.bytes(key, value, into)
		return
	case Names:
		r.names(key, value, into)
		return
	case map[string]string:
		r.properties(key, value, into)
		return
	}
	switch into.Kind() {
	case reflect.String:
		if s, ok := value.(string); ok {
			into.SetString(r.expand(key, s, isSecretName(key) || strings.HasSuffix(key, "uri")))
			return
		}
		r.problem(key, `must be text in quotes, like %s = "%v"`, lastName(key), quotable(key, value))
	case reflect.Bool:
		if b, ok := value.(bool); ok {
			into.SetBool(b)
			return
		}
		r.problem(key, "must be true or false, without quotes")
	case reflect.Int, reflect.Int64:
		if n, ok := value.(int64); ok {
			into.SetInt(n)
			return
		}
		r.problem(key, "must be a whole number, without quotes and without a unit")
	case reflect.Pointer:
		into.Set(reflect.New(into.Type().Elem()))
		r.value(key, value, into.Elem())
	case reflect.Struct:
		if table, ok := value.(map[string]any); ok {
			r.table(key, table, into)
			return
		}
		r.problem(key, "must be a section: write [%s] on a line of its own, and its keys below", indexes.ReplaceAllString(key, ""))
	case reflect.Slice:
		r.slice(key, value, into)
	default:
		panic(fmt.Sprintf("config field %s has the type %s, which the reader does not know", key, into.Type()))
	}
}

var indexes = regexp.MustCompile(`\[\d+\]`)

// slice reads a list of texts or of tables.
func (r *configReader) slice(key string, value any, into reflect.Value) {
	var items []any
	switch v := value.(type) {
	case []any:
		items = v
	case []map[string]any:
		for _, table := range v {
			items = append(items, table)
		}
	default:
		name := lastName(key)
		switch {
		case key == "ingest" || key == "publish":
			r.problem(key, "must be a list of sections: write [[%s]], in double brackets", key)
		case into.Type().Elem().Kind() == reflect.Struct:
			r.problem(key, "must be a list of tables, like %s = [ { name = \"id\", type = \"long\" } ]", name)
		default:
			r.problem(key, "must be a list, like %s = [\"%v\"]", name, quotable(key, value))
		}
		return
	}
	if len(items) == 0 {
		return // an empty list is none
	}
	list := reflect.MakeSlice(into.Type(), len(items), len(items))
	for i, item := range items {
		switch key {
		case "ingest":
			list.Index(i).Set(reflect.ValueOf(DefaultIngest()))
		case "publish":
			list.Index(i).Set(reflect.ValueOf(DefaultPublish()))
		}
		r.value(joinIndex(key, i), item, list.Index(i))
	}
	into.Set(list)
}

// names reads one name, or a list of them.
func (r *configReader) names(key string, value any, into reflect.Value) {
	if one, ok := value.(string); ok {
		out, err := expand(one) // not r.expand: a key of records is no secret
		if err != nil {
			r.problem(key, "%v", err)
		} else if out.text != "" {
			into.Set(reflect.ValueOf(Names{out.text}))
		}
		return
	}
	if _, ok := value.([]any); !ok {
		r.problem(key, `must be a name in quotes, or a list of them, like %s = ["id", "region"]`, lastName(key))
		return
	}
	r.slice(key, value, into)
}

// properties reads a table of names the catalog and the store define. A dotted
// name without quotes is the same name: s3.region = "x" is "s3.region" = "x".
func (r *configReader) properties(key string, value any, into reflect.Value) {
	table, ok := value.(map[string]any)
	if !ok {
		r.problem(key, "must be a section of names and texts: write [%s] on a line of its own", indexes.ReplaceAllString(key, ""))
		return
	}
	flat := map[string]string{}
	columns := strings.HasPrefix(key, "publish[") // headers by name: no secrets
	var walk func(at, name string, table map[string]any)
	walk = func(at, prefix string, table map[string]any) {
		for _, k := range slices.Sorted(maps.Keys(table)) {
			here, name := joinKey(at, k), prefix+k
			if inner, ok := table[k].(map[string]any); ok {
				walk(here, name+".", inner)
				continue
			}
			switch v := table[k].(type) {
			case string:
				flat[name] = r.expand(here, v, !columns && !publicProperty.MatchString(name))
				if isSecretName(name) && !columns {
					r.secret(here, v, flat[name])
				}
			case bool, int64:
				flat[name] = fmt.Sprint(v)
			default:
				r.problem(here, "must be text in quotes")
			}
		}
	}
	walk(key, "", table)
	if len(flat) > 0 {
		into.Set(reflect.ValueOf(flat))
	}
}

// duration reads "10s". A bare number is refused: nobody could tell its unit.
func (r *configReader) duration(key string, value any, into reflect.Value) {
	s, ok := value.(string)
	if !ok {
		r.problem(key, `needs a unit and quotes, like %s = "%vs" or "%vms"`, lastName(key), quotable(key, value), quotable(key, value))
		return
	}
	s = r.expand(key, s, false)
	d, err := time.ParseDuration(s)
	if err == nil {
		into.SetInt(int64(d))
		return
	}
	what := `not a duration; write a number and a unit (ms, s, m, h), like "500ms", "10s" or "5m"`
	if better := betterDuration(s); better != "" {
		what = fmt.Sprintf("not a duration; did you mean %q? Units are ms, s, m and h", better)
	}
	r.problem(key, "%s", what)
}

// bytes reads "256MiB".
func (r *configReader) bytes(key string, value any, into reflect.Value) {
	s, ok := value.(string)
	if !ok {
		if value == int64(0) {
			into.SetInt(0)
			return
		}
		r.problem(key, `needs a unit and quotes, like %s = "%vMiB" or "%vB"`, lastName(key), quotable(key, value), quotable(key, value))
		return
	}
	s = r.expand(key, s, false)
	var b Bytes
	if err := b.UnmarshalText([]byte(s)); err == nil {
		into.SetInt(int64(b))
	} else if better := betterBytes(s); better != "" {
		r.problem(key, "not a size; did you mean %q? Units are B, KiB, MiB, GiB (1024) and KB, MB, GB (1000)", better)
	} else {
		r.problem(key, "%v", err)
	}
}

// expand resolves the references in a text and notes what must stay hidden: a
// file's content always, a variable's where the key can carry a secret, and
// the value itself where the key is named like one.
func (r *configReader) expand(key, text string, secret bool) string {
	out, err := expand(text)
	for _, w := range out.warnings {
		r.warn(key, "%s", w)
	}
	if out.files || secret {
		r.secrets = append(r.secrets, out.secrets...)
	}
	if err != nil {
		r.problem(key, "%v", err)
		return "" // reported, so that nobody asks why it is empty
	}
	if isSecretName(lastName(key)) && isSecretName(key) && !strings.Contains(key, ".properties") {
		r.secret(key, text, out.text)
	}
	return out.text
}

// secret notes the value of a key that is named like a secret.
func (r *configReader) secret(key, written, value string) {
	r.secrets = append(r.secrets, value)
	if written == value && value != "" {
		r.literals = append(r.literals, key)
	}
	if value != "" && len(value) < secretBytesMin {
		r.warn(key, "the secret has fewer than %d characters: too short to be hidden in logs; use a longer one", secretBytesMin)
	}
}

// tomlFields maps the key names of a section to its struct fields.
func tomlFields(t reflect.Type) map[string]int {
	fields := map[string]int{}
	for i := range t.NumField() {
		if name := t.Field(i).Tag.Get("toml"); name != "" {
			fields[name] = i
		}
	}
	return fields
}

// lastName returns the key without the tables around it.
func lastName(key string) string {
	return strings.TrimPrefix(strings.TrimPrefix(key, parentKey(key)), ".")
}

// quotable returns a value to put between the quotes of an example.
func quotable(key string, value any) any {
	if isSecretName(key) {
		return "…"
	}
	switch v := value.(type) {
	case string:
		if len(v) <= valueBytesMax && !strings.Contains(v, "${") {
			return v
		}
	case int64, float64, bool:
		return v
	case time.Time:
		return v.Format(time.RFC3339)
	}
	return "…"
}
