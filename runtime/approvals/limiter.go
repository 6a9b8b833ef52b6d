package approvals

import (
	"sync"
	"time"
)

// limiter lets a number of events of each key pass at once, and after that one in every interval. Keys that are quiet are
// forgotten, so it needs memory only for those that were busy within the last burst × every.
type limiter struct {
	every time.Duration
	burst int

	mu sync.Mutex
	// free is when each key will have used nothing of its burst.
	free  map[string]time.Time
	swept time.Time
}

// maxKeys bounds the keys that a limiter remembers. When there are more busy ones, unknown ones have to wait.
const maxKeys = 100_000

func newLimiter(every time.Duration, burst int) *limiter {
	return &limiter{every: every, burst: burst, free: make(map[string]time.Time)}
}

// take tells whether an event of the key may pass now, and otherwise how long it has to wait.
func (l *limiter) take(key string, now time.Time) (wait time.Duration, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.sweep(now)
	free, known := l.free[key]
	if !known && len(l.free) >= maxKeys {
		return l.every, false
	}
	if free.Before(now) {
		free = now
	}
	if wait := free.Sub(now) - time.Duration(l.burst-1)*l.every; wait > 0 {
		return wait, false
	}
	l.free[key] = free.Add(l.every)
	return 0, true
}

// sweep forgets quiet keys, at most once per time that a whole burst needs to come back.
func (l *limiter) sweep(now time.Time) {
	if now.Sub(l.swept) < time.Duration(l.burst)*l.every {
		return
	}
	l.swept = now
	for key, free := range l.free {
		if free.Before(now) {
			delete(l.free, key)
		}
	}
}
