package keeper

import (
	"context"
	"slices"

	"github.com/google/uuid"
	"github.com/redis/rueidis"

	"github.com/flowfabric/flowfabric-go/contract/internal/backend/execution"
	"github.com/flowfabric/flowfabric-go/contract/internal/backend/link"
	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/internal/engine"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
)

var waitFields = []string{"current_waitpoint_id", "current_attempt_index", "lane_id", "flow_id"}

// expireWaits ends suspensions that have timed out, and propagates those executions that end by it.
func (t *tick) expireWaits(ctx context.Context) error {
	c := t.keeper
	ids, cores, err := t.cores(ctx, engine.ExecutionIDs(t.waits), waitFields)
	if err != nil {
		return err
	}
	waitpoints, err := t.waitpointsOf(ctx, ids, cores)
	if err != nil {
		return err
	}
	calls := make([]enginerpc.ExpireSuspensionCall, len(ids))
	for i, id := range ids {
		calls[i] = enginerpc.ExpireSuspensionCall{
			WaitpointID:  waitpoints[i],
			AttemptIndex: enginecore.AttemptIndex(cores[i].Int("current_attempt_index")),
			LaneID:       cores[i].Lane(), ExecutionID: id,
		}
	}
	var lanes []enginecore.LaneID
	var ended []execution.End
	for i, a := range link.Send[enginerpc.ExpireSuspensionReply](ctx, c.Link, calls) {
		if err := t.failed(string(ids[i]), a.Err); err != nil {
			return err
		}
		if a.Err != nil {
			continue
		}
		t.count++
		lanes = append(lanes, cores[i].Lane()) // some executions become eligible when their wait times out
		switch outcome := string(a.Reply.PublicState); outcome {
		case "failed", "cancelled", "expired":
			flow := enginecore.FlowID(cores[i]["flow_id"])
			ended = append(ended, execution.End{ID: ids[i], Flow: flow, Outcome: outcome})
		}
	}
	t.reply.More = t.reply.More || int64(len(t.waits)) >= t.call.Limit && t.count > 0
	_, err = c.Propagate(ctx, t.call.Partition, "", ended...)
	slices.Sort(lanes)
	for _, lane := range slices.Compact(lanes) {
		c.ServeSoon(ctx, t.call.Partition, lane)
		c.TellWork(ctx, t.call.Partition, lane)
	}
	return err
}

// waitpointsOf returns the waitpoints at which executions wait, from their records or the records of their
// suspensions. The entry of an execution that does not wait is an id that no waitpoint has.
func (t *tick) waitpointsOf(
	ctx context.Context, ids []enginecore.ExecutionID, cores []engine.Record,
) ([]enginecore.WaitpointID, error) {
	c := t.keeper
	waitpoints := make([]enginecore.WaitpointID, len(ids))
	var commands rueidis.Commands
	var unnamed []int
	for i, id := range ids {
		if waitpoints[i] = enginecore.WaitpointID(cores[i]["current_waitpoint_id"]); waitpoints[i] == "" {
			unnamed = append(unnamed, i)
			read := c.Client.B().Hget().Key(c.Keys.ExecSuspension(id)).Field("waitpoint_id").Build()
			commands = append(commands, read)
		}
	}
	results, err := c.ReadEach(ctx, commands...)
	if err != nil {
		return nil, err
	}
	for at, i := range unnamed {
		text, _ := results[at].ToString() // "" if there is none
		if waitpoints[i] = enginecore.WaitpointID(text); text == "" {
			waitpoints[i] = enginecore.WaitpointID(uuid.NewSHA1(uuid.NameSpaceOID, []byte("none "+ids[i])).String())
		}
	}
	return waitpoints, nil
}

// closeWaitpoints closes waitpoints that were opened in advance of a wait that did not come in time.
func (t *tick) closeWaitpoints(ctx context.Context) error {
	c, p := t.keeper, t.call.Partition
	commands := make(rueidis.Commands, len(t.pending))
	for i, id := range t.pending {
		commands[i] = c.Client.B().Hget().Key(c.Keys.WaitpointRecord(p,
			enginecore.WaitpointID(id))).Field("execution_id").Build()
	}
	results, err := c.ReadEach(ctx, commands...)
	if err != nil {
		return err
	}
	var calls []enginerpc.CloseWaitpointCall
	for i, id := range t.pending {
		owner, err := results[i].ToString()
		switch {
		case rueidis.IsRedisNil(err) || err == nil && !t.isHere(owner):
			c.putOff.failed(t.list(), id) // no call of the contract removes the entry of a waitpoint without a record
			continue
		case err != nil:
			if err := t.failed(id, engine.ReadError(ctx, "HGET", err)); err != nil {
				return err
			}
			continue
		}
		calls = append(calls, enginerpc.CloseWaitpointCall{
			ExecutionID: enginecore.ExecutionID(owner), WaitpointID: enginecore.WaitpointID(id),
			Reason: "never_committed",
		})
	}
	for i, a := range link.Send[enginerpc.CloseWaitpointReply](ctx, c.Link, calls) {
		if err := t.failed(string(calls[i].WaitpointID), a.Err); err != nil {
			return err
		}
		if a.Err == nil {
			t.count++
		}
	}
	t.reply.More = t.reply.More || int64(len(t.pending)) >= t.call.Limit && t.count > 0
	return nil
}

// serveWaits is the part of the tick that works on waitpoint nodes.
func (t *tick) serveWaits(ctx context.Context) error {
	keys, p := t.keeper.Keys, t.call.Partition
	// The keys that a claim reads.
	read := []string{keys.LaneEligible(p, link.WaitLane), keys.IndexLeaseExpiry(p), keys.LaneActive(p, link.WaitLane)}
	if t.isIdle() && t.absent.all(read...) {
		return nil
	}
	n, err := t.keeper.ServeWaits(ctx, p)
	t.count += n
	t.reply.More = t.reply.More || n == execution.WaitsAtOnce
	return err
}
