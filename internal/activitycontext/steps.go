package activitycontext

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"time"
)

// The kinds of steps. Names are counted for each kind on its own.
const (
	AwaitKind = "await"
	StepKind  = "once"
)

// Steps is the interface of a worker, or of a test in its place, for the durable steps of a function. Its methods are
// safe for concurrent use.
type Steps interface {
	// Names distinguishes calls with the same name.
	Names() *StepNames
	// Recorded returns the recorded result of a step.
	Recorded(step string) ([]byte, bool)
	// Record records a result unless there is one already, and returns the recorded one.
	Record(ctx context.Context, step string, data []byte) ([]byte, error)
	// Await returns the signals that have ended a wait, or a *Suspension if it has not ended.
	Await(ctx context.Context, step string, wait Wait) (Awaited, error)
	// Open opens the waitpoint of a later wait and returns the text of its token.
	Open(ctx context.Context, step string, within time.Duration, text WaitText) (string, error)
	// Emit appends a frame to the attempt's stream. It keeps the payload.
	Emit(ctx context.Context, frame Frame) error
}

// Wait is activityspec.Wait with the parameters in which the two ways to wait differ.
type Wait struct {
	Signals   []string
	All       bool
	Count     int
	Distinct  bool
	Decisive  []string
	Timeout   time.Duration
	OnTimeout string
	// Collect requests all signals as a list, not the payload of the last one.
	Collect bool
	// Sleep: no signal ends the wait, only its timeout.
	Sleep bool
	Text  WaitText
}

// WaitText has the fields of activityspec.WaitText, which documents them; the two convert into each other.
type WaitText struct {
	Title, Question string
	Audience        []string
	AnswerSchema    json.RawMessage
	Payload         reflect.Type
	PayloadSchema   json.RawMessage
}

// Awaited has the signals that ended a wait.
type Awaited struct {
	TimedOut bool
	// Data is the payload, or the list of signals in JSON.
	Data []byte
}

// Suspension is the error with which a function requests that the worker suspends the execution.
type Suspension struct {
	Step string
	Wait Wait
}

// Error explains that the function has to return the error.
func (s *Suspension) Error() string {
	return fmt.Sprintf("waiting for a signal at %q: the function must return this error", s.Step)
}

// StepsFrom returns the durable steps of the function that ctx belongs to, and false if ctx has none.
func StepsFrom(ctx context.Context) (Steps, bool) {
	s, ok := ctx.Value(key{}).(Steps)
	return s, ok
}

// WithSteps returns a context in which StepsFrom finds s.
func WithSteps(ctx context.Context, s Steps) context.Context {
	return context.WithValue(ctx, key{}, s)
}
