//go:build synctests

package sim

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"io"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// The clocks of a bubble can't differ. What an instance says of the time is
// changed on its way, to what it would say if its clock were ahead, or behind
// where that is negative; and so is what it hears.

// stamped is the time of a snapshot that an instance has made, whose clock is
// ahead: it takes its own time, but always one later than the table's last.
func stamped(at, last, ahead int64) int64 {
	if at <= last+1 { // it has taken the table's, and its clock may still be farther
		at = min(at, time.Now().UnixMilli())
	}
	return max(last+1, at+ahead)
}

var snapshotTime = regexp.MustCompile(`"timestamp-ms":\d+`)

// skewed is a commit as an instance makes it whose clock is ahead. last is when
// the table was last updated.
func skewed(commit []byte, last int64, ahead time.Duration) []byte {
	if ahead == 0 {
		return commit
	}
	return snapshotTime.ReplaceAllFunc(commit, func(b []byte) []byte {
		at, err := strconv.ParseInt(string(b[len(`"timestamp-ms":`):]), 10, 64)
		if err != nil {
			panic(err) // the digits are few
		}
		return strconv.AppendInt([]byte(`"timestamp-ms":`), stamped(at, last, ahead.Milliseconds()), 10)
	})
}

// skewedMetadata is a metadata file that an instance puts into the store for a
// SQL catalog, as it is when its clock is ahead. Where the newest snapshot is not
// what the file was made for it stays as it is.
func skewedMetadata(location string, body []byte, ahead time.Duration) []byte {
	if ahead == 0 || !strings.HasSuffix(location, ".metadata.json") {
		return body
	}
	zipped := strings.HasSuffix(location, ".gz.metadata.json")
	if zipped {
		body = unzip(body)
	}
	var meta map[string]any
	d := json.NewDecoder(bytes.NewReader(body))
	d.UseNumber()
	if err := d.Decode(&meta); err != nil {
		panic(err) // our own product's
	}
	number := func(v any) int64 {
		n, _ := v.(json.Number)
		i, _ := n.Int64()
		return i
	}
	updated := meta["last-updated-ms"]
	last := int64(0)
	var mine []map[string]any
	for _, list := range []string{"snapshots", "snapshot-log", "metadata-log"} {
		all, _ := meta[list].([]any)
		for _, one := range all {
			m := one.(map[string]any)
			if m["timestamp-ms"] == updated && m["snapshot-id"] == meta["current-snapshot-id"] && list != "metadata-log" {
				mine = append(mine, m)
				continue
			}
			last = max(last, number(m["timestamp-ms"]))
		}
	}
	if len(mine) > 0 {
		at := json.Number(strconv.FormatInt(stamped(number(updated), last, ahead.Milliseconds()), 10))
		meta["last-updated-ms"] = at
		for _, m := range mine {
			m["timestamp-ms"] = at
		}
	}
	body, err := json.Marshal(meta)
	if err != nil {
		panic(err) // it came from JSON
	}
	if !zipped {
		return body
	}
	var out bytes.Buffer
	z := gzip.NewWriter(&out)
	_, _ = z.Write(body)
	_ = z.Close()
	return out.Bytes()
}

func unzip(body []byte) []byte {
	z, err := gzip.NewReader(bytes.NewReader(body))
	if err != nil {
		panic(err) // our own product's
	}
	b, err := io.ReadAll(z)
	if err != nil {
		panic(err)
	}
	return b
}

// signatureSkewMax is by how much a signature's time may be off, by S3's rules.
const signatureSkewMax = 15 * time.Minute

// tellTime puts the store's time into an answer, as an instance sees it whose
// clock is ahead, and tells whether the store takes the time of the request.
func (o *objects) tellTime(w http.ResponseWriter, r *http.Request, ahead time.Duration) bool {
	o.mu.Lock()
	now := time.Now().Add(o.skew)
	o.mu.Unlock()
	w.Header().Set("Date", now.Add(-ahead).UTC().Format(http.TimeFormat))
	signed, err := time.Parse("20060102T150405Z", r.Header.Get("X-Amz-Date"))
	return err == nil && signed.Add(ahead).Sub(now).Abs() <= signatureSkewMax
}

// setClock steps the clock of the store's machine.
func (o *objects) setClock(ahead time.Duration) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.skew = ahead
}
