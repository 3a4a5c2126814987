package router

import (
	"context"
	"errors"
	"testing"
	"time"

	"go.uber.org/zap"
)

// Who asks a route to stop that waits to start again gets a clean end: nothing
// is open. Without a stop the route is started again.
func TestStopBetweenStarts(t *testing.T) {
	w := newStage(t, map[string]int32{"a": 1})
	w.ingest("t", nil, "a")
	r, err := New(w.cfg, zap.NewNop(), Options{})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	starts := 0
	err = r.supervise(ctx, t.Context(), route{"ingest", "t", func(context.Context, context.Context, *zap.Logger, bool) error {
		r.states[0].running()
		if starts++; starts == 2 {
			time.AfterFunc(restartWaitMin/4, stop) // the wait is half of restartWaitMin at least
		}
		return errors.New("the broker is gone")
	}, r.states[0], ""})
	if err != nil || starts != 2 {
		t.Errorf("ended with %v after %d starts, want a clean end after 2", err, starts)
	}
}
