package runtime

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/flowfabric/flowfabric-go/internal/activityspec"
	"github.com/flowfabric/flowfabric-go/internal/describe"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
	"github.com/flowfabric/flowfabric-go/internal/submit"
)

// DebouncePolicy defines the start time of a run for several calls.
type DebouncePolicy struct {
	// Quiet is how long after the last call the run starts: a millisecond to ten years.
	Quiet time.Duration
	// AtMost is how long after the first call it starts at the latest, Quiet to ten years. Defaults to ten times Quiet,
	// or to ten years where that is less.
	AtMost time.Duration
	// MaxInputs collects the inputs of the calls, up to that many and at most 10,000: the input of each call is a list
	// of one element in JSON, and the run gets the elements of all calls, in their order. When the run has MaxInputs of
	// them, or its input would be larger than 1 MiB, the call fails with ErrTooLarge, and the run is unchanged. By
	// default the run gets the input of the last call.
	MaxInputs int
}

// WithDebounce starts one run for all calls with the key that come close to each other: the first call creates it, each
// later one replaces its input and puts its start off, and it starts when no call has come for the time Quiet. All of
// them return the same run, which is listed with Run.StartsAt, and can be cancelled, or started by MoveStart. The next
// call begins another one. Each call is one atomic step.
//
// All other options are the options of the first call, but limits and FairBy follow the input. A call with another
// graph begins another run. The engine chooses the id of the run, so WithDebounce does not go with WithID, WithKey,
// WithThrottle, StartAt and WithSignal.
//
// Start returns ErrInvalid for a flow with more than 256 nodes without upstreams, and for one whose budgets take their
// keys from the input. In contract mode it returns ErrNotInContract.
func WithDebounce(key string, p DebouncePolicy) StartOption {
	if p.AtMost == 0 {
		p.AtMost = min(10*min(p.Quiet, maxStartDelay), maxStartDelay)
	}
	return startFunc(func(c *startConfig) {
		c.addArrival("WithDebounce", key, func(a *enginerpc.SubmitArrival) {
			a.CallID = uuid.NewString()
			a.Quiet, a.AtMost = activityspec.Milliseconds(p.Quiet), activityspec.Milliseconds(p.AtMost)
			a.MaxInputs = int64(p.MaxInputs)
		}, p.check(key))
	})
}

// checkCollected returns the reason why an input cannot be gathered with others.
func checkCollected(codec string, input []byte) error {
	var elements []json.RawMessage
	if describe.Codec(codec) != describe.Codec("") {
		return invalid("debounce: inputs are collected only with the codec json, not %q", codec)
	}
	if err := json.Unmarshal(input, &elements); err != nil || len(elements) != 1 {
		return invalid("debounce: the input must be a list of one element to be collected")
	}
	return nil
}

func (p DebouncePolicy) check(key string) error {
	if key == "" {
		return invalid("key: it is empty")
	}
	if err := checkSpan("debounce: quiet", p.Quiet, false); err != nil {
		return err
	}
	if p.AtMost < p.Quiet || p.AtMost > maxStartDelay {
		return invalid("debounce: at most %s: must be quiet, %s, to 10 years", p.AtMost, p.Quiet)
	}
	if p.MaxInputs < 0 || p.MaxInputs > maxDebounced {
		return invalid("debounce: max inputs %d: must be 0 to %d", p.MaxInputs, maxDebounced)
	}
	return nil
}

// setArrival gives a plan its arrival.
func setArrival(plan *submit.RunPlan, a *enginerpc.SubmitArrival) error {
	if a == nil {
		return nil
	}
	if a.MaxInputs > 0 {
		if err := checkCollected(plan.Compiled.Graph.Codec, plan.Input); err != nil {
			return fmt.Errorf("flow %s: start: %w", plan.Flow, err)
		}
	}
	if err := plan.SetArrival(*a); err != nil {
		return fmt.Errorf("start run: %w", err)
	}
	return nil
}
