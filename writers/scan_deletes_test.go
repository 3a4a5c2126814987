package writers

import (
	"slices"
	"testing"
)

// Position deletes of one data file are found among those of others, whichever
// files they lie in.
func TestDeletedRows(t *testing.T) {
	one := encodeJSON(t, positionSchema(), `{"file_path":"s3://b/a","pos":7}`, `{"file_path":"s3://b/b","pos":1}`, `{"file_path":"s3://b/a","pos":9}`)
	two := encodeJSON(t, positionSchema(), `{"file_path":"s3://b/a","pos":3}`, `{"file_path":"s3://b/a","pos":7}`)
	position := func(in ScanInput) DeleteInput {
		return DeleteInput{ScanInput: in, Content: contentPositions, Format: "PARQUET"}
	}
	got, err := DeletedRows("s3://b/a", []DeleteInput{position(one), position(two)})
	if err != nil || !slices.Equal(got, []int64{3, 7, 9}) {
		t.Errorf("%v, %v", got, err)
	}
	for _, d := range []DeleteInput{
		{ScanInput: one, Content: contentEquality, Format: "PARQUET"}, {ScanInput: one, Content: contentPositions, Format: "PUFFIN"}, {ScanInput: one, Content: contentPositions, Format: "AVRO"},
	} {
		if _, err := DeletedRows("s3://b/a", []DeleteInput{d}); err == nil || !containsAll(err.Error(), one.Name, "s3://b/a", "not supported") {
			t.Errorf("content %d, format %s: %v", d.Content, d.Format, err)
		}
	}
}
