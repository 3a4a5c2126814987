package writers

import (
	"fmt"
	"math"
	"math/bits"
	"strconv"
	"unsafe"
)

// number reads the number that begins at p into the column of f.
func (d *JSON) number(f *field, buf []byte, p int, rep uint8) int {
	switch f.op {
	case opInt, opLong:
		if v, next := shortInteger(buf, p); next > 0 {
			if f.op == opInt && int64(int32(v)) != v {
				return d.fail(f, ReasonRange, clip(buf[p:next])+" is out of the range of int")
			}
			d.put(f, v, rep)
			return next
		}
	case opFloat, opDouble, opDecimal, opDecimalWide:
	case opDate, opTime, opTimestamp, opTimestampTZ:
		if f.scale == numbersRefused {
			return d.fail(f, ReasonType, "a number, "+clip(buf[p:])+"; expected "+f.description+", or a unit for numbers ("+f.unitOption()+" in the configuration)")
		}
	default:
		return d.mismatch(f, buf, p)
	}
	next := d.num.scan(buf, p)
	if next < 0 {
		return d.syntax(f, buf, p, "a number")
	}
	if !d.storeNumber(f, rep) {
		return -1
	}
	return next
}

// unitOption names what gives the numbers of a column of dates or times a unit.
func (f *field) unitOption() string {
	switch f.op {
	case opDate:
		return "date_unit"
	case opTime:
		return "time_unit"
	default:
		return "timestamp_unit"
	}
}

// shortInteger reads a number of at most 18 digits without a fraction or
// exponent. It returns a negative position for any other.
func shortInteger(buf []byte, p int) (int64, int) {
	q := p
	if buf[q] == '-' {
		q++
	}
	first := q
	u := uint64(0)
	for q < len(buf) && buf[q]-'0' <= 9 {
		u = u*10 + uint64(buf[q]-'0')
		q++
	}
	n := q - first
	if n == 0 || n > 18 || n > 1 && buf[first] == '0' {
		return 0, -1
	}
	if q < len(buf) && (buf[q] == '.' || buf[q]|0x20 == 'e') {
		return 0, -1
	}
	if first > p {
		return -int64(u), q
	}
	return int64(u), q
}

// storeNumber puts d.num into the column of f, or notes why it can't.
func (d *JSON) storeNumber(f *field, rep uint8) bool {
	n := &d.num
	switch f.op {
	case opFloat:
		v, ok := n.float32()
		if !ok {
			d.fail(f, ReasonRange, quote(n.text)+" is out of the range of float")
			return false
		}
		d.put(f, int64(math.Float32bits(v)), rep)
		return true
	case opDouble:
		v, ok := n.float64()
		if !ok {
			d.fail(f, ReasonRange, quote(n.text)+" is out of the range of double")
			return false
		}
		d.put(f, int64(math.Float64bits(v)), rep)
		return true
	default:
	}
	v, exactly := n.times10(max(0, int64(f.scale)))
	detail := ""
	switch exactly {
	case notWhole:
		detail = f.tooFine()
	case tooLarge:
		detail = f.tooLarge()
	case whole:
		if f.op == opDecimalWide {
			if v.less(f.limit) {
				d.putWide(f, v, n.negative, rep)
				return true
			}
			detail = f.tooLarge()
			break
		}
		s, ok := v.signed(n.negative)
		if ok && f.holds(s) {
			d.put(f, s, rep)
			return true
		}
		detail = f.tooLarge()
	}
	d.fail(f, ReasonRange, quote(n.text)+" "+detail)
	return false
}

// holds tells whether a column of at most 64 bits may hold v.
func (f *field) holds(v int64) bool {
	switch f.op {
	case opInt:
		return int64(int32(v)) == v
	case opDecimal:
		return -int64(f.limit.lo) < v && v < int64(f.limit.lo)
	case opDate:
		return daysMin <= v && v <= daysMax
	case opTime:
		return 0 <= v && v < microsPerDay
	case opTimestamp, opTimestampTZ:
		return microsMin <= v && v <= microsMax
	default:
		return true
	}
}

// tooFine says what is wrong with a number that has too small a fraction.
func (f *field) tooFine() string {
	switch f.op {
	case opInt, opLong, opDate:
		return "is not a whole number"
	case opDecimal, opDecimalWide:
		return fmt.Sprintf("has more than %d digits after the point", f.scale)
	default:
		return "is finer than a microsecond"
	}
}

// tooLarge says what is wrong with a number that is too far from zero.
func (f *field) tooLarge() string {
	switch f.op {
	case opInt:
		return "is out of the range of int"
	case opLong:
		return "is out of the range of long"
	case opDecimal, opDecimalWide:
		return "has more digits than the column's precision"
	case opTime:
		return "is not within a day"
	default:
		return "is outside of the years 0001 to 9999"
	}
}

// putWide writes a decimal of more than 18 digits.
func (d *JSON) putWide(f *field, v uint128, negative bool, rep uint8) {
	if negative {
		v = v.negated()
	}
	c := &d.cols[f.leaf]
	for shift := 8 * (f.width - 1); shift >= 0; shift -= 8 {
		if shift >= 64 {
			c.Arena = append(c.Arena, byte(v.hi>>(shift-64)))
		} else {
			c.Arena = append(c.Arena, byte(v.lo>>shift))
		}
	}
	d.seal(f, c, rep)
}

// number is a number as JSON writes it. Its value is ±digits × 10^exp, where
// it is not long.
type number struct {
	text                []byte
	negative            bool
	long                bool // more than 19 digits, which are only in wholePart and fraction
	digits              uint64
	exp                 int64
	wholePart, fraction []byte // digits as they were written
}

// exponentMax is where exponents are cut off. A record can't have so many
// digits that it would matter.
const exponentMax = 1 << 40

// scan reads the number that begins at p. It returns the position after it,
// or a negative one where there is none.
func (n *number) scan(buf []byte, p int) int {
	first := p
	n.negative = p < len(buf) && buf[p] == '-'
	if n.negative {
		p++
	}
	u, from := uint64(0), p
	for p < len(buf) && buf[p]-'0' <= 9 {
		u = u*10 + uint64(buf[p]-'0')
		p++
	}
	n.wholePart, n.fraction, n.exp = buf[from:p], nil, 0
	if p == from || buf[from] == '0' && p > from+1 {
		return -1
	}
	if p < len(buf) && buf[p] == '.' {
		p++
		from = p
		for p < len(buf) && buf[p]-'0' <= 9 {
			u = u*10 + uint64(buf[p]-'0')
			p++
		}
		if p == from {
			return -1
		}
		n.fraction = buf[from:p]
	}
	if p < len(buf) && buf[p]|0x20 == 'e' {
		if p = n.exponent(buf, p+1); p < 0 {
			return p
		}
	}
	n.digits, n.text = u, buf[first:p]
	n.exp -= int64(len(n.fraction))
	n.long = len(n.wholePart)+len(n.fraction) > 19 && n.significant() > 19
	return p
}

// exponent reads what follows an e.
func (n *number) exponent(buf []byte, p int) int {
	negative := false
	if p < len(buf) && (buf[p] == '-' || buf[p] == '+') {
		negative = buf[p] == '-'
		p++
	}
	from := p
	for ; p < len(buf) && buf[p]-'0' <= 9; p++ {
		n.exp = min(n.exp*10+int64(buf[p]-'0'), exponentMax)
	}
	if p == from {
		return -1
	}
	if negative {
		n.exp = -n.exp
	}
	return p
}

// significant returns how many digits there are from the first that is not
// zero on.
func (n *number) significant() int {
	for i, c := range n.wholePart {
		if c != '0' {
			return len(n.wholePart) - i + len(n.fraction)
		}
	}
	for i, c := range n.fraction {
		if c != '0' {
			return len(n.fraction) - i
		}
	}
	return 0
}

// exactness is how a number fits into whole ones.
type exactness uint8

const (
	whole    exactness = iota
	notWhole           // it has a fraction
	tooLarge           // beyond 128 bits
)

// times10 returns the number times 10^scale without its sign.
func (n *number) times10(scale int64) (uint128, exactness) {
	v, exp := uint128{lo: n.digits}, n.exp+scale
	if n.long {
		var ok bool
		if v, exp, ok = n.coefficient(exp); !ok {
			if exp < 0 {
				return v, notWhole
			}
			return v, tooLarge
		}
	}
	if v == (uint128{}) {
		return v, whole
	}
	for ; exp < 0; exp++ {
		q, remainder := v.div10()
		if remainder != 0 {
			return v, notWhole
		}
		v = q
	}
	for ; exp > 0; exp-- {
		var ok bool
		if v, ok = v.times10(); !ok {
			return v, tooLarge
		}
	}
	return v, whole
}

// coefficient returns the digits of a long number without the zeros at its
// end, and moves them to exp. It is not ok when they are more than a decimal
// can have.
func (n *number) coefficient(exp int64) (v uint128, _ int64, ok bool) {
	zeros := 0
	count := 0
	for i := range len(n.wholePart) + len(n.fraction) {
		c := byte(0)
		if i < len(n.wholePart) {
			c = n.wholePart[i] - '0'
		} else {
			c = n.fraction[i-len(n.wholePart)] - '0'
		}
		if c == 0 {
			zeros++ // written when another digit follows
			continue
		}
		if count > 0 {
			count += zeros
		}
		count++
		for ; zeros > 0 && count <= decimalDigitsMax; zeros-- {
			v, _ = v.times10()
		}
		zeros = 0
		if count <= decimalDigitsMax {
			v, _ = v.times10()
			v = v.plus(uint64(c))
		}
	}
	return v, exp + int64(zeros), count <= decimalDigitsMax
}

// decimalDigitsMax is the largest precision of a decimal.
const decimalDigitsMax = 38

// float64 returns the nearest double; it is not ok when that is infinite.
func (n *number) float64() (float64, bool) {
	if !n.long && n.digits <= 1<<53 && -22 <= n.exp && n.exp <= 22 {
		// Both are exact, so that one operation rounds once.
		v := float64(n.digits)
		if n.exp < 0 {
			v /= powers[-n.exp]
		} else {
			v *= powers[n.exp]
		}
		if n.negative {
			v = -v
		}
		return v, true
	}
	v, err := strconv.ParseFloat(n.borrowed(), 64)
	return v, err == nil
}

// float32 returns the nearest float; it is not ok when that is infinite.
func (n *number) float32() (float32, bool) {
	if !n.long && n.digits <= 1<<24 && -10 <= n.exp && n.exp <= 10 {
		v := float32(n.digits)
		if n.exp < 0 {
			v /= float32(powers[-n.exp])
		} else {
			v *= float32(powers[n.exp])
		}
		if n.negative {
			v = -v
		}
		return v, true
	}
	v, err := strconv.ParseFloat(n.borrowed(), 32)
	return float32(v), err == nil
}

// borrowed returns the text as a string that shares its memory, so that
// nothing is allocated. The text does not change meanwhile.
func (n *number) borrowed() string {
	return unsafe.String(unsafe.SliceData(n.text), len(n.text)) //nolint:gosec // read only, and gone before the text is
}

// powers are the powers of ten that a double holds exactly.
var powers = []float64{
	1, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11,
	1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22,
}

// uint128 holds every decimal of 38 digits without its sign.
type uint128 struct{ hi, lo uint64 }

// times10 returns 10 × v; it is not ok when that has more than 128 bits.
func (v uint128) times10() (_ uint128, ok bool) {
	over, hi := bits.Mul64(v.hi, 10)
	carry, lo := bits.Mul64(v.lo, 10)
	hi, c := bits.Add64(hi, carry, 0)
	return uint128{hi, lo}, over == 0 && c == 0
}

// div10 returns v / 10 and the remainder.
func (v uint128) div10() (uint128, uint64) {
	lo, remainder := bits.Div64(v.hi%10, v.lo, 10)
	return uint128{v.hi / 10, lo}, remainder
}

func (v uint128) plus(n uint64) uint128 {
	lo, carry := bits.Add64(v.lo, n, 0)
	return uint128{v.hi + carry, lo}
}

func (v uint128) less(w uint128) bool {
	return v.hi < w.hi || v.hi == w.hi && v.lo < w.lo
}

// negated returns the two's complement.
func (v uint128) negated() uint128 {
	return uint128{^v.hi, ^v.lo}.plus(1)
}

// signed returns ±v; it is not ok when that has more than 64 bits.
func (v uint128) signed(negative bool) (_ int64, ok bool) {
	if negative {
		return -int64(v.lo), v.hi == 0 && v.lo <= 1<<63
	}
	return int64(v.lo), v.hi == 0 && v.lo < 1<<63
}
