package keeper

import "time"

// timerGrain is how late a timer of the Go runtime may be on a system whose poller counts whole milliseconds, with
// some room.
const timerGrain = 1200 * time.Microsecond

// exactWait divides the waits of a loop so that they end within a fraction of a millisecond: a timer ends timerGrain
// early, and a pause of the thread covers the rest. The zero value is ready for use.
type exactWait struct {
	// paused reports that the last part of a wait was a pause. If it ended too early, a timer is next.
	paused bool
}

// timer returns how long to wait by a timer, of a wait that is left. It is 0 after a pause, which has covered the wait.
func (w *exactWait) timer(left time.Duration) time.Duration {
	switch {
	case w.paused:
		w.paused = false
		return left
	case left > timerGrain:
		return left - timerGrain
	}
	w.paused = true
	pauseThread(left)
	return 0
}
