//go:build synctests

package sim

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/apache/iceberg-go"
	"github.com/apache/iceberg-go/table"

	"icerouter/catalog"
)

// A doctor changes a copy of a table that router audit has proven, in a way that
// nobody may fail to see: router audit of the copy must name what was done.

// doctored is a copy of the table, and what router audit must say of it.
type doctored struct {
	w       *world
	lake    *lake
	objects *objects
	books   map[origin]book
	expect  []string                                      // words of the whole report
	where   map[origin]bool                               // partitions that can't be proven any more; nil: it is not said which
	named   func(at origin, said string) (lacking string) // what the report lacks about such a partition
	proven  bool                                          // it was no harm, and must be proven
}

// treatments are the ways to change a copy. One that finds nothing to change
// returns errHealthy.
var treatments = map[string]func(*doctored) error{
	"take": (*doctored).take, "again": (*doctored).again, "lose-object": (*doctored).loseObject,
	"back": func(d *doctored) error { return d.moveLedger(-1) }, "forth": func(d *doctored) error { return d.moveLedger(3) },
	"left-out": (*doctored).leaveOut, "older-ledger": (*doctored).olderLedger, "no-ledger": (*doctored).noLedger,
	"drop-row": func(d *doctored) error { return d.rewriteRows(-1) }, "double-row": func(d *doctored) error { return d.rewriteRows(1) },
	"rewrite": func(d *doctored) error { return d.rewriteRows(0) }, "roll-back": (*doctored).rollBack,
}

var errHealthy = errors.New("there is nothing to change")

// doctor changes a copy of the proven table and audits it.
func (w *world) doctor(what string) (report string, err error) {
	meta := w.lake.current()
	d := &doctored{w: w, objects: newObjects(), where: map[origin]bool{}}
	d.objects.bodies = w.objects.snapshot()
	d.lake = &lake{gates: w.gate, objects: d.objects, applied: func(string, table.Metadata, table.Metadata) {}, meta: meta, version: w.lake.version}
	w.truth.mu.Lock()
	d.books, _, err = w.booksIn(meta.Properties())
	w.truth.mu.Unlock()
	if err != nil {
		return "", err
	}
	if err := treatments[what](d); err != nil {
		return "", err
	}
	p, err := w.prove(audited{w.serve(d.lake), d.objects})
	if err != nil {
		return "", err
	}
	w.log.printf("doctored (%s): %s", what, p.text)
	return p.text, d.check(what, p)
}

// check compares the report of the copy with what must be there.
func (d *doctored) check(what string, p proof) error {
	if p.proven != d.proven {
		return fmt.Errorf("router audit of a doctored table (%s): proven: %t\n%s", what, p.proven, p.text)
	}
	for _, words := range d.expect {
		if !strings.Contains(p.text, words) {
			return fmt.Errorf("router audit of a doctored table (%s) does not say %q:\n%s", what, words, p.text)
		}
	}
	for at, said := range p.partitions {
		if bad := strings.Contains(said, "NOT PROVEN"); d.where != nil && bad != d.where[at] {
			return fmt.Errorf("router audit of a doctored table (%s): %v is not proven: %t, must be %t\n%s", what, at, bad, d.where[at], p.text)
		}
	}
	for at := range d.where {
		if d.named == nil {
			continue
		}
		if lacking := d.named(at, p.partitions[at]); lacking != "" {
			return fmt.Errorf("router audit of a doctored table (%s) does not say of %v %s:\n%s", what, at, lacking, p.text)
		}
	}
	return nil
}

// victim is a data file of the product with rows that books speak of.
type victim struct {
	table *table.Table
	file  iceberg.DataFile
	rows  []row              // all, in the order of the file
	of    map[origin][]int64 // offsets by partition, of the logs of now
}

// choose finds a victim in the current snapshot.
func (d *doctored) choose() (*victim, error) {
	t, err := d.lake.LoadTable(d.w.ctx, ident)
	if err != nil {
		return nil, err
	}
	tasks, err := t.Scan().PlanFiles(d.w.ctx)
	if err != nil {
		return nil, err
	}
	d.w.rand.Shuffle(len(tasks), func(i, j int) { tasks[i], tasks[j] = tasks[j], tasks[i] })
	d.w.audit.mu.Lock()
	defer d.w.audit.mu.Unlock()
	d.w.truth.mu.Lock()
	defer d.w.truth.mu.Unlock()
	spec := t.Spec()
	for _, task := range tasks {
		v := &victim{table: t, file: task.File, rows: d.w.audit.files[task.File.FilePath()], of: map[origin][]int64{}}
		for _, r := range v.rows {
			at := origin{r.origin.topic, r.origin.partition, 0}
			known := d.w.truth.records[r.id]
			if known == nil || known.log != d.w.truth.logs[at.topic] || r.origin.offset < d.books[at].since {
				v.of = nil // rows of others, or of a log that is gone: nothing accounts for them
				break
			}
			v.of[at] = append(v.of[at], r.origin.offset)
		}
		if len(v.of) > 0 && int(v.file.SpecID()) == spec.ID() {
			return v, nil
		}
	}
	return nil, errHealthy
}

// replace puts other data files in a file's place.
func (d *doctored) replace(v *victim, remove bool, name string, body []byte, rows int64) error {
	var gone, fresh []iceberg.DataFile
	if remove {
		gone = append(gone, v.file)
	}
	if name != "" {
		d.objects.create(name, body)
		b, err := iceberg.NewDataFileBuilder(v.table.Spec(), iceberg.EntryContentData, name, iceberg.ParquetFile, v.file.Partition(), nil, nil, rows, int64(len(body)))
		if err != nil {
			return err
		}
		fresh = append(fresh, b.Build())
	}
	tx := v.table.NewTransaction()
	if err := tx.ReplaceDataFilesWithDataFiles(d.w.ctx, gone, fresh, nil); err != nil {
		return err
	}
	_, err := tx.Commit(d.w.ctx)
	return err
}

// take takes a data file out of the table.
func (d *doctored) take() error {
	v, err := d.choose()
	if err != nil {
		return err
	}
	for at := range v.of {
		d.where[at] = true
	}
	d.named = func(at origin, said string) string {
		n, lost := len(v.of[at]), slices.Min(v.of[at])
		switch {
		case !strings.Contains(said, fmt.Sprintf("gap: %d rows are gone", n)) && !strings.Contains(said, fmt.Sprintf("%d of its", n)):
			return fmt.Sprintf("that %d rows are gone", n)
		case !names(said, lost):
			return fmt.Sprintf("that the row of offset %d is", lost)
		}
		return ""
	}
	return d.replace(v, true, "", nil, 0)
}

// again adds a data file a second time, under another name.
func (d *doctored) again() error {
	v, err := d.choose()
	if err != nil {
		return err
	}
	body, _ := d.objects.read(v.file.FilePath())
	name := strings.TrimSuffix(v.file.FilePath(), ".parquet") + "-too.parquet"
	for at := range v.of {
		d.where[at] = true
	}
	d.expect = []string{"are copies of each other: their rows are in the table twice", v.file.FilePath(), name}
	d.named = func(at origin, said string) string {
		if words := fmt.Sprintf("twice: %d rows too many", len(v.of[at])); !strings.Contains(said, words) {
			return words
		}
		return ""
	}
	return d.replace(v, false, name, body, v.file.Count())
}

// loseObject removes a data file from the store, and not from the table.
func (d *doctored) loseObject() error {
	v, err := d.choose()
	if err != nil {
		return err
	}
	for at := range v.of {
		d.where[at] = true
	}
	d.expect = []string{v.file.FilePath(), "the table names it, and it is not there"}
	d.named = func(at origin, said string) string {
		if n := len(v.of[at]); !strings.Contains(said, fmt.Sprintf("gap: %d rows are gone", n)) && !strings.Contains(said, fmt.Sprintf("%d of its", n)) {
			return fmt.Sprintf("that %d rows are gone", n)
		}
		return ""
	}
	d.objects.remove(foreigner, v.file.FilePath())
	return nil
}

// edit changes the ledger property.
func (d *doctored) edit(change func(topics map[string]any)) error {
	name := catalog.LedgerProperty(ingestName)
	var l map[string]any
	decoder := json.NewDecoder(strings.NewReader(d.lake.meta.Properties()[name]))
	decoder.UseNumber()
	if err := decoder.Decode(&l); err != nil {
		return err
	}
	change(l["topics"].(map[string]any))
	b, err := json.Marshal(l)
	if err != nil {
		return err
	}
	_, _, err = d.lake.commit(foreigner, nil, []table.Update{table.NewSetPropertiesUpdate(iceberg.Properties{name: string(b)})})
	return err
}

// somewhere chooses a partition.
func (d *doctored) somewhere(which func(book) bool) (origin, error) {
	var all []origin
	for at, b := range d.books {
		if which(b) {
			all = append(all, at)
		}
	}
	if len(all) == 0 {
		return origin{}, errHealthy
	}
	slices.SortFunc(all, func(a, b origin) int { return strings.Compare(a.String(), b.String()) })
	return all[d.w.rand.IntN(len(all))], nil
}

// moveLedger moves one offset of the ledger.
func (d *doctored) moveLedger(by int64) error {
	at, err := d.somewhere(func(b book) bool { return b.next+by >= 0 })
	if err != nil {
		return err
	}
	b := d.books[at]
	d.where[at] = true
	d.expect = []string{
		fmt.Sprintf("%s/%d: the ledger is at %d, its book accounts for %d to %d: somebody changed the property", at.topic, at.partition, b.next+by, b.since, b.next),
	}
	return d.edit(func(topics map[string]any) {
		topics[at.topic].(map[string]any)["next"].(map[string]any)[fmt.Sprint(at.partition)] = b.next + by
	})
}

// leaveOut lets a book say that a row was left out.
func (d *doctored) leaveOut() error {
	at, err := d.somewhere(func(b book) bool { return b.rows > 0 })
	if err != nil {
		return err
	}
	d.where[at] = true
	d.named = func(at origin, said string) string {
		for _, words := range []string{"twice: the files hold", "never had a row by the book"} {
			if strings.Contains(said, words) {
				return ""
			}
		}
		return "that it has a row more than its book"
	}
	return d.edit(func(topics map[string]any) {
		books := topics[at.topic].(map[string]any)["books"].(map[string]any)
		b := books[fmt.Sprint(at.partition)].([]any)
		b[2], b[3] = d.books[at].rows-1, d.books[at].left+1
	})
}

// olderLedger puts the ledger of an earlier snapshot in the ledger's place, as
// somebody does who restores a property by hand.
func (d *doctored) olderLedger() error {
	name := catalog.LedgerProperty(ingestName)
	now := d.lake.meta.Properties()[name]
	for _, s := range slices.Backward(d.lake.meta.Snapshots()) {
		was := ""
		if s.Summary != nil {
			was = s.Summary.Properties[name]
		}
		if was == "" || was == now {
			continue
		}
		old, _, err := d.w.booksIn(iceberg.Properties{name: was})
		if err != nil {
			return err
		}
		for at := range d.books {
			if b, there := old[at]; there && b.rows < d.books[at].rows && b.since == d.books[at].since {
				d.where[at] = true
			}
		}
		if len(d.where) == 0 || len(old) != len(d.books) {
			return errHealthy // nothing but gaps has come since
		}
		d.named = func(at origin, said string) string {
			if !strings.Contains(said, "it was moved back, and these records will be read again") {
				return "that the ledger was moved back"
			}
			return ""
		}
		_, _, err = d.lake.commit(foreigner, nil, []table.Update{table.NewSetPropertiesUpdate(iceberg.Properties{name: was})})
		return err
	}
	return errHealthy
}

// noLedger removes the ledger.
func (d *doctored) noLedger() error {
	name := catalog.LedgerProperty(ingestName)
	d.expect = []string{"has no ledger of this ingest", name}
	_, _, err := d.lake.commit(foreigner, nil, []table.Update{table.NewRemovePropertiesUpdate([]string{name})})
	return err
}

// rollBack makes the snapshot the head that was there before the newest of ours.
func (d *doctored) rollBack() error {
	for s := d.lake.meta.CurrentSnapshot(); s != nil && s.ParentSnapshotID != nil; s = d.lake.meta.SnapshotByID(*s.ParentSnapshotID) {
		if _, ours := s.Summary.Properties["router."+ingestName+".seq"]; !ours {
			continue
		}
		parent := d.lake.meta.SnapshotByID(*s.ParentSnapshotID)
		if parent == nil {
			return errHealthy
		}
		older := false // else nobody can see it
		for p := parent; p != nil; p = d.lake.meta.SnapshotByID(*p.ParentSnapshotID) {
			_, ours := p.Summary.Properties["router."+ingestName+".seq"]
			older = older || ours
			if p.ParentSnapshotID == nil {
				break
			}
		}
		if !older {
			return errHealthy
		}
		d.expect = []string{"the table was rolled back"}
		d.where = nil // as far as its rows went
		_, _, err := d.lake.commit(foreigner, nil, []table.Update{table.NewSetSnapshotRefUpdate(table.MainBranch, parent.SnapshotID, table.BranchRef, 0, 0, 0)})
		return err
	}
	return errHealthy
}
