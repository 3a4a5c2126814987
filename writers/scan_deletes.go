package writers

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/apache/iceberg-go"
)

// DeleteInput is one delete file of a data file.
type DeleteInput struct {
	ScanInput
	Content int    // as manifests have it: 1 for positions, 2 for equality
	Format  string // as manifests have it: "PARQUET", "PUFFIN", …
}

// Content of a manifest entry. Source: Iceberg spec, "Data File Fields".
const (
	contentPositions = 1
	contentEquality  = 2
)

// Source: Iceberg spec, "Reserved Field IDs".
const (
	filePathID = 2147483546
	filePosID  = 2147483545
)

// positionSchema is that of position delete files. Source: Iceberg spec,
// "Position Delete Files".
func positionSchema() *iceberg.Schema {
	return iceberg.NewSchema(0,
		iceberg.NestedField{ID: filePathID, Name: "file_path", Type: iceberg.PrimitiveTypes.String, Required: true},
		iceberg.NestedField{ID: filePosID, Name: "pos", Type: iceberg.PrimitiveTypes.Int64, Required: true})
}

// DeletedRows returns the rows of a data file that its delete files delete,
// ascending, without repetition, as ScanInput.Deleted wants them. It reads
// Parquet files of positions, and refuses equality deletes and deletion vectors,
// naming the file.
func DeletedRows(data string, deletes []DeleteInput) ([]int64, error) {
	var all []int64
	for _, d := range deletes {
		switch {
		case d.Content == contentEquality:
			return nil, fmt.Errorf("delete file %s of %s: deletes by equality, which is not supported: compact the table, so that they are applied", d.Name, data)
		case strings.EqualFold(d.Format, "puffin"):
			return nil, fmt.Errorf("delete file %s of %s: a deletion vector, which is not supported: compact the table, so that it is applied", d.Name, data)
		case d.Content != contentPositions || !strings.EqualFold(d.Format, "parquet"):
			return nil, fmt.Errorf("delete file %s of %s: content %d in format %s is not supported; position deletes in Parquet are", d.Name, data, d.Content, d.Format)
		}
		var err error
		if all, err = readPositions(all, data, d.ScanInput); err != nil {
			return nil, fmt.Errorf("delete file of %s: %w", data, err)
		}
	}
	slices.Sort(all)
	return slices.Compact(all), nil
}

// readPositions appends the positions that a file has for a data file.
func readPositions(to []int64, data string, in ScanInput) ([]int64, error) {
	pathID, posID := filePathID, filePosID
	s, err := NewScan(positionSchema(), ScanOptions{
		Extra: []string{"file_path", "pos"}, Hidden: []string{"file_path", "pos"},
		NameMapping: iceberg.NameMapping{{Names: []string{"file_path"}, FieldID: &pathID}, {Names: []string{"pos"}, FieldID: &posID}}, // where a writer left the ids out
	})
	if err != nil {
		return nil, err
	}
	f, err := s.Open(in)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	const path, pos = 0, 1
	var rows Rows
	var text []byte
	for {
		if err := f.Next(&rows); errors.Is(err, io.EOF) {
			return to, nil
		} else if err != nil {
			return nil, err
		}
		for i := range rows.Len() {
			if text, err = rows.AppendText(text[:0], path, i); err != nil {
				return nil, err
			}
			if !bytes.Equal(text, []byte(data)) {
				continue
			}
			row := rows.Int(pos, i)
			if row < 0 || rows.Null(pos, i) {
				return nil, fmt.Errorf("file %s: row %d: position %d", in.Name, rows.RowNumber(i), row)
			}
			to = append(to, row)
		}
	}
}
