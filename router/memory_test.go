package router

import "testing"

// Whatever memory_max is, the program and the heap together are at most that,
// unless it is too little for both; and the parts fit into the heap, with the
// fetch that is read while others wait and with room for garbage.
func TestBudget(t *testing.T) {
	for max := int64(memoryMaxMin); max <= 64<<30; max += max / 7 {
		b := budgetOf(max)
		switch {
		case max >= memoryTightBytes && b.heap+programBytes > max:
			t.Errorf("memory_max %d MiB: heap of %d MiB leaves no room for the program", max>>20, b.heap>>20)
		case max < memoryTightBytes && b.heap > heapBytesMin:
			t.Errorf("memory_max %d MiB: heap of %d MiB, more than is needed", max>>20, b.heap>>20)
		}
		for n := range 4 {
			one := b.of(n + 1)
			if held := int64(n+1) * (one.rows + 2*one.fetch + one.round); held > b.heap*3/4 {
				t.Errorf("memory_max %d MiB, %d ingests: their parts are %d of %d MiB", max>>20, n+1, held>>20, b.heap>>20)
			}
		}
	}
}
