package writers

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// folders keeps objects as files. A file gets its name only when its content is
// on the disk, never replaces another, also not one of another process, and its
// name is on the disk before create returns.
type folders struct{}

// fileTempPrefix marks files that are not whole yet. What a crash leaves of them may
// be deleted at any time when nothing writes there.
const fileTempPrefix = ".icerouter-"

// writeBytesMax is how much is written at once, so that an ended context is seen.
const writeBytesMax = 1 << 20

func (folders) create(ctx context.Context, key string, body []byte, _ string, alive func()) (err error) {
	folder := filepath.Dir(key)
	if err := makeFolders(folder); err != nil {
		return err
	}
	if _, err := os.Lstat(key); err == nil { // spare the writing; the link decides
		return &fs.PathError{Op: "create", Path: key, Err: fs.ErrExist}
	}
	temp := fmt.Sprintf("%s%c%s%016x", strings.TrimSuffix(folder, "/"), filepath.Separator, fileTempPrefix, rand.Uint64())
	f, err := os.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
	if err != nil {
		return err
	}
	defer func() {
		closeErr := f.Close()
		removeErr := os.Remove(temp)
		if errors.Is(removeErr, fs.ErrNotExist) {
			removeErr = nil
		}
		err = errors.Join(err, closeErr, removeErr)
	}()
	for rest := body; len(rest) > 0; {
		if err := context.Cause(ctx); err != nil {
			return err
		}
		n, err := f.Write(rest[:min(len(rest), writeBytesMax)])
		if err != nil {
			return err
		}
		rest = rest[n:]
		alive()
	}
	if err := f.Sync(); err != nil {
		return err
	}
	alive()
	if err := giveName(temp, key); err != nil {
		return err
	}
	if err := os.Remove(temp); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return syncFolder(folder)
}

// giveName gives a file its name unless that is taken.
func giveName(temp, name string) error {
	err := os.Link(temp, name)
	if err == nil || errors.Is(err, fs.ErrExist) {
		return err
	}
	// Not every file system has links, and some containers forbid them.
	var link *os.LinkError
	if errors.As(err, &link) && (errors.Is(err, syscall.EPERM) || errors.Is(err, syscall.ENOTSUP) || errors.Is(err, syscall.ENOSYS) || errors.Is(err, syscall.EMLINK)) {
		return renameToNew(temp, name)
	}
	return err
}

// makeFolders makes a folder and those above it that are missing, and sees that
// they are on the disk.
func makeFolders(folder string) error {
	info, err := os.Stat(folder)
	if err == nil && info.IsDir() {
		return nil
	}
	if err == nil {
		return &fs.PathError{Op: "mkdir", Path: folder, Err: syscall.ENOTDIR}
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	above := filepath.Dir(folder)
	if above == folder {
		return err
	}
	if err := makeFolders(above); err != nil {
		return err
	}
	if err := os.Mkdir(folder, 0o777); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return syncFolder(above) // also when another made it: it may not have come so far
}

// syncFolder puts the names of a folder on the disk.
func syncFolder(folder string) error {
	d, err := os.Open(folder)
	if err != nil {
		return err
	}
	err = d.Sync()
	if errors.Is(err, syscall.EINVAL) || errors.Is(err, syscall.ENOTSUP) {
		err = nil // a file system that can't has nothing to wait for
	}
	return errors.Join(err, d.Close())
}

func (folders) read(_ context.Context, key string, _ func()) ([]byte, error) {
	return os.ReadFile(key)
}

func (folders) readPart(_ context.Context, key string, at int64, to []byte, _ func()) error {
	f, err := os.Open(key)
	if err != nil {
		return err
	}
	defer f.Close()
	return readFull(f, to, at)
}

func (folders) remove(_ context.Context, key string) error {
	info, err := os.Lstat(key)
	if err != nil {
		return err
	}
	if info.IsDir() {
		return &fs.PathError{Op: "remove", Path: key, Err: syscall.EISDIR}
	}
	return os.Remove(key)
}

func (folders) close() error { return nil }
