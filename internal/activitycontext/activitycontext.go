package activitycontext

import (
	"context"
	"errors"
	"strings"
	"time"
	"unicode/utf8"
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
	return new(Context).Init(ctx, e)
}

// Context is the context of a function. An execution contains it, so that both take one allocation. Init makes it
// ready.
type Context struct {
	context.Context
	execution execution
}

// Init returns c as a context derived from ctx in which From finds e, and StepsFrom too, if e is Steps.
func (c *Context) Init(ctx context.Context, e execution) context.Context {
	c.Context, c.execution = ctx, e
	return c
}

// Value implements context.Context.
func (c *Context) Value(of any) any {
	if _, own := of.(key); own {
		return c.execution
	}
	return c.Context.Value(of)
}

// From returns the execution that ctx belongs to, and false outside a worker.
func From(ctx context.Context) (execution, bool) {
	e, ok := ctx.Value(key{}).(execution)
	return e, ok
}

// IsSuspension reports whether an error of a function is the one by which it waits for signals.
func IsSuspension(err error) bool {
	var s *Suspension
	return errors.As(err, &s)
}

// LiveValues publishes live values of the execution.
type LiveValues interface {
	// Publish stores an encoded value under a key, in place of the former one.
	Publish(ctx context.Context, key string, data []byte) error
}

// LiveValuesFrom returns the publisher of live values of the execution that ctx belongs to; nil outside a worker.
func LiveValuesFrom(ctx context.Context) LiveValues {
	values, _ := ctx.Value(key{}).(LiveValues)
	return values
}

// maxProgressMessage is the longest message of a report of progress, in bytes.
const maxProgressMessage = 1024

// Shorten returns a message of progress in valid UTF-8, cut to the length that is stored.
func Shorten(message string) string {
	message = strings.ToValidUTF8(message, "\uFFFD")
	if len(message) <= maxProgressMessage {
		return message
	}
	end := maxProgressMessage
	for !utf8.RuneStart(message[end]) {
		end--
	}
	return message[:end]
}
