package router

import (
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/apache/iceberg-go"
	icebergio "github.com/apache/iceberg-go/io"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"go.uber.org/zap"

	"icerouter/catalog"
	"icerouter/writers"
)

// bucket is an S3 server of one bucket. Its gate may answer in its place.
type bucket struct {
	objects sync.Map
	gate    atomic.Pointer[func(http.ResponseWriter, *http.Request) bool]
}

func (b *bucket) through(gate func(http.ResponseWriter, *http.Request) bool) { b.gate.Store(&gate) }

func (b *bucket) ServeHTTP(rw http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	if gate := b.gate.Load(); gate != nil && (*gate)(rw, r) {
		return
	}
	there, ok := b.objects.Load(r.URL.Path)
	switch {
	case r.Method == http.MethodPut:
		b.objects.Store(r.URL.Path, body)
	case r.Method == http.MethodDelete:
		b.objects.Delete(r.URL.Path)
		rw.WriteHeader(http.StatusNoContent)
	case !ok:
		rw.WriteHeader(http.StatusNotFound)
	default:
		http.ServeContent(rw, r, "", time.Time{}, strings.NewReader(string(there.([]byte))))
	}
}

// inBucket puts the stage's warehouse into a bucket.
func (w *stage) inBucket() *bucket {
	w.t.Helper()
	b := &bucket{}
	server := httptest.NewServer(b)
	w.t.Cleanup(server.Close)
	w.cfg.Catalog.Warehouse = "s3://lake/warehouse"
	w.cfg.Catalog.Properties = map[string]string{"s3.endpoint": server.URL, "s3.region": "us-east-1", "s3.access-key-id": "id", "s3.secret-access-key": "secret"}
	return b
}

// data names the data files in the bucket.
func (b *bucket) data() (names []string) {
	b.objects.Range(func(name, _ any) bool {
		if strings.Contains(name.(string), "/data/") {
			names = append(names, name.(string))
		}
		return true
	})
	return names
}

// B005, B010, B057, B126: files are uploaded, and the instance is killed before
// the first commit ever. The next one reads the records again, into files of
// other names; the first ones stay, and nothing names them.
func TestKilledBeforeFirstCommit(t *testing.T) {
	w := newStage(t, map[string]int32{"a": 1})
	b := w.inBucket()
	w.ingest("t", func(c *IngestConfig) { c.Trigger, c.TargetFileSize, c.Create.Partition = time.Hour, 64<<10, nil }, "a")
	chance := rand.New(rand.NewPCG(5, 10))
	for range 100 {
		text := make([]byte, 4000)
		for i := range text {
			text[i] = byte('a' + chance.IntN(26))
		}
		w.send(&kgo.Record{Topic: "a", Value: fmt.Appendf(nil, `{"id":1,"text":"%s"}`, text)})
	}
	first := w.daemon()
	for len(b.data()) == 0 {
		select {
		case err := <-first.done:
			t.Fatal(err)
		case <-time.After(10 * time.Millisecond):
		}
	}
	first.kill()
	<-first.done
	orphans := b.data()
	if l, _ := w.ledgerOf("t"); l.Topics["a"].Next[0] != 0 {
		t.Fatalf("the ledger is %+v", l)
	}
	w.produce("a", 1, 20) // the next cut is another one
	if err := w.once(); err != nil {
		t.Fatal(err)
	}
	w.proven(AuditOptions{}, "0..119  120 rows", "proven by rows and footers")
	kept := b.data()
	for _, name := range orphans {
		if !slices.Contains(kept, name) {
			t.Errorf("%s is gone", name)
		}
	}
}

// B018, B049: the store refuses one upload. Nothing is acknowledged before it
// is there after all, and the rows are in the table once.
func TestUploadRefusedOnce(t *testing.T) {
	for _, code := range []int{http.StatusForbidden, http.StatusInternalServerError} {
		w := newStage(t, map[string]int32{"a": 1})
		b := w.inBucket()
		w.ingest("t", nil, "a")
		var refused atomic.Bool
		b.through(func(rw http.ResponseWriter, r *http.Request) bool {
			if r.Method != http.MethodPut || !strings.HasPrefix(path.Base(r.URL.Path), "router-t-") || refused.Swap(true) {
				return false
			}
			if l, _ := w.ledgerOf("t"); l.Topics["a"].Next[0] != 0 {
				t.Errorf("the ledger is %+v while the upload fails", l)
			}
			rw.WriteHeader(code)
			return true
		})
		w.produce("a", 1, 50)
		if err := w.once(); err != nil {
			t.Fatal(err)
		}
		if !refused.Load() {
			t.Error("nothing was refused")
		}
		w.proven(AuditOptions{}, "0..49  50 rows", "proven by rows and footers")
	}
}

// ledgerOf reads the ledger of an ingest through the catalog.
func (w *stage) ledgerOf(name string) (catalog.Ledger, *catalog.Table) {
	w.t.Helper()
	stores := writers.NewStores(zap.NewNop())
	w.t.Cleanup(func() { _ = stores.Close() })
	c, err := catalog.Open(w.t.Context(), catalog.Config(w.cfg.Catalog), storeOpener(stores), zap.NewNop())
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { _ = c.Close() })
	t, err := c.Look(w.t.Context(), "ns."+name, catalog.TableOptions{Ingest: name})
	if err != nil {
		return catalog.Ledger{}, nil
	}
	l, err := t.Ledger(w.t.Context())
	if err != nil {
		w.t.Fatal(err)
	}
	return l, t
}

// B122: a commit that takes longer than the group's session. Heartbeats go on
// beside it: nobody is put out, nothing is read twice.
func TestCommitLongerThanSession(t *testing.T) {
	w := newStage(t, map[string]int32{"a": 1})
	b := w.inBucket()
	w.ingest("t", nil, "a")
	d := w.daemon()
	w.produce("a", 1, 10)
	w.awaitLedger(d, "t", 10)
	var slow atomic.Bool
	b.through(func(_ http.ResponseWriter, r *http.Request) bool {
		if r.Method == http.MethodPut && strings.Contains(r.URL.Path, "/metadata/") && !slow.Swap(true) {
			time.Sleep(2 * w.cfg.Kafka.SessionTimeout)
		}
		return false
	})
	w.produce("a", 1, 10)
	w.awaitLedger(d, "t", 20)
	s := d.router.Status().Ingests[0]
	if !slow.Load() || s.Restarts != 0 || s.Records != 20 {
		t.Errorf("slow %t, %d restarts, %d records taken in; want none and 20", slow.Load(), s.Restarts, s.Records)
	}
	d.stop()
	if err := <-d.done; err != nil {
		t.Error(err)
	}
	w.proven(AuditOptions{}, "20 rows")
}

// awaitLedger waits until an ingest's ledger has passed n records.
func (w *stage) awaitLedger(d *daemon, name string, n int64) {
	w.t.Helper()
	deadline := time.After(2 * time.Minute)
	for {
		l, _ := w.ledgerOf(name)
		var passed int64
		for _, topic := range l.Topics {
			for _, next := range topic.Next {
				passed += next
			}
		}
		if passed >= n {
			return
		}
		select {
		case <-d.commits:
		case <-time.After(50 * time.Millisecond):
		case err := <-d.done:
			w.t.Fatal(err)
		case <-deadline:
			w.t.Fatalf("%s: %d of %d records after 2 min", name, passed, n)
		}
	}
}

// B047, B153: the uploads of one table hang. The other tables keep their
// interval, and the hanging table's ledger stays until its files are there.
func TestOthersGoOn(t *testing.T) {
	w := newStage(t, map[string]int32{"a": 1, "b": 1})
	b := w.inBucket()
	w.ingest("t", nil, "a")
	w.ingest("u", nil, "b")
	release := make(chan struct{})
	b.through(func(_ http.ResponseWriter, r *http.Request) bool {
		if r.Method == http.MethodPut && strings.HasPrefix(path.Base(r.URL.Path), "router-u-") {
			select {
			case <-release:
			case <-r.Context().Done():
			}
		}
		return false
	})
	w.produce("b", 1, 10)
	d := w.daemon()
	for i := range 5 {
		w.produce("a", 1, 10)
		w.awaitLedger(d, "t", int64(i+1)*10)
	}
	if l, _ := w.ledgerOf("u"); l.Topics["b"].Next[0] != 0 {
		t.Errorf("the ledger is at %d, and its rows in no file", l.Topics["b"].Next[0])
	}
	close(release)
	w.awaitLedger(d, "u", 10)
	d.stop()
	if err := <-d.done; err != nil {
		t.Error(err)
	}
	w.proven(AuditOptions{}, "t → ns.t", "50 rows", "u → ns.u", "10 rows")
}

// B140: the smallest limits there are, and every record gets through.
func TestSmallestLimits(t *testing.T) {
	w := newStage(t, map[string]int32{"a": 1})
	w.ingest("t", func(c *IngestConfig) {
		c.CutsInFlightMax, c.TriggerRows, c.OpenFilesMax, c.TargetFileSize = 1, 1, 1, 64<<10
	}, "a")
	w.produce("a", 1, 3)
	if err := w.once(); err != nil {
		t.Fatal(err)
	}
	w.audit("t", "a")
}

// B156: far more partition values than files may be open.
func TestManyPartitionValues(t *testing.T) {
	w := newStage(t, map[string]int32{"a": 1})
	w.ingest("t", func(c *IngestConfig) { c.OpenFilesMax, c.Create.Partition = 16, []string{"id"} }, "a")
	w.produce("a", 1, 400)
	w.produce("a", 1, 400)
	if err := w.once(); err != nil {
		t.Fatal(err)
	}
	w.audit("t", "a")
}

// B162, B173: a thousand Kafka partitions with a record or two each. Files are
// one a bucket a cut, whatever the number of partitions.
func TestManyKafkaPartitions(t *testing.T) {
	const partitions = 1000
	w := newStage(t, map[string]int32{"a": partitions})
	w.ingest("t", func(c *IngestConfig) { c.Trigger = time.Hour }, "a")
	w.produce("a", partitions, 2)
	if err := w.once(); err != nil {
		t.Fatal(err)
	}
	w.audit("t", "a")
	files, cuts := len(w.tasks(w.load("t"))), map[string]bool{}
	for _, s := range w.load("t").Metadata().Snapshots() {
		if s.Summary.Properties["added-data-files"] != "" {
			cuts[s.ManifestList] = true
		}
	}
	if files > 8*len(cuts) || len(cuts) > 10 {
		t.Errorf("%d files in %d commits; want at most one for each of 8 buckets a commit", files, len(cuts))
	}
}

// B169, B102: rows that alternate between two partitions are two files.
func TestAlternatingHours(t *testing.T) {
	w := newStage(t, map[string]int32{"a": 1})
	w.ingest("t", func(c *IngestConfig) {
		c.Trigger = time.Hour
		c.Create.Schema = append(c.Create.Schema, ColumnConfig{Name: "at", Type: "timestamptz"})
		c.Create.Partition = []string{"hour(at)"}
	}, "a")
	var records []*kgo.Record
	for i := range 1000 {
		records = append(records, &kgo.Record{Topic: "a", Value: fmt.Appendf(nil, `{"id":%d,"at":"2026-03-01T%02d:59:59Z"}`, i, 10+i%2)})
	}
	w.send(records...)
	if err := w.once(); err != nil {
		t.Fatal(err)
	}
	if n := len(w.tasks(w.load("t"))); n != 2 {
		t.Errorf("%d files, want 2", n)
	}
	w.proven(AuditOptions{}, "1000 rows")
}

// B086, B192, B199: what stands in a partition value is in the tuple as it is,
// and never in a name: every file lies in the table's folder under our own.
func TestPartitionValuesStayOutOfNames(t *testing.T) {
	w := newStage(t, map[string]int32{"a": 1})
	w.ingest("t", func(c *IngestConfig) { c.Create.Partition = []string{"text"} }, "a")
	values := []string{"11/12/13", "a=b", "x%2Fy", "", " ", "../../x", "/abs", "null\x00byte", "dev/app1", strings.Repeat("long", 500), "?q#f"}
	for i, v := range values {
		w.send(&kgo.Record{Topic: "a", Value: fmt.Appendf(nil, `{"id":%d,"text":%s}`, i, quoted(v))})
	}
	if err := w.once(); err != nil {
		t.Fatal(err)
	}
	tbl := w.load("t")
	got := map[string]bool{}
	for _, task := range w.tasks(tbl) {
		name, ok := strings.CutPrefix(task.File.FilePath(), strings.TrimRight(tbl.Location(), "/")+"/data/router-t-")
		if !ok || strings.ContainsAny(name, "/%=. ") && strings.Trim(name, "0123456789abcdef-") != ".parquet" || len(name) > 60 {
			t.Errorf("name %s", task.File.FilePath())
		}
		got[task.File.Partition()[1000].(string)] = true
		if rows, err := tbl.Scan().PlanFiles(t.Context()); err != nil || len(rows) != len(values) {
			t.Fatalf("%d files, %v", len(rows), err)
		}
	}
	for _, v := range values {
		if !got[v] {
			t.Errorf("no tuple is %.40q", v)
		}
	}
	w.proven(AuditOptions{}, fmt.Sprint(len(values), " rows"))
}

func quoted(s string) string {
	s = strings.NewReplacer("\x00", `\u0000`, `"`, `\"`).Replace(s)
	return `"` + s + `"`
}

// B020: a log that ends before the ledger was truncated, or is another one.
// That is told with both numbers; by policy it is read from its beginning.
func TestLogTruncated(t *testing.T) {
	w := newStage(t, map[string]int32{"a": 1})
	w.produce("a", 1, 150)
	in := &ingest{cfg: IngestConfig{Name: "t", Topics: []string{"a"}}, admin: w.admin, log: zap.NewNop()}
	starts, err := in.listed(t.Context(), "start", in.admin.ListStartOffsets)
	if err != nil {
		t.Fatal(err)
	}
	ledger := func() *catalog.Ledger {
		return &catalog.Ledger{Seq: 1, Topics: map[string]catalog.TopicLedger{"a": {Next: map[int32]int64{0: 200}, Books: map[int32]catalog.Book{0: {Rows: 200}}}}}
	}
	want := map[string][]int32{"a": {0}}
	if _, err := in.checkRange(t.Context(), ledger(), want, starts); !halts(err) || !strings.Contains(err.Error(), "a/0: the next offset to read is 200, the log ends at 150") {
		t.Errorf("got %v", err)
	}
	in.cfg.OnTopicReset = "restart"
	l := ledger()
	if lost, err := in.checkRange(t.Context(), l, want, starts); err != nil || lost != 0 || l.Topics["a"].Next[0] != 0 || l.Topics["a"].Books[0].Rows != 0 {
		t.Errorf("by policy: %+v, %d lost, %v", l, lost, err)
	}
}

// B025: a cut whose files hold other rows than were decoded is not committed.
func TestCutIsWhole(t *testing.T) {
	a, b := topicPartition{"a", 0}, topicPartition{"a", 1}
	file := func(rows int64, p topicPartition) written {
		df, err := iceberg.NewDataFileBuilder(*iceberg.UnpartitionedSpec, iceberg.EntryContentData, "f", iceberg.ParquetFile, nil, nil, nil, rows, 100)
		if err != nil {
			t.Fatal(err)
		}
		var o origins
		o.add(p, 0, rows-1, rows)
		return written{df.Build(), 100, o}
	}
	c := newCut(t.Context(), &plan{}, &catalog.Source{})
	c.rows = 7
	c.counts.Add("a", 0, catalog.Count{Rows: 4, Left: 2})
	c.counts.Add("a", 1, catalog.Count{Rows: 3})
	for name, want := range map[string]struct {
		files []written
		err   string
	}{
		"whole":         {[]written{file(4, a), file(3, b)}, ""},
		"no rows":       {nil, "cut has 7 rows, its 0 files have 0"},
		"a file less":   {[]written{file(4, a)}, "cut has 7 rows, its 1 files have 4"},
		"others' rows":  {[]written{file(3, a), file(4, b)}, "cut has "},
		"a row of none": {[]written{file(4, a), file(4, b)}, "cut has 7 rows, its 2 files have 8"},
	} {
		c.written = want.files
		if err := c.whole(); want.err == "" && err != nil || want.err != "" && (err == nil || !strings.Contains(err.Error(), want.err)) {
			t.Errorf("%s: %v, want %q", name, err, want.err)
		}
	}
}

// B101: a panic of one worker is an error of its ingest, with its place.
func TestPanicIsAnError(t *testing.T) {
	in := &ingest{cfg: IngestConfig{RecordSizeMax: 1 << 20}, workers: 2, open: newCut(t.Context(), &plan{decoders: []*writers.JSON{nil, nil}}, &catalog.Source{})}
	p := &owned{topicPartition: topicPartition{"a", 0}}
	err := in.decode(t.Context(), split(p, []*kgo.Record{{Topic: "a", Value: []byte("{}")}}))
	if err == nil || !strings.Contains(err.Error(), "decode: panic: ") || !strings.Contains(err.Error(), "decodeChunk") {
		t.Errorf("got %v", err)
	}
}

// B206: after a commit the group's offsets say the same as the ledger, for lag tools.
func TestGroupFollowsLedger(t *testing.T) {
	w := newStage(t, map[string]int32{"a": 2})
	w.ingest("t", nil, "a")
	w.produce("a", 2, 30)
	if err := w.once(); err != nil {
		t.Fatal(err)
	}
	told, err := w.admin.FetchOffsets(t.Context(), "router-t")
	if err != nil {
		t.Fatal(err)
	}
	got := map[int32]int64{}
	told.Each(func(o kadm.OffsetResponse) { got[o.Partition] = o.At })
	if want := map[int32]int64{0: 30, 1: 30}; !maps.Equal(got, want) {
		t.Errorf("the group is at %v, want %v", got, want)
	}
}

// B155: runs that commit once and end leave neither manifests nor metadata
// behind that grow with their number.
func TestManyShortRuns(t *testing.T) {
	w := newStage(t, map[string]int32{"a": 1})
	w.ingest("t", func(c *IngestConfig) { c.KeepSnapshots = 2 }, "a")
	const runs = 40
	for range runs {
		w.produce("a", 1, 3)
		if err := w.once(); err != nil {
			t.Fatal(err)
		}
	}
	w.audit("t", "a")
	manifests, err := w.load("t").CurrentSnapshot().Manifests(icebergio.LocalFS{})
	if err != nil {
		t.Fatal(err)
	}
	lists, err := filepath.Glob(filepath.Join(w.dir, "warehouse", "*", "*", "metadata", "snap-*"))
	if err != nil || len(lists) == 0 {
		t.Fatalf("%d manifest lists, %v", len(lists), err)
	}
	if len(manifests) > 24 || len(lists) > 8 {
		t.Errorf("%d manifests and %d manifest lists after %d runs", len(manifests), len(lists), runs)
	}
}
