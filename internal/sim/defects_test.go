package sim

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// defect is a way to get the product wrong. Its code is put into a copy of the
// source, behind a condition, so that one build has all of them.
type defect struct {
	name  string
	file  string
	edits [][2]string // old text, which is there just once, and new
}

// defects are the mistakes that the auditor must see; one that is in several
// files is there several times. Not planted, because reading the ledger makes
// them harmless: not waiting in a revoke, taking an error for a success, and
// starting from the group's offsets as long as the ledger is checked.
var defects = slices.Concat(sqlDefects, metadataDefects, []defect{
	{"no-ledger-check", "catalog/append.go", [][2]string{
		{"\t\treturn l.admits(a)\n", "\t\tif defective(\"no-ledger-check\") {\n\t\t\treturn nil\n\t\t}\n\t\treturn l.admits(a)\n"},
	}},
	{"ledger-of-first-try", "catalog/append.go", [][2]string{ // replay over whatever others have done since
		{"\tlast    error\n", "\tlast    error\n\tfirst   *Ledger\n"},
		{"\t\tfrom, verdict := t.judge(s, ch)\n", "\t\tfrom, verdict := t.judge(s, ch)\n\t\tif co.first == nil {\n\t\t\tco.first = &from\n\t\t}\n\t\tif defective(\"ledger-of-first-try\") && verdict != errLanded {\n\t\t\tfrom, verdict = *co.first, nil\n\t\t}\n"},
	}},
	{"delete-after-error", "catalog/append.go", [][2]string{
		{"\t\tco.pending = &attempt{", "\t\tif defective(\"delete-after-error\") {\n\t\t\tfor _, o := range st.objects {\n\t\t\t\t_ = s.store.Remove(o.location)\n\t\t\t}\n\t\t}\n\t\tco.pending = &attempt{"},
	}},
	{"no-head-check", "catalog/snapshot.go", [][2]string{
		{"\tvar refAge, snapshotAge int64\n", "\tif defective(\"no-head-check\") {\n\t\tst.requires = st.requires[:1]\n\t}\n\tvar refAge, snapshotAge int64\n"},
	}},
	{"believe-every-put", "writers/store.go", [][2]string{
		{"\t\t\terr := s.objects.create(ctx, key, body, contentType(key), alive)\n\t\t\tif", "\t\t\terr := s.objects.create(ctx, key, body, contentType(key), alive)\n\t\t\tif defective(\"believe-every-put\") {\n\t\t\t\terr = nil\n\t\t\t}\n\t\t\tif"},
	}},
	{"ledger-ahead-of-rows", "router/buffer.go", [][2]string{
		{"\t\tsetOffset(c.to, p.topicPartition, p.next)\n", "\t\tif defective(\"ledger-ahead-of-rows\") {\n\t\t\tp.next++\n\t\t}\n\t\tsetOffset(c.to, p.topicPartition, p.next)\n"},
	}},
	{"letters-not-awaited", "router/ingest.go", [][2]string{
		{"\t\tif err := in.dead.flush(work); err != nil {\n", "\t\tif defective(\"letters-not-awaited\") {\n\t\t} else if err := in.dead.flush(work); err != nil {\n"},
	}},
	{"letters-not-sent", "router/dead.go", [][2]string{
		{"\tr := l.record\n", "\tr := l.record\n\tif defective(\"letters-not-sent\") && r.Offset%7 == 0 {\n\t\treturn\n\t}\n"},
	}},
	{"reads-uncommitted", "router/connect.go", [][2]string{
		{"\t\tkgo.FetchIsolationLevel(kgo.ReadCommitted()),\n", "\t\tkgo.FetchIsolationLevel(map[bool]kgo.IsolationLevel{true: kgo.ReadUncommitted(), false: kgo.ReadCommitted()}[defective(\"reads-uncommitted\")]),\n"},
	}},
	{"old-parent", "catalog/manifests.go", [][2]string{ // build on the head that is remembered, whatever the head is
		{"\tif t.head.snapshot == snapshot.SnapshotID && t", "\tif (defective(\"old-parent\") || t.head.snapshot == snapshot.SnapshotID) && t"},
	}},
	{"fence-ignored", "router/ingest.go", [][2]string{ // go on as if nothing were the matter
		{"\t\t\tin.inbox.askResync()\n", "\t\t\tif !defective(\"fence-ignored\") {\n\t\t\t\tin.inbox.askResync()\n\t\t\t}\n"},
	}},
	{"offsets-first", "router/ingest.go", [][2]string{ // the group is told, and then the table; the group is the truth
		{"\t\tstart := time.Now()\n\t\tdone, err", "\t\tstart := time.Now()\n\t\tif defective(\"offsets-first\") {\n\t\t\tin.hint(a.To)\n\t\t}\n\t\tdone, err"},
	}},
	{"offsets-first", "router/assign.go", [][2]string{
		{"\te := event{assigned: map[topicPartition]int64{}}\n\tfor topic, offsets := range parts {\n\t\tfor p := range offsets {\n", "\te := event{assigned: map[topicPartition]int64{}}\n\tfor topic, offsets := range parts {\n\t\tfor p := range offsets {\n\t\t\tif at := offsets[p].EpochOffset().Offset; defective(\"offsets-first\") && at >= 0 {\n\t\t\t\tstart[topic][p] = at\n\t\t\t}\n"},
	}},
	{"offsets-first", "catalog/append.go", [][2]string{
		{"\tch.admits = func(l Ledger, broken error) error {\n\t\tif broken != nil {\n\t\t\treturn broken\n\t\t}\n", "\tch.admits = func(l Ledger, broken error) error {\n\t\tif broken != nil {\n\t\t\treturn broken\n\t\t}\n\t\tif defective(\"offsets-first\") {\n\t\t\treturn nil\n\t\t}\n"},
	}},
	{"one-id-for-all", "router/write.go", [][2]string{
		{"\ta := catalog.Append{ID: newID(),", "\tid := newID()\n\tif defective(\"one-id-for-all\") {\n\t\tid = \"always\"\n\t}\n\ta := catalog.Append{ID: id,"},
	}},
	{"position-first", "router/publish_shard.go", [][2]string{ // the position is committed before the rows that it has passed
		{"\t\t\tif !open && len(g.records) > 0 {\n", "\t\t\tif !open && len(g.records) > 0 {\n\t\t\t\tif defective(\"position-first\") {\n\t\t\t\t\ts.at = g.end\n\t\t\t\t\tif err := s.commit(work, nil, false); err != nil {\n\t\t\t\t\t\treturn err\n\t\t\t\t\t}\n\t\t\t\t}\n"},
	}},
	{"position-apart", "router/publish_shard.go", [][2]string{ // the position is committed after the rows, by a transaction of its own
		{"\tvar offset int64\n\ts.out.produce(", "\tvar offset int64\n\tif defective(\"position-apart\") && open {\n\t\tif err := s.out.commit(work); err != nil {\n\t\t\ts.abort(work)\n\t\t\treturn err\n\t\t}\n\t\tif err := s.begin(); err != nil {\n\t\t\treturn err\n\t\t}\n\t}\n\ts.out.produce("},
	}},
	{"nobody-fenced", "router/publish_transactor.go", [][2]string{ // each owner of a shard has an id of its own
		{"\t\tkgo.TransactionalID(cfg.TransactionalID(shard)),\n", "\t\tkgo.TransactionalID(cfg.TransactionalID(shard)+map[bool]string{true: fmt.Sprint(rand.Int())}[defective(\"nobody-fenced\")]),\n"},
	}},
	{"open-positions", "router/kafka.go", [][2]string{ // positions of transactions that are not committed count
		{"\tt := kmsg.NewFetchRequestTopic()\n", "\tif defective(\"open-positions\") {\n\t\treq.IsolationLevel = 0\n\t}\n\tt := kmsg.NewFetchRequestTopic()\n"},
		{"IsolationLevel: kgo.ReadCommitted(), Topic", "IsolationLevel: map[bool]kgo.IsolationLevel{true: kgo.ReadUncommitted(), false: kgo.ReadCommitted()}[defective(\"open-positions\")], Topic"},
	}},
	{"layout-not-awaited", "router/publish_marks.go", [][2]string{ // the position before a change of the layout that is under way
		{"\t\tif !open {\n\t\t\treturn ends, nil\n", "\t\tif defective(\"layout-not-awaited\") {\n\t\t\treturn stable, nil\n\t\t}\n\t\tif !open {\n\t\t\treturn ends, nil\n"},
	}},
	{"slots-not-ahead", "router/publish_position.go", [][2]string{ // a new layout forgets which slots are further
		{"p := at[slot]; p.compare(m.At) > 0 {\n", "p := at[slot]; p.compare(m.At) > 0 && !defective(\"slots-not-ahead\") {\n"},
	}},
	{"slots-behind", "router/publish_position.go", [][2]string{ // a new shard begins where its first slot is
		{"\t\tif slot == i || p.compare(m.At) < 0 {\n", "\t\tif slot == i || p.compare(m.At) < 0 && !defective(\"slots-behind\") {\n"},
	}},
	{"lost-end-is-abort", "router/publish_shard.go", [][2]string{ // whose commit has no answer sends again what it sent
		{"// positionEvery is how long", "type remembered struct {\n\tp      *publish\n\tnumber int\n}\n\nvar memory sync.Map // marks\n\n// positionEvery is how long"},
		{"\ts.shift.ends(ends[s.number])\n", "\ts.shift.ends(ends[s.number])\n\tif m, ok := memory.Load(remembered{s.p, s.number}); ok && defective(\"lost-end-is-abort\") {\n\t\ts.mark = m.(mark)\n\t}\n\tmemory.Store(remembered{s.p, s.number}, s.mark)\n"},
		{"\ts.mark, s.last, s.lost, s.skipped = next, time.Now(), 0, 0\n", "\ts.mark, s.last, s.lost, s.skipped = next, time.Now(), 0, 0\n\tmemory.Store(remembered{s.p, s.number}, next)\n"},
		{"\t\"fmt\"\n\t\"time\"\n", "\t\"fmt\"\n\t\"sync\"\n\t\"time\"\n"},
	}},
	{"compactions-too", "router/publish_read.go", [][2]string{
		{"\tcase \"replace\":\n\t\treturn false, nil\n", "\tcase \"replace\":\n\t\treturn defective(\"compactions-too\"), nil\n"},
	}},
	{"rows-out-of-order", "router/publish_sheet.go", [][2]string{ // the rows of a bucket go to several partitions
		{"\t\tr.Partition = int32(c.file.Slot) % c.book.partitions\n", "\t\tr.Partition = int32(c.file.Slot) % c.book.partitions\n\t\tif defective(\"rows-out-of-order\") {\n\t\t\tr.Partition = int32(i) % c.book.partitions\n\t\t}\n"},
	}},
})

// wayBack are the defects that only show where the table is published.
var wayBack = []string{
	"position-first", "position-apart", "nobody-fenced", "open-positions", "layout-not-awaited", "slots-not-ahead", "slots-behind",
	"lost-end-is-abort", "compactions-too", "rows-out-of-order",
}

// switchboard goes beside the defective files of a package.
const switchboard = `package %s

import "os"

func defective(name string) bool { return os.Getenv("SIM_DEFECT") == name }
`

// root is the module's folder, as seen from this package's.
const root = "../.."

// plant returns the texts that replace files, by absolute path.
func plant() (map[string]string, error) {
	module, err := filepath.Abs(root)
	if err != nil {
		return nil, err
	}
	texts := map[string]string{}
	for _, d := range defects {
		path := filepath.Join(module, d.file)
		if texts[path] == "" {
			b, err := os.ReadFile(path)
			if err != nil {
				return nil, err
			}
			texts[path] = string(b)
		}
		for _, e := range d.edits {
			if n := strings.Count(texts[path], e[0]); n != 1 {
				return nil, fmt.Errorf("defect %s: %s has %d times the text %q", d.name, d.file, n, e[0])
			}
			texts[path] = strings.Replace(texts[path], e[0], e[1], 1)
		}
		folder := filepath.Dir(path)
		texts[filepath.Join(folder, "defective.go")] = fmt.Sprintf(switchboard, filepath.Base(folder))
	}
	return texts, nil
}

// The defects still fit the source; make sim-defects shows that they are seen.
func TestDefectsApply(t *testing.T) {
	if _, err := plant(); err != nil {
		t.Error(err)
	}
}
