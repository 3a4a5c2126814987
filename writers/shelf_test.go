package writers

import (
	"math/rand/v2"
	"testing"

	"github.com/apache/iceberg-go"
)

// A trim gives up what nobody has needed since the last one, and only that.
func TestShelfTrim(t *testing.T) {
	var s shelf[int]
	for i := range 10 {
		s.put(i)
	}
	s.trim() // nothing has lain here for a whole period yet
	if got := len(s.items); got != 10 {
		t.Fatalf("%d items after the first trim, want 10", got)
	}
	var taken []int
	for range 4 {
		item, ok := s.take()
		if !ok {
			t.Fatal("the shelf is empty")
		}
		taken = append(taken, item)
	}
	for _, item := range taken {
		s.put(item)
	}
	s.trim() // four were needed, six were not
	if got := len(s.items); got != 4 {
		t.Errorf("%d items after a period in which four were needed", got)
	}
	s.trim()
	if got := len(s.items); got != 0 {
		t.Errorf("%d items after an idle period", got)
	}
	if _, ok := s.take(); ok {
		t.Error("an empty shelf gave something")
	}
}

// A file's body is used again for one of about its size, never for a smaller
// one that would waste it, and not while somebody may still read it.
func TestBodiesAreReused(t *testing.T) {
	layout := jsonColumn(t, iceberg.PrimitiveTypes.Int64)
	batch := randomBatch(rand.New(rand.NewPCG(1, 2)), layout, 1000, 1, 0)
	body := func() *File {
		t.Helper()
		e, err := NewEncoder(layout, EncoderOptions{Codec: "none"})
		if err != nil {
			t.Fatal(err)
		}
		e.Append(batch, everyRow(batch))
		f, err := e.Finish()
		if err != nil {
			t.Fatal(err)
		}
		return f
	}
	bodies.trim()
	bodies.trim()
	first := body()
	at := &first.Body[0]
	second := body()
	if &second.Body[0] == at {
		t.Fatal("two files share a body")
	}
	first.Free()
	if first.Body != nil {
		t.Error("a freed file still has its body")
	}
	third := body()
	if &third.Body[0] != at {
		t.Error("the body was not used again")
	}
	if small := newBody(len(third.Body) / 100); cap(small) > len(third.Body)/2 {
		t.Error("a small file got a large body")
	}
}
