// Package sleep lets goroutines sleep for a time or until a channel wakes them.
package sleep

import (
	"context"
	"time"
)

// Wake puts a value into a channel of capacity one unless it holds one, which wakes the goroutine that receives from
// it.
func Wake(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// For returns after d, or earlier when ctx ends.
func For(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}
