package router

import (
	"fmt"
	"testing"

	"icerouter/catalog"
)

// A data file says which records its rows are: as many of each partition as it
// has, between the first and the last offset.
func TestOrigins(t *testing.T) {
	var o origins
	a, b := topicPartition{"a", 3}, topicPartition{"b", 0}
	o.add(a, 10, 19, 5)
	o.add(b, 7, 7, 1)
	o.add(a, 20, 40, 2)
	o.add(topicPartition{"a", 1}, 1, 2, 2)
	o.add(a, 41, 41, 1)
	text := string(o.encode("orders", "f00", "c1", catalog.Source{Cluster: "c", TopicIDs: map[string]string{"a": "i"}}))
	want := `{"ingest":"orders","file":"f00","cut":"c1","cluster":"c","topics":{"a":{"id":"i","offsets":[[1,1,2,2],[3,10,41,8]]},"b":{"offsets":[[0,7,7,1]]}}}`
	if text != want {
		t.Errorf("encoded as %s\nwant       %s", text, want)
	}
	got, err := decodeOrigins(text)
	if err != nil || got.Ingest != "orders" || got.File != "f00" || got.Cut != "c1" || fmt.Sprint(got.Topics["a"].Offsets) != "[[1 1 2 2] [3 10 41 8]]" {
		t.Errorf("decoded as %+v, %v", got, err)
	}
	for _, bad := range []string{"", "[]", `{"topics":{"a":{"offsets":[[1,1,2,0]]}}}`, `{"topics":{"a":{"offsets":[[-1,1,2,2]]}}}`, `{"topics":{"a":{"offsets":[[0,3,2,2]]}}}`, `{"topics":{"a":{"offsets":[[4294967296,1,2,2]]}}}`} {
		if _, err := decodeOrigins(bad); err == nil {
			t.Errorf("%q decodes", bad)
		}
	}
	if o.size() == 0 || (&origins{}).size() != 0 {
		t.Error("origins are not counted as memory")
	}
}
