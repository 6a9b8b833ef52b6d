package runtime

import (
	"context"
	"errors"
	"fmt"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/flow"
	"github.com/flowfabric/flowfabric-go/interceptor"
	"github.com/flowfabric/flowfabric-go/internal/engine"
	"github.com/flowfabric/flowfabric-go/internal/submit"
)

// Run is a reference to a run of a flow whose result has type Out. Start and Attach return it. Its other methods are
// the methods of RunRef.
type Run[Out any] struct {
	*RunRef
	decode  decoder[Out]
	existed bool
	// signalled is the result of the signal of WithSignal; nil without one.
	signalled *fabrictype.SignalResult
}

// decoder decodes the result of a run; a flow.Definition is one.
type decoder[Out any] interface {
	DecodeResult(data []byte) (Out, error)
}

// Start starts a run of a flow. If the call is interrupted, call Start again with the same id to complete it: the
// engine makes no node eligible before the whole run is stored.
//
// The error wraps ErrConflict when the id belongs to a run of another graph or with another input;
// ErrTooLarge for an input above 1 MiB; or ErrInvalid for an invalid id, actor or tag, for too many tags, and for an
// input without the value from which a limit, a budget or FairBy takes its key. Nothing was written then. It wraps
// enginecore.ErrFull when the server has no room for new work; start the run again later, with the same id.
func Start[In, Out any](
	ctx context.Context, c *Client, def *flow.Definition[In, Out], in In, opts ...StartOption,
) (*Run[Out], error) {
	if err := checkContext(ctx); err != nil {
		return nil, fmt.Errorf("start run: %w", err)
	}
	plan, signal, err := planRun(c, def, in, opts)
	if err != nil {
		return nil, err
	}
	return startPlan(ctx, c, plan, signal, def)
}

// startPlan starts the run of a plan, with its signal if it has one.
func startPlan[Out any](
	ctx context.Context, c *Client, plan *submit.RunPlan, signal *startSignal, decode decoder[Out],
) (*Run[Out], error) {
	if signal != nil {
		return startOrSignal(ctx, c, plan, signal, decode)
	}
	existed, err := c.submit(ctx, plan)
	if err != nil {
		return nil, err
	}
	return newRun(c.refTo(plan), decode, existed), nil
}

// newRun returns a run with its reference, in one allocation.
func newRun[Out any](ref RunRef, decode decoder[Out], existed bool) *Run[Out] {
	both := &struct {
		run Run[Out]
		ref RunRef
	}{run: Run[Out]{decode: decode, existed: existed}, ref: ref}
	both.run.RunRef = &both.ref
	return &both.run
}

// planRun makes the run of one call of Start ready to be submitted, and returns its signal. Nothing is sent.
func planRun[In, Out any](
	c *Client, def *flow.Definition[In, Out], in In, opts []StartOption,
) (*submit.RunPlan, *startSignal, error) {
	if err := usable(c, def); err != nil {
		return nil, nil, fmt.Errorf("start run: %w", err)
	}
	compiled, err := c.compiled.Get(def)
	if err != nil {
		return nil, nil, err
	}
	config, err := c.checkStart(compiled, opts)
	if err != nil {
		return nil, nil, err
	}
	input, err := def.EncodeInput(in)
	if err != nil {
		return nil, nil, fmt.Errorf("flow %s: input: %w", def.Name(), err)
	}
	plan, err := c.submitter.Plan(compiled, &config.StartOptions, input)
	return plan, config.signal, err
}

// checkStart returns the options of a start, with all tags of the run. The error joins all faults of them.
func (c *Client) checkStart(flow *submit.CompiledFlow, opts []StartOption) (startConfig, error) {
	config, err := c.startConfigOf(opts)
	var faults []error
	if err != nil {
		faults = append(faults, fmt.Errorf("flow %s: start: %w", flow.Graph.Name, err))
	}
	if err := config.CheckID(); err != nil {
		faults = append(faults, fmt.Errorf("flow %s: %w", flow.Graph.Name, err))
	}
	for _, fault := range config.checkArrival() {
		faults = append(faults, fmt.Errorf("flow %s: start: %w", flow.Graph.Name, fault))
	}
	if err := c.local.check(c.session, flow); err != nil {
		faults = append(faults, err)
	}
	if err := config.ResolveTags(flow); err != nil {
		faults = append(faults, invalid("%w", err))
	}
	return config, errors.Join(faults...)
}

// Attach adds the result type of a flow to a reference to a run. It sends nothing, so the run need not exist. It
// returns an error when def is not the definition of the flow that the reference names, or ErrInvalid when the run id
// is invalid.
func Attach[In, Out any](ref *RunRef, def *flow.Definition[In, Out]) (*Run[Out], error) {
	if err := errors.Join(ref.made(), checkDefinition(def)); err != nil {
		return nil, fmt.Errorf("attach to run: %w", err)
	}
	if def.Name() != ref.at.Flow {
		return nil, fmt.Errorf("attach to run %s of flow %s: the definition is of flow %s", ref.at.ID, ref.at.Flow,
			def.Name())
	}
	if _, err := ref.client.compiled.Get(def); err != nil { // a fork reads the compiled definition
		return nil, fmt.Errorf("attach to run: %w", err)
	}
	return &Run[Out]{RunRef: ref, decode: def, existed: true}, nil
}

// usable returns the fault of a missing client or definition.
func usable[In, Out any](c *Client, def *flow.Definition[In, Out]) error {
	if err := c.made(); err != nil {
		return err
	}
	return checkDefinition(def)
}

// checkDefinition reports the fault of a definition that Build did not return.
func checkDefinition[In, Out any](def *flow.Definition[In, Out]) error {
	switch {
	case def == nil:
		return invalid("the definition of the flow is nil: look at the error of Build")
	case def.Hash() == "":
		return invalid("the definition of the flow was not made by Build")
	}
	return nil
}

// Existed reports whether the run was there before Start was called. It may also be true of a run that Start has
// started itself, if the reply to its first try was lost and it tried again. It is true of every run from Attach.
func (r *Run[Out]) Existed() bool { return r != nil && r.existed }

// errNoRun is the answer to a wait for the run of a call of Start whose error was passed over.
var errNoRun = invalid("the run is nil: look at the error of Start or Attach")

// Result waits until the run is over and returns its result. If the run did not succeed, the error is a *RunError,
// which matches ErrRunFailed, ErrRunCancelled or ErrRunExpired. The error wraps ErrNoResult when the run succeeded but
// the node with its result did not run. When ctx ends first, the error wraps the cause of that; for a deadline, it also
// names the node that the run waits for and the reason, which takes up to 2 s longer. It wraps enginecore.ErrClosed
// when the client or the engine is closed first. After a rerun, Result waits for the new end.
//
// While it waits for a run that does not continue until a worker, a keeper or an operator acts, Result logs
// "run.stuck", once for each reason, after 5 s at the earliest.
func (r *Run[Out]) Result(ctx context.Context) (Out, error) {
	var zero Out
	if r == nil {
		return zero, errNoRun
	}
	if r.isIntercepted() {
		return r.interceptedResult(ctx)
	}
	if err := r.ready(ctx); err != nil {
		return zero, err
	}
	reply, err := r.client.submitter.AwaitResult(ctx, r.at.Flow, r.at.ID, r.at.FlowID, r.at.Partition)
	if err != nil {
		return zero, r.client.reasons.withReason(ctx, r.at, err)
	}
	if reply.Outcome != "success" {
		failure := submit.ReadRunFailure(ctx, r.client.session, r.at.Flow, r.at.ID, r.at.FlowID, r.at.Partition, reply)
		return zero, newRunError(failure)
	}
	if reply.ResultSkipped {
		return zero, fmt.Errorf("run %s of flow %s: %w%s", r.at.ID, r.at.Flow, engine.ErrNoResult, r.skipReason(ctx))
	}
	out, err := r.decode.DecodeResult(reply.Result)
	if err != nil {
		return zero, fmt.Errorf("run %s of flow %s: result: %w", r.at.ID, r.at.Flow, err)
	}
	return out, nil
}

// skipReason returns ": node x was skipped: <reason>" for the node that has the result of a run which has none; "" if
// that cannot be read.
func (r *Run[Out]) skipReason(ctx context.Context) string {
	d, err := r.Describe(ctx)
	if err != nil || d.graph == nil {
		return ""
	}
	for _, n := range d.Nodes {
		if n.Name == d.graph.Return && n.State == fabrictype.NodeSkipped && n.Reason != "" {
			return fmt.Sprintf(": node %s was skipped: %s", n.Name, n.Reason)
		}
	}
	return ""
}

// interceptedResult is Result through the interceptors.
func (r *Run[Out]) interceptedResult(ctx context.Context) (out Out, err error) {
	err = r.intercept(ctx, interceptor.Result, "", func(ctx context.Context, ref *RunRef) (err error) {
		out, err = (&Run[Out]{RunRef: ref, decode: r.decode, existed: r.existed}).Result(ctx)
		return err
	})
	return out, err
}

// Do runs one activity as a run, without a flow: it starts a run of a flow with the activity as its only node. Flow and
// node have the name of the activity, so Client.Run(a.Name(), id) refers to the run, and lists, limits, retries, waits
// and everything else apply as to any run. It takes the options of Start and returns its errors, and an error that
// matches activity.ErrInvalid for an invalid activity. An activity of activity.Declare will do: a worker runs it.
//
// A flow of your own with the name of the activity shares its run ids.
func Do[In, Out any](
	ctx context.Context, c *Client, a *activity.Activity[In, Out], in In, opts ...StartOption,
) (*Run[Out], error) {
	if err := c.made(); err != nil {
		return nil, fmt.Errorf("run activity: %w", err)
	}
	def, err := submit.SingleFlow(&c.singles, a)
	if err != nil {
		return nil, fmt.Errorf("run activity %s: %w", a.Name(), err)
	}
	return Start(ctx, c, def, in, opts...)
}
