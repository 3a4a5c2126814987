package writers

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"time"

	icebergio "github.com/apache/iceberg-go/io"
)

var (
	_ icebergio.ReadFileIO  = (*Store)(nil)
	_ icebergio.WriteFileIO = (*Store)(nil)
)

// The methods of icebergio have no context. They give up when the store is
// closed, or after a patience of minutes.
func (s *Store) unasked() (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(s.ctx, s.pace.unasked, errPatience)
}

var errPatience = errors.New("the store did not answer in time")

// Open opens an object for reading. Local files are read as they are asked for;
// objects of other stores are fetched whole, which suits metadata.
func (s *Store) Open(name string) (icebergio.File, error) {
	if s.place.kind == kindFolder {
		key, err := s.key(name)
		if err != nil {
			return nil, &fs.PathError{Op: "open", Path: redact(name, s.secrets), Err: err}
		}
		return os.Open(key)
	}
	body, err := s.ReadFile(name)
	if err != nil {
		return nil, err
	}
	return &objectReader{Reader: bytes.NewReader(body), name: path.Base(name)}, nil
}

// ReadFile reads an object. The caller owns the result.
func (s *Store) ReadFile(name string) ([]byte, error) {
	ctx, done := s.unasked()
	defer done()
	return s.get(ctx, name)
}

// Create returns a writer whose content becomes the object of that name at
// Close, unless there is one: then Close returns fs.ErrExist. Close must have
// succeeded for anything to be stored; nothing is when a Write or ReadFrom failed.
func (s *Store) Create(name string) (icebergio.FileWriter, error) {
	if _, err := s.key(name); err != nil {
		return nil, &fs.PathError{Op: "create", Path: redact(name, s.secrets), Err: err}
	}
	return &objectWriter{store: s, name: name}, nil
}

// WriteFile stores p as the object of that name, unless there is one: then it
// returns fs.ErrExist.
func (s *Store) WriteFile(name string, p []byte) error {
	ctx, done := s.unasked()
	defer done()
	return s.put(ctx, name, p)
}

// Remove deletes an object. It is no error if there is none.
func (s *Store) Remove(name string) error {
	ctx, done := s.unasked()
	defer done()
	return s.Delete(ctx, name)
}

// objectReader is an object in memory, open for reading.
type objectReader struct {
	*bytes.Reader
	name string
}

func (r *objectReader) Close() error               { return nil }
func (r *objectReader) Stat() (fs.FileInfo, error) { return r, nil }

// The methods of fs.FileInfo.

func (r *objectReader) Name() string       { return r.name }
func (r *objectReader) Mode() fs.FileMode  { return 0o444 }
func (r *objectReader) ModTime() time.Time { return time.Time{} }
func (r *objectReader) IsDir() bool        { return false }
func (r *objectReader) Sys() any           { return nil }

// objectWriter is an object that is being collected in memory.
type objectWriter struct {
	store  *Store
	name   string
	body   bytes.Buffer
	failed error
	closed bool
}

func (w *objectWriter) Write(p []byte) (int, error) {
	if w.closed {
		return 0, fs.ErrClosed
	}
	return w.body.Write(p)
}

func (w *objectWriter) ReadFrom(r io.Reader) (int64, error) {
	if w.closed {
		return 0, fs.ErrClosed
	}
	n, err := w.body.ReadFrom(r)
	if err != nil {
		w.failed = err // half of an object must not be stored
	}
	return n, err
}

// Close stores the object. Closing again returns the same result.
func (w *objectWriter) Close() error {
	if !w.closed {
		w.closed = true
		if w.failed == nil {
			w.failed = w.store.WriteFile(w.name, w.body.Bytes())
		}
		w.body = bytes.Buffer{}
	}
	return w.failed
}
