package proxy

import (
	"bytes"
	"math/rand/v2"
	"sync"
)

// CutCalls cuts connections on which a call of the function library was just forwarded: one call in n, the first one
// among the first n, so that a test with enough calls certainly loses a reply.
func CutCalls(oneIn int) func(chunk []byte) Fate {
	var mu sync.Mutex
	place, cut := 0, rand.IntN(oneIn)
	return func(chunk []byte) Fate {
		if !bytes.Contains(chunk, []byte("FCALL")) {
			return Pass
		}
		mu.Lock()
		defer mu.Unlock()
		fate := Pass
		if place == cut {
			fate = Cut
		}
		if place++; place == oneIn {
			place, cut = 0, rand.IntN(oneIn)
		}
		return fate
	}
}

// CutFunction cuts each connection on which a call of a function was just forwarded.
func CutFunction(function string) func(chunk []byte) Fate {
	return func(chunk []byte) Fate {
		if bytes.Contains(chunk, []byte(function)) {
			return Cut
		}
		return Pass
	}
}

// StallAfter passes a number of calls of a function, the last one without its reply, closes the channel, and stalls
// every connection on which data is sent from then on.
func StallAfter(function string, calls int, stalled chan<- struct{}) func(chunk []byte) Fate {
	var mu sync.Mutex
	seen, over := 0, false
	return func(chunk []byte) Fate {
		mu.Lock()
		defer mu.Unlock()
		seen += bytes.Count(chunk, []byte(function))
		if seen >= calls && !over {
			over = true
			close(stalled)
		}
		if over {
			return Stall
		}
		return Pass
	}
}
