package proxy

import (
	"bytes"
	"math/rand/v2"
	"sync"
)

// CutCalls cuts, with a probability, connections on which a call of the function library was just forwarded.
func CutCalls(probability float64) func(chunk []byte) Fate {
	return func(chunk []byte) Fate {
		if bytes.Contains(chunk, []byte("FCALL")) && rand.Float64() < probability {
			return Cut
		}
		return Pass
	}
}

// StallAfter lets so many calls of a function through, the last one without its reply, closes the channel, and stalls
// every connection on which something is sent from then on.
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
