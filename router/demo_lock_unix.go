//go:build unix

package router

import (
	"errors"
	"fmt"
	"os"
	"syscall"
)

// lockFile keeps a second process out until unlock, or until this one dies.
func lockFile(name string) (unlock func() error, err error) {
	f, err := os.OpenFile(name, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		_ = f.Close()
		if errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, errors.New("another demo runs in this folder; choose another with --dir")
		}
		return nil, fmt.Errorf("lock %s: %w", name, err)
	}
	return f.Close, nil
}
