// Package signals delivers signals to waitpoints, and lists and ends waits.
package signals

import (
	"cmp"
	"context"
	"crypto/subtle"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/google/uuid"
	"github.com/redis/rueidis"

	"github.com/flowfabric/flowfabric-go/contract/internal/backend/execution"
	"github.com/flowfabric/flowfabric-go/contract/internal/backend/flows"
	"github.com/flowfabric/flowfabric-go/contract/internal/backend/link"
	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/internal/contractnode"
	"github.com/flowfabric/flowfabric-go/internal/engine"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
	"github.com/flowfabric/flowfabric-go/internal/errorcode"
	"github.com/flowfabric/flowfabric-go/internal/hashrecord"
	"github.com/flowfabric/flowfabric-go/internal/keyspace"
)

// Signals delivers signals, and lists and ends waits. It is safe for concurrent use.
type Signals struct{ *execution.Steps }

func New(s *execution.Steps) *Signals { return &Signals{s} }

var waitpointFields = []string{
	"execution_id", "state", "close_reason", "waitpoint_key", "waitpoint_token", "created_at", "activated_at",
	"closed_at",
	"expires_at",
}

// signalTries bounds the tries of a signal whose waitpoint changes its state concurrently.
const signalTries = 5

// Signal delivers a signal to a waitpoint, or keeps it for a wait that has not begun.
func (c *Signals) Signal(ctx context.Context, call enginerpc.SignalCall) (enginerpc.SignalReply, error) {
	reply := enginerpc.SignalReply{Status: enginerpc.StatusOK, SignalID: call.SignalID}
	var err error
	for range signalTries {
		reply, err = c.signalOnce(ctx, call, reply)
		if !link.IsOneOf(err, []error{errorcode.WaitpointPendingUseBufferScript, errorcode.WaitpointNotPending}) {
			break
		}
	}
	for _, code := range []enginecore.Code{
		errorcode.MissingToken, enginecore.ErrTokenExpired, errorcode.HMACSecretNotInitialized,
		enginecore.ErrExecutionNotFound,
	} {
		if errors.Is(err, code) {
			err = fmt.Errorf("%w: %w", enginecore.ErrInvalidToken, err)
		}
	}
	return reply, err
}

// signalOnce reads the state of the waitpoint and sends the call for it.
func (c *Signals) signalOnce(
	ctx context.Context, call enginerpc.SignalCall, reply enginerpc.SignalReply,
) (enginerpc.SignalReply, error) {
	p := call.Partition
	results, err := c.Read(ctx, c.Hmget(c.Keys.WaitpointRecord(p, call.WaitpointID), waitpointFields),
		c.Hmget(c.Keys.ExecCore(call.ExecutionID), []string{"lane_id", "lifecycle_phase", "current_waitpoint_id"}))
	if err != nil {
		return reply, err
	}
	w := hashrecord.Read(results[0], waitpointFields)
	core := engine.Record(hashrecord.Read(results[1], []string{"lane_id", "lifecycle_phase", "current_waitpoint_id"}))
	if w["execution_id"] != string(call.ExecutionID) {
		return reply, fmt.Errorf("waitpoint %s: %w", call.WaitpointID, enginecore.ErrInvalidToken)
	}
	signal := enginerpc.Signal{
		SignalID: call.SignalID, ExecutionID: call.ExecutionID, WaitpointID: call.WaitpointID,
		SignalName: call.SignalName, SignalCategory: cmp.Or(call.SignalCategory, "external"),
		SourceType: call.SourceType, SourceIdentity: call.SourceIdentity, CorrelationID: call.CorrelationID,
		Payload: call.Payload, IdempotencyKey: call.IdempotencyKey, WaitpointToken: call.WaitpointToken,
	}
	if signal.IdempotencyKey == "" {
		signal.IdempotencyKey = string(call.SignalID) // so that a repeat after a lost reply counts once
	}
	waits := w["state"] == "active" && core["lifecycle_phase"] == "suspended" &&
		core["current_waitpoint_id"] == string(call.WaitpointID)
	switch {
	case w["state"] == "pending" && !core.IsTerminal():
		kept, err := link.CallAgain[enginerpc.BufferSignalForPendingWaitpointReply](ctx, c.Link,
			enginerpc.BufferSignalForPendingWaitpointCall{Signal: signal})
		if err != nil {
			return c.signalRefused(ctx, call, w, reply, err)
		}
		missed, err := c.isMissed(ctx, p, call.WaitpointID, kept.SignalID)
		if err != nil {
			return reply, err
		}
		if !missed {
			return c.delivered(ctx, p, reply, kept.Status, kept.SignalID, kept.Effect, &call)
		}
		again := uuid.NewSHA1(uuid.NameSpaceOID, []byte("again "+kept.SignalID)).String()
		signal.SignalID, signal.IdempotencyKey = enginecore.SignalID(again), again
	case !waits:
		return c.signalRefused(ctx, call, w, reply, enginecore.ErrWaitpointClosed)
	}
	sent, err := link.CallAgain[enginerpc.DeliverSignalReply](ctx, c.Link,
		enginerpc.DeliverSignalCall{LaneID: core.Lane(), Signal: signal})
	if err != nil {
		return c.signalRefused(ctx, call, w, reply, err)
	}
	reply, err = c.delivered(ctx, p, reply, sent.Status, sent.SignalID, sent.Effect, &call)
	if sent.Effect == effectResumed {
		c.TellWork(ctx, p, core.Lane())
		c.ServeSoon(ctx, p, core.Lane())
	}
	return reply, err
}

// isMissed reports whether a signal was kept after its wait had begun, which then took no notice of it.
func (c *Signals) isMissed(
	ctx context.Context, p keyspace.Partition, waitpoint enginecore.WaitpointID, id enginecore.SignalID,
) (bool, error) {
	results, err := c.Read(ctx, c.Client.B().Hget().Key(c.Keys.WaitpointRecord(p, waitpoint)).Field("state").Build(),
		c.Client.B().Hgetall().Key(c.Keys.WaitpointCondition(p, waitpoint)).Build())
	if err != nil {
		return false, err
	}
	state, _ := results[0].ToString()
	condition, err := results[1].AsStrMap()
	if err != nil {
		return false, engine.ReadError(ctx, "HGETALL", err)
	}
	return state == "active" && !slices.Contains(execution.TakenIDs(condition, nil), id), nil
}

const effectResumed = "resume_condition_satisfied"

// signalRefused returns the outcome of a signal that came too late: duplicate if the same signal was taken before,
// closed, or expired. Other errors are returned.
func (c *Signals) signalRefused(
	ctx context.Context, call enginerpc.SignalCall, w engine.Record, reply enginerpc.SignalReply, err error,
) (enginerpc.SignalReply, error) {
	if !errors.Is(err, enginecore.ErrWaitpointClosed) && !errors.Is(err, enginecore.ErrTargetNotSignalable) {
		return reply, err
	}
	if subtle.ConstantTimeCompare([]byte(w["waitpoint_token"]), []byte(call.WaitpointToken)) != 1 {
		return reply, fmt.Errorf("waitpoint %s: %w", call.WaitpointID, enginecore.ErrInvalidToken)
	}
	key := call.IdempotencyKey
	if key == "" {
		key = string(call.SignalID)
	}
	results, readErr := c.Read(ctx,
		c.Client.B().Get().Key(c.Keys.SignalDedup(call.Partition, call.WaitpointID, key)).Build())
	if readErr != nil {
		return reply, readErr
	}
	if first, err := results[0].ToString(); err == nil {
		return c.delivered(ctx, call.Partition, reply, enginerpc.StatusDuplicate, enginecore.SignalID(first), "", &call)
	}
	reply.Outcome = "closed"
	if strings.HasPrefix(w["close_reason"], "timed_out") || w["close_reason"] == "never_committed" {
		reply.Outcome = "expired"
	}
	return reply, nil
}

// delivered fills in the outcome of a signal that the engine took, now or before.
func (c *Signals) delivered(
	ctx context.Context, p keyspace.Partition, reply enginerpc.SignalReply, status enginerpc.Status,
	id enginecore.SignalID, effect string, call *enginerpc.SignalCall,
) (enginerpc.SignalReply, error) {
	reply.SignalID = id
	outcome := &reply.Outcome
	if status == enginerpc.StatusDuplicate {
		results, err := c.Read(ctx,
			c.Client.B().Hget().Key(c.Keys.SignalRecord(p, id)).Field("observed_effect").Build())
		if err != nil {
			return reply, err
		}
		effect, _ = results[0].ToString()
		reply.Outcome, outcome = "duplicate", &reply.FirstOutcome
	}
	*outcome, reply.Matched = "accepted", effect != "no_op"
	if effect == effectResumed {
		*outcome = "resumed"
	}
	if !reply.Matched {
		return c.uncounted(ctx, p, reply, call)
	}
	return reply, nil
}

// uncounted fills in why a wait does not count a signal, and the names that count.
func (c *Signals) uncounted(
	ctx context.Context, p keyspace.Partition, reply enginerpc.SignalReply, call *enginerpc.SignalCall,
) (enginerpc.SignalReply, error) {
	results, err := c.Read(ctx, c.Client.B().Hgetall().Key(c.Keys.WaitpointCondition(p, call.WaitpointID)).Build())
	if err != nil {
		return reply, err
	}
	state, err := results[0].AsStrMap()
	if err != nil {
		return reply, engine.ReadError(ctx, "HGETALL", err)
	}
	reply.Uncounted = "name"
	isCounted := false
	total, _ := strconv.Atoi(state["total_matchers"])
	for i := range total {
		prefix := "matcher:" + strconv.Itoa(i) + ":"
		name := state[prefix+"name"]
		if name == "" || name == call.SignalName {
			reply.Uncounted = "enough"
		}
		if name != "" && !slices.Contains(reply.Counting, name) {
			reply.Counting = append(reply.Counting, name)
		}
		isCounted = isCounted || state[prefix+"satisfied"] == "1" && state[prefix+"source"] == call.SourceIdentity
	}
	if reply.Uncounted == "enough" && isCounted && state["distinct"] == "1" {
		reply.Uncounted = "source"
	}
	return reply, nil
}

// maxPendingRead bounds the waitpoints without a wait, of all executions of a partition, that a list looks through.
const maxPendingRead = 1000

// ListWaitpoints lists the waitpoints of a flow, in one page.
func (c *Signals) ListWaitpoints(
	ctx context.Context, call enginerpc.ListWaitpointsCall,
) (enginerpc.ListWaitpointsReply, error) {
	reply := enginerpc.ListWaitpointsReply{Status: enginerpc.StatusOK}
	p := call.Partition
	results, err := c.Read(ctx, c.Client.B().Exists().Key(c.Keys.FlowCore(p, call.FlowID)).Build(),
		c.Client.B().Zrange().Key(c.Keys.IndexPendingWaitpointExpiry(p)).Min("0").
			Max(strconv.Itoa(maxPendingRead-1)).Build())
	if err != nil {
		return reply, err
	}
	if n, err := results[0].AsInt64(); err != nil || n == 0 {
		return reply, fmt.Errorf("flow %s: %w", call.FlowID, enginecore.ErrFlowNotFound)
	}
	members, err := c.Members(ctx, p, call.FlowID)
	if err != nil {
		return reply, err
	}
	ids := link.IDsOf[enginecore.WaitpointID](results[1])
	for len(members) > 0 {
		page := members[:min(len(members), link.Page)]
		members = members[len(page):]
		commands := make(rueidis.Commands, len(page))
		for i, id := range page {
			commands[i] = c.Client.B().Smembers().Key(c.Keys.ExecWaitpoints(id)).Build()
		}
		if results, err = c.Read(ctx, commands...); err != nil {
			return reply, err
		}
		for _, result := range results {
			ids = append(ids, link.IDsOf[enginecore.WaitpointID](result)...)
		}
	}
	slices.Sort(ids)
	for _, id := range slices.Compact(ids) {
		w, err := c.listWaitpoint(ctx, p, call, id)
		if err != nil {
			return reply, err
		}
		if w != nil {
			reply.Waitpoints = append(reply.Waitpoints, *w)
		}
	}
	return reply, nil
}

var listedCore = []string{"flow_id", "lifecycle_phase", "current_waitpoint_id"}

// listWaitpoint returns the description of a waitpoint; nil if it is not one of the list.
func (c *Signals) listWaitpoint(
	ctx context.Context, p keyspace.Partition, call enginerpc.ListWaitpointsCall, id enginecore.WaitpointID,
) (*enginerpc.ListedWaitpoint, error) {
	results, err := c.Read(ctx, c.Hmget(c.Keys.WaitpointRecord(p, id), waitpointFields))
	if err != nil {
		return nil, err
	}
	w := engine.Record(hashrecord.Read(results[0], waitpointFields))
	owner := enginecore.ExecutionID(w["execution_id"])
	if _, err := keyspace.PartitionOf(owner); err != nil {
		return nil, nil
	}
	suspension := []string{"waitpoint_id", "timeout_at", "timeout_behavior", "reason_code"}
	results, err = c.Read(ctx, c.Hmget(c.Keys.ExecCore(owner), listedCore),
		c.Hmget(c.Keys.ExecSuspension(owner), suspension),
		c.Client.B().Hget().Key(c.Keys.ExecTags(owner)).Field(contractnode.TagNode).Build(),
		c.Client.B().Hgetall().Key(c.Keys.WaitpointCondition(p, id)).Build(),
		c.Client.B().Xlen().Key(c.Keys.WaitpointSignals(p, id)).Build())
	if err != nil {
		return nil, err
	}
	core := engine.Record(hashrecord.Read(results[0], listedCore))
	open := w["state"] == "pending" && !core.IsTerminal() ||
		w["state"] == "active" && core["current_waitpoint_id"] == string(id)
	if core["flow_id"] != string(call.FlowID) || !open && !call.All {
		return nil, nil
	}
	node, _ := results[2].ToString()
	if node == "" {
		node = string(owner)
	}
	step, _ := strings.CutPrefix(w["waitpoint_key"], execution.StepKey)
	if step == w["waitpoint_key"] {
		step = ""
	}
	l := &enginerpc.ListedWaitpoint{
		ExecutionID: owner, Node: node, Step: step, WaitpointID: id, WaitpointKey: w["waitpoint_key"],
		State:     w["state"],
		CreatedAt: w.Time("created_at"), ActivatedAt: w.Time("activated_at"), TimeoutAt: w.Time("expires_at"),
		ClosedAt: w.Time("closed_at"), CloseReason: w["close_reason"],
	}
	if open {
		l.WaitpointToken = w["waitpoint_token"]
	} else if l.State != "closed" {
		l.State = "closed"
	}
	if s := engine.Record(hashrecord.Read(results[1], suspension)); s["waitpoint_id"] == string(id) {
		l.TimeoutAt, l.TimeoutBehavior = s.Time("timeout_at"), s["timeout_behavior"]
		l.Escalated = s["reason_code"] == "waiting_for_operator_review"
	}
	state, _ := results[3].AsStrMap()
	describeCondition(l, engine.Record(state))
	if w["state"] == "pending" {
		l.Received, _ = results[4].AsInt64()
	}
	return l, nil
}

// describeCondition fills in the signals that end a wait, and its progress.
func describeCondition(l *enginerpc.ListedWaitpoint, state engine.Record) {
	if len(state) == 0 {
		return
	}
	total, decisive := int(state.Int("total_matchers")), state.Int("decisive")
	for i := range total {
		name := state["matcher:"+strconv.Itoa(i)+":name"]
		if name != "" && !slices.Contains(l.Signals, name) {
			l.Signals = append(l.Signals, name)
		}
		if name != "" && int64(i) >= int64(total)-decisive && !slices.Contains(l.Decisive, name) {
			l.Decisive = append(l.Decisive, name)
		}
	}
	l.MatchMode, l.Distinct, l.Received = state["match_mode"], state["distinct"] == "1", state.Int("satisfied_count")
	l.Needed = max(1, state.Int("minimum_signal_count"))
	if l.MatchMode == "all" {
		l.Needed = int64(total) - decisive
	}
}

// EndWait ends a wait on behalf of an operator: it resumes the execution, with a result that is kept in its tags, or
// cancels it. A waitpoint whose wait has not begun is closed.
func (c *Signals) EndWait(ctx context.Context, call enginerpc.EndWaitCall) (enginerpc.EndWaitReply, error) {
	reply := enginerpc.EndWaitReply{Status: enginerpc.StatusOK}
	fields := append([]string{"namespace", "public_state", "flow_id"}, flows.CancelFields...)
	results, err := c.Read(ctx, c.Hmget(c.Keys.ExecCore(call.ExecutionID), fields),
		c.Hmget(c.Keys.WaitpointRecord(call.Partition, call.WaitpointID), waitpointFields))
	if err != nil {
		return reply, err
	}
	core := engine.Record(hashrecord.Read(results[0], fields))
	w := hashrecord.Read(results[1], waitpointFields)
	switch {
	case !core.Exists() || call.FlowID != "" && core["flow_id"] != string(call.FlowID):
		return reply, fmt.Errorf("execution %s: %w", call.ExecutionID, enginecore.ErrExecutionNotFound)
	case w["execution_id"] != string(call.ExecutionID):
		return reply, fmt.Errorf("waitpoint %s: %w", call.WaitpointID, enginecore.ErrWaitpointNotFound)
	case w["state"] != "pending" && w["state"] != "active":
		reply.Status, reply.PublicState = enginerpc.StatusAlreadySatisfied, fabrictype.NodeState(core["public_state"])
		return reply, nil
	}
	waiting := core["lifecycle_phase"] == "suspended" && core["current_waitpoint_id"] == string(call.WaitpointID)
	switch {
	case call.Resume && !waiting:
		return reply, fmt.Errorf("execution %s: %w", call.ExecutionID, errorcode.ExecutionNotSuspended)
	case call.Resume:
		return reply, c.resumeWait(ctx, call, core.Lane())
	case waiting:
		return reply, c.cancelWait(ctx, call, core)
	}
	_, err = link.CallAgain[enginerpc.CloseWaitpointReply](ctx, c.Link, enginerpc.CloseWaitpointCall{
		ExecutionID: call.ExecutionID, WaitpointID: call.WaitpointID, Reason: "cancelled",
	})
	return reply, err
}

func (c *Signals) resumeWait(ctx context.Context, call enginerpc.EndWaitCall, lane enginecore.LaneID) error {
	if len(call.Result) > 0 {
		_, err := link.CallAgain[enginerpc.SetExecutionTagsReply](ctx, c.Link, enginerpc.SetExecutionTagsCall{
			ExecutionID: call.ExecutionID,
			Tags:        []string{contractnode.TagResumed + string(call.WaitpointID), string(call.Result)},
		})
		if err != nil {
			return err
		}
	}
	_, err := c.Core.ResumeExecution(ctx, enginerpc.ResumeExecutionCall{
		LaneID: lane, ExecutionID: call.ExecutionID, WaitpointID: call.WaitpointID, TriggerType: "operator",
	})
	if err == nil {
		c.TellWork(ctx, call.Partition, lane)
		c.ServeSoon(ctx, call.Partition, lane)
	}
	return err
}

func (c *Signals) cancelWait(ctx context.Context, call enginerpc.EndWaitCall, core engine.Record) error {
	cancel := flows.CancelCall(call.ExecutionID, core, call.Reason)
	cancel.Source = "operator_override"
	_, err := link.CallAgain[enginerpc.CancelExecutionReply](ctx, c.Link, cancel)
	if err != nil && !errors.Is(err, enginecore.ErrExecutionNotActive) {
		return err
	}
	_, err = c.Propagate(ctx, call.Partition, "", execution.End{
		ID: call.ExecutionID, Flow: enginecore.FlowID(core["flow_id"]), Outcome: "cancelled",
	})
	return err
}
