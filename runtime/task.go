package runtime

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	goruntime "runtime"
	"time"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/internal/activitycontext"
	"github.com/flowfabric/flowfabric-go/internal/activityspec"
	"github.com/flowfabric/flowfabric-go/internal/engine"
	"github.com/flowfabric/flowfabric-go/internal/worker/held"
)

// Task is an execution that the program itself works on, in place of a function of an activity: a node of a run, or an
// execution outside runs. Worker.Next and Worker.NextGranted return one, with its lease. The program ends it with one
// of the settling methods: Complete, Fail, Cancel, Delay, Suspend, WaitForChildren or Release. A Task may be used by
// several goroutines.
//
// # Lease and fencing
//
// The worker renews the lease until the task is settled, unless WorkerConfig.ManualRenewal leaves that to Renew. Every
// method that writes carries lease id, lease epoch and attempt id, which the engine checks: a program that has lost the
// lease can no longer change the execution, and gets an error that matches ErrLeaseLost. Info gives both the lease id
// and the epoch, which grows with every lease, as fencing tokens for other systems.
//
// # Settling
//
// A settling method is sent again while the engine is unavailable and the lease lasts. If its ctx ends before, it
// returns the cause and continues in the background; call it again to wait for the outcome. It is safe to repeat: a
// method that has settled the task does nothing and returns nil when it is called again, whatever its arguments.
// Another settling method then returns ErrTaskSettled, and so do the methods that need an unsettled task.
//
// Errors, for errors.Is: ErrLeaseLost if another worker may have the execution, which can also follow a call whose
// reply was lost and whose execution has continued since; ErrCancelled, ErrDeadline, ErrStartToClose or
// ErrHeartbeatTimeout if the engine or the worker has ended the attempt for that reason; ErrStopping if the worker has
// stopped and released it. After other errors of the engine, such as enginecore.ErrUnavailable, the outcome is unknown:
// the execution is settled as the call requested, or its lease runs out and it is claimed again. If the engine or the
// method refuses the arguments, the task stays open.
//
// # Giving back
//
// A task that is not settled is released, without spending an attempt, when the worker stops and its grace time is
// over, and when the garbage collector finds that the program has dropped it. If the process dies, it is claimed again
// when its lease has run out, which counts as a lost worker.
type Task struct{ held *held.Task }

// newTask returns a task that is released when it is dropped.
func newTask(inner *held.Task) *Task {
	t := &Task{inner}
	goruntime.AddCleanup(t, (*held.Task).Drop, inner)
	return t
}

// Next waits for an execution of WorkerConfig.TaskKinds and returns it with its lease. Run must be running, or about
// to: it renews leases, listens for work and receives cancellations. Next waits while the program holds as many tasks
// as WorkerConfig.Concurrency. Executions are claimed only while a call of Next waits. An execution that was claimed
// for a call whose ctx has ended in the meantime goes to the next call, or is released after a second. An execution
// whose lease has ended before it could be returned, for instance because the process was stopped, is left to other
// workers.
//
// The error is the cause of ctx, ErrStopping once Run stops, or matches ErrInvalid for a worker without TaskKinds.
func (w *Worker) Next(ctx context.Context) (*Task, error) {
	if w == nil || w.worker == nil {
		return nil, errUnmadeWorker
	}
	if err := checkContext(ctx); err != nil {
		return nil, fmt.Errorf("next task: %w", err)
	}
	inner, err := w.worker.Next(ctx)
	if err != nil {
		return nil, fmt.Errorf("next task: %w", err)
	}
	return newTask(inner), nil
}

// NextGranted claims the execution that was granted to this worker instance, fresh, resumed or lost by another worker,
// and returns its task. The error matches enginecore.ErrNoGrant if the grant has expired, is for another worker or was
// used, or if its execution is no longer to be run; ErrNotInContract on an engine that cannot claim by grants; or it is
// an error of Next.
func (w *Worker) NextGranted(ctx context.Context, grant enginecore.Grant) (*Task, error) {
	if w == nil || w.worker == nil {
		return nil, errUnmadeWorker
	}
	if err := checkContext(ctx); err != nil {
		return nil, fmt.Errorf("next task: %w", err)
	}
	if grant.Instance != w.Instance() {
		return nil, fmt.Errorf("next task: %w: the grant is for instance %.80q, this is %q", enginecore.ErrNoGrant,
			grant.Instance, w.Instance())
	}
	inner, err := w.worker.NextGranted(ctx, grant)
	if err != nil {
		return nil, fmt.Errorf("next task: %w", err)
	}
	return newTask(inner), nil
}

var errUnmadeTask = invalid("the task was not made by Worker.Next")

func (t *Task) made() error {
	if t == nil || t.held == nil {
		return errUnmadeTask
	}
	return nil
}

// wrap adds the operation to the error of a call for the task. It keeps the garbage collector from dropping the task
// until that call has returned.
func (t *Task) wrap(what string, err error) error {
	goruntime.KeepAlive(t)
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s task: %w", what, err)
}

// Info describes the attempt: flow, run and node, kind, lane and tags, attempt, lease id and lease epoch.
func (t *Task) Info() activity.ExecutionInfo {
	if t.made() != nil {
		return activity.ExecutionInfo{}
	}
	return activity.ExecutionInfo(t.held.Info())
}

// Context returns a context that ends with the lease, with a cancellation, at the time limits of the attempt and when
// the worker stops; context.Cause returns the reason. It carries the task: activity.Step, Emit, Progress, ReportUsage,
// Reserve and the like work with it as in a function. The error of activity.Await goes to Fail. The context does not
// end when the task is settled, and does not keep a task that is otherwise dropped.
func (t *Task) Context() context.Context {
	if t.made() != nil {
		ctx, cancel := context.WithCancelCause(context.Background())
		cancel(errUnmadeTask)
		return ctx
	}
	return t.held.Context()
}

// Payload returns the input: the value that the flow composes for the node from its upstreams, or the payload of an
// execution outside runs. The caller must not change it. Activity.DecodeInput decodes it with the codec of an activity.
func (t *Task) Payload() []byte {
	if t.made() != nil {
		return nil
	}
	return t.held.Input()
}

// Decode decodes a payload of JSON, the default codec, into target. The error has the category
// "decode", and Fail does not retry it.
func (t *Task) Decode(target any) error {
	if err := t.made(); err != nil {
		return err
	}
	codec := activity.JSON{}
	if err := codec.Decode(t.held.Input(), target); err != nil {
		return &activityspec.DecodeError{
			Activity: t.held.Info().Kind, Type: fmt.Sprintf("%T", target), Codec: codec.Name(), Err: err,
		}
	}
	return nil
}

// LeaseEnd returns when this program has to regard the lease as lost if it is not renewed: a little before the engine
// does. It is not in the past while LeaseHealthy of package activity is true for Context.
func (t *Task) LeaseEnd() time.Time {
	if t.made() != nil {
		return time.Time{}
	}
	return t.held.LeaseEnd()
}

// Renew renews the lease now, for WorkerConfig.Lease, and counts as a heartbeat. It is needed only with
// WorkerConfig.ManualRenewal, or to make sure that the lease lasts before something that must not happen twice. It is
// idempotent.
func (t *Task) Renew(ctx context.Context) error {
	if err := t.made(); err != nil {
		return err
	}
	return t.wrap("renew", t.held.Renew(ctx))
}

// Complete commits a result and ends the execution as successful. A result of type []byte is stored as it is, any other
// as JSON; Activity.EncodeOutput encodes one with the codec of an activity. The frames that were appended before are
// stored first. The error matches ErrTooLarge for a result above 1 MiB, or has the category "encode"; the task stays
// open then.
func (t *Task) Complete(ctx context.Context, result any) error {
	if err := t.made(); err != nil {
		return err
	}
	data, raw := result.([]byte)
	if !raw {
		codec := activity.JSON{}
		var err error
		if data, err = codec.Encode(result); err != nil {
			return t.wrap("complete", &activityspec.EncodeError{
				Activity: t.held.Info().Kind, Type: fmt.Sprintf("%T", result), Codec: codec.Name(), Err: err,
			})
		}
	}
	return t.wrap("complete", t.held.Complete(ctx, data))
}

// Fail reports that the attempt has failed with an error, and returns whether it runs again: by the retry policy of the
// execution, or because the error requires it. The marks of package activity have the effect that they have for
// functions: NonRetryable, RetryAfter and Category, CancelNode, DelayUntil, and the error of Await, which suspends the
// execution.
func (t *Task) Fail(ctx context.Context, failure error) (again bool, err error) {
	if err := t.made(); err != nil {
		return false, err
	}
	if failure == nil {
		return false, t.wrap("fail", invalid("the failure is nil"))
	}
	again, err = t.held.Fail(ctx, failure)
	return again, t.wrap("fail", err)
}

// Cancel ends the execution as cancelled, without another attempt. The record keeps the reason, at most MaxReason
// bytes.
func (t *Task) Cancel(ctx context.Context, reason string) error {
	if err := t.made(); err != nil {
		return err
	}
	return t.wrap("cancel", t.held.Cancel(ctx, reason))
}

// Delay gives the execution up until a time of the engine's clock; at once if it has passed. The same attempt continues
// then, on whichever worker claims it, so no attempt of the retry policy is spent.
func (t *Task) Delay(ctx context.Context, until time.Time) error {
	if err := t.made(); err != nil {
		return err
	}
	if until.After(time.Now().Add(activityspec.MaxWait)) {
		return t.wrap("delay", invalid("until %s: must be within %s", until, activityspec.MaxWait))
	}
	return t.wrap("delay", t.held.Delay(ctx, until))
}

// Suspend gives the execution up until the signals arrive that the options select; without any, one signal of any name.
// It returns the token by which Client.Signal and others answer. The same attempt continues then, on whichever worker
// claims it, and ResumeSignals returns the signals. The options also define the effect of a timeout. Repeated after
// success, Suspend returns the same token. Title, Question, Audience and AnswerSchema are shown to the people who
// answer, and Client.Signal refuses payloads that do not satisfy the schema; activity.Answer names the type of
// payloads. In contract mode these four, AtLeastDistinct, Decisive, and several signals of any name are
// ErrNotInContract.
func (t *Task) Suspend(ctx context.Context, opts ...activity.WaitOption) (activity.Token, error) {
	if err := t.made(); err != nil {
		return activity.Token{}, err
	}
	w := activityspec.NewWait(opts...)
	if err := w.Validate(); err != nil {
		return activity.Token{}, t.wrap("suspend", invalid("%w", err))
	}
	token, err := t.held.Suspend(ctx, w)
	return token, t.wrap("suspend", err)
}

// WaitForChildren gives the execution up until all its dependencies are satisfied, which can have been added while it
// ran: edges of the contract that lead to it. The same attempt continues then. If all are satisfied already, it can be
// claimed again at once. An execution without any waits until an operator promotes it.
func (t *Task) WaitForChildren(ctx context.Context) error {
	if err := t.made(); err != nil {
		return err
	}
	return t.wrap("suspend", t.held.WaitForChildren(ctx))
}

// Release gives the execution back: it is eligible again at once, and the attempt does not count.
func (t *Task) Release(ctx context.Context) error {
	if err := t.made(); err != nil {
		return err
	}
	return t.wrap("release", t.held.Release(ctx, "the program released the task"))
}

// ResumeSignals returns the signals that ended the last wait of the attempt; none if it has not waited, or an operator
// or a timeout ended the wait. The payload is as the sender encoded it. Call it before the next Suspend.
func (t *Task) ResumeSignals(ctx context.Context) ([]activity.Signal[json.RawMessage], error) {
	if err := t.made(); err != nil {
		return nil, err
	}
	signals, err := t.held.ResumeSignals(ctx)
	return signals, t.wrap("read signals of", err)
}

// Append adds a frame to the output stream of the attempt, as activity.Emit does: frames are sent in order and in
// batches, all of them before the task is settled.
func (t *Task) Append(ctx context.Context, frame activity.Frame) error {
	if err := t.made(); err != nil {
		return err
	}
	encoded, err := activitycontext.NewFrame(frame.Kind, frame.Encoding, frame.CorrelationID, frame.Payload, frame.At)
	if err != nil {
		return t.wrap("append to", invalid("%w", err))
	}
	return t.wrap("append to", t.held.Append(ctx, encoded))
}

// Progress records the progress of the task, as activity.Progress does, and counts as a heartbeat. It waits for the
// engine and drops nothing.
func (t *Task) Progress(ctx context.Context, percent float64, message string) error {
	if err := t.made(); err != nil {
		return err
	}
	if math.IsNaN(percent) {
		return t.wrap("report progress of", invalid("percent NaN: must be a number from 0 to 100"))
	}
	return t.wrap("report progress of",
		t.held.Progress(ctx, min(100, max(0, percent)), activitycontext.Shorten(message)))
}

// ReportUsage counts usage of several dimensions in the budgets of the run, as activity.ReportUsage does. A key that
// is not empty makes it count once for the execution, as with activity.ReportUsageOnce.
func (t *Task) ReportUsage(ctx context.Context, key string, usage map[string]int64) error {
	if err := t.made(); err != nil {
		return err
	}
	list, err := checkTaskUsage(key, usage)
	if err != nil {
		return t.wrap("report usage of", err)
	}
	return t.wrap("report usage of", t.held.ReportUsage(ctx, list, key))
}

// ReportUsageTo adds usage to any budget, whether the run has it or not, in all given dimensions at once. If one would
// exceed its hard limit, none is counted, and the error is an *activity.BudgetError. For 24 hours, reports of the
// execution with the same key count once, so it can be repeated after any error; the key is a name by the rule of
// package activity.
func (t *Task) ReportUsageTo(
	ctx context.Context, budget enginecore.BudgetID, key string, usage map[string]int64,
) error {
	if err := t.made(); err != nil {
		return err
	}
	err := activityspec.CheckName(key)
	if err == nil {
		_, err = checkTaskUsage(key, usage)
	} else {
		err = invalid("key: %w", err)
	}
	if err != nil {
		return t.wrap("report usage of", err)
	}
	return t.wrap("report usage of", t.held.ReportUsageTo(ctx, budget, usage, key))
}

func checkTaskUsage(key string, usage map[string]int64) ([]activitycontext.Usage, error) {
	if key != "" {
		if err := activityspec.CheckName(key); err != nil {
			return nil, invalid("key: %w", err)
		}
	}
	if len(usage) == 0 {
		return nil, invalid("usage: no dimension is given")
	}
	list := activitycontext.UsageOf(usage)
	for _, u := range list {
		if err := u.Check(); err != nil {
			return nil, invalid("report %q: %w: %w", u.Dimension, activityspec.ErrUsage, err)
		}
	}
	return list, nil
}

// ErrTaskSettled is returned by methods of a Task that the program has settled in another way.
var ErrTaskSettled = engine.ErrTaskSettled
