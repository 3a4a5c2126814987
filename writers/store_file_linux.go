package writers

import (
	"os"

	"golang.org/x/sys/unix"
)

// renameToNew renames a file unless the new name is taken.
func renameToNew(temp, name string) error {
	if err := unix.Renameat2(unix.AT_FDCWD, temp, unix.AT_FDCWD, name, unix.RENAME_NOREPLACE); err != nil {
		if err == unix.EINVAL || err == unix.ENOSYS {
			err = unix.ENOTSUP
		}
		return &os.LinkError{Op: "rename", Old: temp, New: name, Err: err}
	}
	return nil
}
