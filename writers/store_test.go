package writers

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"
)

// quickPace is the default pace, a hundred times as fast.
func quickPace() pace {
	p := defaultPace()
	p.waitFirst, p.waitMax, p.stall, p.unasked = p.waitFirst/100, p.waitMax/100, 5*time.Second, 30*time.Second
	for i := range p.hopeless {
		p.hopeless[i] /= 100
	}
	return p
}

// openStore opens a store that is closed with the test, and returns its log.
func openStore(t testing.TB, location string, properties map[string]string, options ...zap.Option) (*Store, *observer.ObservedLogs) {
	t.Helper()
	core, logs := observer.New(zapcore.DebugLevel)
	stores := NewStores(zap.New(core, options...))
	stores.pace = quickPace()
	t.Cleanup(func() {
		if err := stores.Close(); err != nil {
			t.Error(err)
		}
	})
	st, err := stores.Open(t.Context(), location, properties)
	if err != nil {
		t.Fatal(err)
	}
	return st, logs
}

// conform is what every kind of store must do. root is a location without a
// slash at its end, under which nothing is.
func conform(t *testing.T, st *Store, root string) {
	t.Run("put", func(t *testing.T) { conformPut(t, st, root+"/put") })
	t.Run("race", func(t *testing.T) { conformRace(t, st, root+"/race") })
	t.Run("io", func(t *testing.T) { conformIO(t, st, root+"/io") })
	t.Run("keys", func(t *testing.T) { conformKeys(t, st, root+"/keys") })
	t.Run("refuse", func(t *testing.T) { conformRefuse(t, st, root) })
}

// named names attempts of one object.
func named(root string) func(int) string {
	return func(attempt int) string { return fmt.Sprintf("%s/%d.parquet", root, attempt) }
}

func conformPut(t *testing.T, st *Store, root string) {
	ctx := t.Context()
	for _, size := range []int{0, 1, 100_000, 5 << 20} {
		body := randomRaw(rand.New(rand.NewPCG(uint64(size), 1)), size)
		where := fmt.Sprintf("%s/%d/deeper", root, size)
		location, err := st.PutNew(ctx, named(where), body)
		if err != nil {
			t.Fatal(err)
		}
		if location != where+"/0.parquet" {
			t.Errorf("location %s", location)
		}
		if got, err := st.ReadFile(location); err != nil || !bytes.Equal(got, body) {
			t.Errorf("read %d of %d bytes: %v", len(got), size, err)
		}
		for _, at := range []int{0, size / 3, size - 1} {
			part := make([]byte, max(0, min(1000, size-at)))
			if len(part) == 0 || at < 0 {
				continue
			}
			if err := st.getPart(ctx, location, int64(at), part); err != nil || !bytes.Equal(part, body[at:at+len(part)]) {
				t.Errorf("read %d bytes at %d of %d: %v", len(part), at, size, err)
			}
		}
		// The name is taken, so the next attempt's name counts, and what is there stays.
		again, err := st.PutNew(ctx, named(where), []byte("other"))
		if err != nil || again != where+"/1.parquet" {
			t.Errorf("put again: %s, %v", again, err)
		}
		if got, _ := st.ReadFile(location); !bytes.Equal(got, body) {
			t.Error("the first object was replaced")
		}
		for range 2 {
			if err := st.Delete(ctx, location); err != nil {
				t.Error(err)
			}
		}
		if _, err := st.ReadFile(location); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("read after delete: %v", err)
		}
	}
}

// conformRace: many create one name, one of them wins, and it is the winner's
// object that is there.
func conformRace(t *testing.T, st *Store, root string) {
	for round := range 5 {
		name := fmt.Sprintf("%s/%d.json", root, round)
		var won atomic.Int32
		var winner atomic.Pointer[[]byte]
		var all sync.WaitGroup
		for i := range 16 {
			all.Go(func() {
				body := bytes.Repeat([]byte{byte(i)}, 10_000+i)
				switch err := st.WriteFile(name, body); {
				case err == nil:
					won.Add(1)
					winner.Store(&body)
				case !errors.Is(err, fs.ErrExist):
					t.Error(err)
				}
			})
		}
		all.Wait()
		got, err := st.ReadFile(name)
		if err != nil || won.Load() != 1 || !bytes.Equal(got, *winner.Load()) {
			t.Fatalf("%d winners, %d bytes, %v", won.Load(), len(got), err)
		}
	}
}

func conformIO(t *testing.T, st *Store, root string) {
	name := root + "/m.avro"
	w, err := st.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(w, "hello "); err != nil {
		t.Fatal(err)
	}
	if _, err := st.Open(name); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("visible before Close: %v", err)
	}
	if _, err := w.ReadFrom(strings.NewReader("world")); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(w.Close(), w.Close()); err != nil {
		t.Fatal(err)
	}
	f, err := st.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil || info.Size() != 11 || info.IsDir() || info.Name() != "m.avro" {
		t.Errorf("stat %v, %v", info, err)
	}
	part := make([]byte, 5)
	if _, err := f.ReadAt(part, 6); err != nil || string(part) != "world" {
		t.Errorf("ReadAt %q, %v", part, err)
	}
	if _, err := f.Seek(-5, io.SeekEnd); err != nil {
		t.Error(err)
	}
	if rest, err := io.ReadAll(f); err != nil || string(rest) != "world" {
		t.Errorf("read %q, %v", rest, err)
	}
	second, err := st.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	if err := second.Close(); !errors.Is(err, fs.ErrExist) {
		t.Errorf("second creation: %v", err)
	}
	third, err := st.Create(root + "/broken.avro")
	if err != nil {
		t.Fatal(err)
	}
	broken := io.MultiReader(strings.NewReader("half"), failingReader{})
	if _, err := third.ReadFrom(broken); err == nil {
		t.Error("no error from a broken source")
	}
	if err := third.Close(); err == nil {
		t.Error("half of an object was stored")
	}
	if _, err := st.ReadFile(root + "/broken.avro"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("half of an object is there: %v", err)
	}
	for range 2 {
		if err := st.Remove(name); err != nil {
			t.Error(err)
		}
	}
}

type failingReader struct{}

func (failingReader) Read([]byte) (int, error) { return 0, errors.New("broken source") }

// conformKeys: what a name says is what the key is; nothing is decoded.
func conformKeys(t *testing.T, st *Store, root string) {
	names := []string{"a b", "a%20b", "a+b", "region=x%2Fy", "ü/日本", "q?x=1&y=2", "h#h", "c:d", "e'f\"g", "~.-_!*()", "[x]{y}^`|\\<>@$,;"}
	for _, name := range names {
		if err := st.WriteFile(root+"/"+name, []byte(name)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, name := range names {
		if got, err := st.ReadFile(root + "/" + name); err != nil || string(got) != name {
			t.Errorf("%s: read %q, %v", name, got, err)
		}
	}
}

func conformRefuse(t *testing.T, st *Store, root string) {
	for _, name := range []string{"s3://elsewhere-bucket/k", "gs://elsewhere/k", "relative/path", "ftp://h/p", root + "/folder/", ""} {
		if _, err := st.ReadFile(name); err == nil || errors.Is(err, fs.ErrNotExist) {
			t.Errorf("read %q: %v", name, err)
		}
		if _, err := st.PutNew(t.Context(), func(int) string { return name }, nil); err == nil {
			t.Errorf("put %q was accepted", name)
		}
		if _, err := st.Create(name); err == nil {
			t.Errorf("create %q was accepted", name)
		}
	}
	ended, end := context.WithCancel(t.Context())
	end()
	if _, err := st.PutNew(ended, named(root+"/ended"), []byte("x")); !errors.Is(err, context.Canceled) {
		t.Errorf("put with an ended context: %v", err)
	}
}

func TestStoreMemory(t *testing.T) {
	st, _ := openStore(t, "mem://m/x", nil)
	conform(t, st, "mem://m/root")
}

func TestStoreFile(t *testing.T) {
	for _, scheme := range []string{"", "file://", "file:"} {
		t.Run("scheme="+scheme, func(t *testing.T) {
			folder := t.TempDir()
			st, _ := openStore(t, scheme+folder, nil)
			conform(t, st, scheme+folder)
		})
	}
}
