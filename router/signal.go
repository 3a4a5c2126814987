package router

import (
	"context"
	"os"
	"os/signal"
	"syscall"
)

// secondSignal returns a context that lives on when ctx ends, by a first
// signal, and ends at the second: for commands that finish their work after
// the first, for people who don't want to wait for that.
func secondSignal(ctx context.Context) (hard context.Context, release func()) {
	hard, release = context.WithCancel(context.WithoutCancel(ctx))
	context.AfterFunc(ctx, func() {
		signals := make(chan os.Signal, 1)
		signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
		defer signal.Stop(signals)
		select {
		case <-signals:
			release()
		case <-hard.Done():
		}
	})
	return hard, release
}
