package router

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"math/bits"
	"slices"
	"strconv"
	"strings"
	"time"
)

// chance is what pieces draw from: random numbers, the clock, the record's number and
// the place of the field that the key copies.
type chance struct {
	state    uint64
	sequence int64
	at       time.Time // when this record was asked for; zero until a piece asks

	fieldFrom, fieldTo int // of the value, for field(name)
}

func newChance(seed uint64) *chance { return &chance{state: seed} }

// begin prepares for a record whose value begins at from.
func (s *chance) begin(from int) { s.at, s.fieldFrom, s.fieldTo = time.Time{}, from, from }

// next returns 64 random bits by the SplitMix64 of Steele, Lea and Flood: one
// addition and two multiplications, good enough to fill payloads.
func (s *chance) next() uint64 {
	s.state += 0x9e3779b97f4a7c15
	z := s.state
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

// below returns a number from 0 to n-1; n is not 0. The bias is under n/2^64.
func (s *chance) below(n uint64) uint64 {
	hi, _ := bits.Mul64(s.next(), n)
	return hi
}

// unit returns a number from 0 up to, not including, 1.
func (s *chance) unit() float64 { return float64(s.next()>>11) / (1 << 53) }

// now returns the record's one time, so that two fields of it agree.
func (s *chance) now() time.Time {
	if s.at.IsZero() {
		s.at = time.Now().UTC()
	}
	return s.at
}

// function is one that templates can call.
type function struct {
	form             string // how it is written
	about            string
	argsMin, argsMax int
	bare             bool // alone in a text it makes a JSON number or boolean
	compile          func(args []string) (piece, error)
}

// functions are all that a template can call, but for field.
var functions = map[string]function{
	"integer":      {"{{integer(from,to)}}", "a whole number, both ends included", 2, 2, true, integerPiece},
	"long":         {"{{long}}", "any 64-bit integer", 0, 0, true, fixedPiece(longPiece)},
	"double":       {"{{double(from,to,digits)}}", "a number; digits after the point if given", 2, 3, true, doublePiece},
	"boolean":      {"{{boolean}}", "true or false", 0, 0, true, fixedPiece(booleanPiece)},
	"sequence":     {"{{sequence}}", "0, 1, 2, … in the order of the run", 0, 0, true, fixedPiece(sequencePiece)},
	"epochMillis":  {"{{epochMillis}}", "now, in milliseconds since 1970", 0, 0, true, fixedPiece(epochMillisPiece)},
	"epochMicros":  {"{{epochMicros}}", "now, in microseconds since 1970", 0, 0, true, fixedPiece(epochMicrosPiece)},
	"now":          {"{{now}}", "now, as 2006-01-02T15:04:05.000000Z", 0, 0, false, fixedPiece(nowPiece)},
	"alphaNumeric": {"{{alphaNumeric(length)}}", "letters and digits", 1, 1, false, alphaNumericPiece},
	"digits":       {"{{digits(length)}}", "decimal digits, as text", 1, 1, false, digitsPiece},
	"hex":          {"{{hex(length)}}", "hexadecimal digits, as text", 1, 1, false, hexPiece},
	"uuid":         {"{{uuid}}", "a random UUID", 0, 0, false, fixedPiece(uuidPiece)},
	"choice":       {"{{choice(a,b,'c, d')}}", "one of the given texts", 1, 1 << 16, false, choicePiece},
	"word":         {"{{word}}", "a word", 0, 0, false, wordPiece},
	"sentence":     {"{{sentence(words)}}", "a sentence of so many words", 1, 1, false, sentencePiece},
}

// functionNames lists the functions for an error.
func functionNames() string {
	return strings.Join(slices.Sorted(maps.Keys(functions)), ", ")
}

// lengthMax bounds what one template makes: brokers refuse far less by default.
const lengthMax = 16 << 20

func textPiece(text string) piece {
	return func(dst []byte, _ *chance) []byte { return append(dst, text...) }
}

// fieldPiece copies the watched field of the value: a text without its quotes,
// anything else as it stands.
func fieldPiece(dst []byte, src *chance) []byte {
	field := dst[src.fieldFrom:src.fieldTo]
	if len(field) == 0 || field[0] != '"' {
		return append(dst, field...)
	}
	if bytes.IndexByte(field, '\\') < 0 {
		return append(dst, field[1:len(field)-1]...)
	}
	var text string
	if err := json.Unmarshal(field, &text); err != nil {
		panic(fmt.Sprintf("read back %q: %v", field, err))
	}
	return append(dst, text...)
}

// fixedPiece is the compiler of a function without arguments.
func fixedPiece(p piece) func([]string) (piece, error) {
	return func([]string) (piece, error) { return p, nil }
}

func integerPiece(args []string) (piece, error) {
	from, err := strconv.ParseInt(args[0], 10, 64)
	if err != nil {
		return nil, fmt.Errorf("%q is not a 64-bit integer", args[0])
	}
	to, err := strconv.ParseInt(args[1], 10, 64)
	if err != nil {
		return nil, fmt.Errorf("%q is not a 64-bit integer", args[1])
	}
	if from > to {
		return nil, fmt.Errorf("%d is above %d", from, to)
	}
	count := uint64(to) - uint64(from) + 1
	if count == 0 {
		return longPiece, nil // all of them
	}
	return func(dst []byte, src *chance) []byte {
		return strconv.AppendInt(dst, int64(uint64(from)+src.below(count)), 10)
	}, nil
}

func doublePiece(args []string) (piece, error) {
	from, err := parseFinite(args[0])
	if err != nil {
		return nil, err
	}
	to, err := parseFinite(args[1])
	if err != nil {
		return nil, err
	}
	if from > to || math.IsInf(to-from, 0) {
		return nil, fmt.Errorf("%v to %v is no range", from, to)
	}
	format, digits := byte('g'), -1
	if len(args) == 3 {
		format = 'f'
		if digits, err = strconv.Atoi(args[2]); err != nil || digits < 0 || digits > 18 {
			return nil, fmt.Errorf("%q digits: must be from 0 to 18", args[2])
		}
	}
	return func(dst []byte, src *chance) []byte {
		return strconv.AppendFloat(dst, from+src.unit()*(to-from), format, digits, 64)
	}, nil
}

func parseFinite(text string) (float64, error) {
	f, err := strconv.ParseFloat(text, 64)
	if err != nil || math.IsInf(f, 0) || math.IsNaN(f) {
		return 0, fmt.Errorf("%q is not a finite number", text)
	}
	return f, nil
}

func longPiece(dst []byte, src *chance) []byte { return strconv.AppendInt(dst, int64(src.next()), 10) }

func booleanPiece(dst []byte, src *chance) []byte {
	return strconv.AppendBool(dst, src.next()>>63 == 1)
}

func sequencePiece(dst []byte, src *chance) []byte { return strconv.AppendInt(dst, src.sequence, 10) }

func epochMillisPiece(dst []byte, src *chance) []byte {
	return strconv.AppendInt(dst, src.now().UnixMilli(), 10)
}

func epochMicrosPiece(dst []byte, src *chance) []byte {
	return strconv.AppendInt(dst, src.now().UnixMicro(), 10)
}

func nowPiece(dst []byte, src *chance) []byte {
	return src.now().AppendFormat(dst, "2006-01-02T15:04:05.000000Z")
}

const letters = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"

func alphaNumericPiece(args []string) (piece, error) { return pairsPiece(args, letters) }

func digitsPiece(args []string) (piece, error) { return pairsPiece(args, letters[:10]) }

func hexPiece(args []string) (piece, error) { return pairsPiece(args, "0123456789abcdef") }

// pairsPiece makes texts out of an alphabet two characters at a time: 32 random
// bits choose a pair from a table, which keeps the bias under one in 100,000
// and the speed above a gigabyte a second.
func pairsPiece(args []string, alphabet string) (piece, error) {
	length, err := strconv.Atoi(args[0])
	if err != nil || length < 0 || length > lengthMax {
		return nil, fmt.Errorf("length %q: must be from 0 to %d", args[0], lengthMax)
	}
	var pairs []uint16
	for _, a := range []byte(alphabet) {
		for _, b := range []byte(alphabet) {
			pairs = append(pairs, uint16(a)|uint16(b)<<8)
		}
	}
	count := uint64(len(pairs))
	return func(dst []byte, src *chance) []byte {
		from := len(dst)
		dst = slices.Grow(dst, length+4)[:from+length+4] // room for the last four, cut off below
		for to := dst[from:]; len(to) > 4; to = to[4:] {
			r := src.next()
			first := pairs[r>>32*count>>32]
			second := pairs[r&math.MaxUint32*count>>32]
			binary.LittleEndian.PutUint32(to, uint32(first)|uint32(second)<<16)
		}
		return dst[:from+length]
	}, nil
}

func uuidPiece(dst []byte, src *chance) []byte {
	var id [16]byte
	binary.BigEndian.PutUint64(id[:8], src.next())
	binary.BigEndian.PutUint64(id[8:], src.next())
	id[6] = id[6]&0x0f | 0x40 // version 4
	id[8] = id[8]&0x3f | 0x80 // the variant of RFC 9562
	dst = hex.AppendEncode(dst, id[:4])
	for from := 4; from < 10; from += 2 {
		dst = hex.AppendEncode(append(dst, '-'), id[from:from+2])
	}
	return hex.AppendEncode(append(dst, '-'), id[10:])
}

func choicePiece(args []string) (piece, error) {
	count := uint64(len(args))
	return func(dst []byte, src *chance) []byte { return append(dst, args[src.below(count)]...) }, nil
}

func wordPiece([]string) (piece, error) {
	words := strings.Fields(wordList)
	count := uint64(len(words))
	return func(dst []byte, src *chance) []byte { return append(dst, words[src.below(count)]...) }, nil
}

func sentencePiece(args []string) (piece, error) {
	count, err := strconv.Atoi(args[0])
	if err != nil || count < 1 || count > 100_000 {
		return nil, errors.New("words must be from 1 to 100000")
	}
	word, err := wordPiece(nil)
	return func(dst []byte, src *chance) []byte {
		from := len(dst)
		for i := range count {
			if i > 0 {
				dst = append(dst, ' ')
			}
			dst = word(dst, src)
		}
		dst[from] -= 'a' - 'A'
		return append(dst, '.')
	}, err
}

// wordList is what word and sentence draw from: each word begins with a small
// letter of ASCII.
const wordList = `
	able account across after again alert along amber answer apple arrow ask autumn away back balance bank basket beach
	bell below berry best bird blue board boat bold book bottle bread bridge bright broad brook brown build busy calm
	camera candle cargo carry castle cedar chain chalk change cheap cherry city clean clear client clock cloud coast cold
	colour copper copy corner cotton count country cover craft cream create crisp cross crown daily dance dark dawn deep
	delta desert desk door double draw dream drift drive early earth east easy echo edge eight empty engine enter equal
	evening event exact fabric fair fall farm fast feather field final find fire first fish flag flat floor flower fold
	follow forest form forty found free fresh friend frost fruit garden gate gentle giant give glass gold good grain grand
	grass gravel great green ground group grow guide half hand happy harbour hard harvest heavy hello hidden high hill
	hold home honey hope horse hour house idea index inner island join journey jump keep kind kitchen known ladder lake
	lamp large last late leaf lean learn ledge level light lime line linen list listen little local long lucky lunar made
	main make many maple march mark market meadow measure metal middle mild mile mill mind mint minute mirror model moment
	month moon morning mountain move music narrow near neat never new next night noble north note number oak ocean offer
	often olive open orange orbit order other outer over page paint paper parcel park part path peace pencil people perfect
	pine place plain plant plate plenty point pond port post power press prime print proof pure quick quiet rain range rapid
	reach read ready real record red remain report rest ribbon rice rich ridge ring ripe rise river road rock roof room
	root rose round route row sail salt sand save scale school sea seat second seed send seven shadow shape share sharp
	shell shine ship shore short side signal silk silver simple six sky slow small smooth snow soft soil solid song soon
	south space spark speed spring square stable stand star start station steel step still stone store story stream street
	strong summer sun supply sure swift table tall tea ten thread three tide time tiny today token top total touch tower
	town track trade trail train travel tree true trust turn twelve two under unit upper valley value velvet view village
	violet visit voice wait walk wall warm watch water wave week west wheat wheel white whole wide wild willow wind window
	winter wise wonder wood word work world yard year yellow young zero`
