package catalog

import (
	"os"
	"strconv"
	"testing"
)

// BenchmarkFollow follows a table of 500 snapshots, each with 64 files in 64
// buckets, on SQLite and local disk: what it takes to load the table, to find what is new and
// list the files of the newest snapshot, and to list all files.
//
//	go test ./catalog -run '^$' -bench Follow -benchmem
//
// ROUTER_BENCH_SNAPSHOTS sets another number of snapshots.
func BenchmarkFollow(b *testing.B) {
	snapshots := 500
	if n, err := strconv.Atoi(os.Getenv("ROUTER_BENCH_SNAPSHOTS")); err == nil {
		snapshots = n
	}
	w := newWorld(b)
	c := w.open()
	tbl := w.table(c, TableOptions{})
	reader, v := w.follow(c)
	root, _ := v.Head()
	for i := range int64(snapshots) {
		mustAppend(b, tbl, next(b, tbl, i*64, 64, 64))
	}
	v = mustFollow(b, reader)
	head, _ := v.Head()
	run := func(name string, once func(b *testing.B)) {
		b.Run(name, func(b *testing.B) {
			before := cpu()
			for b.Loop() {
				once(b)
			}
			b.ReportMetric(ms(cpu()-before)/float64(b.N), "cpu-ms/op")
		})
	}
	run("load", func(b *testing.B) { mustFollow(b, reader) })
	added := func(b *testing.B, at Snapshot, want int) {
		line, err := v.After(at)
		if err != nil || len(line) != want {
			b.Fatal(len(line), err)
		}
		for _, s := range line {
			if list, err := v.Added(b.Context(), s.ID); err != nil || len(list) != 64 {
				b.Fatal(len(list), err)
			}
		}
	}
	before, _ := v.Snapshot(head.Parent)
	run("newest", func(b *testing.B) { added(b, before, 1) })
	run("idle", func(b *testing.B) { added(b, head, 0) })
	run("all", func(b *testing.B) { added(b, root, snapshots) })
	run("live", func(b *testing.B) {
		if list, err := v.Live(b.Context(), head.ID); err != nil || len(list) != 64*snapshots {
			b.Fatal(len(list), err)
		}
	})
}
