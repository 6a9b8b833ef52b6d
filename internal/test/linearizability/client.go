package linearizability

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/flow"
	"github.com/flowfabric/flowfabric-go/internal/engine"
	"github.com/flowfabric/flowfabric-go/runtime"
)

// gate is the node of the flow that waits.
const gate = "gate"

// received are the signals that ended a wait.
type received = []activity.Signal[int]

// gated is a flow that waits for signals and returns them.
func gated() (*flow.Definition[int, received], error) {
	f := flow.New[int, received]("gated")
	flow.Return(f, flow.WaitpointSignals[int](f, gate, activity.AtLeast(needed)))
	return f.Build()
}

// Client performs calls on an engine.
type Client struct {
	client *runtime.Client
	def    *flow.Definition[int, received]
	// calls is the context of the calls that begin now. It may be ended while they wait for their answers.
	calls func() context.Context
}

// NewClient returns a client that gets the context of each call from a function.
func NewClient(client *runtime.Client, calls func() context.Context) (*Client, error) {
	def, err := gated()
	return &Client{client: client, def: def, calls: calls}, err
}

// Perform implements Performer.
func (c *Client) Perform(call Call) Outcome {
	ctx, cancel := context.WithTimeout(c.calls(), patience)
	defer cancel()
	o, err := c.perform(ctx, call)
	switch {
	case err == nil:
		return o
	case errors.Is(err, engine.ErrRunNotFound):
		return Outcome{Code: NotFound}
	case errors.Is(err, engine.ErrOtherInput):
		return Outcome{Code: OtherInput}
	case errors.Is(err, engine.ErrRunOver):
		return Outcome{Code: Over}
	case errors.Is(err, runtime.ErrRunCancelled):
		return Outcome{Code: Cancelled}
	}
	return Outcome{Code: Unknown, Why: err.Error()}
}

// patience bounds a call, so that a test ends.
const patience = 5 * time.Minute

func (c *Client) perform(ctx context.Context, call Call) (Outcome, error) {
	ref := c.client.Run(c.def.Name(), call.Run)
	signal := runtime.Signal{Name: "go", Payload: call.Payload, IdempotencyKey: call.Key}
	wait := runtime.WaitName{Node: gate}
	switch call.Kind {
	case Start:
		run, err := runtime.Start(ctx, c.client, c.def, call.Input, runtime.WithID(call.Run))
		if err != nil {
			return Outcome{}, err
		}
		if run.Existed() {
			return Outcome{Code: Existed}, nil
		}
		return Outcome{Code: Done}, nil
	case Signal:
		result, err := ref.SignalWait(ctx, wait, signal)
		return outcome(result, false), err
	case StartOrSignal:
		run, err := runtime.Start(ctx, c.client, c.def, call.Input, runtime.WithSignal(wait, signal), runtime.WithID(call.Run))
		return outcome(run.SignalResult(), run.Existed()), err
	case Cancel:
		return Outcome{Code: Done}, ref.Cancel(ctx, "enough")
	case Describe:
		return c.describe(ctx, ref)
	case Result:
		run, err := runtime.Attach(ref, c.def)
		if err != nil {
			return Outcome{}, err
		}
		return result(ctx, run)
	}
	return Outcome{}, fmt.Errorf("no such call: %s", call.Kind)
}

// outcome returns the outcome of a signal.
func outcome(r fabrictype.SignalResult, existed bool) Outcome {
	return Outcome{Code: Code(r.Outcome), First: Code(r.First), Existed: existed}
}

// result returns the payloads of a run, in the order in which the signals arrived.
func result(ctx context.Context, run *runtime.Run[received]) (Outcome, error) {
	signals, err := run.Result(ctx)
	payloads := make([]int, len(signals))
	for i, s := range signals {
		payloads[i] = s.Payload
	}
	return Outcome{Code: Succeeded, Payloads: encode(payloads)}, err
}

// describe reads the state of a run: how many signals an open one has received, the result of one that has succeeded.
func (c *Client) describe(ctx context.Context, ref *runtime.RunRef) (Outcome, error) {
	d, err := ref.Describe(ctx)
	if err != nil {
		return Outcome{}, err
	}
	switch d.State {
	case fabrictype.RunRunning:
		o := Outcome{Code: Running, Received: uncounted}
		for _, n := range d.Nodes {
			for _, w := range n.Waits {
				o.Received = w.Received
			}
		}
		return o, nil
	case fabrictype.RunSucceeded:
		run, err := runtime.Attach(ref, c.def)
		if err != nil {
			return Outcome{}, err
		}
		return result(ctx, run)
	}
	return Outcome{Code: Code(d.State)}, nil
}
