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
	left.Store(int64(len(waiting)))
	stops := make([]func() bool, len(waiting))
	for i, one := range waiting {
		stops[i] = context.AfterFunc(contextOf(one), func() {
			if left.Add(-1) == 0 {
				end()
			}
		})
	}
	return ctx, func() {
		for _, stop := range stops {
			stop()
		}
		end()
	}
}
