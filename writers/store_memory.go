package writers

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"gocloud.dev/blob"
	"gocloud.dev/blob/memblob"
	"gocloud.dev/gcerrors"
)

// memory keeps objects in memory, for tests.
type memory struct{ bucket *blob.Bucket }

func openMemory() objects { return memory{memblob.OpenBucket(nil)} }

func (m memory) create(ctx context.Context, key string, body []byte, contentType string, _ func()) error {
	ctx, abort := context.WithCancel(ctx)
	defer abort()
	w, err := m.bucket.NewWriter(ctx, key, &blob.WriterOptions{IfNotExist: true, ContentType: contentType})
	if err != nil {
		return err
	}
	if _, err := w.Write(body); err != nil {
		abort() // before Close, which would else keep a part of it
		return errors.Join(err, w.Close())
	}
	return memoryError(w.Close())
}

func (m memory) read(ctx context.Context, key string, _ func()) ([]byte, error) {
	body, err := m.bucket.ReadAll(ctx, key)
	return body, memoryError(err)
}

func (m memory) readPart(ctx context.Context, key string, at int64, to []byte, alive func()) error {
	r, err := m.bucket.NewRangeReader(ctx, key, at, int64(len(to)), nil)
	if err != nil {
		return memoryError(err)
	}
	defer r.Close()
	return readPart(r, to, alive)
}

func (m memory) remove(ctx context.Context, key string) error {
	return memoryError(m.bucket.Delete(ctx, key))
}

func (m memory) close() error { return m.bucket.Close() }

func memoryError(err error) error {
	switch gcerrors.Code(err) {
	case gcerrors.FailedPrecondition:
		return fmt.Errorf("%w: %w", fs.ErrExist, err)
	case gcerrors.NotFound:
		return fmt.Errorf("%w: %w", fs.ErrNotExist, err)
	}
	return err
}
