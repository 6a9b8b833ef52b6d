package runtime

import (
	"context"
	"errors"
	"fmt"

	"github.com/flowfabric/flowfabric-go/flow"
	"github.com/flowfabric/flowfabric-go/runtime/internal/engine"
	"github.com/flowfabric/flowfabric-go/runtime/internal/submit"
)

// Run is a run of a flow that returns an Out, made by Start or Attach. Its other methods are those of RunRef.
type Run[Out any] struct {
	*RunRef
	decode  func([]byte) (Out, error)
	existed bool
}

// Start starts a run of a flow. Where the call is interrupted, a second one with the same ID goes on with it: the
// engine makes nothing runnable before the whole flow is there.
//
// The error wraps ErrRunConflict when the id is taken by a run with another graph or input, ErrTooLarge for an input
// above MaxInput, ErrInvalid for a bad id, actor or tag, for too many tags and for an input without the key of a limit,
// a budget or FairBy; nothing has been written then. It wraps enginecore.ErrFull when the server has no room for new
// work: start the run again later, with the same ID.
func Start[In, Out any](
	ctx context.Context, c *Client, def *flow.Definition[In, Out], in In, opts ...StartOption,
) (*Run[Out], error) {
	if ctx == nil {
		return nil, fmt.Errorf("start run: %w", errNoContext)
	}
	plan, err := planRun(c, def, in, opts)
	if err != nil {
		return nil, err
	}
	existed, err := c.submitter.Submit(ctx, plan)
	if err != nil {
		return nil, err
	}
	ref := &RunRef{client: c, flow: plan.Flow, id: plan.Run, flowID: plan.FlowID, partition: plan.Partition}
	return &Run[Out]{RunRef: ref, decode: def.DecodeResult, existed: existed}, nil
}

// planRun makes the run of one call of Start ready to be submitted. Nothing is sent.
func planRun[In, Out any](
	c *Client, def *flow.Definition[In, Out], in In, opts []StartOption,
) (*submit.RunPlan, error) {
	if err := usable(c, def); err != nil {
		return nil, fmt.Errorf("start run: %w", err)
	}
	config, err := startConfigOf(opts)
	if err != nil {
		return nil, fmt.Errorf("flow %s: start: %w", def.Name(), err)
	}
	if !config.named {
		config.id = c.submitter.RunIDs.Next(def.Name())
	}
	input, err := def.EncodeInput(in)
	if err != nil {
		return nil, fmt.Errorf("flow %s: input: %w", def.Name(), err)
	}
	compiled, err := c.compiled.Get(def)
	if err != nil {
		return nil, err
	}
	plan, err := submit.NewPlan(c.session, compiled, config.id, input)
	if err != nil {
		return nil, err
	}
	plan.Creator = config.actor
	plan.OwnTags = len(config.tags) > 0
	if plan.Tags, err = submit.TagsOf(compiled, config.tags); err != nil {
		return nil, invalid("%w", err)
	}
	return plan, nil
}

// Attach gives a reference to a run the result type of its flow. It sends nothing, so the run need not exist. It
// returns an error when the definition is that of another flow than the reference names, ErrInvalid when the reference
// has a bad id.
func Attach[In, Out any](ref *RunRef, def *flow.Definition[In, Out]) (*Run[Out], error) {
	if err := errors.Join(ref.ready(), checkDefinition(def)); err != nil {
		return nil, fmt.Errorf("attach to run: %w", err)
	}
	if def.Name() != ref.flow {
		return nil, fmt.Errorf("attach to run %s of flow %s: the definition is of flow %s", ref.id, ref.flow,
			def.Name())
	}
	return &Run[Out]{RunRef: ref, decode: def.DecodeResult, existed: true}, nil
}

// checkDefinition reports what is wrong with a definition that Build did not return.
func checkDefinition[In, Out any](def *flow.Definition[In, Out]) error {
	switch {
	case def == nil:
		return invalid("the definition of the flow is nil: look at the error of Build")
	case def.Hash() == "":
		return invalid("the definition of the flow was not made by Build")
	}
	return nil
}

// Existed reports whether the run was there before Start was called. It is true of every run from Attach.
func (r *Run[Out]) Existed() bool { return r != nil && r.existed }

// errNoRun is the answer to a wait for the run of a call of Start whose error was passed over.
var errNoRun = invalid("the run is nil: look at the error of Start or Attach")

// Result waits until the run is over and returns its result. A run that did not succeed gives a *RunError, which
// matches ErrRunFailed, ErrRunCancelled or ErrRunExpired; ErrNoResult is wrapped when the run succeeded without the
// node whose result it returns. When ctx ends first, the error is the cause of that; it wraps enginecore.ErrClosed when
// the client or the engine is closed first. After a rerun, Result waits for the new end.
func (r *Run[Out]) Result(ctx context.Context) (Out, error) {
	var zero Out
	if r == nil {
		return zero, errNoRun
	}
	if err := r.ready(); err != nil {
		return zero, err
	}
	reply, err := r.client.submitter.AwaitResult(ctx, r.flow, r.id, r.flowID, r.partition)
	if err != nil {
		return zero, err
	}
	if reply.Outcome != "success" {
		return zero, newRunError(submit.ReadRunFailure(ctx, r.client.session, r.flow, r.id, r.flowID, r.partition,
			reply))
	}
	out, err := r.decode(reply.Result)
	if err != nil && !reply.HasResult {
		return zero, fmt.Errorf("run %s of flow %s: %w", r.id, r.flow, engine.ErrNoResult)
	}
	if err != nil {
		return zero, fmt.Errorf("run %s of flow %s: result: %w", r.id, r.flow, err)
	}
	return out, nil
}
