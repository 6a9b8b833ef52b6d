package runcheck

import "fmt"

// Code is the kind of a problem. Codes are stable.
type Code string

// Codes of problems.
const (
	// ActivityMissing: no worker of the program has the activity of a node that has not ended, by its name or an alias.
	ActivityMissing Code = "activity_missing"
	// LaneUnserved and CapabilityUnserved: workers have the activity, and none of them serves the lane of the node, or
	// none that does has all of its capabilities.
	LaneUnserved       Code = "lane_unserved"
	CapabilityUnserved Code = "capability_unserved"
	// CodecChanged: a value was stored by another codec than the program has for it.
	CodecChanged Code = "codec_changed"
	// InputMismatch and ResultMismatch: a stored value does not decode strictly into the program's type. It may do so
	// loosely, and then loses data: a JSON object has a field that the type lacks.
	InputMismatch  Code = "input_mismatch"
	ResultMismatch Code = "result_mismatch"
)

// Problem is one reason why the program could not carry a run on.
type Problem struct {
	Flow string `json:"flow"`
	Run  string `json:"run"`
	// Node is empty for the input and result of the run.
	Node string `json:"node,omitempty"`
	Code Code   `json:"code"`
	// Detail describes the problem in English.
	Detail string `json:"detail"`
}

// String is a line with all of it.
func (p Problem) String() string {
	where := fmt.Sprintf("run %s of flow %s", p.Run, p.Flow)
	if p.Node != "" {
		where += ", node " + p.Node
	}
	return fmt.Sprintf("%s: %s: %s", where, p.Code, p.Detail)
}
