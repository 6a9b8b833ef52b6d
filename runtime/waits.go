package runtime

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
	"github.com/flowfabric/flowfabric-go/runtime/internal/engine"
	"github.com/flowfabric/flowfabric-go/runtime/internal/explain"
	"github.com/flowfabric/flowfabric-go/runtime/internal/submit"
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
	// Needed is the number of signals that end the wait, Received how many of them have come. Of a pending waitpoint, Needed
	// is 0, as nobody has said how many, and Received counts all that are kept.
	Needed, Received int
	// Token gives the right to signal the waitpoint. Handle it like a password.
	Token activity.Token
}

// why says in words what the waitpoint waits for.
func (w *Waitpoint) why() string {
	text := "waits for " + cmp.Or(strings.Join(w.Signals, " or "), "a signal")
	if w.All {
		text = "waits for " + strings.Join(w.Signals, " and ")
	}
	if w.Step != "" {
		text += " at " + w.Step
	}
	text += " since " + explain.Time(w.OpenedAt)
	if w.Needed > 1 {
		text += fmt.Sprintf(", %d of %d have come", w.Received, w.Needed)
	}
	switch {
	case w.Escalated:
		text += ", nobody came in time"
	case !w.TimeoutAt.IsZero():
		text += fmt.Sprintf(", until %s (then: %s)", explain.Time(w.TimeoutAt), w.OnTimeout)
	}
	return text
}

// WaitpointsOption adjusts Waitpoints.
type WaitpointsOption func(*waitsConfig)

type waitsConfig struct{ closed bool }

// WithClosed lists waitpoints that are over as well.
func WithClosed() WaitpointsOption { return func(c *waitsConfig) { c.closed = true } }

// Waitpoints lists the open waitpoints of the run, the oldest first.
func (r *Run[Out]) Waitpoints(ctx context.Context, opts ...WaitpointsOption) ([]Waitpoint, error) {
	r = r.there()
	return r.client.waitpoints(ctx, r.flow, r.id, r.flowID, r.part, opts)
}

// Waitpoints is Run.Waitpoints for a run known by name. It wraps ErrRunNotFound when there is no such run.
func (c *Client) Waitpoints(ctx context.Context, flowName, runID string, opts ...WaitpointsOption) ([]Waitpoint, error) {
	id, partition, err := c.locate(flowName, runID)
	if err != nil {
		return nil, err
	}
	return c.waitpoints(ctx, flowName, runID, id, partition, opts)
}

// ResumeWait ends a wait without its signals, as an operator may: it goes on as if a signal with that payload had ended
// it. It wraps ErrWaitOver when the wait has ended, and for one that is unknown: of another namespace than the client's, or of
// another run than Waitpoint.Flow and Run, where they are given.
func (c *Client) ResumeWait(ctx context.Context, w Waitpoint, payload any) error {
	data, err := encodePayload(payload)
	if err != nil {
		return err
	}
	return c.endWait(ctx, w, data, "", false)
}

// CancelWait ends a wait and cancels its node. Its errors are those of ResumeWait.
func (c *Client) CancelWait(ctx context.Context, w Waitpoint, reason string) error {
	return c.endWait(ctx, w, nil, reason, true)
}

func (c *Client) waitpoints(ctx context.Context, flowName, runID string, id enginecore.FlowID, p enginecore.Partition, opts []WaitpointsOption) ([]Waitpoint, error) {
	if err := c.ready(); err != nil {
		return nil, err
	}
	config := waitsConfig{}
	fail := func(err error) ([]Waitpoint, error) {
		return nil, fmt.Errorf("waitpoints of run %s of flow %s: %w", runID, flowName, err)
	}
	if err := apply(&config, opts); err != nil {
		return fail(err)
	}
	if !engine.Has[engine.WaitStore](c.session.Backend) {
		return fail(engine.ErrNotInContract)
	}
	call := enginerpc.ListWaitpointsCall{Partition: p, FlowID: id, All: config.closed}
	var waits []Waitpoint
	for {
		reply, err := c.session.Core.ListWaitpoints(ctx, call)
		if errors.Is(err, enginecore.ErrFlowNotFound) {
			err = engine.ErrRunNotFound
		}
		if err != nil {
			return fail(err)
		}
		for _, listed := range reply.Waitpoints {
			w, err := readWaitpoint(listed)
			if err != nil {
				return fail(err)
			}
			w.Flow, w.Run = flowName, runID
			waits = append(waits, w)
		}
		if call.Cursor = reply.NextCursor; call.Cursor == "" {
			break
		}
	}
	slices.SortFunc(waits, func(a, b Waitpoint) int {
		return cmp.Or(a.OpenedAt.Compare(b.OpenedAt), cmp.Compare(a.Node, b.Node), cmp.Compare(a.Step, b.Step), cmp.Compare(a.ID, b.ID))
	})
	// A page of a set that changes may show a member twice.
	return slices.CompactFunc(waits, func(a, b Waitpoint) bool { return a.ID == b.ID }), nil
}

func readWaitpoint(l enginerpc.ListedWaitpoint) (Waitpoint, error) {
	w := Waitpoint{
		Node: l.Node, Step: l.Step, ID: l.WaitpointID, ExecutionID: l.ExecutionID, State: waitState(l.State), OpenedAt: l.CreatedAt,
		TimeoutAt: l.TimeoutAt, Escalated: l.Escalated, Signals: l.Signals, All: l.MatchMode == "all", Distinct: l.Distinct,
		Needed: int(l.Needed), Received: int(l.Received),
	}
	if !l.ActivatedAt.IsZero() {
		w.OpenedAt = l.ActivatedAt
	}
	if w.State == WaitOpen && (!w.TimeoutAt.IsZero() || w.Escalated) {
		w.OnTimeout = submit.TimeoutBehavior(l.TimeoutBehavior)
	}
	if l.WaitpointToken == "" {
		return w, nil
	}
	var err error
	w.Token, err = engine.SealToken(l.ExecutionID, l.WaitpointID, l.WaitpointToken)
	return w, err
}

func waitState(engines string) WaitState {
	switch engines {
	case "pending":
		return WaitPending
	case "active":
		return WaitOpen
	}
	return WaitClosed
}

func (c *Client) endWait(ctx context.Context, w Waitpoint, result []byte, reason string, cancel bool) error {
	if err := c.ready(); err != nil {
		return err
	}
	fail := func(err error) error {
		return fmt.Errorf("end the wait %s of node %s, run %s of flow %s: %w", w.ID, w.Node, w.Run, w.Flow, err)
	}
	if err := engine.CheckReason(reason); err != nil {
		return fail(err)
	}
	partition, err := w.ExecutionID.Partition()
	if err != nil {
		return fail(err)
	}
	call := enginerpc.EndWaitCall{
		Partition: partition, ExecutionID: w.ExecutionID, WaitpointID: w.ID, Resume: !cancel, Result: result, Reason: reason, Actor: "client",
		Namespace: c.session.Namespace,
	}
	if w.Flow != "" || w.Run != "" {
		call.FlowID = enginecore.FlowIDFor(c.session.Namespace, w.Flow, w.Run)
	}
	reply, err := c.session.Core.EndWait(ctx, call)
	switch {
	case errors.Is(err, enginecore.ErrExecutionNotSuspended), err == nil && reply.Status == enginerpc.StatusAlreadySatisfied:
		return fail(ErrWaitOver)
	case errors.Is(err, enginecore.ErrExecutionNotFound), errors.Is(err, enginecore.ErrWaitpointNotFound):
		return fail(fmt.Errorf("%w: %w", ErrWaitOver, err))
	case err != nil:
		return fail(err)
	case reply.More:
		return c.drain(ctx, partition)
	}
	return nil
}

// drain does what a call has left over because it was too much for one. Where it fails, a keeper does it.
func (c *Client) drain(ctx context.Context, p enginecore.Partition) error {
	for {
		reply, err := c.session.Backend.Tick(ctx, enginerpc.TickCall{Partition: p, Limit: engine.TickLimit})
		if err != nil || !reply.More {
			return nil
		}
	}
}

// ParseToken reads the text of a token, as activity.Token.Reveal gave it. Its error is ErrInvalidToken for a text that
// cannot be one; whether a token is genuine, only the engine knows.
func ParseToken(text string) (activity.Token, error) { return engine.ParseToken(text) }
