//go:build !linux

package writers

import (
	"os"
	"syscall"
)

// renameToNew renames a file unless the new name is taken, which only Linux can.
func renameToNew(temp, name string) error {
	return &os.LinkError{Op: "rename", Old: temp, New: name, Err: syscall.ENOTSUP}
}
