package router

import (
	"math"
	"sync"
	"time"
)

// freshness estimates the quantiles of how long rows took, over the last
// minutes. Observations come in batches of equal ages; memory and time do not
// grow with the number of rows. It is safe for concurrent use.
//
// Ages are counted in classes that are 5 % apart, in slots of half a minute: an
// estimate is within 2.5 % of the exact quantile of what the slots hold.
type freshness struct {
	mu    sync.Mutex
	slots [freshnessSlots]freshnessSlot
}

const (
	freshnessSlots   = 10
	freshnessSlot0   = 30 * time.Second // of one slot: the window is 5 minutes
	freshnessFirst   = time.Millisecond // the first class ends here
	freshnessStep    = 1.05
	freshnessClasses = 400 // the last one begins at 3.4 days
)

type freshnessSlot struct {
	number int64 // of the slot since 1970; an old number means the slot is empty
	counts [freshnessClasses]int64
}

func newFreshness() *freshness { return &freshness{} }

// observe notes that n rows took d, just now.
func (f *freshness) observe(d time.Duration, n int64) {
	number := slotNumber(time.Now())
	f.mu.Lock()
	defer f.mu.Unlock()
	s := &f.slots[number%freshnessSlots]
	if s.number != number {
		*s = freshnessSlot{number: number}
	}
	s.counts[freshnessClass(d)] += n
}

// quantiles returns the estimates over the last minutes, or zeros.
func (f *freshness) quantiles() Freshness {
	now := slotNumber(time.Now())
	var counts [freshnessClasses]int64
	var total int64
	f.mu.Lock()
	for i := range f.slots {
		if age := now - f.slots[i].number; age < 0 || age >= freshnessSlots {
			continue
		}
		for class, n := range f.slots[i].counts {
			counts[class] += n
			total += n
		}
	}
	f.mu.Unlock()
	if total == 0 {
		return Freshness{}
	}
	at := func(q float64) time.Duration {
		rank := int64(math.Ceil(q * float64(total)))
		for class, n := range counts {
			if rank -= n; rank <= 0 {
				return freshnessAge(class)
			}
		}
		return freshnessAge(freshnessClasses - 1)
	}
	return Freshness{P50: at(0.50), P95: at(0.95), P99: at(0.99)}
}

func slotNumber(t time.Time) int64 { return t.UnixNano() / int64(freshnessSlot0) }

// freshnessClass returns the class of an age.
func freshnessClass(d time.Duration) int {
	if d <= freshnessFirst {
		return 0
	}
	class := math.Ceil(math.Log(float64(d)/float64(freshnessFirst)) / math.Log(freshnessStep))
	return min(int(class), freshnessClasses-1)
}

// freshnessAge returns the age in the middle of a class.
func freshnessAge(class int) time.Duration {
	if class == 0 {
		return freshnessFirst
	}
	return time.Duration(float64(freshnessFirst) * math.Pow(freshnessStep, float64(class)-0.5))
}
