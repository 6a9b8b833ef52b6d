package engine

import (
	"context"
	"time"
)

// Notify leaves a value in a channel of capacity one, which wakes the goroutine that receives from it.
func Notify(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// Pause waits for a duration, or until ctx ends.
func Pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}
