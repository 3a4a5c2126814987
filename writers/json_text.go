package writers

import (
	"encoding/base64"
	"fmt"
	"slices"
)

// parse reads a text into the column of f: the content of a JSON string, or
// the name of a map's entry. It notes why it can't.
func (d *JSON) parse(f *field, text []byte, rep uint8) bool {
	c := &d.cols[f.leaf]
	switch f.op {
	case opString:
		c.Arena = append(c.Arena, text...)
		d.seal(f, c, rep)
		return true
	case opUUID:
		return d.parseUUID(f, c, text, rep)
	case opBase64:
		return d.parseBase64(f, c, text, rep)
	case opBool:
		switch string(text) {
		case "true":
			d.put(f, 1, rep)
			return true
		case "false":
			d.put(f, 0, rep)
			return true
		}
		return d.malformed(f, text)
	case opDate, opTime, opTimestamp, opTimestampTZ:
		if f.scale != numbersRefused && f.isKey && d.num.scan(text, 0) == len(text) {
			return d.storeNumber(f, rep)
		}
		return d.parseTime(f, text, rep)
	default: // numbers
	}
	if d.num.scan(text, 0) != len(text) {
		return d.malformed(f, text)
	}
	return d.storeNumber(f, rep)
}

// malformed refuses a text that has another form than the column's.
func (d *JSON) malformed(f *field, text []byte) bool {
	d.fail(f, ReasonType, "the string "+quote(text)+"; expected "+f.description)
	return false
}

// parseTime reads a date, time or timestamp.
func (d *JSON) parseTime(f *field, text []byte, rep uint8) bool {
	var v int64
	var wrong refusal
	switch f.op {
	case opDate:
		v, wrong = parseDate(text)
	case opTime:
		v, wrong = parseClock(text)
	default:
		v, wrong = parseTimestamp(text, f.op == opTimestampTZ)
	}
	switch {
	case wrong.detail != "":
		d.fail(f, wrong.reason, quote(text)+" "+wrong.detail)
		return false
	case wrong.reason != "":
		return d.malformed(f, text)
	}
	d.put(f, v, rep)
	return true
}

// parseUUID reads 8-4-4-4-12 hex digits.
func (d *JSON) parseUUID(f *field, c *Column, text []byte, rep uint8) bool {
	if len(text) != 36 || text[8] != '-' || text[13] != '-' || text[18] != '-' || text[23] != '-' {
		return d.malformed(f, text)
	}
	var id [16]byte
	p, wrong := 0, byte(0)
	for i := range id {
		if p == 8 || p == 13 || p == 18 || p == 23 {
			p++
		}
		high, low := hexDigits[text[p]], hexDigits[text[p+1]]
		wrong |= high | low
		id[i] = high<<4 | low
		p += 2
	}
	if wrong > 15 {
		return d.malformed(f, text)
	}
	c.Arena = append(c.Arena, id[:]...)
	d.seal(f, c, rep)
	return true
}

// parseBase64 reads base64 with its padding and without line ends. The bits
// that padding leaves over must be zero, so that a value has one text.
func (d *JSON) parseBase64(f *field, c *Column, text []byte, rep uint8) bool {
	for _, b := range text {
		if b == '\n' || b == '\r' { // which the package passes over
			return d.malformed(f, text)
		}
	}
	from := len(c.Arena)
	c.Arena = slices.Grow(c.Arena, base64.StdEncoding.DecodedLen(len(text)))
	n, err := base64.StdEncoding.Strict().Decode(c.Arena[from:cap(c.Arena)], text)
	if err != nil {
		return d.malformed(f, text)
	}
	if f.width > 0 && n != f.width {
		d.fail(f, ReasonRange, fmt.Sprintf("%s holds %d bytes; the column's values have %d", quote(text), n, f.width))
		return false
	}
	c.Arena = c.Arena[:from+n]
	d.seal(f, c, rep)
	return true
}
