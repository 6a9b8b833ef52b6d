package activitycontext

import (
	"context"
	"time"
)

// Info describes one attempt of one execution. It has the same fields as activity.ExecutionInfo, which documents
// them; the two convert into each other, so a field added on one side only does not compile.
type Info struct {
	Flow        string
	FlowID      string
	RunID       string
	Node        string
	ExecutionID string
	Attempt     int
	StartedAt   time.Time
	Deadline    time.Time
	Kind        string
	Lane        string
	Tags        map[string]string
	AttemptID   string
	LeaseID     string
	LeaseEpoch  int64
}

// execution is the interface of a worker for each function that it runs. Its methods are safe for concurrent use, and
// have no effect after the function has returned.
type execution interface {
	// Info describes the attempt. It does not change while the attempt runs.
	Info() Info
	// LeaseHealthy reports whether the worker may still speak for the execution.
	LeaseHealthy() bool
	// Heartbeat notes that the function is alive. It is called often and should not wait for the engine.
	Heartbeat(ctx context.Context) error
	// Progress records percent, from 0 to 100, and a message in valid UTF-8 of at most 1,024 bytes.
	Progress(ctx context.Context, percent float64, message string) error
}

// key is the key of the only value that a worker, or a test, puts into the context: an execution, Steps, or both.
type key struct{}

// With returns a context in which From finds e, and StepsFrom too, if e is Steps.
func With(ctx context.Context, e execution) context.Context {
	return context.WithValue(ctx, key{}, e)
}

// From returns the execution that ctx belongs to, and false outside a worker.
func From(ctx context.Context) (execution, bool) {
	e, ok := ctx.Value(key{}).(execution)
	return e, ok
}
