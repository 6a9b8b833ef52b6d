package execution

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/google/uuid"
	"github.com/redis/rueidis"

	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/internal/activityspec"
	"github.com/flowfabric/flowfabric-go/internal/contractcheck"
	"github.com/flowfabric/flowfabric-go/internal/contractnode"
	"github.com/flowfabric/flowfabric-go/internal/engine"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
	"github.com/flowfabric/flowfabric-go/internal/errorcode"
	"github.com/flowfabric/flowfabric-go/internal/hashrecord"
	"github.com/flowfabric/flowfabric-go/internal/keyspace"
)

// Marks at the beginning of a wait's result: one payload, a list of signals, a timeout.
const (
	markPayload  = 'v'
	markList     = 'l'
	markTimedOut = 't'
)

// maxWaitAttempts bounds the attempts of an execution in which the result of a wait is looked for.
const maxWaitAttempts = 64

// StepKey begins the key of the waitpoint of a step; the step's name follows.
const StepKey = "flowfabric.step:"

// waitpointID returns the id of the waitpoint of a step, which derives from the attempt in which the wait began. The
// step of a waitpoint node is empty.
func waitpointID(id enginecore.ExecutionID, attempt enginecore.AttemptIndex, step string) enginecore.WaitpointID {
	text := fmt.Sprintf("waitpoint %s %d %s", id, attempt, step)
	return enginecore.WaitpointID(uuid.NewSHA1(uuid.NameSpaceOID, []byte(text)).String())
}

// waitpointKey returns the key of a waitpoint, from which lists read the step.
func waitpointKey(id enginecore.WaitpointID, step string) string {
	if step == "" {
		return "wpk:" + string(id)
	}
	return StepKey + step
}

// waitCondition is the resume condition of a wait.
type waitCondition struct {
	Type     string   `json:"condition_type"`
	Names    []string `json:"required_signal_names"`
	Mode     string   `json:"signal_match_mode"`
	Minimum  int      `json:"minimum_signal_count"`
	Distinct bool     `json:"distinct_sources,omitempty"`
	Decisive []string `json:"decisive_signal_names,omitempty"`
}

// conditionOf returns the condition for the library. Without names, each signal that is needed has a matcher that takes
// any name: the contract has only one otherwise.
func conditionOf(text []byte) ([]byte, error) {
	var w waitCondition
	if err := json.Unmarshal(text, &w); err != nil {
		return nil, err
	}
	for len(w.Names) == 0 && w.Minimum > len(w.Names) {
		w.Names = make([]string, w.Minimum)
	}
	return json.Marshal(w)
}

// CheckText refuses texts of waits, which the contract does not keep. The type of the payload is none.
func (c *Steps) CheckText(text activityspec.WaitText) error {
	if contractcheck.HasTexts(text) {
		return contractcheck.Refused(contractcheck.Texts)
	}
	return nil
}

// CheckWait refuses conditions that only a library with this project's additions knows.
func (c *Steps) CheckWait(ctx context.Context, condition []byte) error {
	var w waitCondition
	if err := json.Unmarshal(condition, &w); err != nil {
		return err
	}
	switch {
	case w.Distinct:
		return c.RequireExtended(ctx, contractcheck.Distinct)
	case len(w.Decisive) > 0:
		return c.RequireExtended(ctx, contractcheck.Decisive)
	}
	return nil
}

// Suspend lets an execution wait, and claims executions for the slot that becomes free. With StatusAlreadySatisfied,
// the signals were there, and the caller keeps the lease.
func (c *Steps) Suspend(ctx context.Context, call enginerpc.SuspendCall) (enginerpc.SuspendReply, error) {
	reply := enginerpc.SuspendReply{Status: enginerpc.StatusOK}
	attempt, err := c.suspend(ctx, call)
	if errors.Is(err, errSatisfied) {
		reply.Status = enginerpc.StatusAlreadySatisfied
		reply.Result, err = c.WaitResult(ctx, call.ExecutionID, attempt, call.Step, call.Collect)
		return reply, err
	}
	if err != nil || call.Count == 0 {
		return reply, err
	}
	claimed, err := c.Claim(ctx, enginerpc.ClaimCall{Partition: call.Partition, ClaimRequest: call.ClaimRequest})
	reply.Executions, reply.Remaining = claimed.Executions, claimed.Remaining
	return reply, err
}

// errSatisfied means that the signals of a wait had arrived before it began.
var errSatisfied = errors.New("the signals of the wait are there")

// suspend sends the call that lets an execution wait. It returns the attempt.
func (c *Steps) suspend(ctx context.Context, call enginerpc.SuspendCall) (enginecore.AttemptIndex, error) {
	lease, err := c.leaseOf(ctx, call.Partition, call.ExecutionID, call.LeaseID)
	if err != nil {
		return 0, err
	}
	id := waitpointID(call.ExecutionID, lease.attempt, call.Step)
	results, err := c.Read(ctx,
		c.Client.B().Hget().Key(c.Keys.WaitpointRecord(call.Partition, id)).Field("state").Build())
	if err != nil {
		return lease.attempt, err
	}
	state, _ := results[0].ToString() // "" if it was not opened before
	condition, err := conditionOf(call.Condition)
	if err != nil {
		return lease.attempt, err
	}
	suspension := enginerpc.SuspendExecutionCall{
		WorkerInstanceID: lease.worker, LaneID: lease.lane, ExecutionID: call.ExecutionID, AttemptIndex: lease.attempt,
		AttemptID: call.AttemptID, LeaseID: call.LeaseID, LeaseEpoch: call.LeaseEpoch,
		SuspensionID: call.SuspensionID, WaitpointID: id, WaitpointKey: waitpointKey(id, call.Step),
		ReasonCode: "waiting_for_signal", RequestedBy: "worker", ResumeConditionJSON: condition,
		ResumePolicyJSON: []byte("{}"), TimeoutBehavior: call.TimeoutBehavior, UsePendingWaitpoint: state == "pending",
	}
	if call.Timeout > 0 {
		suspension.TimeoutAt = c.Now().Add(call.Timeout)
	}
	reply, err := c.Core.SuspendExecution(ctx, suspension)
	if errors.Is(err, errorcode.PendingWaitpointExpired) {
		// The token of the pending waitpoint is no longer valid, so the wait begins with a new token.
		suspension.UsePendingWaitpoint = false
		reply, err = c.Core.SuspendExecution(ctx, suspension)
	}
	if suspendedBySelf(err, call.LeaseEpoch, call.AttemptID) {
		err = nil
	}
	switch {
	case err != nil:
		return lease.attempt, err
	case reply.Status == enginerpc.StatusAlreadySatisfied:
		return lease.attempt, errSatisfied
	}
	c.leases.drop(call.LeaseID)
	if call.Timeout > 0 {
		c.TellDue(ctx, call.Partition, suspension.TimeoutAt.UnixMilli())
	}
	return lease.attempt, nil
}

// suspendedBySelf reports whether a refusal shows that this same lease has suspended the execution before: the epoch
// belongs to it.
func suspendedBySelf(err error, epoch enginecore.LeaseEpoch, attempt keyspace.AttemptID) bool {
	var refusal *enginecore.Error
	return errors.As(err, &refusal) && refusal.Code == enginecore.ErrExecutionNotActive &&
		refusal.Detail("lifecycle_phase") == "suspended" && refusal.Detail("attempt_id") == string(attempt) &&
		refusal.Detail("lease_epoch") == strconv.FormatInt(int64(epoch), 10)
}

// OpenWaitpoint opens the waitpoint of a step before its wait begins. It belongs to the attempt.
func (c *Steps) OpenWaitpoint(
	ctx context.Context, call enginerpc.OpenWaitpointCall,
) (enginerpc.OpenWaitpointReply, error) {
	reply := enginerpc.OpenWaitpointReply{Status: enginerpc.StatusOK}
	lease, err := c.leaseOf(ctx, call.Partition, call.ExecutionID, call.LeaseID)
	if err != nil {
		return reply, err
	}
	// The contract's function does not check the lease.
	cores, err := c.ReadCores(ctx, []enginecore.ExecutionID{call.ExecutionID}, []string{"current_lease_id"})
	if err != nil {
		return reply, err
	}
	if cores[0]["current_lease_id"] != string(call.LeaseID) {
		return reply, fmt.Errorf("open a waitpoint: %w", enginecore.ErrStaleLease)
	}
	id := waitpointID(call.ExecutionID, lease.attempt, call.Step)
	reply.WaitpointID = id
	fields := []string{"state", "waitpoint_token"}
	results, err := c.Read(ctx, c.Hmget(c.Keys.WaitpointRecord(call.Partition, id), fields))
	if err != nil {
		return reply, err
	}
	if record := hashrecord.Read(results[0], fields); record["waitpoint_token"] != "" {
		reply.Status, reply.WaitpointToken = enginerpc.StatusAlreadySatisfied, record["waitpoint_token"]
		return reply, nil
	}
	opened, err := c.Core.CreatePendingWaitpoint(ctx, enginerpc.CreatePendingWaitpointCall{
		ExecutionID: call.ExecutionID, AttemptIndex: lease.attempt, WaitpointID: id,
		WaitpointKey: waitpointKey(id, call.Step), ExpiresAt: c.Now().Add(call.ExpiresIn),
	})
	reply.WaitpointToken = opened.WaitpointToken
	return reply, err
}

// WaitResult returns the result of the wait of a step, with its mark; nil if the wait has not ended. It reads the
// current attempt and the attempts before it, up to one with which the execution was replayed.
func (c *Steps) WaitResult(
	ctx context.Context, id enginecore.ExecutionID, attempt enginecore.AttemptIndex, step string, collect bool,
) ([]byte, error) {
	p, err := keyspace.PartitionOf(id)
	if err != nil {
		return nil, err
	}
	fields := []string{"state", "close_reason"}
	var commands rueidis.Commands
	last := max(0, attempt-maxWaitAttempts+1)
	for i := attempt; i >= last; i-- {
		commands = append(commands, c.Hmget(c.Keys.WaitpointRecord(p, waitpointID(id, i, step)), fields),
			c.Client.B().Hget().Key(c.Keys.AttemptRecord(id, i)).Field("attempt_type").Build())
	}
	results, err := c.Read(ctx, commands...)
	if err != nil {
		return nil, err
	}
	for i := attempt; i >= last; i-- {
		at := 2 * int(attempt-i)
		record := hashrecord.Read(results[at], fields)
		switch reason := record["close_reason"]; {
		case record["state"] != "closed":
		case reason == "timed_out_auto_resume":
			return []byte{markTimedOut}, nil
		case reason == "resumed":
			return c.brought(ctx, p, id, waitpointID(id, i, step), collect)
		}
		if kind, _ := results[at+1].ToString(); kind == "replay" {
			break
		}
	}
	return nil, nil
}

// takenSignal is a signal that a condition took.
type takenSignal struct {
	ID          enginecore.SignalID `json:"id"`
	Name        string              `json:"name"`
	Category    string              `json:"category"`
	SourceType  string              `json:"source_type"`
	Source      string              `json:"source"`
	Correlation string              `json:"correlation_id"`
	Payload     json.RawMessage     `json:"payload"`
	At          int64               `json:"at"`
	plain       []byte
}

// brought returns the result of a wait that was resumed: the payload that an operator gave, or the payload of the last
// signal that counted, or all payloads.
func (c *Steps) brought(
	ctx context.Context, p keyspace.Partition, id enginecore.ExecutionID, waitpoint enginecore.WaitpointID,
	collect bool,
) ([]byte, error) {
	mark := []byte{markPayload}
	if collect {
		mark[0] = markList
	}
	results, err := c.Read(ctx,
		c.Client.B().Hget().Key(c.Keys.ExecTags(id)).Field(contractnode.TagResumed+string(waitpoint)).Build(),
		c.Client.B().Hgetall().Key(c.Keys.WaitpointCondition(p, waitpoint)).Build(),
		c.Client.B().Xrange().Key(c.Keys.WaitpointSignals(p, waitpoint)).Start("-").End("+").Build())
	if err != nil {
		return nil, err
	}
	if given, err := results[0].AsBytes(); err == nil {
		return append(mark, given...), nil
	}
	state, err := results[1].AsStrMap()
	if err != nil && !rueidis.IsRedisNil(err) {
		return nil, engine.ReadError(ctx, "HGETALL", err)
	}
	log, err := results[2].AsXRange()
	if err != nil && !rueidis.IsRedisNil(err) {
		return nil, engine.ReadError(ctx, "XRANGE", err)
	}
	taken, err := c.readTaken(ctx, p, TakenIDs(state, log))
	if err != nil {
		return nil, err
	}
	if !collect {
		if len(taken) == 0 || len(taken[len(taken)-1].plain) == 0 {
			return append(mark, "null"...), nil
		}
		return append(mark, taken[len(taken)-1].plain...), nil
	}
	list, err := json.Marshal(taken)
	return append(mark, list...), err
}

// TakenIDs returns the signals that a condition took, in the order in which they came.
func TakenIDs(state map[string]string, log []rueidis.XRangeEntry) []enginecore.SignalID {
	place := make(map[string]int, len(log))
	for i, entry := range log {
		place[entry.FieldValues["signal_id"]] = i
	}
	var ids []enginecore.SignalID
	total, _ := strconv.Atoi(state["total_matchers"])
	for i := range total {
		prefix := "matcher:" + strconv.Itoa(i) + ":"
		if id := state[prefix+"signal_id"]; state[prefix+"satisfied"] == "1" && id != "" {
			ids = append(ids, enginecore.SignalID(id))
		}
	}
	slices.SortStableFunc(ids, func(a, b enginecore.SignalID) int { return place[string(a)] - place[string(b)] })
	return ids
}

// readTaken reads signals with their payloads.
func (c *Steps) readTaken(
	ctx context.Context, p keyspace.Partition, ids []enginecore.SignalID,
) ([]takenSignal, error) {
	fields := []string{
		"signal_name", "signal_category", "source_type", "source_identity", "correlation_id", "accepted_at",
	}
	var commands rueidis.Commands
	for _, id := range ids {
		commands = append(commands, c.Hmget(c.Keys.SignalRecord(p, id), fields),
			c.Client.B().Get().Key(c.Keys.SignalPayload(p, id)).Build())
	}
	results, err := c.Read(ctx, commands...)
	if err != nil {
		return nil, err
	}
	taken := make([]takenSignal, len(ids))
	for i := range ids {
		record := hashrecord.Read(results[2*i], fields)
		payload, _ := results[2*i+1].AsBytes() // nil if the signal has none
		taken[i] = takenSignal{
			ID: ids[i], Name: record["signal_name"], Category: record["signal_category"],
			SourceType: record["source_type"], Source: record["source_identity"],
			Correlation: record["correlation_id"], Payload: enginerpc.PayloadElement(payload),
			At: engine.Record(record).Int("accepted_at"), plain: payload,
		}
	}
	return taken, nil
}
