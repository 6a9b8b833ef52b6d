package task

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/internal/activityspec"
	"github.com/flowfabric/flowfabric-go/internal/dispatch"
	"github.com/flowfabric/flowfabric-go/internal/engine"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
	"github.com/flowfabric/flowfabric-go/internal/worker/attempt"
	"github.com/flowfabric/flowfabric-go/internal/worker/budget"
	"github.com/flowfabric/flowfabric-go/internal/worker/completion"
	"github.com/flowfabric/flowfabric-go/internal/worker/journal"
	"github.com/flowfabric/flowfabric-go/internal/worker/output"
	"github.com/flowfabric/flowfabric-go/internal/worker/permit"
)

// Task is one leased execution in a worker, from the reply that leased it to the report of its end. Services.NewTask
// makes one.
type Task struct {
	attempt.Attempt
	Services *Services
	LastBeat atomic.Pointer[time.Time] // the last call of Heartbeat
	// Journal holds the results of the execution's steps and waits.
	Journal journal.Journal
	Output  output.Output
	usage   budget.Use
	// Exited is the error of an attempt whose function ended its goroutine; nil for others.
	Exited error
	Permit permit.Request
}

// NewTask returns the task of an execution that a call sent at sentAt has leased from a shard. It keeps claimed, which
// the caller must not change afterwards. Its context is derived from the base of the run. The caller calls Cancel when
// the attempt has ended.
func (s *Services) NewTask(from dispatch.LaneShard, claimed *enginerpc.ClaimedExecution, sentAt time.Time) *Task {
	t := &Task{Services: s}
	t.Attempt.Init(&s.Shared, from, claimed, sentAt)
	t.Output.Init(&t.Attempt, &s.Logs)
	t.usage.Init(&t.Attempt, s.Budgets)
	t.Permit.Lease = &t.Lease
	return t
}

// StartSpan starts the span of the attempt.
func (t *Task) StartSpan() (context.Context, trace.Span) {
	if !t.Run.Session.Telemetry.Traces() {
		return t.Ctx, noop.Span{}
	}
	return t.Run.Session.Telemetry.Tracer.Start(t.Ctx, t.Services.spanName(t.Claimed.Kind),
		t.Run.Session.Telemetry.Consumer, trace.WithAttributes(
			attribute.String("flowfabric.flow", t.Claimed.FlowName),
			attribute.String("flowfabric.run", t.Claimed.RunID),
			attribute.String("flowfabric.node", t.Claimed.Node),
			attribute.Int("flowfabric.attempt", int(t.Claimed.AttemptIndex)+1)))
}

// begin is called immediately before the function or the child run of a task begins. The error is the reason why it
// may not.
func (t *Task) begin() error {
	switch {
	case !t.Services.Permits.Begin(&t.Permit):
		return completion.ErrNoRoom
	case !t.KeepsLease():
		return engine.ErrLeaseLost
	}
	return nil
}

// continued returns the continuation that the error of a function requests, or err if it requests none.
func (t *Task) continued(handler activity.Handler, generation int64, err error) error {
	asked, found := errors.AsType[*activityspec.Continuation](err)
	if !found {
		return err
	}
	if _, err := t.Run.Session.Library("activity.ContinueAsNew"); err != nil {
		return activity.NonRetryable(err)
	}
	if asked.Type != handler.InputType() {
		return activity.NonRetryable(fmt.Errorf("activity.ContinueAsNew got a state of type %s; activity %q takes %s",
			asked.Type, handler.Name(), handler.InputType()))
	}
	state, err := handler.Codec().Encode(asked.State)
	if err != nil {
		return completion.Final(activityspec.CategoryEncode, "activity.ContinueAsNew: state of type %s does not encode: %w",
			asked.Type, err)
	}
	return (&completion.Continuation{Generation: generation, State: state}).CheckState()
}
