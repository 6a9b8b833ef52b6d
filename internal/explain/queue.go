package explain

import (
	"fmt"

	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/internal/waitreason"
)

// Queued explains a node whose run waits for its turn among those of a key, at a place of its queue. running is a run
// that is open; empty if none is known.
func Queued(e fabrictype.Explanation, key, running string, place int) fabrictype.Explanation {
	sentence := fmt.Sprintf("the run is number %d in the queue of key %q", place, key)
	if running != "" {
		sentence += ", behind run " + running
	}
	return fabrictype.Explanation{
		Reason: waitreason.Queue, Subject: running, Key: key, Have: place, Since: e.Since, Sentence: sentence,
		Remedy: "the end of the runs before it",
	}
}
