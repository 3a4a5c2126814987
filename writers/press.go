package writers

import (
	"bytes"
	"fmt"
	"sync"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/s2"
	"github.com/klauspost/compress/zstd"
)

// Codecs by their numbers in Parquet's footer. Source: parquet.thrift, CompressionCodec.
const (
	codecNone   = 0
	codecSnappy = 1
	codecGzip   = 2
	codecZstd   = 6
)

// codecNamed returns the codec that an option asks for.
func codecNamed(name string) (int32, error) {
	switch name {
	case "none":
		return codecNone, nil
	case "snappy":
		return codecSnappy, nil
	case "gzip":
		return codecGzip, nil
	case "zstd":
		return codecZstd, nil
	}
	return 0, fmt.Errorf("codec %q: must be zstd, snappy, gzip or none", name)
}

// press holds what closing one page needs for a moment. A zstd encoder alone is
// some hundred kilobytes, so open files share presses instead of owning one each.
type press struct {
	levels  []byte       // encoded levels
	numbers []uint32     // a page's values in the dictionary
	raw     []byte       // a page put together before compression
	out     []byte       // a page after compression
	head    compact      // the page header
	gzip    *gzip.Writer // made on first use, like zstd
	zstd    *zstd.Encoder
}

// pressKeepBytes bounds the buffers that a press keeps after a page; a page
// beyond it held a very large row.
const pressKeepBytes = 1 << 20

// presses carries no state from one user to the next: whether a press comes
// from here or is made anew shows only in its cost. The garbage collector
// empties it when nobody writes.
var presses = sync.Pool{New: func() any { return new(press) }}

func (p *press) free() {
	for _, b := range []*[]byte{&p.levels, &p.raw, &p.out} {
		if cap(*b) > pressKeepBytes {
			*b = nil
		}
	}
	if cap(p.numbers) > pressKeepBytes/4 {
		p.numbers = nil
	}
	presses.Put(p)
}

// zstdWindowBytes is more than a page by default, so that all of a page is in
// reach, and small enough that an encoder's history is, too.
const zstdWindowBytes = 256 << 10

// squeeze compresses page. The result is valid until the press is used again.
func (p *press) squeeze(codec int32, page []byte) []byte {
	switch codec {
	case codecSnappy:
		if n := s2.MaxEncodedLen(len(page)); cap(p.out) < n {
			p.out = make([]byte, n)
		}
		return s2.EncodeSnappy(p.out[:cap(p.out)], page)
	case codecZstd:
		if p.zstd == nil {
			var err error
			// The page header has a checksum, a second one inside is wasted.
			p.zstd, err = zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(1),
				zstd.WithWindowSize(zstdWindowBytes), zstd.WithEncoderCRC(false), zstd.WithLowerEncoderMem(true))
			if err != nil {
				panic(fmt.Sprintf("zstd encoder: %v", err)) // the options are constants
			}
		}
		p.out = p.zstd.EncodeAll(page, p.out[:0])
		return p.out
	case codecGzip:
		to := bytes.NewBuffer(p.out[:0])
		if p.gzip == nil {
			p.gzip, _ = gzip.NewWriterLevel(to, gzip.BestSpeed)
		} else {
			p.gzip.Reset(to)
		}
		_, err := p.gzip.Write(page)
		if closing := p.gzip.Close(); err != nil || closing != nil {
			panic(fmt.Sprintf("gzip into memory: %v, %v", err, closing))
		}
		p.out = to.Bytes()
		return p.out
	}
	return page
}
