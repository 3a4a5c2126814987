package writers

import (
	"testing"
	"time"
)

// Every timestamp that a batch can say is found again in what the client makes
// of it, years that wrap around in its nanoseconds included.
func TestTimestampMillis(t *testing.T) {
	for _, ms := range []int64{0, 1, -1, 1_700_000_000_123, 10_413_792_000_000, 253_402_300_799_999, -11_676_096_000_000, -62_135_596_800_000, -62_135_596_800_001, 1 << 52, -(1 << 52)} {
		if got := TimestampMillis(time.Unix(0, ms*1e6)); got != ms {
			t.Errorf("%d ms came back as %d", ms, got)
		}
	}
	if got := TimestampMillis(time.Unix(1_700_000_000, 123_456_789)); got != 1_700_000_000_123 {
		t.Errorf("a time of another origin is %d ms", got)
	}
}
