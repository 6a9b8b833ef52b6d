package runtime

import (
	"context"

	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/internal/engine"
	"github.com/flowfabric/flowfabric-go/internal/submit"
)

// RunRef refers to one run by the name of its flow and its id. Client.Run returns one, and Run embeds one. A RunRef
// holds no state of the run: each call queries the engine, in the namespace of the client. It is safe for concurrent
// use, as long as its client is open.
//
// The error of every call wraps ErrInvalid when the id is not valid, enginecore.ErrClosed when the client or the engine
// is closed, and, unless its comment states otherwise, ErrNotFound when the run does not exist.
type RunRef struct {
	client *Client
	at     engine.Run
	fault  error // the error of every call; nil for a usable reference
}

// Run returns a reference to a run of a flow. It sends nothing, and the run need not exist: an invalid client or id is
// reported by the first call on the reference.
func (c *Client) Run(flowName, runID string) *RunRef {
	at, err := c.locate(flowName, runID)
	if err != nil {
		at = engine.Run{Flow: flowName, ID: runID}
	}
	return &RunRef{client: c, at: at, fault: err}
}

// locate finds where a run lives.
func (c *Client) locate(flowName, runID string) (engine.Run, error) {
	if err := c.made(); err != nil {
		return engine.Run{}, err
	}
	return submit.LocateRun(c.session, flowName, runID)
}

var errUnmadeRun = invalid("the run was not made by Start, Attach or Client.Run")

// ready returns why calls with ctx cannot query the run; nil when they can.
func (r *RunRef) ready(ctx context.Context) error {
	if err := r.made(); err != nil {
		return err
	}
	return checkContext(ctx)
}

// made returns an error unless the reference names a run of a client that can be used.
func (r *RunRef) made() error {
	if r == nil || r.client == nil && r.fault == nil {
		return errUnmadeRun
	}
	if r.fault != nil {
		return r.fault
	}
	return r.client.made()
}

// FlowName returns the name of the run's flow.
func (r *RunRef) FlowName() string {
	if r == nil {
		return ""
	}
	return r.at.Flow
}

// ID returns the run's id, which is unique within namespace and flow.
func (r *RunRef) ID() string {
	if r == nil {
		return ""
	}
	return r.at.ID
}

// FlowID returns the id by which the engine knows the run; empty when the run's id is not valid.
func (r *RunRef) FlowID() enginecore.FlowID {
	if r == nil {
		return ""
	}
	return r.at.FlowID
}

// errorf returns err with the operation on the run: "cancel run r of flow f: err".
func (r *RunRef) errorf(doing string, err error) error {
	return r.at.Errorf(doing, err)
}
