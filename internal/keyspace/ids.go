package keyspace

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/google/uuid"

	"github.com/flowfabric/flowfabric-go/enginecore"
)

// Identifiers that no user meets; package enginecore has the others. The zero value means none.
type (
	// AttemptID is a UUID.
	AttemptID string
	// SuspensionID is a UUID.
	SuspensionID string
	// ScheduleID is a UUID.
	ScheduleID string
	// BulkJobID is a UUID.
	BulkJobID string
	// RunKeyID is a UUID.
	RunKeyID string
	// Namespace separates users of one deployment: any text that is not empty.
	Namespace string
)

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
func ParseExecutionID(text string) (enginecore.ExecutionID, error) {
	id := enginecore.ExecutionID(text)
	if _, err := PartitionOf(id); err != nil {
		return "", err
	}
	if err := checkUUID(text[len(id.Tag())+1:]); err != nil {
		return "", &IDError{"execution id", text, err.Error()}
	}
	return id, nil
}

// NewExecutionID returns a random execution id in a partition.
func NewExecutionID(p Partition) enginecore.ExecutionID {
	return enginecore.ExecutionID(p.Tag() + ":" + uuid.NewString())
}

// PartitionOf reads the partition from the id. It checks the tag, not the part after it.
func PartitionOf(id enginecore.ExecutionID) (Partition, error) {
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
func ParseFlowID(text string) (enginecore.FlowID, error) {
	return parseUUID[enginecore.FlowID]("flow id", text)
}

// ParseAttemptID checks that text is a UUID.
func ParseAttemptID(text string) (AttemptID, error) { return parseUUID[AttemptID]("attempt id", text) }

// ParseLeaseID checks that text is a UUID.
func ParseLeaseID(text string) (enginecore.LeaseID, error) {
	return parseUUID[enginecore.LeaseID]("lease id", text)
}

// ParseEdgeID checks that text is a UUID.
func ParseEdgeID(text string) (enginecore.EdgeID, error) {
	return parseUUID[enginecore.EdgeID]("edge id", text)
}

// ParseSignalID checks that text is a UUID.
func ParseSignalID(text string) (enginecore.SignalID, error) {
	return parseUUID[enginecore.SignalID]("signal id", text)
}

// ParseWaitpointID checks that text is a UUID.
func ParseWaitpointID(text string) (enginecore.WaitpointID, error) {
	return parseUUID[enginecore.WaitpointID]("waitpoint id", text)
}

// ParseSuspensionID checks that text is a UUID.
func ParseSuspensionID(text string) (SuspensionID, error) {
	return parseUUID[SuspensionID]("suspension id", text)
}

// ParseBudgetID checks that text is a UUID.
func ParseBudgetID(text string) (enginecore.BudgetID, error) {
	return parseUUID[enginecore.BudgetID]("budget id", text)
}

// ParseQuotaPolicyID checks that text is a UUID.
func ParseQuotaPolicyID(text string) (enginecore.QuotaPolicyID, error) {
	return parseUUID[enginecore.QuotaPolicyID]("quota policy id", text)
}

// ParseScheduleID checks that text is a UUID.
func ParseScheduleID(text string) (ScheduleID, error) {
	return parseUUID[ScheduleID]("schedule id", text)
}

// maxLaneID is the length limit of a lane id in bytes.
const maxLaneID = 64

// ParseLaneID checks that text is 1 to 64 printable ASCII characters, and none of "/", "." and "..", which no URL can
// name.
func ParseLaneID(text string) (enginecore.LaneID, error) {
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
	return enginecore.LaneID(text), nil
}

func parseFree[T ~string](kind, text string) (T, error) {
	if text == "" {
		return "", &IDError{kind, text, "must not be empty"}
	}
	return T(text), nil
}

// ParseWorkerID checks that text is not empty.
func ParseWorkerID(text string) (enginecore.WorkerID, error) {
	return parseFree[enginecore.WorkerID]("worker id", text)
}

// ParseWorkerInstanceID checks that text is not empty.
func ParseWorkerInstanceID(text string) (enginecore.WorkerInstanceID, error) {
	return parseFree[enginecore.WorkerInstanceID]("worker instance id", text)
}

// ParseNamespace checks that text is not empty.
func ParseNamespace(text string) (Namespace, error) { return parseFree[Namespace]("namespace", text) }
