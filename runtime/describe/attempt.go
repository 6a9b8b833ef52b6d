package describe

import (
	"time"

	"github.com/flowfabric/flowfabric-go/fabrictype"
)

// Outcome is how an attempt ended. It is empty while the attempt runs or is put aside.
type Outcome string

// Outcomes of attempts.
const (
	// Succeeded, Failed, Cancelled and Expired: the attempt ended so. Another attempt may follow a failed one.
	Succeeded fabrictype.AttemptOutcome = "success"
	Failed    fabrictype.AttemptOutcome = "failed"
	Cancelled fabrictype.AttemptOutcome = "cancelled"
	Expired   fabrictype.AttemptOutcome = "expired"
	// WorkerLost: its lease has ended, and another worker continues with a new attempt or has not yet.
	WorkerLost fabrictype.AttemptOutcome = "worker_lost"
	// Revoked: an operator took the node from its worker.
	Revoked fabrictype.AttemptOutcome = "revoked"
)

// Attempt is one try to carry out a node.
type Attempt struct {
	// Number counts from 1. It counts on over reruns of the node.
	Number int `json:"number"`
	// Replay is how often the node had been reset after its end when the attempt began.
	Replay int `json:"replay,omitempty"`
	// Worker is the worker instance that had it last; empty for an attempt whose beginning the log does not have.
	Worker string `json:"worker,omitempty"`
	// Build is the program of that worker; nil where it is not known, as for a worker of an earlier version.
	Build *fabrictype.Build `json:"build,omitempty"`
	// Begun and Ended are by the engine's clock; zero when the log does not have them.
	Begun time.Time `json:"begun,omitzero"`
	Ended time.Time `json:"ended,omitzero"`
	// Outcome is how it ended, Error the reason of an end without success, and Category that of a failure.
	Outcome  fabrictype.AttemptOutcome `json:"outcome,omitempty"`
	Error    string                    `json:"error,omitempty"`
	Category string                    `json:"category,omitempty"`
	// Stack is where its function panicked, as runtime/debug prints it, at most about 8 KiB; a longer one
	// ends with its size. A run keeps about 1 MiB of stacks; of further ones there is a remark alone. Empty for others.
	Stack string `json:"stack,omitempty"`
	// Aside is what the attempt was put aside for, if it has not gone on since: suspended, waiting_children, delayed or
	// released.
	Aside fabrictype.EventKind `json:"aside,omitempty"`
	// Percent and Message are its last progress.
	Percent float64 `json:"percent,omitempty"`
	Message string  `json:"message,omitempty"`
}
