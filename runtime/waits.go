package runtime

import (
	"context"
	"errors"
	"time"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/enginecore"
)

// ErrWaitOver is returned by ResumeWait and CancelWait when the wait has ended.
var ErrWaitOver = errors.New("wait is over")

// WaitState is the state of a waitpoint.
type WaitState string

// The states of a waitpoint.
const (
	// WaitPending: opened by activity.OpenWaitpoint; the function has not come to its Await yet. Signals are kept.
	WaitPending WaitState = "pending"
	// WaitOpen: something waits for its signals.
	WaitOpen WaitState = "open"
	// WaitClosed: the wait is over.
	WaitClosed WaitState = "closed"
)

// Waitpoint is a place where a run waits, or has waited, for signals.
type Waitpoint struct {
	Flow, Run string
	// Node is the waitpoint node, or the node whose activity waits.
	Node string
	// Step is the name of the wait in the activity, with "#2" and so on from the second call on; empty for a waitpoint node.
	Step        string
	ID          enginecore.WaitpointID
	ExecutionID enginecore.ExecutionID
	State       WaitState
	// OpenedAt is when the waitpoint was made.
	OpenedAt time.Time
	// TimeoutAt is when OnTimeout happens; zero without a timeout. Of a pending waitpoint, it is when it is closed.
	TimeoutAt time.Time
	OnTimeout activity.TimeoutBehavior
	// Escalated tells that the timeout has passed and the wait goes on.
	Escalated bool
	// Signals are the names that count; none: every name.
	Signals []string
	// All asks for one signal of each name. Distinct counts one signal of each source only.
	All, Distinct bool
	// Needed is the number of signals that end the wait, Received how many of them have come.
	Needed, Received int
	// Token gives the right to signal the waitpoint. Handle it like a password.
	Token activity.Token
}

// WaitsOption adjusts Waitpoints.
type WaitsOption func(*waitsConfig)

type waitsConfig struct{ closed bool }

// ClosedToo lists waitpoints that are over as well.
func ClosedToo() WaitsOption { return func(c *waitsConfig) { c.closed = true } }

// Waitpoints lists the open waitpoints of the run, the oldest first.
func (r *Run[Out]) Waitpoints(ctx context.Context, opts ...WaitsOption) ([]Waitpoint, error) {
	return r.client.waitpoints(ctx, r.flow, r.id, r.flowID, r.part, opts)
}

// Waitpoints is Run.Waitpoints for a run known by name. It wraps ErrRunNotFound when there is no such run.
func (c *Client) Waitpoints(ctx context.Context, flowName, runID string, opts ...WaitsOption) ([]Waitpoint, error) {
	id, partition, err := c.locate(flowName, runID)
	if err != nil {
		return nil, err
	}
	return c.waitpoints(ctx, flowName, runID, id, partition, opts)
}

// ResumeWait ends a wait without its signals, as an operator may: it goes on as if a signal with that payload had ended
// it. It wraps ErrWaitOver when the wait has ended.
func (c *Client) ResumeWait(ctx context.Context, w Waitpoint, payload any) error {
	data, err := encodePayload(payload)
	if err != nil {
		return err
	}
	return c.endWait(ctx, w, data, "", false)
}

// CancelWait ends a wait and cancels its node. It wraps ErrWaitOver when the wait has ended.
func (c *Client) CancelWait(ctx context.Context, w Waitpoint, reason string) error {
	return c.endWait(ctx, w, nil, reason, true)
}

// errNoWaits stands until the library has the calls.
var errNoWaits = errors.New("this build of the engine library has no waits")

func (c *Client) waitpoints(context.Context, string, string, enginecore.FlowID, enginecore.Partition, []WaitsOption) ([]Waitpoint, error) {
	return nil, errNoWaits
}

func (c *Client) endWait(context.Context, Waitpoint, []byte, string, bool) error { return errNoWaits }

func (c *Client) signal(context.Context, tokenParts, Signal, []byte, enginecore.SignalID) (Delivery, error) {
	return Delivery{}, errNoWaits
}
