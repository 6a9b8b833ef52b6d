package engine

import (
	"context"
	"time"
)

// TrySend puts a value into a channel of capacity one unless it holds one, which wakes the goroutine that receives from
// it.
func TrySend(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// Sleep returns after d, or earlier when ctx ends.
func Sleep(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}
