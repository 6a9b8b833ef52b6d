package service

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/api"
	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/internal/httpapi"
	"github.com/flowfabric/flowfabric-go/runtime"
	"github.com/flowfabric/flowfabric-go/server/internal/login"
	"github.com/flowfabric/flowfabric-go/server/internal/taskpool"
)

// claimWait is the longest time for which a claim waits.
const claimWait = 30 * time.Second

// CategoryCodec is the category of attempts that failed because a worker over HTTP cannot read their input.
const CategoryCodec = "codec"

// taskOwner is who may act on the tasks that the caller claims.
func taskOwner(ctx context.Context) string { return login.From(ctx).ID() }

// ClaimTask implements httpapi.ClaimTask.
func (s *Service) ClaimTask(ctx context.Context, in *httpapi.ClaimTaskInput) (*api.ClaimedTask, error) {
	b := &in.Body
	waiting, cancel := context.WithTimeout(ctx, max(time.Millisecond, min(b.Wait.Duration, claimWait)))
	defer cancel()
	spec := taskpool.Spec{
		Owner: login.From(ctx), Name: b.Worker, Activities: b.Activities, Lanes: b.Lanes, Capabilities: b.Capabilities,
		Slots: b.Slots, Lease: b.Lease.Duration,
	}
	for {
		instance, t, err := s.tasks.Claim(waiting, spec)
		if err != nil {
			return nil, err
		}
		if t == nil && ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		if t == nil {
			return &api.ClaimedTask{Instance: instance}, nil
		}
		out, err := s.taskOf(ctx, t)
		if err != nil {
			return nil, errors.Join(err, release(ctx, t))
		}
		if out != nil {
			return &api.ClaimedTask{Instance: instance, Task: out}, nil
		}
	}
}

// release gives a task back that the caller does not get. The context may have ended.
func release(ctx context.Context, t *taskpool.Task) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	err := t.Release(ctx)
	t.Settled(taskpool.Released, taskpool.Answer{}, err)
	return err
}

// taskOf describes a claimed task. It returns nil for one whose input the caller could not read, which it fails.
func (s *Service) taskOf(ctx context.Context, t *taskpool.Task) (*api.Task, error) {
	info, input := t.Info(), t.Payload()
	switch {
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case len(input) == 0:
		input = json.RawMessage("null")
	case !isJSON(input):
		failure := fmt.Errorf("activity %q has a codec other than json: workers over HTTP take JSON only", info.Kind)
		retries, err := t.Fail(ctx, activity.Category(activity.NonRetryable(failure), CategoryCodec))
		t.Settled(taskpool.Failed, taskpool.Answer{Retries: retries}, err)
		return nil, err
	}
	out := &api.Task{
		Token: t.Token, LeaseEnds: t.LeaseEnd().UTC(), LeaseLeft: leaseLeft(t), Flow: info.Flow, Run: info.RunID,
		Node: info.Node, Execution: info.ExecutionID, Activity: info.Kind, Lane: info.Lane, Attempt: info.Attempt,
		LeaseEpoch: info.LeaseEpoch, Deadline: info.Deadline.UTC(), Tags: info.Tags, Input: input,
	}
	if info.Deadline.IsZero() {
		out.Deadline = time.Time{}
	}
	signals, err := t.ResumeSignals(ctx)
	if err != nil {
		return nil, err
	}
	for _, signal := range signals {
		out.Signals = append(out.Signals, taskSignal(signal))
	}
	return out, nil
}

func taskSignal(signal activity.Signal[json.RawMessage]) fabrictype.ReceivedSignal {
	out := fabrictype.ReceivedSignal{
		ID: signal.ID, Name: signal.Name, Category: signal.Category, Source: signal.Source,
		CorrelationID: signal.CorrelationID, At: signal.Time().UTC(), Counts: true,
	}
	if isJSON(signal.Payload) {
		out.JSON = signal.Payload
	} else {
		out.Data = signal.Payload
	}
	return out
}

func leaseLeft(t *taskpool.Task) fabrictype.Duration {
	return fabrictype.Duration{Duration: max(0, time.Until(t.LeaseEnd())).Truncate(time.Millisecond)}
}

func (s *Service) task(ctx context.Context, token string) (*taskpool.Task, error) {
	return s.tasks.Find(taskOwner(ctx), token)
}

// RenewTask implements httpapi.RenewTask.
func (s *Service) RenewTask(ctx context.Context, in *httpapi.TaskInput) (*api.RenewedTask, error) {
	t, err := s.task(ctx, in.Task)
	reason := err
	if err == nil {
		err = t.Renew(ctx)
		reason = context.Cause(t.Context())
	}
	switch {
	case err == nil:
		return &api.RenewedTask{State: api.TaskHeld, LeaseEnds: t.LeaseEnd().UTC(), LeaseLeft: leaseLeft(t)}, nil
	case errors.Is(err, runtime.ErrCancelled):
		return &api.RenewedTask{State: api.TaskCancelled, Reason: reason.Error()}, nil
	case isTimeLimit(err):
		return &api.RenewedTask{State: api.TaskTimedOut, Reason: err.Error()}, nil
	default:
		return nil, err
	}
}

func isTimeLimit(err error) bool {
	return errors.Is(err, runtime.ErrDeadline) || errors.Is(err, runtime.ErrStartToClose) ||
		errors.Is(err, runtime.ErrHeartbeatTimeout)
}

// settle performs a settlement of the task of a token. If the task has ended with the same settlement, it returns the
// same answer again.
func (s *Service) settle(
	ctx context.Context, token string, how taskpool.Settlement, do func(*taskpool.Task) (taskpool.Answer, error),
) (taskpool.Answer, error) {
	t, err := s.task(ctx, token)
	if over, ok := errors.AsType[*taskpool.Over](err); ok && over.Settlement == how {
		return over.Answer, nil
	}
	if err != nil {
		return taskpool.Answer{}, err
	}
	answer, err := do(t)
	t.Settled(how, answer, err)
	return answer, err
}

// CompleteTask implements httpapi.CompleteTask.
func (s *Service) CompleteTask(ctx context.Context, in *httpapi.CompleteTaskInput) (*httpapi.Empty, error) {
	_, err := s.settle(ctx, in.Task, taskpool.Completed, func(t *taskpool.Task) (taskpool.Answer, error) {
		return taskpool.Answer{}, t.Complete(ctx, []byte(in.Body.Result))
	})
	return done(err)
}

// ReleaseTask implements httpapi.ReleaseTask.
func (s *Service) ReleaseTask(ctx context.Context, in *httpapi.TaskInput) (*httpapi.Empty, error) {
	_, err := s.settle(ctx, in.Task, taskpool.Released, func(t *taskpool.Task) (taskpool.Answer, error) {
		return taskpool.Answer{}, t.Release(ctx)
	})
	return done(err)
}

// FailTask implements httpapi.FailTask.
func (s *Service) FailTask(ctx context.Context, in *httpapi.FailTaskInput) (*httpapi.FailedTask, error) {
	failure, err := failureOf(&in.Body)
	if err != nil {
		return nil, err
	}
	answer, err := s.settle(ctx, in.Task, taskpool.Failed, func(t *taskpool.Task) (a taskpool.Answer, err error) {
		a.Retries, err = t.Fail(ctx, failure)
		return a, err
	})
	if err != nil {
		return nil, err
	}
	return &httpapi.FailedTask{Retries: answer.Retries}, nil
}

// failureOf returns a failure as an error with the marks of package activity.
func failureOf(b *api.FailTaskBody) (error, error) {
	if b.RetryAfter.Duration < 0 {
		return nil, faultAt("/retry_after", "must not be negative, got: %s", b.RetryAfter.Duration)
	}
	if b.NonRetryable && b.RetryAfter.Duration > 0 {
		return nil, faultAt("/retry_after", "contradicts non_retryable")
	}
	failure := &remoteFailure{text: b.Reason}
	for _, d := range b.Details {
		failure.details = append(failure.details, &remoteDetail{name: d.Name, value: d.Value})
	}
	var err error = failure
	if b.Category != "" {
		err = activity.Category(err, b.Category)
	}
	if b.RetryAfter.Duration > 0 {
		err = activity.RetryAfter(err, b.RetryAfter.Duration)
	}
	if b.NonRetryable {
		err = activity.NonRetryable(err)
	}
	return err, nil
}

// remoteFailure is the failure of a task, with its named errors.
type remoteFailure struct {
	text    string
	details []error
}

// Error returns the reason.
func (f *remoteFailure) Error() string { return f.text }

// Unwrap returns the named errors.
func (f *remoteFailure) Unwrap() []error { return f.details }

// remoteDetail is a named error of a failure: an activity.DetailedError.
type remoteDetail struct {
	name  string
	value json.RawMessage
}

// Error implements error.
func (d *remoteDetail) Error() string { return d.name }

// ErrorName implements activity.DetailedError.
func (d *remoteDetail) ErrorName() string { return d.name }

// MarshalJSON returns the value.
func (d *remoteDetail) MarshalJSON() ([]byte, error) {
	if len(d.value) == 0 {
		return []byte("null"), nil
	}
	return d.value, nil
}

// SuspendTask implements httpapi.SuspendTask.
func (s *Service) SuspendTask(ctx context.Context, in *httpapi.SuspendTaskInput) (*httpapi.SuspendedTask, error) {
	b := &in.Body
	if b.Approvers > 0 && (len(b.Signals) > 0 || b.All || b.Needed > 0 || len(b.Decisive) > 0) {
		return nil, faultAt("/approvers", "replaces signals, all, needed and decisive: the wait has both")
	}
	answer, err := s.settle(ctx, in.Task, taskpool.Suspended, func(t *taskpool.Task) (a taskpool.Answer, err error) {
		a.Token, err = t.Suspend(ctx, waitOptions(b)...)
		return a, err
	})
	if err != nil {
		return nil, err
	}
	return &httpapi.SuspendedTask{Token: answer.Token.Reveal()}, nil
}

func waitOptions(b *api.SuspendTaskBody) []activity.WaitOption {
	var options []activity.WaitOption
	add := func(given bool, option func() activity.WaitOption) {
		if given {
			options = append(options, option())
		}
	}
	add(len(b.Signals) > 0, func() activity.WaitOption { return activity.Signals(b.Signals...) })
	add(b.All, activity.MatchAll)
	add(b.Needed > 0, func() activity.WaitOption { return activity.AtLeast(b.Needed) })
	add(len(b.Decisive) > 0, func() activity.WaitOption { return activity.Decisive(b.Decisive...) })
	add(b.Approvers > 0, func() activity.WaitOption { return activity.Approvers(b.Approvers) })
	add(b.Approvers > 0 && len(b.Schema) == 0, activity.Answer[activity.Decision])
	add(b.Timeout.Duration != 0 || b.OnTimeout != "", func() activity.WaitOption {
		return activity.Timeout(b.Timeout.Duration, activity.TimeoutBehavior(b.OnTimeout))
	})
	add(b.Title != "", func() activity.WaitOption { return activity.Title(b.Title) })
	add(b.Question != "", func() activity.WaitOption { return activity.Question(b.Question) })
	add(len(b.Audience) > 0, func() activity.WaitOption { return activity.Audience(b.Audience...) })
	add(len(b.Schema) > 0, func() activity.WaitOption { return activity.AnswerSchema(b.Schema) })
	return options
}

// AppendFrames implements httpapi.AppendFrames.
func (s *Service) AppendFrames(ctx context.Context, in *httpapi.AppendFramesInput) (*httpapi.Empty, error) {
	t, err := s.task(ctx, in.Task)
	if err != nil {
		return nil, err
	}
	frames := make([]activity.Frame, len(in.Body.Frames))
	for i, f := range in.Body.Frames {
		frames[i] = activity.Frame{Kind: f.Kind, CorrelationID: f.CorrelationID}
		switch {
		case (f.Text != nil) == (len(f.JSON) > 0):
			return nil, faultAt(fmt.Sprintf("/frames/%d", i), "must have either json or text")
		case f.Text != nil:
			frames[i].Payload, frames[i].Encoding = []byte(*f.Text), "utf8"
		default:
			frames[i].Payload = f.JSON
		}
	}
	for _, frame := range frames {
		if err := t.Append(ctx, frame); err != nil {
			return nil, err
		}
	}
	return &httpapi.Empty{}, nil
}

// ReportProgress implements httpapi.ReportProgress.
func (s *Service) ReportProgress(ctx context.Context, in *httpapi.ReportProgressInput) (*httpapi.Empty, error) {
	t, err := s.task(ctx, in.Task)
	if err != nil {
		return nil, err
	}
	return done(t.Progress(ctx, in.Body.Percent, in.Body.Message))
}

// StopTasks ends the claims that wait, and releases the tasks of workers over HTTP.
func (s *Service) StopTasks() {
	s.pushes.Stop()
	s.tasks.Stop()
}
