package writers

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"math"
	"math/big"
	"regexp"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/apache/iceberg-go"
)

// jsonOracle decodes a record the slow way: encoding/json for the syntax, big.Rat
// for numbers, package time for the calendar. It gives the row that the
// documented rules say, in the terms of assemble, or not ok where they refuse.
func jsonOracle(l *Layout, o JSONOptions, value []byte) (map[string]any, bool) {
	if !json.Valid(value) || !utf8.Valid(value) || halfCharacters(value) {
		return nil, false
	}
	dec := json.NewDecoder(bytes.NewReader(value))
	dec.UseNumber()
	tree, err := readTree(dec)
	if err != nil {
		return nil, false
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return nil, false
	}
	row, ok := judge{o}.value(l.Root, tree, true)
	if !ok {
		return nil, false
	}
	return row.(map[string]any), true
}

type (
	member struct {
		name  string
		value any
	}
	members []member
)

// readTree reads a value and keeps the order and repetition of names.
func readTree(dec *json.Decoder) (any, error) {
	token, err := dec.Token()
	if err != nil {
		return nil, err
	}
	switch token {
	case json.Delim('{'):
		object := members{}
		for dec.More() {
			name, err := dec.Token()
			if err != nil {
				return nil, err
			}
			v, err := readTree(dec)
			if err != nil {
				return nil, err
			}
			object = append(object, member{name.(string), v})
		}
		_, err := dec.Token()
		return object, err
	case json.Delim('['):
		list := []any{}
		for dec.More() {
			v, err := readTree(dec)
			if err != nil {
				return nil, err
			}
			list = append(list, v)
		}
		_, err := dec.Token()
		return list, err
	}
	return token, nil
}

// halfCharacters tells whether valid JSON has a surrogate without its other half.
func halfCharacters(value []byte) bool {
	low := 0 // where a low surrogate must stand
	for i := 0; i < len(value); i++ {
		unit := uint64(0)
		if value[i] == '\\' {
			if value[i+1] == 'u' {
				unit, _ = strconv.ParseUint(string(value[i+2:i+6]), 16, 32)
			}
		}
		isLow := unit >= 0xDC00 && unit <= 0xDFFF
		if isLow != (low > 0 && low == i) {
			return true
		}
		switch {
		case unit >= 0xD800 && unit <= 0xDBFF:
			low = i + 6
			i += 5
		case value[i] == '\\':
			if isLow {
				low = 0
				i += 4
			}
			i++
		}
	}
	return false
}

type judge struct{ o JSONOptions }

func (j judge) value(n *Node, tree any, top bool) (any, bool) {
	if tree == nil {
		return nil, !n.Required
	}
	switch n.Kind {
	case Struct:
		object, ok := tree.(members)
		if !ok {
			return nil, false
		}
		return j.row(n, object, top)
	case List:
		list, ok := tree.([]any)
		out := []any{}
		for _, element := range list {
			v, fine := j.value(n.Children[0], element, false)
			ok = ok && fine
			out = append(out, v)
		}
		return out, ok
	case Map:
		object, ok := tree.(members)
		out, seen := []pair{}, map[any]bool{}
		for _, m := range object {
			k, fine := j.text(n.Children[0].Type, m.name, true)
			v, also := j.value(n.Children[1], m.value, false)
			ok = ok && fine && also && !seen[k]
			seen[k] = true
			out = append(out, pair{k, v})
		}
		return out, ok
	default:
	}
	switch v := tree.(type) {
	case bool:
		return v, n.Type.Equals(iceberg.PrimitiveTypes.Bool)
	case json.Number:
		return j.number(n.Type, v.String())
	case string:
		return j.text(n.Type, v, false)
	}
	return nil, false
}

func (j judge) row(n *Node, object members, top bool) (any, bool) {
	out, seen := map[string]any{}, map[string]bool{}
	byName := map[string]*Node{}
	for _, child := range n.Children {
		out[child.Name] = nil
		if !top || !strings.HasPrefix(child.Name, "_kafka_") {
			byName[child.Name] = child
		}
	}
	for _, m := range object {
		if seen[m.name] {
			return nil, false
		}
		seen[m.name] = true
		child := byName[m.name]
		if child == nil {
			if j.o.RefuseUnknown || depth(m.value) > JSONDepthMax {
				return nil, false
			}
			continue
		}
		v, ok := j.value(child, m.value, false)
		if !ok {
			return nil, false
		}
		out[m.name] = v
	}
	for name, child := range byName {
		if child.Required && !seen[name] {
			return nil, false
		}
	}
	return out, true
}

// depth returns how many objects and lists are open at most.
func depth(tree any) int {
	deepest := -1
	switch v := tree.(type) {
	case members:
		deepest = 0
		for _, m := range v {
			deepest = max(deepest, depth(m.value))
		}
	case []any:
		deepest = 0
		for _, e := range v {
			deepest = max(deepest, depth(e))
		}
	}
	return deepest + 1
}

var isNumber = regexp.MustCompile(`^-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?$`)

func (j judge) number(t iceberg.Type, s string) (any, bool) {
	if !isNumber.MatchString(s) {
		return nil, false
	}
	unit := func(name string, per map[string]int64) (int64, bool) {
		v, ok := per[name]
		return v, ok
	}
	micros := map[string]int64{"seconds": 1e6, "millis": 1e3, "micros": 1}
	switch t := t.(type) {
	case iceberg.Int32Type:
		return wholeBetween(s, 1, math.MinInt32, math.MaxInt32)
	case iceberg.Int64Type:
		return wholeBetween(s, 1, math.MinInt64, math.MaxInt64)
	case iceberg.Float32Type:
		v, err := strconv.ParseFloat(s, 32)
		return float32(v), err == nil
	case iceberg.Float64Type:
		v, err := strconv.ParseFloat(s, 64)
		return v, err == nil
	case iceberg.DecimalType:
		r, ok := rat(s)
		if !ok {
			return nil, false
		}
		r.Mul(r, new(big.Rat).SetInt(tenTo(t.Scale())))
		if !r.IsInt() || new(big.Int).Abs(r.Num()).Cmp(tenTo(t.Precision())) >= 0 {
			return nil, false
		}
		return decimalNumeral(r.Num(), t.Scale()), true
	case iceberg.DateType:
		if f, ok := unit(j.o.Dates, map[string]int64{"days": 1}); ok {
			return wholeBetween(s, f, daysSince(1, 1, 1), daysSince(9999, 12, 31))
		}
	case iceberg.TimeType:
		if f, ok := unit(j.o.Times, micros); ok {
			return wholeBetween(s, f, 0, 86_400_000_000-1)
		}
	case iceberg.TimestampType, iceberg.TimestampTzType:
		if f, ok := unit(j.o.Timestamps, micros); ok {
			return wholeBetween(s, f, time.Date(1, 1, 1, 0, 0, 0, 0, time.UTC).UnixMicro(), time.Date(9999, 12, 31, 23, 59, 59, 999_999_000, time.UTC).UnixMicro())
		}
	}
	return nil, false
}

func daysSince(year, month, day int) int64 {
	return time.Date(year, time.Month(month), day, 0, 0, 0, 0, time.UTC).Unix() / 86_400
}

func tenTo(n int) *big.Int {
	return new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(n)), nil)
}

// rat reads a number; it is not ok when it is neither zero nor anywhere near
// what a column can hold.
func rat(s string) (*big.Rat, bool) {
	mantissa, exponent, _ := strings.Cut(strings.ToLower(s), "e")
	if strings.Trim(mantissa, "-0.") == "" {
		return new(big.Rat), true
	}
	if exponent != "" {
		if e, err := strconv.Atoi(exponent); err != nil || e > 10_000 || e < -10_000 {
			return nil, false
		}
	}
	return new(big.Rat).SetString(s)
}

func wholeBetween(s string, factor, low, high int64) (any, bool) {
	r, ok := rat(s)
	if !ok {
		return nil, false
	}
	r.Mul(r, new(big.Rat).SetInt64(factor))
	if !r.IsInt() || !r.Num().IsInt64() || r.Num().Int64() < low || r.Num().Int64() > high {
		return nil, false
	}
	return r.Num().Int64(), true
}

var (
	isDate = regexp.MustCompile(`^(\d{4})-(\d\d)-(\d\d)$`)
	isTime = regexp.MustCompile(`^(\d\d):(\d\d)(?::(\d\d)(?:\.(\d{1,6}0*))?)?$`)
	isBoth = regexp.MustCompile(`^(.{10})[Tt ](\d\d:[0-9:.]*)(|Z|z|[+-]\d\d(?::?\d\d)?)$`)
	isUUID = regexp.MustCompile(`^[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}$`)
)

func (j judge) text(t iceberg.Type, s string, key bool) (any, bool) {
	switch t := t.(type) {
	case iceberg.StringType:
		return s, true
	case iceberg.BooleanType:
		return s == "true", key && (s == "true" || s == "false")
	case iceberg.UUIDType:
		b, err := hex.DecodeString(strings.ReplaceAll(s, "-", ""))
		return octets(b), err == nil && isUUID.MatchString(s)
	case iceberg.FixedType:
		b, err := base64.StdEncoding.DecodeString(s)
		return octets(b), err == nil && base64.StdEncoding.EncodeToString(b) == s && len(b) == t.Len()
	case iceberg.BinaryType:
		b, err := base64.StdEncoding.DecodeString(s)
		return octets(b), err == nil && base64.StdEncoding.EncodeToString(b) == s
	case iceberg.DecimalType:
		return j.number(t, s)
	case iceberg.DateType, iceberg.TimeType, iceberg.TimestampType, iceberg.TimestampTzType:
		if key {
			if v, ok := j.number(t, s); ok {
				return v, ok
			}
		}
		switch t.(type) {
		case iceberg.DateType:
			return dateText(s)
		case iceberg.TimeType:
			return timeText(s)
		case iceberg.TimestampType:
			return timestampText(s, false)
		}
		return timestampText(s, true)
	}
	if !key {
		return nil, false
	}
	return j.number(t, s) // a Go map takes 0 and -0 for one key, too
}

func dateText(s string) (any, bool) {
	if !isDate.MatchString(s) {
		return nil, false
	}
	at, err := time.Parse("2006-01-02", s)
	return at.Unix() / 86_400, err == nil && at.Year() >= 1
}

func timeText(s string) (any, bool) {
	m := isTime.FindStringSubmatch(s)
	if m == nil {
		return nil, false
	}
	hour, _ := strconv.Atoi(m[1])
	minute, _ := strconv.Atoi(m[2])
	second, _ := strconv.Atoi("0" + m[3])
	micro, _ := strconv.Atoi((m[4] + "000000")[:6])
	return (int64(hour)*3600+int64(minute)*60+int64(second))*1e6 + int64(micro), hour < 24 && minute < 60 && second < 60
}

func timestampText(s string, zoned bool) (any, bool) {
	m := isBoth.FindStringSubmatch(s)
	if m == nil {
		return nil, false
	}
	day, ok0 := dateText(m[1])
	clock, ok1 := timeText(m[2])
	if !ok0 || !ok1 || zoned != (m[3] != "") && zoned {
		return nil, false
	}
	v := time.Unix(day.(int64)*86_400, clock.(int64)*1e3).UTC()
	if zone := strings.ReplaceAll(m[3], ":", ""); len(zone) > 1 {
		hour, _ := strconv.Atoi(zone[1:3])
		minute, _ := strconv.Atoi((zone + "00")[3:5])
		if hour > 23 || minute > 59 || !zoned && hour+minute > 0 {
			return nil, false
		}
		offset := time.Duration(hour)*time.Hour + time.Duration(minute)*time.Minute
		if zone[0] == '-' {
			offset = -offset
		}
		v = v.Add(-offset)
	}
	return v.UnixMicro(), v.Year() >= 1 && v.Year() <= 9999
}
