//go:build synctests

package sim

import (
	"bytes"
	"context"
	"fmt"
	"path"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/apache/arrow-go/v18/parquet"
	"github.com/apache/arrow-go/v18/parquet/file"
	"github.com/apache/arrow-go/v18/parquet/pqarrow"
)

// rewriteRows replaces a data file by one of another engine, which knows no
// footers of ours: with a row less, a row twice, or just the same rows.
func (d *doctored) rewriteRows(change int) error {
	v, err := d.choose()
	if err != nil {
		return err
	}
	if len(d.w.truth.allLogs) > len(topics) {
		return errHealthy // rows are no witness beside those of a topic that is gone
	}
	at := d.w.rand.IntN(len(v.rows))
	victim := v.rows[at].origin
	where := origin{victim.topic, victim.partition, 0}
	body, _ := d.objects.read(v.file.FilePath())
	if body, err = rewritten(body, int64(at), change); err != nil {
		return err
	}
	switch change {
	case 0:
		d.proven = true
	case 1:
		d.where[where] = true
		d.named = func(_ origin, said string) string {
			if words := fmt.Sprintf("twice: 1 rows too many, of the offsets %d", victim.offset); !strings.Contains(said, words) {
				return words
			}
			return ""
		}
	default:
		d.where[where] = true
		d.named = func(_ origin, said string) string {
			if !strings.Contains(said, "gap: ") || !names(said, victim.offset) {
				return fmt.Sprintf("that the row of offset %d is gone", victim.offset)
			}
			return ""
		}
	}
	if len(v.rows)+change == 0 {
		return errHealthy
	}
	return d.replace(v, true, path.Dir(v.file.FilePath())+"/part-00000.parquet", body, int64(len(v.rows)+change))
}

// rewritten is a data file without the row at, with it twice, or with all rows as they are.
func rewritten(body []byte, at int64, change int) ([]byte, error) {
	f, err := file.NewParquetReader(bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	reader, err := pqarrow.NewFileReader(f, pqarrow.ArrowReadProperties{}, memory.DefaultAllocator)
	if err != nil {
		return nil, err
	}
	t, err := reader.ReadTable(context.Background())
	if err != nil {
		return nil, err
	}
	defer t.Release()
	var out bytes.Buffer
	w, err := pqarrow.NewFileWriter(arrow.NewSchema(t.Schema().Fields(), nil), &out, parquet.NewWriterProperties(), pqarrow.DefaultWriterProps())
	if err != nil {
		return nil, err
	}
	rows := array.NewTableReader(t, t.NumRows())
	defer rows.Release()
	for rows.Next() {
		all := rows.RecordBatch()
		pieces := [][2]int64{{0, all.NumRows()}}
		switch change {
		case 1:
			pieces = append(pieces, [2]int64{at, at + 1})
		case -1:
			pieces = [][2]int64{{0, at}, {at + 1, all.NumRows()}}
		}
		for _, p := range pieces {
			if p[0] < p[1] {
				if err := w.WriteBuffered(all.NewSlice(p[0], p[1])); err != nil {
					return nil, err
				}
			}
		}
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}
