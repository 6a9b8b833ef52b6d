package worker

import (
	"encoding/json"
	"sync/atomic"

	"github.com/flowfabric/flowfabric-go/enginecore"
)

// startCounts counts the attempts that a worker run has begun, by lane. Its keys are the worker's lanes and do not
// change, so counting takes no lock.
type startCounts map[enginecore.LaneID]*atomic.Int64

func newStartCounts(lanes []enginecore.LaneID) startCounts {
	counts := make(startCounts, len(lanes))
	for _, lane := range lanes {
		counts[lane] = new(atomic.Int64)
	}
	return counts
}

// add counts an attempt. Lanes that the worker does not serve are left out.
func (c startCounts) add(lane enginecore.LaneID) {
	if count := c[lane]; count != nil {
		count.Add(1)
	}
}

// text is a JSON object of the lanes in which attempts have begun.
func (c startCounts) text() []byte {
	begun := make(map[enginecore.LaneID]int64, len(c))
	for lane, count := range c {
		if n := count.Load(); n > 0 {
			begun[lane] = n
		}
	}
	text, _ := json.Marshal(begun) // names and numbers have a JSON form
	return text
}
