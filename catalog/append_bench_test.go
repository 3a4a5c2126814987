package catalog

import (
	"fmt"
	"maps"
	"os"
	"runtime"
	"slices"
	"strconv"
	"syscall"
	"testing"
	"time"
)

// BenchmarkCommits makes 2,000 commits of 64 files each to one table on SQLite
// and local disk, and reports what a commit costs in the first and in the last
// hundred: the cost must not grow with the age of the table.
//
//	go test ./catalog -run '^$' -bench Commits -benchtime 1x -v
//
// ROUTER_BENCH_COMMITS sets another number of commits.
func BenchmarkCommits(b *testing.B) {
	commits := 2000
	if n, err := strconv.Atoi(os.Getenv("ROUTER_BENCH_COMMITS")); err == nil {
		commits = n
	}
	for range b.N {
		w := newWorld(b)
		c := w.open()
		tbl := w.table(c, TableOptions{ExpireKeep: 20})
		var wall []time.Duration
		from := int64(0)
		for i := range commits / 100 {
			took := make([]time.Duration, 100)
			before := cpu()
			var own time.Duration // spent on making the input, not on commits
			for j := range took {
				began, cpuBegan := time.Now(), cpu()
				a := next(b, tbl, from, 64, 64)
				if from > 0 {
					a.Counts = Counts{"orders": {0: {Rows: 64}}}
				}
				own += cpu() - cpuBegan
				began = time.Now()
				mustAppend(b, tbl, a)
				took[j] = time.Since(began)
				from += 64
			}
			spent := (cpu() - before - own) / 100
			slices.Sort(took)
			wall = append(wall, took[50])
			meta := metaOf(b, c, "shop.orders")
			list, err := tbl.manifestsOf(b.Context(), tbl.view.Load(), meta.CurrentSnapshot())
			if err != nil {
				b.Fatal(err)
			}
			var m runtime.MemStats
			runtime.GC()
			runtime.ReadMemStats(&m)
			b.Logf("commits %4d-%4d: p50 %5.1f ms, p99 %5.1f ms, max %5.1f ms, CPU %5.1f ms; %d manifests, %d snapshots, heap %d MB", i*100+1, i*100+100,
				ms(took[50]), ms(took[98]), ms(took[99]), ms(spent), len(list), len(meta.Snapshots()), m.HeapAlloc>>20)
			if i == 0 {
				b.ReportMetric(ms(spent), "cpu-ms/commit:first")
			}
			b.ReportMetric(ms(spent), "cpu-ms/commit:last")
		}
		b.ReportMetric(ms(wall[0]), "p50-ms:first")
		b.ReportMetric(ms(wall[len(wall)-1]), "p50-ms:last")
		if got := contents(b, c, "shop.orders"); len(got) != commits*64 || slices.Max(slices.Collect(maps.Values(got))) != 1 {
			b.Fatalf("%d files are in the table, want %d, each once", len(got), commits*64)
		}
		b.Logf("objects in the metadata folder: %d", len(dirNames(b, w.dir+"/wh/shop.db/orders/metadata")))
	}
}

func ms(d time.Duration) float64 { return float64(d) / 1e6 }

// cpu is the processor time of this process so far.
func cpu() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic(fmt.Sprint("getrusage: ", err))
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
