package catalog

import (
	"context"
	"errors"
	"net/http"
	"testing"
)

// TestWaitForAnotherChangeEnds lets one append hang in its commit: another that
// waits for it ends with its own context, and lands when it is tried again.
func TestWaitForAnotherChangeEnds(t *testing.T) {
	w := newWorld(t)
	server, uri := w.serve()
	c := w.openREST(uri)
	tbl := w.table(c, TableOptions{})
	hangs, goes := make(chan struct{}), make(chan struct{})
	server.setCommit(func(http.ResponseWriter, *http.Request, func() (int, []byte)) bool {
		close(hangs)
		<-goes
		server.setCommit(nil)
		return false
	})
	first, second := next(t, tbl, 0, 10, 2), next(t, tbl, 10, 10, 2)
	ended := make(chan error)
	go func() {
		_, err := tbl.Append(t.Context(), first)
		ended <- err
	}()
	<-hangs
	ctx, cancel := context.WithCancel(t.Context())
	waited := make(chan error)
	go func() {
		_, err := tbl.Append(ctx, second)
		waited <- err
	}()
	cancel()
	err := <-waited // comes only if a wait can end; the first append still hangs
	if !errors.Is(err, context.Canceled) {
		t.Errorf("the append that waited: %v, want its context's end", err)
	}
	close(goes)
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	if _, err := tbl.Append(t.Context(), second); err != nil {
		t.Fatal(err)
	}
	expectOnce(t, c, first, second)
}
