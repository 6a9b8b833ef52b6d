package approvals

import (
	"crypto/sha256"
	"encoding/hex"
	"sync"
	"time"
)

// limiter lets a number of events of each key pass at once, and after that one in every interval. Keys that are quiet
// are forgotten, so it needs memory only for those that were busy within the last burst × every, and for maxKeys of
// them at most.
type limiter struct {
	every time.Duration
	burst int

	mu sync.Mutex
	// free is when each key will have used nothing of its burst.
	free  map[string]time.Time
	swept time.Time
}

// Bounds of a limiter's memory. With more than maxKeys busy keys, it drops one for each new one: the least used of a
// random few. So a flood from many addresses locks no one out, and the limiter drops keys of the flood sooner than
// those with high usage.
const (
	maxKeys    = 100_000
	evictAmong = 8
	// Of a longer key the limiter keeps a digest of keyBytes: some are headers of a request.
	keyBytes = 64
)

func newLimiter(every time.Duration, burst int) *limiter {
	return &limiter{every: every, burst: burst, free: make(map[string]time.Time)}
}

// take reports whether an event of the key may pass now, and otherwise how long it has to wait.
func (l *limiter) take(key string, now time.Time) (wait time.Duration, ok bool) {
	if len(key) > keyBytes {
		digest := sha256.Sum256([]byte(key))
		key = hex.EncodeToString(digest[:])
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.sweep(now)
	free, known := l.free[key]
	if !known && len(l.free) >= maxKeys {
		l.evict()
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

// evict forgets the key that has used least, of some.
func (l *limiter) evict() {
	var least string
	var earliest time.Time
	seen := 0
	for key, free := range l.free { // begins anywhere
		if seen == 0 || free.Before(earliest) {
			least, earliest = key, free
		}
		if seen++; seen == evictAmong {
			break
		}
	}
	delete(l.free, least)
}

// sweep drops idle keys, at most once per recovery time of a full burst.
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
