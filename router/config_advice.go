package router

import (
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"time"
)

// unknownKey says what an unknown key was most likely meant to be: a neighbour
// with a mistake in it, a key of another section, or something that is still to
// come. It returns the neighbour, too.
func unknownKey(section, name string, neighbours []string) (what, meant string) {
	if near := nearest(name, neighbours); near != "" {
		return fmt.Sprintf("unknown key (did you mean %q?)", near), near
	}
	places := sectionsByKey()
	if others := places[strings.ToLower(name)]; len(others) > 0 {
		return fmt.Sprintf("unknown key here; %s belongs in %s", name, strings.Join(others, " or ")), ""
	}
	if near := nearest(name, slices.Sorted(mapKeys(places))); near != "" {
		return fmt.Sprintf("unknown key here (did you mean %q in %s?)", near, strings.Join(places[near], " or ")), ""
	}
	return fmt.Sprintf("unknown key; known here: %s", strings.Join(neighbours, ", ")), ""
}

// sectionsByKey maps every key of the configuration to the sections it is in.
func sectionsByKey() map[string][]string {
	places := map[string][]string{}
	var walk func(t reflect.Type, section, inside string)
	walk = func(t reflect.Type, section, inside string) {
		for name, i := range tomlFields(t) {
			places[name] = append(places[name], section)
			f := t.Field(i).Type
			path := strings.TrimPrefix(inside+"."+name, ".")
			switch {
			case f.Kind() == reflect.Struct:
				walk(f, "["+path+"]", path)
			case f.Kind() == reflect.Pointer:
				walk(f.Elem(), "["+path+"]", path)
			case name == "ingest" || name == "publish":
				walk(f.Elem(), "[["+name+"]]", path)
			}
		}
	}
	walk(reflect.TypeFor[Config](), "the top of the file, before the first section", "")
	for _, sections := range places {
		slices.Sort(sections)
	}
	return places
}

func mapKeys[V any](m map[string]V) func(yield func(string) bool) {
	return func(yield func(string) bool) {
		for k := range m {
			if !yield(k) {
				return
			}
		}
	}
}

// nearest returns the candidate with the fewest typing mistakes between it and
// name, or "" where none is close enough to be meant.
func nearest(name string, candidates []string) string {
	name = strings.ToLower(strings.ReplaceAll(name, "-", "_"))
	best, fewest := "", 1+max(1, len(name)/3)
	for _, c := range candidates {
		if d := typos(name, c); d < fewest {
			best, fewest = c, d
		}
	}
	if best != "" {
		return best
	}
	for _, c := range candidates { // trigger_interval, file_size
		if strings.HasPrefix(name, c+"_") || strings.HasSuffix(name, "_"+c) ||
			len(name) > 4 && (strings.HasPrefix(c, name+"_") || strings.HasSuffix(c, "_"+name)) {
			return c
		}
	}
	return ""
}

// typos counts insertions, deletions, replacements and swapped neighbours.
func typos(a, b string) int {
	rows := make([][]int, len(a)+1)
	for i := range rows {
		rows[i] = make([]int, len(b)+1)
		rows[i][0] = i
	}
	for j := range rows[0] {
		rows[0][j] = j
	}
	for i := 1; i <= len(a); i++ {
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			rows[i][j] = min(rows[i-1][j]+1, rows[i][j-1]+1, rows[i-1][j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				rows[i][j] = min(rows[i][j], rows[i-2][j-2]+1)
			}
		}
	}
	return rows[len(a)][len(b)]
}

var (
	durationParts = regexp.MustCompile(`^([0-9]+(?:\.[0-9]+)?)\s*([a-zA-Zµ]*)$`)
	bytesParts    = regexp.MustCompile(`(?i)^([0-9]+)\s*([kmgt]?)(i?)b?[a-z]*$`)
)

// betterDuration guesses what a wrong duration was meant to be, or returns "".
func betterDuration(s string) string {
	parts := durationParts.FindStringSubmatch(strings.TrimSpace(s))
	if parts == nil {
		return ""
	}
	number, unit := parts[1], strings.ToLower(parts[2])
	switch {
	case unit == "":
		unit = "s"
	case strings.HasPrefix(unit, "milli") || strings.HasPrefix(unit, "ms"):
		unit = "ms"
	case strings.HasPrefix(unit, "mi") || unit == "m":
		unit = "m"
	case strings.HasPrefix(unit, "s"):
		unit = "s"
	case strings.HasPrefix(unit, "h"):
		unit = "h"
	case strings.HasPrefix(unit, "d"):
		days, err := time.ParseDuration(number + "h")
		if err != nil {
			return ""
		}
		return fmt.Sprintf("%gh", (days * 24).Hours())
	default:
		return ""
	}
	return number + unit
}

// betterBytes guesses what a wrong size was meant to be, or returns "".
func betterBytes(s string) string {
	parts := bytesParts.FindStringSubmatch(strings.TrimSpace(s))
	if parts == nil {
		return ""
	}
	number, prefix, binary := parts[1], strings.ToUpper(parts[2]), strings.ToLower(parts[3])
	if prefix == "" {
		return number + "B"
	}
	if !strings.ContainsAny(s, "bB") { // 1G: the larger is the more usual meaning
		binary = "i"
	}
	return number + prefix + binary + "B"
}
