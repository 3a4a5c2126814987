//go:build real

package real_test

import (
	"fmt"
	"strings"
	"testing"
)

// A filter in the readers' dialect, and which rows it chooses.
type filter struct {
	where  string
	chosen func(i int) bool
}

// filters asks for whole numbers, texts and times: they are right only where
// bounds, null counts and partition tuples of the files are.
//
// The first few are the most telling ones, for readers that take their time.
func filters(n int) []filter {
	mid, late := rowTime(n/3), rowTime(n/2)
	return []filter{
		{fmt.Sprintf("id = %d", rowID(7)), func(i int) bool { return i == 7 }},
		{"name like 'row-0001%'", func(i int) bool { return strings.HasPrefix(rowName(i), "row-0001") }},
		{fmt.Sprintf("moment >= '%s+00:00' and moment < '%s+00:00'", mid.Format(microsFormat), late.Format(microsFormat)),
			func(i int) bool { return i >= n/3 && i < n/2 }},
		{fmt.Sprintf("name = '%s'", rowName(42)), func(i int) bool { return i == 42 }},
		{"day = '1969-12-31'", func(i int) bool { return i%5 == 1 }},
		{"price = 0.0001", func(i int) bool { return i%4 == 2 }},
		{fmt.Sprintf("id in (%d, %d, 4)", rowID(0), rowID(n-1)), func(i int) bool { return i == 0 || i == n-1 }},
		{fmt.Sprintf("id >= %d", rowID(n-20)), func(i int) bool { return i >= n-20 }},
		{"id = 1", func(int) bool { return false }},
		{"name > 'row-00100'", func(i int) bool { return rowName(i) > "row-00100" }},
		{fmt.Sprintf("moment = '%s+00:00'", rowTime(11).Format(microsFormat)), func(i int) bool { return i == 11 }},
		{"yes is null", func(i int) bool { return i%3 == 2 }},
		{"local < '1970-01-01T00:00:00'", func(i int) bool { return i%4 == 1 || i%4 == 2 }},
	}
}

// Every reader reads exactly the rows that were produced, and finds them by
// filters, whatever the catalog; the files are one a bucket that has rows.
func TestReadersReadWhatWasProduced(t *testing.T) {
	for _, scene := range []struct {
		name  string
		lake  func(*testing.T) lake
		kafka func() string
	}{
		{"apache", func(t *testing.T) lake { return apache(t) }, plaintext},
		{"nessie", nessie, plaintext},
		{"postgres", postgres, func() string { return sasl(kafkaPassword) }},
	} {
		t.Run(scene.name, func(t *testing.T) {
			t.Parallel()
			const partitions, n = 7, 400
			c := client(t)
			l := scene.lake(t)
			topic := makeTopic(t, c, "everything", partitions)
			columns := everyColumn()
			produce(t, c, topic, partitions, recordsOf(columns, n)...)
			namespace := unique("shop")
			table := namespace + ".everything"
			e := mustOnce(t, config{kafka: scene.kafka(), lake: l, ingests: []ingest{{
				name: "everything", topics: []string{topic}, table: table, columns: columns, partition: []string{"bucket(id, 64)"}, trigger: "1m",
			}}}.write(t))
			t.Logf("%d rows in %s, %.1f CPU seconds", n, e.took, cpuSeconds(e))
			oneFilePerBucket(t, namespace, n)
			want := rows(t, columns, n, nil)
			for _, reader := range allReaders {
				sameLines(t, reader, l.read(t, reader, question{table: table}), want)
				for i, f := range filters(n) {
					if i >= 4 && (scene.name != "apache" || reader == "java") {
						break // Java starts anew for each; the catalog makes no difference to bounds
					}
					sameLines(t, reader+" where "+f.where, l.read(t, reader, question{table: table, where: f.where}), rows(t, columns, n, f.chosen))
				}
			}
		})
	}
}

func cpuSeconds(e exit) float64 {
	return float64(e.usage.Utime.Nano()+e.usage.Stime.Nano()) / 1e9
}

// oneFilePerBucket checks the data files of the only table in a namespace that was written by one cut.
func oneFilePerBucket(t *testing.T, namespace string, n int) {
	t.Helper()
	full := map[int32]bool{}
	for i := range n {
		full[bucketOf(rowID(i), 64)] = true
	}
	files := dataFiles(t, namespace)
	if len(files) != len(full) {
		t.Errorf("%d data files for %d buckets that have rows: %v", len(files), len(full), files)
	}
}

// dataFiles lists the data files of a namespace, wherever the catalog put it.
func dataFiles(t *testing.T, namespace string) map[string]int64 {
	t.Helper()
	files := map[string]int64{}
	for path, size := range objects(t, "", ".parquet") {
		if strings.Contains(path, "/"+namespace+"/") || strings.Contains(path, "/"+namespace+".db/") {
			files[path] = size
		}
	}
	return files
}

// The kinds of columns that one of the readers can't read are right for the others.
func TestTypesThatNotAllReadersKnow(t *testing.T) {
	t.Parallel()
	const partitions, n = 2, 60
	c := client(t)
	l := apache(t)
	topic := makeTopic(t, c, "rare", partitions)
	columns := append(keyColumns(), timeColumn(), structsColumn(), indexColumn())
	produce(t, c, topic, partitions, recordsOf(columns, n)...)
	table := unique("shop") + ".rare"
	mustOnce(t, config{lake: l, ingests: []ingest{{
		name: "rare", topics: []string{topic}, table: table, columns: columns, partition: []string{"bucket(id, 4)", "day(moment)", "truncate(name, 7)"}, trigger: "1m",
	}}}.write(t))
	for _, reader := range []string{"duckdb", "java"} {
		sameLines(t, reader, l.read(t, reader, question{table: table}), rows(t, columns, n, nil))
	}
	known := append(keyColumns(), timeColumn())
	sameLines(t, "pyiceberg", l.read(t, "pyiceberg", question{table: table, choose: []string{"id", "name", "moment", "clock"}}), rows(t, known, n, nil))
	for _, reader := range []string{"duckdb", "java"} {
		where := "clock = '12:34:56.789012'"
		sameLines(t, reader+" where "+where, l.read(t, reader, question{table: table, where: where}), rows(t, columns, n, func(i int) bool { return i%4 == 0 }))
	}
}

// Every partition transform, several fields and none: the partition tuples are
// what the readers prune by, and one file is written for each.
func TestPartitionTransforms(t *testing.T) {
	t.Parallel()
	const partitions, n = 3, 300
	c := client(t)
	l := apache(t)
	columns := everyColumn()
	topic := makeTopic(t, c, "transforms", partitions)
	produce(t, c, topic, partitions, recordsOf(columns, n)...)
	specs := map[string][]string{
		"none":     nil,
		"identity": {"name"}, // as many files as rows
		"truncate": {"truncate(name, 8)", "truncate(cents, 100)", "truncate(id, 1000)"},
		"times":    {"hour(moment)", "year(day)", "month(local)"},
		"days":     {"day(moment)", "bucket(day, 3)", "bucket(text, 5)"},
		"buckets":  {"bucket(price, 3)", "bucket(ident, 3)", "bucket(moment, 2)", "bucket(raw, 2)"},
	}
	var ingests []ingest
	namespace := unique("spec")
	for name, spec := range specs {
		ingests = append(ingests, ingest{name: name, topics: []string{topic}, table: namespace + "." + name, columns: columns, partition: spec, trigger: "1m"})
	}
	mustOnce(t, config{lake: l, ingests: ingests}.write(t))
	want := rows(t, columns, n, nil)
	for name := range specs {
		for _, reader := range []string{"pyiceberg", "duckdb", "spark"} {
			table := namespace + "." + name
			sameLines(t, reader+" "+table, l.read(t, reader, question{table: table}), want)
			for _, f := range filters(n)[:6] {
				sameLines(t, reader+" "+table+" where "+f.where, l.read(t, reader, question{table: table, where: f.where, choose: []string{"id"}}), rows(t, columns[:1], n, f.chosen))
			}
		}
	}
}

// A wrong password is told within seconds, with the place and the remedy, and is not shown.
func TestWrongKafkaPassword(t *testing.T) {
	t.Parallel()
	c := client(t)
	topic := makeTopic(t, c, "secret", 1)
	e := launch(t, "--config", config{kafka: sasl(wrongPassword), lake: apache(t), ingests: []ingest{{
		name: "secret", topics: []string{topic}, table: unique("shop") + ".secret", columns: keyColumns(),
	}}}.write(t), "--once").wait(30 * 1e9)
	if e.code != 1 {
		t.Errorf("exit code %d, want 1", e.code)
	}
	e.mentions(t, "kafka.sasl", fmt.Sprint(lab.ports["KAFKA_SASL_PORT"]))
}
