package enginecore

import (
	"fmt"
	"strings"
)

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

// WaitpointSecret is a secret that signs the tokens of waitpoints. The zero value means a random secret.
type WaitpointSecret struct {
	// KID is the id of the secret: 1 to 32 characters of a-z, 0-9 and -.
	KID string
	// Hex is the secret itself: 16 to 64 random bytes in hexadecimal.
	Hex string
}

// String returns a text with the KID but without the secret, so that the secret is not written to logs.
func (s WaitpointSecret) String() string { return fmt.Sprintf("waitpoint secret %q", s.KID) }

// GoString returns the same text as String.
func (s WaitpointSecret) GoString() string { return s.String() }

// SecretRotation is the result of runtime.Engine.RotateSecrets.
type SecretRotation struct {
	// KID is the id of the secret that signs tokens now.
	KID string
	// Rotated is the number of partitions that this call changed, Unchanged the number that used the secret before.
	Rotated, Unchanged int
	// Failed has the tags of the partitions that still use another secret, such as {fp:7}, with the error of each.
	Failed map[string]error
}
