package runtime

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/flowfabric/flowfabric-go/internal/catalogue"
	"github.com/flowfabric/flowfabric-go/internal/submit"
)

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
	return startPlans(ctx, f.client, runs, plan, rawJSON), nil
}
