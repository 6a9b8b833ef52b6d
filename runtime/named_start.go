package runtime

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/internal/submit"
)

// planNamed makes the run of a published flow ready to be submitted. Nothing is sent.
func (c *Client) planNamed(
	named *namedFlow, name string, input json.RawMessage, opts []StartOption,
) (*submit.RunPlan, error) {
	config, tags, err := c.checkStart(named.compiled, opts)
	if err != nil {
		return nil, err
	}
	compact, err := named.check(name, input)
	if err != nil {
		return nil, fmt.Errorf("start run: %w", err)
	}
	return c.newPlan(named.compiled, config, tags, compact)
}

// StartManyNamed is StartMany for a published flow, without its definition: each of the runs is as StartNamed starts
// it. The error wraps ErrInvalid for a number of runs that cannot be used, enginecore.ErrFlowNotPublished for an
// unknown name, and in contract mode ErrNotInContract; nothing is sent then.
func (c *Client) StartManyNamed(
	ctx context.Context, name string, runs []NewRun[json.RawMessage],
) ([]StartedRun[json.RawMessage], error) {
	if len(runs) > MaxStarts {
		return nil, invalid("start %d runs: at most %d are allowed in one call", len(runs), MaxStarts)
	}
	named, err := c.namedFlow(ctx, name)
	if err != nil {
		return nil, fmt.Errorf("start runs of flow %q: %w", name, err)
	}
	plan := func(run NewRun[json.RawMessage]) (*submit.RunPlan, error) {
		return c.planNamed(named, name, run.Input, run.Options)
	}
	return startPlans(ctx, c, runs, plan, rawJSON), nil
}

// StartOrSignalNamed is StartOrSignal for a published flow, without its definition; the input is held against the
// schema of the flow, as with StartNamed.
func (c *Client) StartOrSignalNamed(
	ctx context.Context, name string, input json.RawMessage, w WaitName, s Signal, opts ...StartOption,
) (*Run[json.RawMessage], fabrictype.SignalResult, error) {
	named, err := c.namedFlow(ctx, name)
	if err != nil {
		return nil, fabrictype.SignalResult{}, fmt.Errorf("start or signal a run of flow %q: %w", name, err)
	}
	plan, err := c.planNamed(named, name, input, opts)
	if err != nil {
		return nil, fabrictype.SignalResult{}, err
	}
	return startOrSignal(ctx, c, plan, w, s, rawJSON)
}
