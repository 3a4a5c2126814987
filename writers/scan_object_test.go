package writers

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/zap"
)

func containsAll(s string, parts ...string) bool {
	for _, p := range parts {
		if !strings.Contains(s, p) {
			return false
		}
	}
	return true
}

// Objects read the same at any place, small and large, of stores in files and
// in memory.
func TestObject(t *testing.T) {
	stores := NewStores(zap.NewNop())
	defer stores.Close()
	r := rand.New(rand.NewPCG(1, 2))
	for _, root := range []string{"mem://bucket", "file://" + filepath.ToSlash(t.TempDir())} {
		st, err := stores.Open(t.Context(), root, nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, size := range []int{0, 1, 10_000, objectWholeBytesMax, objectWholeBytesMax + 1} {
			body := make([]byte, size)
			for i := range body {
				body[i] = byte(r.Uint32())
			}
			location, err := st.PutNew(t.Context(), func(int) string { return fmt.Sprintf("%s/%d.parquet", root, size) }, body)
			if err != nil {
				t.Fatal(err)
			}
			o := st.Object(t.Context(), location, int64(size))
			for range 50 {
				at, n := r.IntN(size+2), r.IntN(3000)
				got := make([]byte, n)
				k, err := o.ReadAt(got, int64(at))
				want := body[min(at, size):min(at+n, size)]
				if !bytes.Equal(got[:k], want) || (k < n) != errors.Is(err, io.EOF) {
					t.Fatalf("%s: %d bytes at %d: %d, %v", location, n, at, k, err)
				}
			}
			if slice := o.Slice(0, int64(size)); (slice != nil) != (size <= objectWholeBytesMax) || slice != nil && !bytes.Equal(slice, body) {
				t.Errorf("%s: slice of %d bytes", location, len(slice))
			}
		}
		for _, size := range []int64{10, objectWholeBytesMax + 1} {
			if _, err := st.Object(t.Context(), root+"/none", size).ReadAt(make([]byte, 4), 0); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("%s: no object: %v", root, err)
			}
		}
	}
}
