package writers

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/apache/iceberg-go"
	pq "github.com/parquet-go/parquet-go"
)

// damageFiles are small files with everything in them, of two writers.
func damageFiles(t testing.TB) (*Layout, [][]byte) {
	t.Helper()
	var g []iceberg.NestedField
	for i, p := range primitives {
		g = append(g, iceberg.NestedField{ID: 10 + i, Name: "p" + string(rune('a'+i)), Type: p, Required: i%2 == 0})
	}
	g = append(g,
		iceberg.NestedField{ID: 40, Name: "l", Type: &iceberg.ListType{ElementID: 41, Element: &iceberg.StructType{FieldList: []iceberg.NestedField{
			{ID: 42, Name: "a", Type: iceberg.PrimitiveTypes.String}, {ID: 43, Name: "b", Type: iceberg.PrimitiveTypes.Int64}}}}},
		iceberg.NestedField{ID: 44, Name: "m", Type: &iceberg.MapType{KeyID: 45, KeyType: iceberg.PrimitiveTypes.String, ValueID: 46, ValueType: iceberg.PrimitiveTypes.Float64}})
	layout, err := NewLayout(iceberg.NewSchema(0, g...))
	if err != nil {
		t.Fatal(err)
	}
	r := rand.New(rand.NewPCG(9, 9))
	b := randomBatch(r, layout, 60, 0.8, 20)
	tame(b)
	var files [][]byte
	for _, codec := range []string{"none", "zstd", "snappy"} {
		e, err := NewEncoder(layout, EncoderOptions{Codec: codec, PageBytes: 256})
		if err != nil {
			t.Fatal(err)
		}
		e.Append(b, allRows(b.Rows))
		f, err := e.Finish()
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, f.Body)
	}
	for version := 1; version <= 2; version++ {
		for seed := range uint64(4) {
			r := rand.New(rand.NewPCG(seed, 5))
			root := pq.Group{}
			for _, n := range layout.Root.Children {
				root[n.Name] = parquetGoNode(r, layout, n)
			}
			var out bytes.Buffer
			schema := pq.NewSchema("table", root)
			w := pq.NewGenericWriter[any](&out, schema, pq.DataPageVersion(version), pq.PageBufferSize(256))
			for i := range layout.Leaves {
				place, _ := schema.Lookup(layout.Leaves[i].Path...)
				l := layout.Leaves[i]
				l.Index = place.ColumnIndex
				if _, err := w.ColumnWriters()[place.ColumnIndex].WriteRowValues(parquetGoValues(&l, &b.Columns[i])); err != nil {
					t.Fatal(err)
				}
			}
			if err := w.Close(); err != nil {
				t.Fatal(err)
			}
			files = append(files, out.Bytes())
		}
	}
	return layout, files
}

// scanDamaged scans bytes that may be anything. It may fail, and must say where.
func scanDamaged(t testing.TB, s *Scan, body []byte) error {
	_, err := scanAll(s, ScanInput{Name: "s3://b/damaged.parquet", Object: bytes.NewReader(body), Size: int64(len(body))})
	if err != nil && !strings.Contains(err.Error(), "s3://b/damaged.parquet") {
		t.Errorf("the error does not name the file: %v", err)
	}
	return err
}

// A file that is cut anywhere is refused, and one whose pages have a wrong byte
// too where they have checksums.
func TestScanDamaged(t *testing.T) {
	layout, files := damageFiles(t)
	s, err := NewScan(layout.Schema, ScanOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for i, body := range files {
		if err := scanDamaged(t, s, body); err != nil {
			t.Fatalf("file %d: %v", i, err)
		}
		for at := 0; at < len(body); at += 1 + len(body)/300 {
			if scanDamaged(t, s, body[:at]) == nil {
				t.Errorf("file %d cut at %d of %d is read", i, at, len(body))
			}
		}
	}
	r := rand.New(rand.NewPCG(1, 2))
	for range 3000 {
		body := bytes.Clone(files[r.IntN(len(files))])
		for range 1 + r.IntN(3) {
			body[r.IntN(len(body))] ^= byte(1 << r.IntN(8))
		}
		if err := scanDamaged(t, s, body); err != nil && strings.Contains(err.Error(), "nobody foresaw") {
			t.Errorf("a panic: %v", err)
		}
	}
}

// A page whose bytes changed is found by its checksum.
func TestScanChecksum(t *testing.T) {
	schema := iceberg.NewSchema(0, iceberg.NestedField{ID: 1, Name: "v", Type: iceberg.PrimitiveTypes.String})
	in := encodeJSON(t, schema, `{"v":"abcdefghijklmnop"}`)
	body := make([]byte, in.Size)
	if _, err := in.Object.ReadAt(body, 0); err != nil {
		t.Fatal(err)
	}
	at := bytes.Index(body, []byte("abcdefgh"))
	body[at] = 'z'
	in.Object = bytes.NewReader(body)
	wantRefusal(t, schema, ScanOptions{}, in, `column "v"`, "checksum")
}

// FuzzScan reads any bytes as a file.
func FuzzScan(f *testing.F) {
	layout, files := damageFiles(f)
	s, err := NewScan(layout.Schema, ScanOptions{})
	if err != nil {
		f.Fatal(err)
	}
	for _, body := range files {
		f.Add(body)
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		if err := scanDamaged(t, s, body); err != nil && strings.Contains(err.Error(), "nobody foresaw") {
			t.Error(err)
		}
	})
}

// awayReader fails at a place, as a store may.
type awayReader struct {
	*bytes.Reader
	at int64
}

var errAway = errors.New("the store is away")

func (r awayReader) ReadAt(to []byte, at int64) (int, error) {
	if at <= r.at && r.at < at+int64(len(to)) {
		return 0, errAway
	}
	return r.Reader.ReadAt(to, at)
}

// What the store answers comes through, and nothing stays behind when a file is
// closed at any point.
func TestScanStoreErrorAndClose(t *testing.T) {
	layout, files := damageFiles(t)
	s, err := NewScan(layout.Schema, ScanOptions{})
	if err != nil {
		t.Fatal(err)
	}
	before := runtime.NumGoroutine()
	for _, body := range files[:2] {
		for at := int64(4); at < int64(len(body)); at += 97 {
			in := ScanInput{Name: "x", Object: awayReader{bytes.NewReader(body), at}, Size: int64(len(body))}
			if _, err := scanAll(s, in); !errors.Is(err, errAway) {
				t.Fatalf("byte %d: %v", at, err)
			}
		}
		f, err := s.Open(ScanInput{Name: "x", Object: bytes.NewReader(body), Size: int64(len(body))})
		if err != nil {
			t.Fatal(err)
		}
		var rows Rows
		if err := f.Next(&rows); err != nil || rows.Len() == 0 {
			t.Fatal(err, rows.Len())
		}
		if err := errors.Join(f.Close(), f.Close()); err != nil {
			t.Fatal(err)
		}
	}
	noMoreGoroutines(t, before)
}

// noMoreGoroutines waits until there are no more goroutines than before, for
// one that is joined may take a moment to be gone.
func noMoreGoroutines(t testing.TB, before int) {
	t.Helper()
	for range 1000 {
		if runtime.NumGoroutine() <= before {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Errorf("%d goroutines, %d before", runtime.NumGoroutine(), before)
}
