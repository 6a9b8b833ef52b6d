package contractnode

import (
	"encoding/json"
	"maps"
	"strings"
	"time"
)

// Tags that hold the fields that the contract lacks. Flows have all of them but TagNode; executions have TagNode and
// both hashes.
const (
	// Tags begins the names of all of them; users' tags begin with other texts.
	Tags           = "flowfabric."
	TagRunID       = Tags + "run_id"
	TagGraphHash   = Tags + "graph_hash"
	TagInputHash   = Tags + "input_hash"
	TagDefinition  = Tags + "definition"
	TagInput       = Tags + "input"
	TagResult      = Tags + "result_execution_id"
	TagDeadline    = Tags + "deadline_at"
	TagTrace       = Tags + "trace_context"
	TagCancelledBy = Tags + "cancelled_by"
	// TagSubmitted is set once all nodes and edges exist, so that any program may release the nodes.
	TagSubmitted = Tags + "submitted"
	TagNode      = Tags + "node"
	// TagWait is on waitpoint nodes.
	TagWait = Tags + "wait"
	// TagResumed, followed by the id of a waitpoint, is on executions that an operator has resumed.
	TagResumed = Tags + "resumed."
	// TagDetails is on executions that failed with details: the attempt, a colon, and the details.
	TagDetails = Tags + "failure_details"
)

// HeldUntil is the time until which members are delayed while their flow is being submitted: in effect, for ever.
func HeldUntil() time.Time { return time.UnixMilli(9_999_999_999_999).UTC() }

// UserTags encodes the tags of an execution that users gave it, and removes the others from the map; nil if there are
// none.
func UserTags(tags map[string]string) []byte {
	maps.DeleteFunc(tags, func(key, _ string) bool { return strings.HasPrefix(key, Tags) })
	if len(tags) == 0 {
		return nil
	}
	encoded, _ := json.Marshal(tags) // texts have a JSON form
	return encoded
}
