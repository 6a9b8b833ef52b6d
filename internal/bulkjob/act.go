package bulkjob

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/internal/answer"
	"github.com/flowfabric/flowfabric-go/internal/engine"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
	"github.com/flowfabric/flowfabric-go/internal/errorcode"
	"github.com/flowfabric/flowfabric-go/internal/keyspace"
	"github.com/flowfabric/flowfabric-go/internal/runcontrol"
	"github.com/flowfabric/flowfabric-go/internal/submit"
)

// errDoesNotApply reports a run in which nothing is to be done.
var errDoesNotApply = errors.New("the action does not apply to the run")

// isSkip reports an error of a run to which the action does not apply.
func isSkip(err error) bool {
	for _, target := range []error{
		errDoesNotApply, engine.ErrRunNotFound, engine.ErrRunOver, engine.ErrRunOpen, engine.ErrNothingToRerun,
		enginecore.ErrFlowNotFound, enginecore.ErrFlowAlreadyTerminal, errorcode.FlowPurging,
	} {
		if errors.Is(err, target) {
			return true
		}
	}
	return false
}

// isDone reports whether an error of a repeated action means that the first try, whose outcome is not known, was
// executed.
func (a *actor) isDone(err error) bool {
	switch a.spec.Action.Kind {
	case "purge":
		return errors.Is(err, engine.ErrRunNotFound) || errors.Is(err, enginecore.ErrFlowNotFound)
	case "cancel":
		return errors.Is(err, engine.ErrRunOver) || errors.Is(err, enginecore.ErrFlowAlreadyTerminal)
	default:
		return false // the engine knows it by the job, or does it again
	}
}

// isPassing reports an error of the engine or of the caller, not of the run: the same run is tried again later.
func isPassing(ctx context.Context, err error) bool {
	if ctx.Err() != nil {
		return true
	}
	for _, target := range []error{
		enginecore.ErrUnavailable, enginecore.ErrOutcomeUnknown, enginecore.ErrUnauthorized, enginecore.ErrClosed,
		enginecore.ErrIncompatibleLibrary,
	} {
		if errors.Is(err, target) {
			return true
		}
	}
	return false
}

// actor performs the action of one job.
type actor struct {
	session   *engine.Session
	submitter *submit.Submitter
	job       keyspace.BulkJobID
	spec      Spec
	began     time.Time
	answers   answer.Checker
}

// act performs the action on one run. Doing it again changes nothing: reruns and signals are known by the job.
func (a *actor) act(ctx context.Context, run enginerpc.Run) error {
	p, err := a.session.Core.FlowPartition(run.FlowID)
	if err != nil {
		return err
	}
	switch action := a.spec.Action; action.Kind {
	case "cancel":
		return a.cancel(ctx, p, run, submit.CancelAll)
	case "cancel_pending":
		return a.cancel(ctx, p, run, submit.CancelPending)
	case "rerun":
		return a.rerun(ctx, p, run)
	case "purge":
		return a.submitter.Purge(ctx, run.FlowName, run.RunID, run.FlowID, p, time.Time{})
	case "pause":
		paused := engine.Run{FlowID: run.FlowID, Partition: p}
		return runcontrol.Pause(ctx, a.session, paused, action.Reason, a.spec.Actor)
	case "resume":
		return runcontrol.Resume(ctx, a.session, engine.Run{FlowID: run.FlowID, Partition: p}, a.spec.Actor)
	case "priority":
		core, err := a.session.Library("changing priorities")
		if err != nil {
			return err
		}
		at := engine.Run{FlowID: run.FlowID, Partition: p}
		return runcontrol.SetPriority(ctx, a.session, core, at, "", action.Priority)
	case "signal":
		return a.signal(ctx, p, run)
	}
	return fmt.Errorf("action %q is unknown to this keeper", a.spec.Action.Kind)
}

func (a *actor) cancel(ctx context.Context, p keyspace.Partition, run enginerpc.Run, policy string) error {
	if !run.ClosedAt.IsZero() {
		return engine.ErrRunOver
	}
	return submit.CancelRun(ctx, a.session, enginerpc.CancelFlowCall{
		Partition: p, FlowID: run.FlowID, Reason: a.spec.Action.Reason, Actor: a.spec.Actor, Policy: policy,
	})
}

// rerun runs the run again under an id that follows from the job.
func (a *actor) rerun(ctx context.Context, p keyspace.Partition, run enginerpc.Run) error {
	nodes, err := a.submitter.ReadNodes(ctx, run.FlowID, p)
	if err != nil {
		return err
	}
	if nodes.ClosedAt.IsZero() {
		return engine.ErrRunOpen
	}
	scope := submit.ScopeOf(a.spec.Action.Scope)
	ids, err := nodes.InScope(scope)
	if err != nil {
		return err
	}
	return a.submitter.SendRerun(ctx, enginerpc.RerunCall{
		Partition: p, FlowID: run.FlowID, Mode: scope.Mode, Actor: a.spec.Actor,
		RerunID: uuid.NewSHA1(uuid.NameSpaceOID, []byte(string(a.job)+" "+string(run.FlowID))).String(),
	}, ids)
}

// signal signals the waitpoints of the run that were open when the job began.
func (a *actor) signal(ctx context.Context, p keyspace.Partition, run enginerpc.Run) error {
	store := a.session.Backend
	sent := 0
	for call := (enginerpc.ListWaitpointsCall{Partition: p, FlowID: run.FlowID}); ; {
		reply, err := store.ListWaitpoints(ctx, call)
		if err != nil {
			return err
		}
		for _, w := range reply.Waitpoints {
			if w.WaitpointToken == "" || w.CreatedAt.After(a.began) ||
				len(w.Signals) > 0 && !slices.Contains(w.Signals, a.spec.Action.Signal) {
				continue
			}
			if err := a.send(ctx, store, p, w); err != nil {
				return err
			}
			sent++
		}
		if call.Cursor = reply.NextCursor; call.Cursor == "" {
			break
		}
	}
	if sent == 0 {
		return errDoesNotApply
	}
	return nil
}

// send sends the signal to one waitpoint, which knows it by the job when it comes again.
func (a *actor) send(
	ctx context.Context, store engine.Backend, p keyspace.Partition, w enginerpc.ListedWaitpoint,
) error {
	payload := []byte(a.spec.Action.Payload)
	if len(payload) == 0 {
		payload = []byte("null")
	}
	signal := enginerpc.OutgoingSignal{
		SignalID: enginecore.SignalID(uuid.NewString()), SignalName: a.spec.Action.Signal, SourceType: "client",
		SourceIdentity: a.spec.Actor, IdempotencyKey: "bulk:" + string(a.job), Payload: payload,
	}
	reply, err := a.answers.Signal(ctx, store, enginerpc.SignalCall{
		Partition: p, ExecutionID: w.ExecutionID, WaitpointID: w.WaitpointID, WaitpointToken: w.WaitpointToken,
		OutgoingSignal: signal,
	})
	if err != nil {
		return err
	}
	return answer.Uncounted(reply.Uncounted, reply.Counting, &signal)
}
