package submit

import (
	"encoding/json"
	"time"

	"github.com/flowfabric/flowfabric-go/internal/flowgraph"
)

// TimerCondition is the resume condition of a wait that no signal ends, only its time.
var TimerCondition = []byte(`{"condition_type":"timer"}`)

// storedTimer has the fields of a timer in a submission apart from its timeout: the path of its time, if that is not a
// duration.
type storedTimer struct {
	Until bool `json:"until,omitempty"`
	// Path is where the time is in the input, as a list of field names.
	Path []string `json:"path,omitempty"`
	// At is a constant time.
	At json.RawMessage `json:"at,omitempty"`
	// Input is true for a time in the run's input; otherwise it is in the result of an upstream.
	Input bool `json:"input,omitempty"`
}

// encodeTimer returns the wait of a timer node.
func encodeTimer(n *flowgraph.Node) ([]byte, error) {
	w := n.Wait
	timer := storedTimer{Until: w.Timer.Until, Path: w.Timer.Path}
	switch n.Input.Kind {
	case flowgraph.ExprInput:
		timer.Input = true
	case flowgraph.ExprConst:
		timer.At = n.Input.Value
	}
	return json.Marshal(storedWait{
		Condition: TimerCondition, TimeoutMS: int64(w.Timeout / time.Millisecond),
		OnTimeout: TimeoutBehaviors[w.OnTimeout], Timer: &timer,
	})
}
