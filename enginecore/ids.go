package enginecore

import "strings"

// Identifiers are distinct string types, so that one cannot be used in place of another. The zero value means "none".
// A conversion such as FlowID(text) does not check the form; calls that get the id do.
type (
	// ExecutionID is the hash tag of the execution's partition, a colon and a UUID: `{fp:7}:550e8400-…`.
	ExecutionID string
	// FlowID is a UUID.
	FlowID string
	// LeaseID is a UUID.
	LeaseID string
	// EdgeID is a UUID.
	EdgeID string
	// SignalID is a UUID.
	SignalID string
	// WaitpointID is a UUID.
	WaitpointID string
	// BudgetID is a UUID.
	BudgetID string
	// QuotaPolicyID is a UUID.
	QuotaPolicyID string
	// LaneID is 1 to 64 printable ASCII characters.
	LaneID string
	// WorkerID names a worker across restarts: any text that is not empty.
	WorkerID string
	// WorkerInstanceID names one run of a worker process: any text that is not empty.
	WorkerInstanceID string
)

// LeaseEpoch counts the leases of an execution; the first lease has epoch 1.
type LeaseEpoch int64

// AttemptIndex counts the attempts of an execution from 0.
type AttemptIndex int

// UUID is the part after the partition's tag.
func (id ExecutionID) UUID() string {
	return strings.TrimPrefix(string(id[len(id.Tag()):]), ":")
}

// Tag is the hash tag of the id's partition, such as {fp:7}, or "" when the id does not begin with one. It is not
// checked.
func (id ExecutionID) Tag() string {
	if id == "" || id[0] != '{' {
		return ""
	}
	return string(id[:strings.IndexByte(string(id), '}')+1])
}

// String returns the id as text.
func (id ExecutionID) String() string { return string(id) }

// String returns the id as text.
func (id FlowID) String() string { return string(id) }

// String returns the id as text.
func (id LeaseID) String() string { return string(id) }

// String returns the id as text.
func (id EdgeID) String() string { return string(id) }

// String returns the id as text.
func (id LaneID) String() string { return string(id) }
