package writers

import (
	"strings"
	"testing"

	"github.com/apache/iceberg-go"
)

// B075: types that are not written are refused when the table is opened, with
// the column's name; timestamps in nanoseconds never reach a bucket.
func TestLayoutRefuses(t *testing.T) {
	y := &typer{}
	for _, typ := range []iceberg.Type{iceberg.TimestampNsType{}, iceberg.TimestampTzNsType{}, y.record(y.field("at", iceberg.TimestampNsType{})), y.list(iceberg.TimestampNsType{}, true)} {
		_, err := NewLayout(iceberg.NewSchema(0, y.field("when", typ)))
		if err == nil || !strings.Contains(err.Error(), `column "when`) || !strings.Contains(err.Error(), "is not supported; supported are") {
			t.Errorf("%s: %v", typ, err)
		}
	}
}
