package writers

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/andybalholm/brotli"
	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/s2"
	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"
)

// Codecs that only readers meet.
const (
	codecLZO    = 3
	codecBrotli = 4
	codecLZ4    = 5 // as Hadoop frames it
	codecLZ4Raw = 7
)

// unpress holds what expanding pages needs for a moment.
type unpress struct {
	zstd   *zstd.Decoder
	gzip   *gzip.Reader
	brotli *brotli.Reader
}

// unpresses carries no state from one user to the next, see presses.
var unpresses = sync.Pool{New: func() any { return new(unpress) }}

// expand expands page into to, which has exactly the size that it must have.
func expand(codec int32, to, page []byte) error {
	u := unpresses.Get().(*unpress)
	defer unpresses.Put(u)
	switch codec {
	case codecNone:
		if len(to) != len(page) {
			return fmt.Errorf("%d bytes instead of %d", len(page), len(to))
		}
		copy(to, page)
		return nil
	case codecSnappy:
		if n, err := s2.DecodedLen(page); err != nil || n != len(to) {
			return fmt.Errorf("snappy: %d bytes instead of %d: %w", n, len(to), orDamaged(err))
		}
		_, err := s2.Decode(to, page)
		return wrapCodec("snappy", err)
	case codecGzip:
		return wrapCodec("gzip", u.gunzip(to, page))
	case codecBrotli:
		if u.brotli == nil {
			u.brotli = brotli.NewReader(nil)
		}
		if err := u.brotli.Reset(bytes.NewReader(page)); err != nil {
			return wrapCodec("brotli", err)
		}
		return wrapCodec("brotli", readExactly(u.brotli, to))
	case codecLZ4Raw:
		return wrapCodec("lz4", unlz4(to, page))
	case codecLZ4:
		return wrapCodec("lz4", unlz4Hadoop(to, page))
	case codecZstd:
		return wrapCodec("zstd", u.unzstd(to, page))
	case codecLZO:
		return errors.New("codec LZO is not supported")
	}
	return fmt.Errorf("codec %d is unknown", codec)
}

var errDamaged = errors.New("the compressed bytes are damaged")

func orDamaged(err error) error {
	if err == nil {
		return errDamaged
	}
	return err
}

func wrapCodec(name string, err error) error {
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

func (u *unpress) unzstd(to, page []byte) error {
	if u.zstd == nil {
		var err error
		u.zstd, err = zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecodeAllCapLimit(true))
		if err != nil {
			return err
		}
	}
	out, err := u.zstd.DecodeAll(page, to[:0:len(to)])
	if err == nil && len(out) != len(to) {
		err = fmt.Errorf("%d bytes instead of %d", len(out), len(to))
	}
	return err
}

func (u *unpress) gunzip(to, page []byte) error {
	if u.gzip == nil {
		r, err := gzip.NewReader(bytes.NewReader(page))
		if err != nil {
			return err
		}
		u.gzip = r
	} else if err := u.gzip.Reset(bytes.NewReader(page)); err != nil {
		return err
	}
	return readExactly(u.gzip, to)
}

// readExactly reads all of to, and sees that nothing follows.
func readExactly(r io.Reader, to []byte) error {
	if _, err := io.ReadFull(r, to); err != nil {
		return err
	}
	var more [1]byte
	if n, err := r.Read(more[:]); n > 0 || err != nil && !errors.Is(err, io.EOF) {
		return orDamaged(err)
	}
	return nil
}

func unlz4(to, page []byte) error {
	if len(to) == 0 {
		return nil
	}
	n, err := lz4.UncompressBlock(page, to)
	if err == nil && n != len(to) {
		err = fmt.Errorf("%d bytes instead of %d", n, len(to))
	}
	return err
}

// unlz4Hadoop expands the older LZ4 codec: blocks with their sizes before and
// after compression in front. Some writers left the sizes out.
//
// Source: parquet-format Compression.md, "LZ4".
func unlz4Hadoop(to, page []byte) error {
	done, rest := 0, page
	for len(rest) >= 8 {
		raw, stored := binary.BigEndian.Uint32(rest), binary.BigEndian.Uint32(rest[4:])
		if uint64(stored) > uint64(len(rest)-8) || uint64(raw) > uint64(len(to)-done) {
			break
		}
		if unlz4(to[done:done+int(raw)], rest[8:8+stored]) != nil {
			break
		}
		done += int(raw)
		rest = rest[8+stored:]
	}
	if done == len(to) && len(rest) == 0 {
		return nil
	}
	return unlz4(to, page)
}
