package permit

import (
	"sync"
	"time"
)

const (
	// maxHaste is within which time functions begin after a request for their permits where nothing is slow. A limit
	// counts each start as if it came that late, so it is little of the window: at most a hasteShare.
	maxHaste   = 25 * time.Millisecond
	hasteShare = 20
	// minHaste is the least such time, of which a limit that counts in milliseconds leaves one unused.
	minHaste = 2 * time.Millisecond
	// maxDelay bounds the time that is added for an engine that replies slowly. It is longer than a connection waits
	// for a reply, so that a function begins at last under the permits that its worker renews.
	maxDelay = 10 * time.Second
)

// haste determines the time within which a worker promises to begin functions after it has requested their permits.
// The worker requests them again when it is late, so a time that is too short costs calls; one that is too long costs
// starts.
type haste struct {
	exact bool // on a virtual clock, which does not move between the request and the function

	mu    sync.Mutex
	delay time.Duration // added for calls that were slow lately
}

// within returns that time for a limit that counts starts in a window of windowMS milliseconds.
func (h *haste) within(windowMS int64) time.Duration {
	if h.exact {
		// The limit counts in milliseconds, and the time may lie between two of them.
		if time.Now().UnixNano()%int64(time.Millisecond) != 0 {
			return time.Millisecond
		}
		return 0
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	shortest := maxHaste
	if windowMS > 0 {
		shortest = max(minHaste, min(maxHaste, time.Duration(windowMS)*time.Millisecond/hasteShare))
	}
	return shortest + h.delay
}

// observe records how late a function would have begun under permits that were just renewed; it was in time if that is
// negative.
func (h *haste) observe(late time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if late > 0 {
		h.delay = min(maxDelay, h.delay+2*late)
	} else {
		h.delay -= h.delay / 16
	}
}
