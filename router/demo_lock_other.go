//go:build !unix

package router

import "os"

// lockFile can't keep a second process out on this system; it only makes the
// file.
func lockFile(name string) (unlock func() error, err error) {
	f, err := os.OpenFile(name, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	return f.Close, nil
}
