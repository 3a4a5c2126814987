package writers

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

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

// distantReader is an object that answers late, and counts what it is asked.
type distantReader struct {
	*bytes.Reader
	reads, now, most atomic.Int64
	fail             int64 // the read that fails; 0: none
}

func (d *distantReader) Distant() bool { return true }

func (d *distantReader) ReadAt(to []byte, at int64) (int, error) {
	d.most.Store(max(d.most.Load(), d.now.Add(1)))
	defer d.now.Add(-1)
	if d.reads.Add(1) == d.fail {
		return 0, errAway
	}
	time.Sleep(time.Duration(rand.IntN(300)) * time.Microsecond)
	return d.Reader.ReadAt(to, at)
}

// A distant object gives the same rows; windows of all columns are fetched at
// once and ahead, an answer that is an error comes through, and no goroutine
// outlives Close, however early that is.
func TestScanDistant(t *testing.T) {
	layout := eventLayout()
	r := rand.New(rand.NewPCG(1, 2))
	e, err := NewEncoder(layout, EncoderOptions{Codec: "snappy", PageBytes: 4000})
	if err != nil {
		t.Fatal(err)
	}
	for range 40 {
		b := NewBatch(layout)
		fillEvents(r, b)
		e.Append(b, allRows(b.Rows))
	}
	file, err := e.Finish()
	if err != nil {
		t.Fatal(err)
	}
	s, err := NewScan(layout.Schema, ScanOptions{})
	if err != nil {
		t.Fatal(err)
	}
	input := func(fail int64) (*distantReader, ScanInput) {
		d := &distantReader{Reader: bytes.NewReader(file.Body), fail: fail}
		return d, ScanInput{Name: "x", Object: d, Size: int64(len(file.Body))}
	}
	want, err := scanAll(s, ScanInput{Name: "x", Object: bytes.NewReader(file.Body), Size: int64(len(file.Body))})
	if err != nil {
		t.Fatal(err)
	}
	before := runtime.NumGoroutine()
	d, in := input(0)
	got, err := scanAll(s, in)
	if err != nil || len(got) != len(want) {
		t.Fatalf("%d rows, want %d: %v", len(got), len(want), err)
	}
	for i := range want {
		if !bytes.Equal(got[i], want[i]) {
			t.Fatalf("row %d:\n%s\nwant\n%s", i, got[i], want[i])
		}
	}
	if d.most.Load() < 4 {
		t.Errorf("at most %d reads at once", d.most.Load())
	}
	for fail := int64(1); fail <= d.reads.Load(); fail += 3 {
		_, in := input(fail)
		if _, err := scanAll(s, in); !errors.Is(err, errAway) {
			t.Errorf("read %d fails: %v", fail, err)
		}
	}
	for batches := range 4 {
		_, in := input(0)
		f, err := s.Open(in)
		if err != nil {
			t.Fatal(err)
		}
		var rows Rows
		for range batches {
			if err := f.Next(&rows); err != nil {
				t.Fatal(err)
			}
		}
		if err := f.SeekRow(int64(batches) * 9000); err != nil {
			t.Fatal(err)
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
	}
	noMoreGoroutines(t, before)
}
