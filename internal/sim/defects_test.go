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
})

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
