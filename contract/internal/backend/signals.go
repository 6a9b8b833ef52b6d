package backend

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

	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/internal/contractnode"
	"github.com/flowfabric/flowfabric-go/internal/engine"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
	"github.com/flowfabric/flowfabric-go/internal/errorcode"
	"github.com/flowfabric/flowfabric-go/internal/hashrecord"
	"github.com/flowfabric/flowfabric-go/internal/keyspace"
)

var waitpointFields = []string{
	"execution_id", "state", "close_reason", "waitpoint_key", "waitpoint_token", "created_at", "activated_at",
	"closed_at",
	"expires_at",
}

// signalTries bounds the tries of a signal whose waitpoint changes its state concurrently.
const signalTries = 5

// Signal delivers a signal to a waitpoint, or keeps it for a wait that has not begun.
func (c *contract) Signal(ctx context.Context, call enginerpc.SignalCall) (enginerpc.SignalReply, error) {
	reply := enginerpc.SignalReply{Status: enginerpc.StatusOK, SignalID: call.SignalID}
	var err error
	for range signalTries {
		reply, err = c.signalOnce(ctx, call, reply)
		if !isOneOf(err, []error{errorcode.WaitpointPendingUseBufferScript, errorcode.WaitpointNotPending}) {
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
func (c *contract) signalOnce(
	ctx context.Context, call enginerpc.SignalCall, reply enginerpc.SignalReply,
) (enginerpc.SignalReply, error) {
	p := call.Partition
	results, err := c.read(ctx, c.hmget(c.keys.WaitpointRecord(p, call.WaitpointID), waitpointFields),
		c.hmget(c.keys.ExecCore(call.ExecutionID), []string{"lane_id", "lifecycle_phase", "current_waitpoint_id"}))
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
		kept, err := callAgain[enginerpc.BufferSignalForPendingWaitpointReply](ctx, c,
			enginerpc.BufferSignalForPendingWaitpointCall{Signal: signal})
		if err != nil {
			return c.signalRefused(ctx, call, w, reply, err)
		}
		missed, err := c.isMissed(ctx, p, call.WaitpointID, kept.SignalID)
		if err != nil {
			return reply, err
		}
		if !missed {
			return c.delivered(ctx, p, reply, kept.Status, kept.SignalID, kept.Effect)
		}
		again := uuid.NewSHA1(uuid.NameSpaceOID, []byte("again "+kept.SignalID)).String()
		signal.SignalID, signal.IdempotencyKey = enginecore.SignalID(again), again
	case !waits:
		return c.signalRefused(ctx, call, w, reply, enginecore.ErrWaitpointClosed)
	}
	sent, err := callAgain[enginerpc.DeliverSignalReply](ctx, c,
		enginerpc.DeliverSignalCall{LaneID: core.Lane(), Signal: signal})
	if err != nil {
		return c.signalRefused(ctx, call, w, reply, err)
	}
	reply, err = c.delivered(ctx, p, reply, sent.Status, sent.SignalID, sent.Effect)
	if sent.Effect == effectResumed {
		c.tellWork(ctx, p, core.Lane())
		c.serveSoon(ctx, p, core.Lane())
	}
	return reply, err
}

// isMissed reports whether a signal was kept after its wait had begun, which then took no notice of it.
func (c *contract) isMissed(
	ctx context.Context, p keyspace.Partition, waitpoint enginecore.WaitpointID, id enginecore.SignalID,
) (bool, error) {
	results, err := c.read(ctx, c.client.B().Hget().Key(c.keys.WaitpointRecord(p, waitpoint)).Field("state").Build(),
		c.client.B().Hgetall().Key(c.keys.WaitpointCondition(p, waitpoint)).Build())
	if err != nil {
		return false, err
	}
	state, _ := results[0].ToString()
	condition, err := results[1].AsStrMap()
	if err != nil {
		return false, engine.ReadError(ctx, "HGETALL", err)
	}
	return state == "active" && !slices.Contains(takenIDs(condition, nil), id), nil
}

const effectResumed = "resume_condition_satisfied"

// signalRefused returns the outcome of a signal that came too late: duplicate if the same signal was taken before,
// closed, or expired. Other errors are returned.
func (c *contract) signalRefused(
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
	results, readErr := c.read(ctx,
		c.client.B().Get().Key(c.keys.SignalDedup(call.Partition, call.WaitpointID, key)).Build())
	if readErr != nil {
		return reply, readErr
	}
	if first, err := results[0].ToString(); err == nil {
		return c.delivered(ctx, call.Partition, reply, enginerpc.StatusDuplicate, enginecore.SignalID(first), "")
	}
	reply.Outcome = "closed"
	if strings.HasPrefix(w["close_reason"], "timed_out") || w["close_reason"] == "never_committed" {
		reply.Outcome = "expired"
	}
	return reply, nil
}

// delivered fills in the outcome of a signal that the engine took, now or before.
func (c *contract) delivered(
	ctx context.Context, p keyspace.Partition, reply enginerpc.SignalReply, status enginerpc.Status,
	id enginecore.SignalID, effect string,
) (enginerpc.SignalReply, error) {
	reply.SignalID = id
	outcome := &reply.Outcome
	if status == enginerpc.StatusDuplicate {
		results, err := c.read(ctx,
			c.client.B().Hget().Key(c.keys.SignalRecord(p, id)).Field("observed_effect").Build())
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
	return reply, nil
}

// maxPendingRead bounds the waitpoints without a wait, of all executions of a partition, that a list looks through.
const maxPendingRead = 1000

// ListWaitpoints lists the waitpoints of a flow, in one page.
func (c *contract) ListWaitpoints(
	ctx context.Context, call enginerpc.ListWaitpointsCall,
) (enginerpc.ListWaitpointsReply, error) {
	reply := enginerpc.ListWaitpointsReply{Status: enginerpc.StatusOK}
	p := call.Partition
	results, err := c.read(ctx, c.client.B().Exists().Key(c.keys.FlowCore(p, call.FlowID)).Build(),
		c.client.B().Zrange().Key(c.keys.IndexPendingWaitpointExpiry(p)).Min("0").
			Max(strconv.Itoa(maxPendingRead-1)).Build())
	if err != nil {
		return reply, err
	}
	if n, err := results[0].AsInt64(); err != nil || n == 0 {
		return reply, fmt.Errorf("flow %s: %w", call.FlowID, enginecore.ErrFlowNotFound)
	}
	members, err := c.members(ctx, p, call.FlowID)
	if err != nil {
		return reply, err
	}
	ids := idsOf[enginecore.WaitpointID](results[1])
	for len(members) > 0 {
		page := members[:min(len(members), contractPage)]
		members = members[len(page):]
		commands := make(rueidis.Commands, len(page))
		for i, id := range page {
			commands[i] = c.client.B().Smembers().Key(c.keys.ExecWaitpoints(id)).Build()
		}
		if results, err = c.read(ctx, commands...); err != nil {
			return reply, err
		}
		for _, result := range results {
			ids = append(ids, idsOf[enginecore.WaitpointID](result)...)
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
func (c *contract) listWaitpoint(
	ctx context.Context, p keyspace.Partition, call enginerpc.ListWaitpointsCall, id enginecore.WaitpointID,
) (*enginerpc.ListedWaitpoint, error) {
	results, err := c.read(ctx, c.hmget(c.keys.WaitpointRecord(p, id), waitpointFields))
	if err != nil {
		return nil, err
	}
	w := engine.Record(hashrecord.Read(results[0], waitpointFields))
	owner := enginecore.ExecutionID(w["execution_id"])
	if _, err := keyspace.PartitionOf(owner); err != nil {
		return nil, nil
	}
	suspension := []string{"waitpoint_id", "timeout_at", "timeout_behavior", "reason_code"}
	results, err = c.read(ctx, c.hmget(c.keys.ExecCore(owner), listedCore),
		c.hmget(c.keys.ExecSuspension(owner), suspension),
		c.client.B().Hget().Key(c.keys.ExecTags(owner)).Field(contractnode.TagNode).Build(),
		c.client.B().Hgetall().Key(c.keys.WaitpointCondition(p, id)).Build(),
		c.client.B().Xlen().Key(c.keys.WaitpointSignals(p, id)).Build())
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
	step, _ := strings.CutPrefix(w["waitpoint_key"], stepKey)
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
	}
	l.MatchMode, l.Distinct, l.Received = state["match_mode"], state["distinct"] == "1", state.Int("satisfied_count")
	l.Needed = max(1, state.Int("minimum_signal_count"))
	if l.MatchMode == "all" {
		l.Needed = int64(total) - decisive
	}
}

// EndWait ends a wait on behalf of an operator: it resumes the execution, with a result that is kept in its tags, or
// cancels it. A waitpoint whose wait has not begun is closed.
func (c *contract) EndWait(ctx context.Context, call enginerpc.EndWaitCall) (enginerpc.EndWaitReply, error) {
	reply := enginerpc.EndWaitReply{Status: enginerpc.StatusOK}
	fields := append([]string{"namespace", "public_state", "flow_id"}, cancelFields...)
	results, err := c.read(ctx, c.hmget(c.keys.ExecCore(call.ExecutionID), fields),
		c.hmget(c.keys.WaitpointRecord(call.Partition, call.WaitpointID), waitpointFields))
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
	_, err = callAgain[enginerpc.CloseWaitpointReply](ctx, c, enginerpc.CloseWaitpointCall{
		ExecutionID: call.ExecutionID, WaitpointID: call.WaitpointID, Reason: "cancelled",
	})
	return reply, err
}

func (c *contract) resumeWait(ctx context.Context, call enginerpc.EndWaitCall, lane enginecore.LaneID) error {
	if len(call.Result) > 0 {
		_, err := callAgain[enginerpc.SetExecutionTagsReply](ctx, c, enginerpc.SetExecutionTagsCall{
			ExecutionID: call.ExecutionID,
			Tags:        []string{contractnode.TagResumed + string(call.WaitpointID), string(call.Result)},
		})
		if err != nil {
			return err
		}
	}
	_, err := c.core.ResumeExecution(ctx, enginerpc.ResumeExecutionCall{
		LaneID: lane, ExecutionID: call.ExecutionID, WaitpointID: call.WaitpointID, TriggerType: "operator",
	})
	if err == nil {
		c.tellWork(ctx, call.Partition, lane)
		c.serveSoon(ctx, call.Partition, lane)
	}
	return err
}

func (c *contract) cancelWait(ctx context.Context, call enginerpc.EndWaitCall, core engine.Record) error {
	cancel := cancelCall(call.ExecutionID, core, call.Reason)
	cancel.Source = "operator_override"
	_, err := callAgain[enginerpc.CancelExecutionReply](ctx, c, cancel)
	if err != nil && !errors.Is(err, enginecore.ErrExecutionNotActive) {
		return err
	}
	_, err = c.propagate(ctx, call.Partition, "", contractEnd{
		id: call.ExecutionID, flow: enginecore.FlowID(core["flow_id"]), outcome: "cancelled",
	})
	return err
}
