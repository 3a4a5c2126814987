package writers

import (
	"encoding/binary"
	"fmt"
	"math/bits"
	"strconv"
	"unicode/utf8"
)

// space returns the position of the first byte from p on that is no white
// space.
func space(buf []byte, p int) int {
	for p < len(buf) && buf[p] <= ' ' && 1<<buf[p]&(1<<' '|1<<'\t'|1<<'\n'|1<<'\r') != 0 {
		p++
	}
	return p
}

// colon passes over a colon and the white space around it. It returns ^p where
// there is none at p.
func colon(buf []byte, p int) int {
	if p >= len(buf) || buf[p] != ':' {
		if p = space(buf, p); p >= len(buf) || buf[p] != ':' {
			return ^p
		}
	}
	return space(buf, p+1)
}

// literal tells whether word stands at p.
func literal(buf []byte, p int, word string) bool {
	return len(buf)-p >= len(word) && string(buf[p:p+len(word)]) == word
}

const (
	ones  = 0x0101010101010101
	highs = 0x8080808080808080
)

// special marks, with the high bit of its byte, the first byte of w that ends
// a run of plain ones in a string: a quote, a backslash, a control character
// or the beginning of something that is not ASCII. Bytes after the first may
// be marked wrongly.
func special(w uint64) uint64 {
	// A byte that is zero after the exclusive or, or less than a space, borrows
	// from its high bit; only such a byte makes the next one borrow as well. A
	// byte that is not ASCII keeps its high bit in one of the first two.
	return (((w ^ '"'*ones) - ones) | ((w ^ '\\'*ones) - ones) | (w - ' '*ones)) & highs
}

// plain returns the position of the first byte from p on that is not plain.
func plain(buf []byte, p int) int {
	for ; len(buf)-p >= 32; p += 32 {
		b := buf[p : p+32 : p+32]
		w0, w1 := special(binary.LittleEndian.Uint64(b)), special(binary.LittleEndian.Uint64(b[8:]))
		if w0 != 0 {
			return p + bits.TrailingZeros64(w0)>>3
		}
		if w1 != 0 {
			return p + 8 + bits.TrailingZeros64(w1)>>3
		}
		w2, w3 := special(binary.LittleEndian.Uint64(b[16:])), special(binary.LittleEndian.Uint64(b[24:]))
		if w2|w3 != 0 {
			if w2 != 0 {
				return p + 16 + bits.TrailingZeros64(w2)>>3
			}
			return p + 24 + bits.TrailingZeros64(w3)>>3
		}
	}
	for ; len(buf)-p >= 8; p += 8 {
		if w := special(binary.LittleEndian.Uint64(buf[p:])); w != 0 {
			return p + bits.TrailingZeros64(w)>>3
		}
	}
	for p < len(buf) && buf[p] >= ' ' && buf[p] < utf8.RuneSelf && buf[p] != '"' && buf[p] != '\\' {
		p++
	}
	return p
}

// str reads the rest of a string, after its opening quote, into a column of
// strings.
func (d *JSON) str(f *field, buf []byte, p int, rep uint8) int {
	c := &d.cols[f.leaf]
	q := plain(buf, p)
	if q < len(buf) && buf[q] == '"' {
		c.Arena = append(c.Arena, buf[p:q]...)
		q++
	} else if c.Arena, q = d.unquote(f, c.Arena, buf, p, q); q < 0 {
		return q
	}
	d.seal(f, c, rep)
	return q
}

// text reads the rest of a string, after its opening quote. The string is
// valid until the next one is read.
func (d *JSON) text(f *field, buf []byte, p int) ([]byte, int) {
	q := plain(buf, p)
	if q < len(buf) && buf[q] == '"' {
		return buf[p:q], q + 1
	}
	d.scratch, q = d.unquote(f, d.scratch[:0], buf, p, q)
	return d.scratch, q
}

// unquote appends the rest of a string to dst, without escapes. The bytes from
// p to q are known to be plain.
func (d *JSON) unquote(f *field, dst, buf []byte, p, q int) ([]byte, int) {
	for {
		switch {
		case q >= len(buf):
			return dst, d.early(f)
		case buf[q] == '"':
			return append(dst, buf[p:q]...), q + 1
		case buf[q] == '\\':
			dst = append(dst, buf[p:q]...)
			r, next := d.escape(f, buf, q)
			if next < 0 {
				return dst, next
			}
			dst = utf8.AppendRune(dst, r)
			p, q = next, next
		case buf[q] >= utf8.RuneSelf:
			if q = runes(buf, q); q < 0 {
				return dst, d.invalid(f, buf, ^q)
			}
		default:
			return dst, d.control(f, buf, q)
		}
		q = plain(buf, q)
	}
}

// pass passes over the rest of a string that nobody wants.
func (d *JSON) pass(f *field, buf []byte, p int) int {
	for {
		p = plain(buf, p)
		switch {
		case p >= len(buf):
			return d.early(f)
		case buf[p] == '"':
			return p + 1
		case buf[p] == '\\':
			if _, p = d.escape(f, buf, p); p < 0 {
				return p
			}
		case buf[p] >= utf8.RuneSelf:
			if p = runes(buf, p); p < 0 {
				return d.invalid(f, buf, ^p)
			}
		default:
			return d.control(f, buf, p)
		}
	}
}

// runes passes over characters beyond ASCII. It returns ^p where bytes at p
// are no UTF-8.
func runes(buf []byte, p int) int {
	for p < len(buf) && buf[p] >= utf8.RuneSelf {
		_, size := utf8.DecodeRune(buf[p:])
		if size == 1 {
			return ^p
		}
		p += size
	}
	return p
}

// escape reads the escape that begins at p, which for characters beyond
// U+FFFF are two.
func (d *JSON) escape(f *field, buf []byte, p int) (rune, int) {
	if len(buf)-p < 2 {
		return 0, d.early(f)
	}
	switch c := buf[p+1]; c {
	case '"', '\\', '/':
		return rune(c), p + 2
	case 'b':
		return '\b', p + 2
	case 'f':
		return '\f', p + 2
	case 'n':
		return '\n', p + 2
	case 'r':
		return '\r', p + 2
	case 't':
		return '\t', p + 2
	case 'u':
	default:
		return 0, d.syntax(f, buf, p, "an escape of JSON")
	}
	r := hex4(buf, p+2)
	switch {
	case r < 0:
		return 0, d.syntax(f, buf, p, "four hex digits after \\u")
	case r < 0xD800 || r > 0xDFFF:
		return r, p + 6
	}
	if r < 0xDC00 && literal(buf, p+6, `\u`) {
		if low := hex4(buf, p+8); low >= 0xDC00 && low <= 0xDFFF {
			return 0x10000 + (r-0xD800)<<10 + (low - 0xDC00), p + 12
		}
	}
	return 0, d.fail(f, ReasonUTF8, fmt.Sprintf("the escape %s at byte %d is half of a character", buf[p:p+6], p))
}

// hex4 reads four hex digits, or returns -1.
func hex4(buf []byte, p int) rune {
	if len(buf)-p < 4 {
		return -1
	}
	r := rune(0)
	for _, c := range buf[p : p+4] {
		v := hexDigits[c]
		if v > 15 {
			return -1
		}
		r = r<<4 | rune(v)
	}
	return r
}

// hexDigits has the value of each hex digit, and 255 for other bytes.
const hexDigits = "" +
	"\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff" +
	"\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff" +
	"\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff" +
	"\x00\x01\x02\x03\x04\x05\x06\x07\x08\x09\xff\xff\xff\xff\xff\xff" +
	"\xff\x0a\x0b\x0c\x0d\x0e\x0f\xff\xff\xff\xff\xff\xff\xff\xff\xff" +
	"\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff" +
	"\xff\x0a\x0b\x0c\x0d\x0e\x0f\xff\xff\xff\xff\xff\xff\xff\xff\xff" +
	"\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff" +
	"\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff" +
	"\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff" +
	"\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff" +
	"\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff" +
	"\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff" +
	"\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff" +
	"\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff" +
	"\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff"

// skip passes over any value. It may open as many as depth objects and lists
// inside of each other.
func (d *JSON) skip(f *field, buf []byte, p, depth int) int {
	if p >= len(buf) {
		return d.early(f)
	}
	switch c := buf[p]; {
	case c == '"':
		return d.pass(f, buf, p+1)
	case c == '-' || c >= '0' && c <= '9':
		next := d.num.scan(buf, p)
		if next < 0 {
			return d.syntax(f, buf, p, "a number")
		}
		return next
	case c == '{' || c == '[':
		if depth == 0 {
			return d.fail(f, ReasonDepth, fmt.Sprintf("an ignored value nests deeper than %d levels", JSONDepthMax))
		}
		return d.skipMany(f, buf, p, depth-1)
	case literal(buf, p, "true"), literal(buf, p, "null"):
		return p + 4
	case literal(buf, p, "false"):
		return p + 5
	}
	return d.syntax(f, buf, p, "a value")
}

// skipMany passes over an object or a list.
func (d *JSON) skipMany(f *field, buf []byte, p, depth int) int {
	object, end, expected := buf[p] == '{', byte(']'), "a comma or ]"
	if object {
		end, expected = '}', "a comma or }"
	}
	p = space(buf, p+1)
	if p < len(buf) && buf[p] == end {
		return p + 1
	}
	for {
		if object {
			if p >= len(buf) || buf[p] != '"' {
				return d.syntax(f, buf, p, "a name in quotes")
			}
			if p = d.pass(f, buf, p+1); p < 0 {
				return p
			}
			if p = colon(buf, p); p < 0 {
				return d.syntax(f, buf, ^p, "a colon")
			}
		}
		if p = d.skip(f, buf, p, depth); p < 0 {
			return p
		}
		p = space(buf, p)
		if p >= len(buf) {
			return d.early(f)
		}
		if buf[p] == end {
			return p + 1
		}
		if buf[p] != ',' {
			return d.syntax(f, buf, p, expected)
		}
		p = space(buf, p+1)
	}
}

// invalid refuses bytes that are no UTF-8.
func (d *JSON) invalid(f *field, buf []byte, p int) int {
	return d.fail(f, ReasonUTF8, fmt.Sprintf("byte 0x%02X at byte %d is no UTF-8", buf[p], p))
}

// control refuses a control character that is not escaped.
func (d *JSON) control(f *field, buf []byte, p int) int {
	return d.fail(f, ReasonSyntax, fmt.Sprintf("control character 0x%02X in a string, at byte %d; it must be escaped", buf[p], p))
}

// quotedBytesMax is how much of a value an error may show.
const quotedBytesMax = 40

// quote shows the beginning of a text.
func quote(text []byte) string {
	if len(text) <= quotedBytesMax {
		return strconv.Quote(string(text))
	}
	end := quotedBytesMax
	for i := 0; i < utf8.UTFMax-1 && !utf8.RuneStart(text[end]); i++ {
		end--
	}
	return strconv.Quote(string(text[:end])) + "…"
}

// clip shows the word or string that JSON begins with.
func clip(buf []byte) string {
	end := 0
	for inside := false; end < len(buf) && end <= quotedBytesMax; end++ {
		c := buf[end]
		if c == '"' {
			inside = !inside
			if !inside {
				end++
				break
			}
		}
		if !inside && (c == ',' || c == '}' || c == ']' || c <= ' ') {
			break
		}
	}
	text := buf[:max(end, min(1, len(buf)))]
	if s := string(text); len(s) <= quotedBytesMax && strconv.CanBackquote(s) {
		return "`" + s + "`"
	}
	return quote(text)
}
