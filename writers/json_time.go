package writers

// Dates and times are counted from 1970 on the proleptic Gregorian calendar,
// as Iceberg and Parquet do.
const (
	microsPerSecond = 1_000_000
	microsPerDay    = 86_400 * microsPerSecond

	daysMin   = -719_162                     // 0001-01-01
	daysMax   = 2_932_896                    // 9999-12-31
	microsMin = daysMin * microsPerDay       // 0001-01-01T00:00:00
	microsMax = (daysMax+1)*microsPerDay - 1 // 9999-12-31T23:59:59.999999
)

// refusal says why a text is no date or time. Without a detail it has another
// form; the zero refusal means that nothing is wrong.
type refusal struct {
	reason Reason
	detail string
}

func malformed() refusal { return refusal{reason: ReasonType} }

// parseDate reads YYYY-MM-DD and returns days.
func parseDate(s []byte) (int64, refusal) {
	if len(s) != 10 {
		return 0, malformed()
	}
	return date(s)
}

// parseClock reads HH:MM[:SS[.f]] and returns microseconds.
func parseClock(s []byte) (int64, refusal) {
	v, n, wrong := clock(s)
	if wrong != (refusal{}) {
		return 0, wrong
	}
	if n < len(s) {
		if _, n, wrong = zone(s[n:]); n > 0 && wrong == (refusal{}) {
			return 0, refusal{ReasonType, "has a zone; the column's times have none"}
		}
		return 0, malformed()
	}
	return v, refusal{}
}

// parseTimestamp reads a date and a time with T or a space between them, and a
// zone, which a timestamptz must and a timestamp may have. It returns
// microseconds: of UTC for timestamptz, of the wall clock for timestamp.
//
// Source: ISO 8601 as RFC 3339 profiles it, and with seconds left out, as
// java.time does when they are zero.
func parseTimestamp(s []byte, zoned bool) (int64, refusal) {
	if len(s) < len("2006-01-02T15:04") || s[10] != 'T' && s[10] != ' ' && s[10] != 't' {
		return 0, malformed()
	}
	days, wrong := date(s)
	if wrong != (refusal{}) {
		return 0, wrong
	}
	micros, n, wrong := clock(s[11:])
	if wrong != (refusal{}) {
		return 0, wrong
	}
	offset := int64(0)
	if rest := s[11+n:]; len(rest) > 0 {
		if offset, n, wrong = zone(rest); wrong != (refusal{}) {
			return 0, wrong
		}
		if n != len(rest) {
			return 0, malformed()
		}
		if offset != 0 && !zoned {
			return 0, refusal{ReasonType, "has an offset from UTC, but the column has no zone: give the wall time without an offset, or make the column timestamptz"}
		}
	} else if zoned {
		return 0, refusal{ReasonType, "has no zone; the column needs one, as Z or +01:00"}
	}
	v := days*microsPerDay + micros - offset
	if v < microsMin || v > microsMax {
		return 0, refusal{ReasonRange, "is outside of the years 0001 to 9999 in UTC"}
	}
	return v, refusal{}
}

// date reads the ten bytes of YYYY-MM-DD that s begins with.
func date(s []byte) (int64, refusal) {
	_ = s[9]
	if s[4] != '-' || s[7] != '-' {
		return 0, malformed()
	}
	century, ok0 := two(s[0:2])
	year, ok1 := two(s[2:4])
	month, ok2 := two(s[5:7])
	day, ok3 := two(s[8:10])
	if !ok0 || !ok1 || !ok2 || !ok3 {
		return 0, malformed()
	}
	year += 100 * century
	switch {
	case year == 0:
		return 0, refusal{ReasonRange, "is in the year 0; the first is 0001"}
	case month < 1 || month > 12 || day < 1 || day > daysOf(year, month):
		return 0, refusal{ReasonRange, "is not in the calendar"}
	}
	// Years begin in March, so that a leap day is the last of its year.
	if month > 2 {
		month -= 3
	} else {
		month += 9
		year--
	}
	yearDay := (153*month+2)/5 + day - 1
	return 365*year + year/4 - year/100 + year/400 + yearDay - 719_468, refusal{}
}

// daysOf returns how many days a month has.
func daysOf(year, month int64) int64 {
	switch month {
	case 4, 6, 9, 11:
		return 30
	case 2:
		if year%4 == 0 && (year%100 != 0 || year%400 == 0) {
			return 29
		}
		return 28
	}
	return 31
}

// clock reads the HH:MM[:SS[.f]] that s begins with and returns microseconds
// and its length.
func clock(s []byte) (int64, int, refusal) {
	if len(s) < 5 || s[2] != ':' {
		return 0, 0, malformed()
	}
	hour, ok0 := two(s[0:2])
	minute, ok1 := two(s[3:5])
	if !ok0 || !ok1 {
		return 0, 0, malformed()
	}
	n, second := 5, int64(0)
	if len(s) > 5 && s[5] == ':' {
		ok := len(s) >= 8
		if ok {
			second, ok = two(s[6:8])
		}
		if !ok {
			return 0, 0, malformed()
		}
		n = 8
	}
	switch {
	case second == 60:
		return 0, 0, refusal{ReasonRange, "is a leap second, which columns can't hold"}
	case hour > 23 || minute > 59 || second > 59:
		return 0, 0, refusal{ReasonRange, "is not on the clock"}
	}
	micros := ((hour*60+minute)*60 + second) * microsPerSecond
	if n < 8 || n == len(s) || s[n] != '.' {
		return micros, n, refusal{}
	}
	n++
	first := n
	for unit := int64(microsPerSecond / 10); n < len(s) && s[n]-'0' <= 9; n++ {
		if unit == 0 && s[n] != '0' {
			return 0, 0, refusal{ReasonRange, "is finer than a microsecond"}
		}
		micros += unit * int64(s[n]-'0')
		unit /= 10
	}
	if n == first {
		return 0, 0, malformed()
	}
	return micros, n, refusal{}
}

// zone reads the Z, ±HH:MM, ±HHMM or ±HH that s begins with and returns
// microseconds and its length.
func zone(s []byte) (int64, int, refusal) {
	if s[0] == 'Z' || s[0] == 'z' {
		return 0, 1, refusal{}
	}
	if s[0] != '+' && s[0] != '-' || len(s) < 3 {
		return 0, 0, malformed()
	}
	hour, ok := two(s[1:3])
	if !ok {
		return 0, 0, malformed()
	}
	n, minute := 3, int64(0)
	if len(s) > 3 {
		if s[3] == ':' {
			n++
		}
		if len(s) < n+2 {
			return 0, 0, malformed()
		}
		if minute, ok = two(s[n : n+2]); !ok {
			return 0, 0, malformed()
		}
		n += 2
	}
	if hour > 23 || minute > 59 {
		return 0, 0, refusal{ReasonRange, "has an offset that no place has"}
	}
	offset := (hour*60 + minute) * 60 * microsPerSecond
	if s[0] == '-' {
		offset = -offset
	}
	return offset, n, refusal{}
}

// two reads two digits.
func two(s []byte) (int64, bool) {
	tens, ones := s[0]-'0', s[1]-'0'
	return int64(tens)*10 + int64(ones), tens <= 9 && ones <= 9
}
