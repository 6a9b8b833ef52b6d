package fabrictype

import "time"

// Attempt is one try to carry out a node.
type Attempt struct {
	// Number counts from 1. It counts on over reruns of the node.
	Number int `json:"number"`
	// Replay is how often the node had been reset after its end when the attempt began.
	Replay int `json:"replay,omitempty"`
	// Worker is the worker instance that had it last; empty for an attempt whose beginning the log does not have.
	Worker string `json:"worker,omitempty"`
	// Build is the program of that worker; nil where it is not known, as for a worker of an earlier version.
	Build *Build `json:"build,omitempty"`
	// Begun and Ended are by the engine's clock; zero when the log does not have them.
	Begun time.Time `json:"begun,omitzero"`
	Ended time.Time `json:"ended,omitzero"`
	// Outcome is how it ended, Error the reason of an end without success, and Category the category of a failure.
	Outcome  AttemptOutcome `json:"outcome,omitempty"`
	Error    string         `json:"error,omitempty"`
	Category string         `json:"category,omitempty"`
	// Stack is where its function panicked, as runtime/debug prints it, at most about 8 KiB; a longer one
	// ends with its size. A run keeps about 1 MiB of stacks; of further ones there is a remark alone. Empty for others.
	Stack string `json:"stack,omitempty"`
	// Aside is why the attempt was put aside, if it has not continued since: suspended, waiting_children, delayed or
	// released.
	Aside EventKind `json:"aside,omitempty"`
	// Percent and Message are its last progress.
	Percent float64 `json:"percent,omitempty"`
	Message string  `json:"message,omitempty"`
}
