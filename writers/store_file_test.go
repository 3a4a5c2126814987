package writers

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestFileLeavesNothing: whatever ends a creation, no part of a file and no
// temporary file stays, and what was there stays as it was.
func TestFileLeavesNothing(t *testing.T) {
	folder := t.TempDir()
	files := func() (names []string) {
		entries, err := os.ReadDir(folder)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			names = append(names, e.Name())
		}
		return names
	}
	body := bytes.Repeat([]byte("x"), 3*writeBytesMax)
	name := filepath.Join(folder, "f")

	ctx, stop := context.WithCancelCause(t.Context())
	why := errors.New("enough")
	if err := (folders{}).create(ctx, name, body, "", func() { stop(why) }); !errors.Is(err, why) {
		t.Errorf("ended in the middle: %v", err)
	}
	if got := files(); len(got) != 0 {
		t.Errorf("left %v", got)
	}
	// Another process is quicker: the name appears while we write.
	err := (folders{}).create(t.Context(), name, body, "", func() {
		if err := os.WriteFile(name, []byte("theirs"), 0o600); err != nil {
			t.Error(err)
		}
	})
	if got, _ := os.ReadFile(name); !errors.Is(err, fs.ErrExist) || string(got) != "theirs" || len(files()) != 1 {
		t.Errorf("%v; %q, %v", err, got, files())
	}
}

// TestFileRename is the road of file systems without links.
func TestFileRename(t *testing.T) {
	folder := t.TempDir()
	a, b := filepath.Join(folder, "a"), filepath.Join(folder, "b")
	for _, name := range []string{a, b} {
		if err := os.WriteFile(name, []byte(name), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := renameToNew(a, b); !errors.Is(err, fs.ErrExist) {
		t.Errorf("replaced: %v", err)
	}
	if err := renameToNew(a, b+"2"); err != nil {
		t.Error(err)
	}
	if got, err := os.ReadFile(b + "2"); string(got) != a || err != nil {
		t.Errorf("%q, %v", got, err)
	}
}

// TestFileRefusals: what the file system refuses is returned with the path and
// a remedy.
func TestFileRefusals(t *testing.T) {
	folder := t.TempDir()
	st, _ := openStore(t, folder, nil)
	if err := os.WriteFile(filepath.Join(folder, "file"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		folder + "/file/x":                             "a part of the path is a file",
		folder + "/" + strings.Repeat("n", 300):        "the path is too long",
		folder + "/" + strings.Repeat("n", 300) + "/x": "the path is too long",
	} {
		err := st.WriteFile(name, []byte("x"))
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := st.Remove(folder); err == nil || !strings.Contains(err.Error(), "is a folder") {
		t.Errorf("removed a folder: %v", err)
	}
	if got, err := os.ReadDir(folder); err != nil || len(got) != 1 {
		t.Errorf("left %v, %v", got, err)
	}
}
