package writers

import (
	"encoding/base64"
	"encoding/binary"
	"math"
	"math/bits"
	"strconv"
	"unicode/utf8"
)

// digitPairs are the texts of 00 to 99.
const digitPairs = "0001020304050607080910111213141516171819" +
	"2021222324252627282930313233343536373839" +
	"4041424344454647484950515253545556575859" +
	"6061626364656667686970717273747576777879" +
	"8081828384858687888990919293949596979899"

// appendInteger appends a whole number.
func appendInteger(to []byte, v int64) []byte {
	u := uint64(v)
	if v < 0 {
		to = append(to, '-')
		u = -u
	}
	return appendUnsigned(to, u)
}

func appendUnsigned(to []byte, u uint64) []byte {
	if u < 10 {
		return append(to, byte('0'+u))
	}
	var text [20]byte
	at := len(text)
	for u >= 100 {
		pair := u % 100 * 2
		u /= 100
		at -= 2
		text[at], text[at+1] = digitPairs[pair], digitPairs[pair+1]
	}
	if u >= 10 {
		at -= 2
		text[at], text[at+1] = digitPairs[2*u], digitPairs[2*u+1]
	} else {
		at--
		text[at] = byte('0' + u)
	}
	return append(to, text[at:]...)
}

// appendDigits appends the last digits of u, at most 20, with zeros in front.
func appendDigits(to []byte, u uint64, digits int) []byte {
	var text [20]byte
	for i := digits - 1; i >= 0; i-- {
		text[i] = byte('0' + u%10)
		u /= 10
	}
	return append(to, text[:digits]...)
}

// appendDecimal appends an unscaled number with its point: all digits of its
// scale, and no exponent.
func appendDecimal(to []byte, v int64, scale int) []byte {
	u := uint64(v)
	if v < 0 {
		to = append(to, '-')
		u = -u
	}
	if scale == 0 {
		return appendUnsigned(to, u)
	}
	if scale > 19 {
		return appendWide(to, uint128{lo: u}, scale)
	}
	unit := pow10[scale]
	to = append(appendUnsigned(to, u/unit), '.')
	return appendDigits(to, u%unit, scale)
}

// pow10 are the powers of ten that 64 bits hold.
var pow10 = [20]uint64{
	1, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19,
}

// appendBigEndian appends the decimal that the two's complement in b means. It
// is false when that has more than 128 bits.
func appendBigEndian(to, b []byte, scale int) ([]byte, bool) {
	negative := len(b) > 0 && b[0]&0x80 != 0
	sign := byte(0)
	if negative {
		sign = 0xFF
	}
	for len(b) > 16 {
		if b[0] != sign {
			return to, false
		}
		b = b[1:]
		if (b[0]&0x80 != 0) != negative {
			return to, false
		}
	}
	v := uint128{}
	if negative {
		v = uint128{math.MaxUint64, math.MaxUint64}
	}
	for _, octet := range b {
		v = uint128{v.hi<<8 | v.lo>>56, v.lo<<8 | uint64(octet)}
	}
	if negative {
		to = append(to, '-')
		v = v.negated()
	}
	if v.hi == 0 && scale <= 19 {
		if scale == 0 {
			return appendUnsigned(to, v.lo), true
		}
		to = append(appendUnsigned(to, v.lo/pow10[scale]), '.')
		return appendDigits(to, v.lo%pow10[scale], scale), true
	}
	return appendWide(to, v, scale), true
}

// appendWide appends 128 bits without a sign.
func appendWide(to []byte, v uint128, scale int) []byte {
	var text [80]byte
	at, digits := len(text), 0
	for v != (uint128{}) || digits <= scale {
		if digits == scale && scale > 0 {
			at--
			text[at] = '.'
		}
		q, r := v.div10()
		v = q
		at--
		text[at] = byte('0' + r)
		digits++
	}
	return append(to, text[at:]...)
}

// appendDate appends YYYY-MM-DD. Years beyond 0001 to 9999, which the ingest
// never writes, have a sign and at least five digits.
//
// Source: ISO 8601, expanded representation.
func appendDate(to []byte, days int64) []byte {
	// The reverse of date: years begin in March, eras have 400 of them.
	z := days + 719_468
	era := z / 146_097
	if z < 0 {
		era = (z - 146_096) / 146_097
	}
	dayOfEra := z - era*146_097
	yearOfEra := (dayOfEra - dayOfEra/1460 + dayOfEra/36_524 - dayOfEra/146_096) / 365
	dayOfYear := dayOfEra - (365*yearOfEra + yearOfEra/4 - yearOfEra/100)
	shifted := (5*dayOfYear + 2) / 153
	day := dayOfYear - (153*shifted+2)/5 + 1
	month, year := shifted+3, yearOfEra+era*400
	if month > 12 {
		month, year = month-12, year+1
	}
	if year < 1 || year > 9999 {
		if year < 0 {
			to = append(to, '-')
			year = -year
		} else {
			to = append(to, '+')
		}
		if year < 100_000 {
			to = append(to, byte('0'+year/10_000))
		} else {
			to = appendUnsigned(to, uint64(year/10_000))
		}
		year %= 10_000
	}
	century, rest := 2*(year/100), 2*(year%100)
	month *= 2
	day *= 2
	return append(to, digitPairs[century], digitPairs[century+1], digitPairs[rest], digitPairs[rest+1], '-',
		digitPairs[month], digitPairs[month+1], '-', digitPairs[day], digitPairs[day+1])
}

// appendClock appends HH:MM:SS and a fraction of three, six or nine digits, as
// short as is exact.
func appendClock(to []byte, nanos int64) []byte {
	seconds, nanos := nanos/1e9, nanos%1e9
	hour, minute, second := 2*(seconds/3600), 2*(seconds/60%60), 2*(seconds%60)
	to = append(to, digitPairs[hour], digitPairs[hour+1], ':', digitPairs[minute], digitPairs[minute+1], ':',
		digitPairs[second], digitPairs[second+1])
	if nanos == 0 {
		return to
	}
	millis, micros, nano := nanos/1e6, nanos/1000%1000, nanos%1000
	to = appendThree(append(to, '.'), millis)
	if micros != 0 || nano != 0 {
		to = appendThree(to, micros)
	}
	if nano != 0 {
		to = appendThree(to, nano)
	}
	return to
}

func appendThree(to []byte, v int64) []byte {
	pair := v % 100 * 2
	return append(to, byte('0'+v/100), digitPairs[pair], digitPairs[pair+1])
}

// appendFraction appends a number of units with three digits or six of a unit
// a thousandth or a millionth of it, without the zeros at the end.
func appendFraction(to []byte, v, unit int64) []byte {
	whole, rest := v/unit, v%unit
	if rest == 0 {
		return appendInteger(to, whole)
	}
	if v < 0 {
		to = append(to, '-')
		whole, rest = -whole, -rest
	}
	to = append(appendUnsigned(to, uint64(whole)), '.')
	digits := 0
	for u := unit; u > 1; u /= 10 {
		digits++
	}
	for rest%10 == 0 {
		rest /= 10
		digits--
	}
	return appendDigits(to, uint64(rest), digits)
}

// appendFloat appends the shortest text that reads back as the same number.
func appendFloat(to []byte, v float64, bits int) []byte {
	switch {
	case v != v:
		return append(to, `"NaN"`...)
	case v > math.MaxFloat64:
		return append(to, `"Infinity"`...)
	case v < -math.MaxFloat64:
		return append(to, `"-Infinity"`...)
	}
	if short, ok := appendShortFloat(to, v, bits); ok {
		return short
	}
	size := math.Abs(v)
	form := byte('f')
	if size != 0 && (size < 1e-6 || size >= 1e21) {
		form = 'e'
	}
	return strconv.AppendFloat(to, v, form, -1, bits)
}

// appendShortFloat appends numbers of few digits, as prices are, where it takes
// no search to see that no shorter text means them.
func appendShortFloat(to []byte, v float64, bits int) ([]byte, bool) {
	const unit = 1e4
	most := 1e15 // so many digits a double always keeps
	if bits == 32 {
		most = 1e6
	}
	scaled := math.Round(v * unit)
	if scaled == 0 || scaled >= most || scaled <= -most {
		return to, false
	}
	if back := scaled / unit; back != v && (bits == 64 || float64(float32(back)) != v) {
		return to, false
	}
	to = appendFraction(to, int64(scaled), unit)
	return to, true
}

// appendUUID appends 8-4-4-4-12 hex digits.
func appendUUID(to, id []byte) []byte {
	const hex = "0123456789abcdef"
	var text [36]byte
	at := 0
	for i, b := range id[:16] {
		if i == 4 || i == 6 || i == 8 || i == 10 {
			text[at] = '-'
			at++
		}
		text[at], text[at+1] = hex[b>>4], hex[b&15]
		at += 2
	}
	return append(to, text[:]...)
}

func appendBase64(to, b []byte) []byte { return base64.StdEncoding.AppendEncode(to, b) }

// appendEscaped appends what stands between the quotes of a string. It is
// false where s is no UTF-8.
func appendEscaped(to, s []byte) ([]byte, bool) {
	n := plainPrefix(s)
	if n == len(s) {
		return append(to, s...), true
	}
	valid := !high(s[n:]) || utf8.Valid(s)
	for {
		n += escapePrefix(s[n:])
		to = append(to, s[:n]...)
		if n == len(s) {
			return to, valid
		}
		to = appendEscape(to, s[n])
		s, n = s[n+1:], 0
	}
}

// appendEscape appends one byte that escapePrefix stops at.
func appendEscape(to []byte, b byte) []byte {
	const hex = "0123456789abcdef"
	switch b {
	case '"', '\\':
		return append(to, '\\', b)
	case '\n':
		return append(to, '\\', 'n')
	case '\r':
		return append(to, '\\', 'r')
	case '\t':
		return append(to, '\\', 't')
	}
	return append(to, '\\', 'u', '0', '0', hex[b>>4], hex[b&15])
}

const (
	everyByte = 0x0101010101010101
	everyHigh = 0x8080808080808080
)

// plainPrefix returns how many bytes at the start of s stand for themselves in
// JSON and are ASCII.
func plainPrefix(s []byte) int {
	i := 0
	for ; i+8 <= len(s); i += 8 {
		w := binary.LittleEndian.Uint64(s[i:])
		if m := unplain(w); m != 0 {
			return i + bits.TrailingZeros64(m)/8
		}
	}
	for ; i < len(s); i++ {
		if b := s[i]; b < ' ' || b == '"' || b == '\\' || b >= utf8.RuneSelf {
			return i
		}
	}
	return i
}

// escapePrefix returns how many bytes at the start of s stand for themselves in
// JSON.
func escapePrefix(s []byte) int {
	i := 0
	for ; i+8 <= len(s); i += 8 {
		w := binary.LittleEndian.Uint64(s[i:])
		quote, slash := w^(everyByte*'"'), w^(everyByte*'\\')
		if m := ((w-everyByte*' ')&^w | (quote-everyByte)&^quote | (slash-everyByte)&^slash) & everyHigh; m != 0 {
			return i + bits.TrailingZeros64(m)/8
		}
	}
	for ; i < len(s); i++ {
		if b := s[i]; b < ' ' || b == '"' || b == '\\' {
			return i
		}
	}
	return i
}

// unplain marks, by their highest bits, bytes below 0x20, quotes, backslashes
// and those of other than ASCII. Bytes above a marked one may be marked wrongly.
func unplain(w uint64) uint64 {
	quote, slash := w^(everyByte*'"'), w^(everyByte*'\\')
	return (w | (w - everyByte*' ') | (quote - everyByte) | (slash - everyByte)) & everyHigh
}

// high tells whether s has bytes of other than ASCII.
func high(s []byte) bool {
	for ; len(s) >= 8; s = s[8:] {
		if binary.LittleEndian.Uint64(s)&everyHigh != 0 {
			return true
		}
	}
	for _, b := range s {
		if b >= utf8.RuneSelf {
			return true
		}
	}
	return false
}
