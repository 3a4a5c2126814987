package main

import (
	"fmt"
	"math/rand/v2"
	"strings"
)

const alphanumerics = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"

// generator returns what makes record number i of a kind. The memory it
// returns is its own each time.
func generator(kind string) (func(i int64) []byte, error) {
	random := rand.New(rand.NewPCG(7, 7))
	// Texts are pieces of one long text at random places: as good as random ones for any codec's window, and quick.
	pool := make([]byte, 64<<20)
	for i := range pool {
		pool[i] = alphanumerics[random.IntN(len(alphanumerics))]
	}
	piece := func(n int) []byte {
		at := random.IntN(len(pool) - n)
		return pool[at : at+n]
	}
	switch kind {
	case "reference":
		return func(int64) []byte {
			return fmt.Appendf(nil, `{"logStreamId": %d, "message": "%s"}`, 1_000_001+random.IntN(1_000_000), piece(962))
		}, nil
	case "event":
		return func(i int64) []byte { return event(i, random, piece) }, nil
	}
	return nil, fmt.Errorf("records %q: must be reference or event", kind)
}

// event is a record with 25 leaves in five structs and a list, escapes and
// letters beyond ASCII in every twentieth.
func event(i int64, random *rand.Rand, piece func(int) []byte) []byte {
	comment := string(piece(300))
	if i%20 == 0 {
		comment = `say \"yes\"\nžluťoučký ` + comment
	}
	word := []string{"view", "click", "purchase", "refund"}[random.IntN(4)]
	return fmt.Appendf(nil, `{"event_id":"%08x-%04x-4000-8000-%012x","kind":"%s","occurred_at":"2026-03-%02dT%02d:%02d:%02d.%06dZ","version":%d,"duration_ms":%d,`+
		`"user":{"id":%d,"name":"%s","email":"%s@example.com","verified":%t},`+
		`"device":{"os":"linux","model":"%s","screen":{"width":%d,"height":%d},"battery":%.4f},`+
		`"geo":{"country":"CZ","lat":%.6f,"lon":%.6f},`+
		`"order":{"number":"%s","total":%d.%02d,"currency":"CZK","placed_on":"2026-03-%02d","express":%t},`+
		`"labels":["%s","%s","%s"],"comment":"%s"}`,
		random.Uint32(), random.IntN(1<<16), random.Int64N(1<<48), word, 1+random.IntN(28), random.IntN(24), random.IntN(60), random.IntN(60), random.IntN(1_000_000), random.IntN(10), random.IntN(100_000),
		random.Int64N(1<<50), piece(12), piece(10), i%2 == 0,
		piece(6), 320+random.IntN(3000), 200+random.IntN(2000), random.Float64(),
		random.NormFloat64()*50, random.NormFloat64()*100,
		piece(10), random.IntN(100_000), random.IntN(100), 1+random.IntN(28), i%3 == 0,
		piece(4), piece(4), piece(4), comment)
}

// columns is the schema of a kind of records in [ingest.create].
func columns(kind string) string {
	if kind == "reference" {
		return `{ name = "logStreamId", type = "long", required = true }, { name = "message", type = "string" }`
	}
	var list []string
	for _, c := range [][2]string{
		{"event_id", "uuid"}, {"kind", "string"}, {"occurred_at", "timestamptz"}, {"version", "int"}, {"duration_ms", "long"},
		{"user", "struct<id: long, name: string, email: string, verified: boolean>"},
		{"device", "struct<os: string, model: string, screen: struct<width: int, height: int>, battery: double>"},
		{"geo", "struct<country: string, lat: double, lon: double>"},
		{"order", "struct<number: string, total: decimal(18, 2), currency: string, placed_on: date, express: boolean>"},
		{"labels", "list<string>"}, {"comment", "string"},
	} {
		list = append(list, fmt.Sprintf("{ name = %q, type = %q }", c[0], c[1]))
	}
	return strings.Join(list, ", ")
}

// partition is the field that deals the rows of a kind to 64 buckets.
func partition(kind string) string {
	if kind == "reference" {
		return "bucket(logStreamId, 64)"
	}
	return "bucket(duration_ms, 64)"
}
