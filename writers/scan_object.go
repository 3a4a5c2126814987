package writers

import (
	"context"
	"fmt"
	"io"
	"io/fs"
	"strings"
	"sync"
)

// Object is an object of a store that is open for reading at any place. Small
// ones are fetched whole with the first read, of others the parts that are asked
// for. It is safe for concurrent use, and needs no closing: it holds nothing but
// memory.
type Object struct {
	store    *Store
	ctx      context.Context
	location string
	size     int64

	once sync.Once
	body []byte // of a small object
	err  error
}

// objectWholeBytesMax is how large an object may be to be fetched whole: a
// request costs about as much time as so many bytes.
const objectWholeBytesMax = 4 << 20

// Object opens an object of a known size. It does no I/O. Reads are patient
// with the store until ctx ends.
func (s *Store) Object(ctx context.Context, location string, size int64) *Object {
	return &Object{store: s, ctx: ctx, location: location, size: size}
}

// ReadAt implements io.ReaderAt.
func (o *Object) ReadAt(to []byte, at int64) (int, error) {
	if at < 0 {
		return 0, fmt.Errorf("read object %s at %d: %w", o.location, at, fs.ErrInvalid)
	}
	n := int(min(int64(len(to)), max(0, o.size-at)))
	if body := o.whole(); body != nil {
		n = copy(to, body[min(at, int64(len(body))):])
	} else if o.err != nil {
		return 0, o.err
	} else if n > 0 {
		if err := o.store.getPart(o.ctx, o.location, at, to[:n]); err != nil {
			return 0, err
		}
	}
	if n < len(to) {
		return n, io.EOF
	}
	return n, nil
}

// whole returns all bytes of a small object, nil for a large one and after an
// error.
func (o *Object) whole() []byte {
	if o.size > objectWholeBytesMax {
		return nil
	}
	o.once.Do(func() { o.body, o.err = o.store.get(o.ctx, o.location) })
	return o.body
}

// Slice implements inMemory. It returns nil where the bytes are not in memory.
func (o *Object) Slice(at, n int64) []byte {
	body := o.whole()
	if at < 0 || n < 0 || at+n > int64(len(body)) {
		return nil
	}
	return body[at : at+n : at+n]
}

// Distant implements distant.
func (o *Object) Distant() bool {
	return o.size > objectWholeBytesMax && o.store.place.kind != kindFolder && o.store.place.kind != kindMemory
}

// getPart reads a part of an object, all of to.
func (s *Store) getPart(ctx context.Context, location string, at int64, to []byte) error {
	return s.retry(ctx, "get", always(location), 0, func(ctx context.Context, key string, alive func()) error {
		return s.objects.readPart(ctx, key, at, to, alive)
	})
}

// readPart reads all of to from r.
func readPart(r io.Reader, to []byte, alive func()) error {
	for len(to) > 0 {
		n, err := r.Read(to)
		to = to[n:]
		if n > 0 {
			alive()
		}
		if err == io.EOF && len(to) > 0 {
			return io.ErrUnexpectedEOF
		}
		if err != nil && err != io.EOF {
			return err
		}
	}
	return nil
}

// isPart sees that an answer begins where it was asked to: some servers know no
// ranges and answer with the whole object.
func isPart(contentRange *string, at int64) error {
	if at == 0 || contentRange != nil && strings.HasPrefix(*contentRange, fmt.Sprintf("bytes %d-", at)) {
		return nil
	}
	return fmt.Errorf("the store answered a request for the bytes from %d on with others", at)
}
