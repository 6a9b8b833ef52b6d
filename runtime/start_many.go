package runtime

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/flowfabric/flowfabric-go/flow"
	"github.com/flowfabric/flowfabric-go/internal/catalogue"
	"github.com/flowfabric/flowfabric-go/internal/submit"
)

// maxStarts is the most runs of one call of StartMany.
const maxStarts = 10_000

// NewRun is one of the runs that StartMany starts.
type NewRun[In any] struct {
	Input   In
	Options []StartOption
}

// StartedRun is the outcome of one of them: a run or an error, as Start returns it.
type StartedRun[Out any] struct {
	Run *Run[Out]
	Err error
}

// StartMany starts up to 10,000 runs of a flow, as many with one call to the engine as it allows: up to 64 of one
// partition. Runs without an id are spread over few partitions. The outcomes are in the order of the runs; one that is
// not started does not keep the others from it. Each run is started whole or not at all, all of them together are not.
// Give ids to be able to repeat the call.
//
// The error wraps ErrInvalid for a client, definition or number of runs that cannot be used, when nothing is sent, and
// is the cause of ctx, or enginecore.ErrClosed, for a ctx or client that has ended before.
func StartMany[In, Out any](
	ctx context.Context, c *Client, def *flow.Definition[In, Out], runs []NewRun[In],
) ([]StartedRun[Out], error) {
	if err := checkContext(ctx); err != nil {
		return nil, fmt.Errorf("start runs: %w", err)
	}
	if err := usable(c, def); err != nil {
		return nil, fmt.Errorf("start runs: %w", err)
	}
	if len(runs) > maxStarts {
		return nil, invalid("start %d runs: at most %d are allowed in one call", len(runs), maxStarts)
	}
	plan := func(run NewRun[In]) (*submit.RunPlan, error) {
		plan, signal, err := planRun(c, def, run.Input, run.Options)
		if err = errors.Join(err, signal.refuse()); err != nil {
			return nil, err
		}
		return plan, nil
	}
	return startPlans(ctx, c, runs, plan, def), nil
}

// startPlans starts the runs of a list that can be planned.
func startPlans[In, Out any](
	ctx context.Context, c *Client, runs []NewRun[In], plan func(NewRun[In]) (*submit.RunPlan, error),
	decode decoder[Out],
) []StartedRun[Out] {
	started := make([]StartedRun[Out], len(runs))
	plans := make([]*submit.RunPlan, len(runs))
	for i, run := range runs {
		plans[i], started[i].Err = plan(run)
	}
	for i, outcome := range c.submitMany(ctx, plans) {
		switch plan := plans[i]; {
		case plan == nil:
		case outcome.Err != nil:
			started[i].Err = outcome.Err
		default:
			started[i].Run = newRun(c.refTo(plan), decode, outcome.Existed)
		}
	}
	return started
}

// planNamed makes the run of a published flow ready to be submitted, and returns its signal. Nothing is sent.
func (c *Client) planNamed(
	named *catalogue.Flow, name string, input json.RawMessage, opts []StartOption,
) (*submit.RunPlan, *startSignal, error) {
	config, err := c.checkStart(named.Compiled, opts)
	if err != nil {
		return nil, nil, err
	}
	compact, err := named.Check(name, input)
	if err != nil {
		return nil, nil, fmt.Errorf("start run: %w", err)
	}
	plan, err := c.submitter.Plan(named.Compiled, &config.StartOptions, compact)
	return plan, config.signal, err
}

// StartMany is the function StartMany for the published flow, without its definition: each of the runs is as Start
// starts it. The error wraps ErrInvalid for a number of runs that cannot be used. Nothing is sent after an error.
func (f *FlowRef) StartMany(
	ctx context.Context, runs []NewRun[json.RawMessage],
) ([]StartedRun[json.RawMessage], error) {
	if len(runs) > maxStarts {
		return nil, invalid("start %d runs: at most %d are allowed in one call", len(runs), maxStarts)
	}
	named, err := f.client.namedFlow(ctx, f.name)
	if err != nil {
		return nil, fmt.Errorf("start runs of flow %q: %w", f.name, err)
	}
	plan := func(run NewRun[json.RawMessage]) (*submit.RunPlan, error) {
		plan, signal, err := f.client.planNamed(named, f.name, run.Input, run.Options)
		if err = errors.Join(err, signal.refuse()); err != nil {
			return nil, err
		}
		return plan, nil
	}
	return startPlans(ctx, f.client, runs, plan, rawJSON{}), nil
}
