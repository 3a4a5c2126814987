package writers

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"golang.org/x/sync/errgroup"
)

// benchPuts stores cuts of 64 files.
func benchPuts(b *testing.B, st *Store, root string, body []byte) {
	b.SetBytes(64 * int64(len(body)))
	b.ReportAllocs()
	cut := 0
	for b.Loop() {
		var g errgroup.Group
		for i := range 64 {
			g.Go(func() error {
				location, err := st.PutNew(b.Context(), named(fmt.Sprintf("%s/%d/%d", root, cut, i)), body)
				if err != nil {
					return err
				}
				return st.Delete(b.Context(), location)
			})
		}
		if err := g.Wait(); err != nil {
			b.Fatal(err)
		}
		cut++
	}
}

// BenchmarkStorePut stores and deletes cuts of 64 files. The S3 server only
// reads, so that its figure is the client's cost and the loopback's.
func BenchmarkStorePut(b *testing.B) {
	for _, size := range []int{64 << 10, 4 << 20} {
		body := []byte(strings.Repeat("parquet ", size/8))
		b.Run(fmt.Sprintf("store=file/size=%d", size), func(b *testing.B) {
			folder := b.TempDir()
			st, _ := openStore(b, folder, nil)
			benchPuts(b, st, folder, body)
		})
		b.Run(fmt.Sprintf("store=s3/size=%d", size), func(b *testing.B) {
			_, properties := newFakeS3(b, func(_ int, _ http.ResponseWriter, r *http.Request) bool {
				io.Copy(io.Discard, r.Body)
				return true
			})
			st, _ := openStore(b, "s3://bucket", properties)
			benchPuts(b, st, "s3://bucket", body)
		})
	}
}
