package runtime

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/interceptor"
	"github.com/flowfabric/flowfabric-go/internal/engine"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
	"github.com/flowfabric/flowfabric-go/internal/errorcode"
	"github.com/flowfabric/flowfabric-go/internal/explain"
	"github.com/flowfabric/flowfabric-go/internal/keyspace"
	"github.com/flowfabric/flowfabric-go/internal/submit"
	"github.com/flowfabric/flowfabric-go/internal/waitreason"
)

// Waitpoint is a place at which a run waits, or has waited, for signals, with the token for these.
type Waitpoint struct {
	fabrictype.Wait
	// Token authorizes signals to the waitpoint. Handle it like a password.
	Token activity.Token `json:"token,omitzero"`

	timer bool // it takes no signals, and is not shown
}

// explain returns the signals for which the waitpoint waits, in words.
func (w *Waitpoint) explain() fabrictype.Explanation {
	e := fabrictype.Explanation{
		Reason: waitreason.Signals, Since: w.OpenedAt, Until: w.TimeoutAt, Subject: w.Step, Names: w.Signals,
		Have:   w.Received,
		Need:   w.Needed,
		Remedy: "answer it in the console, with flowfabric answer, or with Client.Signal and the token of RunRef.Waitpoints",
	}
	e.Sentence = "waits for " + cmp.Or(strings.Join(w.Signals, " or "), "a signal")
	if w.All {
		e.Sentence = "waits for " + strings.Join(w.Signals, " and ")
	}
	if w.Step != "" {
		e.Sentence += " at " + w.Step
	}
	e.Sentence += " since " + explain.Time(w.OpenedAt)
	if w.Needed > 1 {
		e.Sentence += fmt.Sprintf(", %d of %d have come", w.Received, w.Needed)
	}
	switch {
	case w.Escalated:
		e.Reason = waitreason.Escalated
		e.Sentence += ", nobody came in time"
	case !w.TimeoutAt.IsZero():
		e.Sentence += fmt.Sprintf(", until %s (then: %s)", explain.Time(w.TimeoutAt), w.OnTimeout)
	}
	return e
}

// Waitpoints returns the open waitpoints of the run with their tokens, the oldest first. It includes the waitpoints of
// open child runs, of maps and sub-flows at any depth; Waitpoint.Flow and Waitpoint.Run name the run that ResumeWait,
// CancelWait and ReceivedSignals are for. The error wraps ErrNotFound.
func (r *RunRef) Waitpoints(ctx context.Context) ([]Waitpoint, error) {
	return r.waitpoints(ctx, false)
}

// AllWaitpoints returns the waitpoints of Waitpoints, and those whose wait is over.
func (r *RunRef) AllWaitpoints(ctx context.Context) ([]Waitpoint, error) {
	return r.waitpoints(ctx, true)
}

func (r *RunRef) waitpoints(ctx context.Context, closed bool) (waits []Waitpoint, err error) {
	if err := r.ready(ctx); err != nil {
		return nil, err
	}
	if waits, err = r.readWaitpoints(ctx, closed); err != nil {
		return nil, r.errorf("waitpoints of", runFault(err))
	}
	waits = slices.DeleteFunc(waits, func(w Waitpoint) bool { return w.timer })
	return byOpening(waits), nil
}

// byOpening orders waitpoints by the time of their opening, and drops duplicates from the pages of a changing set.
func byOpening(waits []Waitpoint) []Waitpoint {
	slices.SortFunc(waits, func(a, b Waitpoint) int {
		return cmp.Or(a.OpenedAt.Compare(b.OpenedAt), cmp.Compare(a.Node, b.Node), cmp.Compare(a.Step, b.Step),
			cmp.Compare(a.ID, b.ID))
	})
	return slices.CompactFunc(waits, func(a, b Waitpoint) bool { return a.ID == b.ID })
}

// readWaitpoints reads the waitpoints and timers of the run, then the waitpoints and timers of its child runs.
func (r *RunRef) readWaitpoints(ctx context.Context, closed bool) (waits []Waitpoint, err error) {
	waits, children, err := r.readOwnWaitpoints(ctx, closed)
	for len(children) > 0 && err == nil {
		names, readErr := submit.ReadRunNames(ctx, r.client.session, children)
		if readErr != nil {
			return nil, readErr
		}
		var below []enginecore.FlowID
		for _, id := range children {
			name, there := names[id]
			if !there {
				continue // it was not created yet, or is purged
			}
			found, further, readErr := r.client.Run(name.Flow, name.Run).readOwnWaitpoints(ctx, closed)
			if readErr != nil && !errors.Is(readErr, enginecore.ErrFlowNotFound) {
				return nil, readErr
			}
			waits, below = append(waits, found...), append(below, further...)
		}
		children = below
	}
	return waits, err
}

// readOwnWaitpoints reads the waitpoints of the run page by page, with its timers, and the ids of its open child runs.
func (r *RunRef) readOwnWaitpoints(
	ctx context.Context, closed bool,
) (waits []Waitpoint, children []enginecore.FlowID, err error) {
	store := r.client.session.Backend
	call := enginerpc.ListWaitpointsCall{Partition: r.partition, FlowID: r.flowID, All: closed}
	for {
		reply, err := store.ListWaitpoints(ctx, call)
		if err != nil {
			return nil, nil, err
		}
		for _, listed := range reply.Waitpoints {
			w, err := readWaitpoint(listed)
			if err != nil {
				return nil, nil, err
			}
			w.Flow, w.Run, w.FlowID = r.flow, r.id, string(r.flowID)
			waits = append(waits, w)
		}
		children = append(children, reply.Children...)
		if call.Cursor = reply.NextCursor; call.Cursor == "" {
			return waits, children, nil
		}
	}
}

// ResumeWait ends a wait of the run without signals, on behalf of an operator: the wait continues as if a signal with
// that payload, encoded as JSON, had ended it. The error wraps ErrOver when the wait has ended or does not belong
// to the run, ErrTooLarge for a payload above 64 KiB, or ErrInvalid for one that cannot be encoded or does
// not satisfy the AnswerSchema of a wait for one payload, with a *fabrictype.ValueError that has all its faults.
func (r *RunRef) ResumeWait(ctx context.Context, w Waitpoint, payload any) error {
	if r.isIntercepted() {
		return r.intercept(ctx, interceptor.ResumeWait, w.Node, func(ctx context.Context, r *RunRef) error {
			return r.ResumeWait(ctx, w, payload)
		})
	}
	data, err := encodePayload(payload)
	if err != nil {
		return err
	}
	return r.endWait(ctx, w, enginerpc.EndWaitCall{Resume: true, Result: data})
}

// CancelWait ends a wait of the run and cancels its node. The reason follows the rules of Cancel. The error wraps
// ErrOver as for ResumeWait, or ErrInvalid.
func (r *RunRef) CancelWait(ctx context.Context, w Waitpoint, reason string) error {
	if r.isIntercepted() {
		return r.intercept(ctx, interceptor.CancelWait, w.Node, func(ctx context.Context, r *RunRef) error {
			return r.CancelWait(ctx, w, reason)
		})
	}
	return r.endWait(ctx, w, enginerpc.EndWaitCall{Reason: reason})
}

// endWait ends a wait as the call specifies.
func (r *RunRef) endWait(ctx context.Context, w Waitpoint, call enginerpc.EndWaitCall) error {
	if err := r.ready(ctx); err != nil {
		return err
	}
	fail := func(err error) error {
		return r.errorf(fmt.Sprintf("end the wait %s of node %s of", w.ID, w.Node), err)
	}
	if err := engine.CheckReason(call.Reason); err != nil {
		return fail(err)
	}
	if err := engine.CheckText("actor", r.client.actor, engine.MaxActor); err != nil {
		return fail(err)
	}
	if w.ID == "" || w.ExecutionID == "" {
		return r.errorf("end a wait of", invalid("the waitpoint has no id: use one that Waitpoints returned"))
	}
	partition, err := keyspace.PartitionOf(enginecore.ExecutionID(w.ExecutionID))
	if err != nil {
		return fail(err)
	}
	store := r.client.session.Backend
	call.Partition, call.FlowID = partition, r.flowID
	call.ExecutionID, call.WaitpointID = enginecore.ExecutionID(w.ExecutionID), enginecore.WaitpointID(w.ID)
	call.Actor, call.Namespace = r.client.actorName(), r.client.session.Namespace
	reply, err := r.client.answers.EndWait(ctx, store, call)
	switch {
	case errors.Is(err, errorcode.ExecutionNotSuspended), err == nil &&
		reply.Status == enginerpc.StatusAlreadySatisfied:
		return fail(engine.ErrWaitOver)
	case errors.Is(err, enginecore.ErrExecutionNotFound), errors.Is(err, enginecore.ErrWaitpointNotFound):
		return fail(fmt.Errorf("%w: %w", engine.ErrWaitOver, err))
	case err != nil:
		return fail(err)
	case reply.More:
		r.client.drain(ctx, partition)
	}
	return nil
}

func readWaitpoint(l enginerpc.ListedWaitpoint) (Waitpoint, error) {
	w := Waitpoint{timer: l.Timer, Wait: fabrictype.Wait{
		Node: l.Node, Step: l.Step, ID: string(l.WaitpointID), ExecutionID: string(l.ExecutionID),
		State: waitState(l.State), OpenedAt: l.CreatedAt, TimeoutAt: l.TimeoutAt, Escalated: l.Escalated,
		Signals: l.Signals, All: l.MatchMode == "all", Distinct: l.Distinct, Needed: int(l.Needed),
		Received: int(l.Received),
	}}
	if err := w.readAbout(l.About); err != nil {
		return w, err
	}
	if !l.ActivatedAt.IsZero() {
		w.OpenedAt = l.ActivatedAt
	}
	if w.State == fabrictype.WaitOpen && (!w.TimeoutAt.IsZero() || w.Escalated) {
		w.OnTimeout = string(submit.TimeoutBehavior(l.TimeoutBehavior))
	}
	if l.WaitpointToken == "" {
		return w, nil
	}
	var err error
	w.Token, err = engine.SealToken(l.ExecutionID, l.WaitpointID, l.WaitpointToken)
	return w, err
}

// readAbout reads the metadata of the wait.
func (w *Waitpoint) readAbout(stored []byte) error {
	if len(stored) == 0 {
		return nil
	}
	var about submit.StoredAbout
	if err := json.Unmarshal(stored, &about); err != nil {
		return fmt.Errorf("what is said of waitpoint %s cannot be read: %w", w.ID, err)
	}
	w.Title, w.Question, w.Audience = about.Title, about.Question, about.Audience
	if about.Answer != "" {
		w.AnswerSchema = json.RawMessage(about.Answer)
	}
	return nil
}

func waitState(engines string) fabrictype.WaitState {
	switch engines {
	case "pending":
		return fabrictype.WaitPending
	case "active":
		return fabrictype.WaitOpen
	}
	return fabrictype.WaitClosed
}

// drain performs the rest of the work of a call that was too large for one step. If it fails, a keeper performs it.
func (c *Client) drain(ctx context.Context, p keyspace.Partition) {
	for {
		reply, err := c.session.Backend.Tick(ctx, enginerpc.TickCall{Partition: p, Limit: engine.TickLimit})
		if err != nil || !reply.More {
			return
		}
	}
}

// ParseToken parses the text that activity.Token.Reveal returned. It returns ErrInvalidToken for a text that cannot be
// a token. It does not verify the signature; the engine does when the token is used.
func ParseToken(text string) (activity.Token, error) { return engine.ParseToken(text) }
