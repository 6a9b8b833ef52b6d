package runtime

import (
	"context"
	"sync/atomic"
)

// whileAnyWaits is a context for a call that several wait for together: it ends when the contexts of all of them have. Whoever
// made the call ends it with cancel.
func whileAnyWaits[T any](waiting []T, contextOf func(T) context.Context) (ctx context.Context, cancel context.CancelFunc) {
	ctx, end := context.WithCancel(context.Background())
	var left atomic.Int64
	left.Store(1)
	over := func() {
		if left.Add(-1) == 0 {
			end()
		}
	}
	var stops []func() bool
	var before <-chan struct{}
	for _, one := range waiting {
		own := contextOf(one)
		if own.Done() == before && before != nil {
			continue // it ends together with the one before, as all do most often
		}
		before = own.Done()
		left.Add(1)
		stops = append(stops, context.AfterFunc(own, over))
	}
	over()
	return ctx, func() {
		for _, stop := range stops {
			stop()
		}
		end()
	}
}
