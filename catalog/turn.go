package catalog

import (
	"context"
	"sync"
)

// turn lets one caller at a time do something that waits for others, for
// minutes if need be. Unlike a mutex it can be waited for no longer than a
// context lives. The zero value is free.
type turn struct {
	once  sync.Once
	taken chan struct{}
}

// take waits until the turn is free. A free turn is taken though ctx has ended.
func (t *turn) take(ctx context.Context) error {
	t.once.Do(func() { t.taken = make(chan struct{}, 1) })
	select {
	case t.taken <- struct{}{}:
		return nil
	default:
	}
	select {
	case t.taken <- struct{}{}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// leave frees the turn for the next. REQUIRES: the caller has taken it.
func (t *turn) leave() { <-t.taken }
