package enginecore

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/google/uuid"
)

// Identifiers are distinct string types, so that one cannot be used in place of another. The zero value means "none".
// Parse functions check the form; a conversion such as FlowID(text) does not.
type (
	// ExecutionID is the hash tag of the execution's partition, a colon and a UUID: `{fp:7}:550e8400-…`.
	ExecutionID string
	// FlowID is a UUID.
	FlowID string
	// AttemptID is a UUID.
	AttemptID string
	// LeaseID is a UUID.
	LeaseID string
	// EdgeID is a UUID.
	EdgeID string
	// SignalID is a UUID.
	SignalID string
	// WaitpointID is a UUID.
	WaitpointID string
	// SuspensionID is a UUID.
	SuspensionID string
	// BudgetID is a UUID.
	BudgetID string
	// QuotaPolicyID is a UUID.
	QuotaPolicyID string
	// ScheduleID is a UUID.
	ScheduleID string
	// BulkJobID is a UUID.
	BulkJobID string
	// RunKeyID is a UUID.
	RunKeyID string
	// LaneID is 1 to 64 printable ASCII characters.
	LaneID string
	// WorkerID names a worker across restarts: any text that is not empty.
	WorkerID string
	// WorkerInstanceID names one run of a worker process: any text that is not empty.
	WorkerInstanceID string
	// Namespace separates users of one deployment: any text that is not empty.
	Namespace string
)

// LeaseEpoch counts the leases of an execution; the first lease has epoch 1.
type LeaseEpoch int64

// AttemptIndex counts the attempts of an execution from 0.
type AttemptIndex int

// IDError describes a fault in the text of an identifier.
type IDError struct {
	// Kind names the identifier, for example "execution id".
	Kind string
	// Text is the offending text.
	Text string
	// Problem describes the fault.
	Problem string
}

// Error implements error.
func (e *IDError) Error() string {
	return fmt.Sprintf("malformed %s %q: %s", e.Kind, e.Text, e.Problem)
}

// ParseExecutionID checks that text is a flow partition's tag, a colon and a UUID. Whether the deployment
// has such a partition is not checked.
func ParseExecutionID(text string) (ExecutionID, error) {
	id := ExecutionID(text)
	if _, err := id.Partition(); err != nil {
		return "", err
	}
	if err := checkUUID(text[len(id.Tag())+1:]); err != nil {
		return "", &IDError{"execution id", text, err.Error()}
	}
	return id, nil
}

// NewExecutionID returns a random execution id in a partition.
func NewExecutionID(p Partition) ExecutionID {
	return ExecutionID(p.Tag() + ":" + uuid.NewString())
}

// Partition reads the partition from the id. It checks the tag, not the part after it.
func (id ExecutionID) Partition() (Partition, error) {
	tag := id.Tag()
	if tag == "" || !strings.HasPrefix(string(id[len(tag):]), ":") || len(id) == len(tag)+1 {
		return Partition{}, &IDError{"execution id", string(id), "not {fp:N}:uuid"}
	}
	p, err := ParsePartition(tag)
	if err != nil || p.Family != FlowFamily {
		return Partition{}, &IDError{"execution id", string(id), "does not begin with a flow partition's tag"}
	}
	return p, nil
}

// UUID is the part after the partition's tag.
func (id ExecutionID) UUID() string {
	return strings.TrimPrefix(string(id[len(id.Tag()):]), ":")
}

// Tag is the hash tag of the id's partition, such as {fp:7}, or "" when the id does not begin with one. It is not
// checked; Partition does that.
func (id ExecutionID) Tag() string {
	if id == "" || id[0] != '{' {
		return ""
	}
	return string(id[:strings.IndexByte(string(id), '}')+1])
}

// checkUUID accepts the canonical form of 36 characters only.
func checkUUID(text string) error {
	if len(text) != 36 {
		return fmt.Errorf("not a UUID of 36 characters")
	}
	if _, err := uuid.Parse(text); err != nil {
		return fmt.Errorf("not a UUID")
	}
	return nil
}

func parseUUID[T ~string](kind, text string) (T, error) {
	if err := checkUUID(text); err != nil {
		return "", &IDError{kind, text, err.Error()}
	}
	return T(text), nil
}

// ParseFlowID checks that text is a UUID.
func ParseFlowID(text string) (FlowID, error) { return parseUUID[FlowID]("flow id", text) }

// ParseAttemptID checks that text is a UUID.
func ParseAttemptID(text string) (AttemptID, error) { return parseUUID[AttemptID]("attempt id", text) }

// ParseLeaseID checks that text is a UUID.
func ParseLeaseID(text string) (LeaseID, error) { return parseUUID[LeaseID]("lease id", text) }

// ParseEdgeID checks that text is a UUID.
func ParseEdgeID(text string) (EdgeID, error) { return parseUUID[EdgeID]("edge id", text) }

// ParseSignalID checks that text is a UUID.
func ParseSignalID(text string) (SignalID, error) { return parseUUID[SignalID]("signal id", text) }

// ParseWaitpointID checks that text is a UUID.
func ParseWaitpointID(text string) (WaitpointID, error) {
	return parseUUID[WaitpointID]("waitpoint id", text)
}

// ParseSuspensionID checks that text is a UUID.
func ParseSuspensionID(text string) (SuspensionID, error) {
	return parseUUID[SuspensionID]("suspension id", text)
}

// ParseBudgetID checks that text is a UUID.
func ParseBudgetID(text string) (BudgetID, error) { return parseUUID[BudgetID]("budget id", text) }

// ParseQuotaPolicyID checks that text is a UUID.
func ParseQuotaPolicyID(text string) (QuotaPolicyID, error) {
	return parseUUID[QuotaPolicyID]("quota policy id", text)
}

// ParseScheduleID checks that text is a UUID.
func ParseScheduleID(text string) (ScheduleID, error) {
	return parseUUID[ScheduleID]("schedule id", text)
}

// maxLaneID is the length limit of a lane id in bytes.
const maxLaneID = 64

// ParseLaneID checks that text is 1 to 64 printable ASCII characters, and none of "/", "." and "..", which no URL can
// name.
func ParseLaneID(text string) (LaneID, error) {
	if text == "" || len(text) > maxLaneID {
		return "", &IDError{"lane id", text, "must have 1 to " + strconv.Itoa(maxLaneID) + " characters"}
	}
	for i := range len(text) {
		if text[i] < 0x20 || text[i] > 0x7e {
			return "", &IDError{"lane id", text, "must be printable ASCII"}
		}
	}
	if text == "/" || text == "." || text == ".." {
		return "", &IDError{"lane id", text, "cannot be part of a URL"}
	}
	return LaneID(text), nil
}

func parseFree[T ~string](kind, text string) (T, error) {
	if text == "" {
		return "", &IDError{kind, text, "must not be empty"}
	}
	return T(text), nil
}

// ParseWorkerID checks that text is not empty.
func ParseWorkerID(text string) (WorkerID, error) { return parseFree[WorkerID]("worker id", text) }

// ParseWorkerInstanceID checks that text is not empty.
func ParseWorkerInstanceID(text string) (WorkerInstanceID, error) {
	return parseFree[WorkerInstanceID]("worker instance id", text)
}

// ParseNamespace checks that text is not empty.
func ParseNamespace(text string) (Namespace, error) { return parseFree[Namespace]("namespace", text) }

// String returns the id as text.
func (id ExecutionID) String() string { return string(id) }

// String returns the id as text.
func (id FlowID) String() string { return string(id) }

// String returns the id as text.
func (id AttemptID) String() string { return string(id) }

// String returns the id as text.
func (id LeaseID) String() string { return string(id) }

// String returns the id as text.
func (id EdgeID) String() string { return string(id) }

// String returns the id as text.
func (id LaneID) String() string { return string(id) }
