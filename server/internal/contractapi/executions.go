package contractapi

import (
	"cmp"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/redis/rueidis"

	"github.com/flowfabric/flowfabric-go/admin"
	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
	"github.com/flowfabric/flowfabric-go/internal/hashrecord"
	"github.com/flowfabric/flowfabric-go/internal/keyspace"
)

// dedupTTL is how long a key of a creation, a signal or a report of usage counts.
const dedupTTL = 24 * time.Hour

func createExecution(c *call) error {
	var b struct {
		ExecutionID     executionID       `json:"execution_id"`
		Namespace       string            `json:"namespace"`
		LaneID          lane              `json:"lane_id"`
		ExecutionKind   string            `json:"execution_kind"`
		InputPayload    octets            `json:"input_payload"`
		Priority        int32             `json:"priority"`
		CreatorIdentity string            `json:"creator_identity"`
		IdempotencyKey  string            `json:"idempotency_key"`
		Tags            map[string]string `json:"tags"`
		Policy          json.RawMessage   `json:"policy"`
		DelayUntil      *millis           `json:"delay_until"`
		DeadlineAt      *millis           `json:"execution_deadline_at"`
		PartitionID     json.RawMessage   `json:"partition_id"`
	}
	if err := c.decode(&b, "execution_id", "namespace", "lane_id", "execution_kind"); err != nil {
		return err
	}
	id := b.ExecutionID.id()
	if err := c.exists(id); err != nil {
		return err
	}
	call := enginerpc.CreateExecutionCall{
		IdempotencyKey: b.IdempotencyKey, ExecutionID: id, Namespace: b.Namespace, LaneID: enginecore.LaneID(b.LaneID),
		ExecutionKind: b.ExecutionKind, Priority: int64(b.Priority), CreatorIdentity: b.CreatorIdentity,
		InputPayload: b.InputPayload, DelayUntil: timeOf(b.DelayUntil), ExecutionDeadlineAt: timeOf(b.DeadlineAt),
		PartitionID: id.Tag(),
	}
	if len(b.Policy) > 0 && string(b.Policy) != "null" {
		call.PolicyJSON = b.Policy
	}
	if len(b.Tags) > 0 {
		call.TagsJSON, _ = json.Marshal(b.Tags) // a map of strings always has a JSON form
	}
	if b.IdempotencyKey != "" {
		call.DedupTTL = dedupTTL
	}
	var reply enginerpc.CreateExecutionReply
	var err error
	if b.DelayUntil != nil {
		reply, err = enginerpc.Do(c.ctx, c.core, enginerpc.CreateDelayedCall{CreateExecutionCall: call})
	} else {
		reply, err = c.core.CreateExecution(c.ctx, call)
	}
	switch {
	case err != nil:
		return err
	case reply.Status == enginerpc.StatusDuplicate:
		return c.reply(http.StatusOK, result("Duplicate", fields{"execution_id": reply.ExecutionID}))
	}
	return c.reply(http.StatusCreated, result("Created", fields{
		"execution_id": id, "public_state": reply.PublicState,
	}))
}

func getExecution(c *call) error {
	id, err := c.execution()
	if err != nil {
		return err
	}
	e, err := c.operator.Execution(c.ctx, id)
	if err != nil {
		return err
	}
	out := fields{
		"execution_id": e.ID, "namespace": e.Namespace, "lane_id": e.Lane, "priority": e.Priority,
		"execution_kind": e.Kind, "public_state": e.State, "created_at": text(e.CreatedAt),
		"current_attempt_index": e.AttemptIndex, "flow_id": orNull(string(e.Flow)),
		"blocking_detail": e.BlockingDetail,
		"state_vector": fields{
			"lifecycle_phase": e.Phase, "ownership_state": e.Ownership, "eligibility_state": e.Eligibility,
			"blocking_reason": e.Blocking, "terminal_outcome": e.Outcome, "attempt_state": e.Attempt,
			"public_state": e.State,
		},
	}
	if !e.StartedAt.IsZero() {
		out["started_at"] = text(e.StartedAt)
	}
	if !e.CompletedAt.IsZero() {
		out["completed_at"] = text(e.CompletedAt)
	}
	return c.reply(http.StatusOK, out)
}

// text is a time in milliseconds as a text, as executions have it.
func text(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return strconv.FormatInt(t.UnixMilli(), 10)
}

func orNull(text string) any {
	if text == "" {
		return nil
	}
	return text
}

func getState(c *call) error {
	id, err := c.execution()
	if err != nil {
		return err
	}
	state, err := c.operator.ExecutionState(c.ctx, id)
	if err == nil && state == "" {
		err = enginecore.ErrExecutionNotFound
	}
	if err != nil {
		return err
	}
	return c.reply(http.StatusOK, state)
}

func getResult(c *call) error {
	id, err := c.execution()
	if err != nil {
		return err
	}
	value, found, err := c.operator.ExecutionResult(c.ctx, id)
	if err != nil {
		return err
	}
	if !found {
		return missing("no result for execution %s", id)
	}
	c.w.Header().Set("Content-Type", "application/octet-stream")
	c.w.WriteHeader(http.StatusOK)
	_, _ = c.w.Write(value)
	return nil
}

const (
	defaultList = 50
	maxList     = 1000
	// maxOffset bounds the entries that a list skips.
	maxOffset = 100_000
)

// indexes has the states by which executions are listed.
var indexes = map[string]func(enginerpc.Keys, keyspace.Partition, enginecore.LaneID) string{
	"eligible":  enginerpc.Keys.LaneEligible,
	"delayed":   enginerpc.Keys.LaneDelayed,
	"terminal":  enginerpc.Keys.LaneTerminal,
	"suspended": enginerpc.Keys.LaneSuspended,
	"active":    enginerpc.Keys.LaneActive,
}

func listExecutions(c *call) error {
	query := c.r.URL.Query()
	if err := known(query, "partition", "lane", "state", "offset", "limit", "cursor"); err != nil {
		return err
	}
	if query.Get("partition") == "" {
		return invalid("partition: must be given")
	}
	index, err := number(query, "partition", 0, 0, 1<<16-1)
	if err != nil {
		return err
	}
	if int(index) >= c.core.Partitioning().Flow {
		return invalid("partition: %d, there are %d", index, c.core.Partitioning().Flow)
	}
	p := keyspace.Partition{Family: keyspace.FlowFamily, Index: uint16(index)}
	if query.Has("cursor") {
		return listAll(c, p)
	}
	limit, err := number(query, "limit", defaultList, 0, 1<<31)
	if err != nil {
		return err
	}
	offset, err := number(query, "offset", 0, 0, maxOffset)
	if err != nil {
		return err
	}
	name := cmp.Or(query.Get("lane"), "default")
	id, err := keyspace.ParseLaneID(name)
	if err != nil {
		return invalid("lane: %v", err)
	}
	build, ok := indexes[cmp.Or(query.Get("state"), "eligible")]
	if !ok {
		return invalid("state: must be eligible, delayed, terminal, suspended or active, got: %.40q",
			query.Get("state"))
	}
	ids, err := c.core.Client().Do(c.ctx, c.core.Client().B().Zrangebyscore().Key(build(c.core.Keys(), p, id)).
		Min("-inf").Max("+inf").Limit(offset, min(limit, maxList)).Build()).AsStrSlice()
	if err != nil {
		return enginerpc.ConnectError(err)
	}
	list, err := c.summaries(ids)
	if err != nil {
		return err
	}
	return c.reply(http.StatusOK, fields{"executions": list, "total_returned": len(list)})
}

var summaryFields = []string{"namespace", "lane_id", "execution_kind", "public_state", "priority", "created_at"}

// summaries describes executions in short. Those that are gone are left out.
func (c *call) summaries(ids []string) ([]fields, error) {
	client, list := c.core.Client(), []fields{}
	commands := make(rueidis.Commands, len(ids))
	for i, id := range ids {
		key := c.core.Keys().ExecCore(enginecore.ExecutionID(id))
		commands[i] = client.B().Hmget().Key(key).Field(summaryFields...).Build()
	}
	for i, reply := range client.DoMulti(c.ctx, commands...) {
		if err := reply.Error(); err != nil && !rueidis.IsRedisNil(err) {
			return nil, enginerpc.ConnectError(err)
		}
		if r := hashrecord.Read(reply, summaryFields); r["public_state"] != "" {
			list = append(list, fields{
				"execution_id": ids[i], "namespace": r["namespace"], "lane_id": r.Lane(),
				"execution_kind": r["execution_kind"], "public_state": r["public_state"],
				"priority": r.Int("priority"), "created_at": r["created_at"],
			})
			continue
		}
		e, err := c.operator.Execution(c.ctx, enginecore.ExecutionID(ids[i])) // a node of a run in its compact form
		if errors.Is(err, enginecore.ErrExecutionNotFound) || errors.Is(err, admin.ErrInvalid) {
			continue
		}
		if err != nil {
			return nil, err
		}
		list = append(list, fields{
			"execution_id": e.ID, "namespace": e.Namespace, "lane_id": e.Lane, "execution_kind": e.Kind,
			"public_state": e.State, "priority": e.Priority, "created_at": text(e.CreatedAt),
		})
	}
	return list, nil
}

// listAll lists the ids of all executions of a partition, in order, after a cursor.
func listAll(c *call, p keyspace.Partition) error {
	query := c.r.URL.Query()
	limit, err := number(query, "limit", defaultList, 0, 1<<31)
	if err != nil {
		return err
	}
	ids, err := c.core.Client().Do(c.ctx,
		c.core.Client().B().Smembers().Key(c.core.Keys().IndexAllExecutions(p)).Build()).AsStrSlice()
	if err != nil {
		return enginerpc.ConnectError(err)
	}
	slices.Sort(ids)
	cursor := query.Get("cursor")
	begin, _ := slices.BinarySearchFunc(ids, cursor, func(id, after string) int {
		if id <= after {
			return -1
		}
		return 1
	})
	ids = ids[begin:]
	page := ids[:min(int(min(limit, maxList)), len(ids))]
	var next any
	if len(page) > 0 && len(page) < len(ids) {
		next = page[len(page)-1]
	}
	return c.reply(http.StatusOK, fields{"executions": append([]string{}, page...), "next_cursor": next})
}

func cancelExecution(c *call) error {
	id, err := c.execution()
	if err != nil {
		return err
	}
	var b struct {
		ExecutionID executionID        `json:"execution_id"`
		Reason      string             `json:"reason"`
		Source      string             `json:"source"`
		LeaseID     enginecore.LeaseID `json:"lease_id"`
		LeaseEpoch  *uint64            `json:"lease_epoch"`
	}
	if err := c.decode(&b, "execution_id", "reason"); err != nil {
		return err
	}
	if err := same("execution_id", string(id), string(b.ExecutionID)); err != nil {
		return err
	}
	var epoch int64
	if err := readNumbers(bounded{"lease_epoch", b.LeaseEpoch, maxExact, &epoch}); err != nil {
		return err
	}
	how := admin.ExecutionCancel{
		Reason: b.Reason, Source: b.Source, Lease: b.LeaseID, Epoch: enginecore.LeaseEpoch(epoch),
	}
	if _, err := c.operator.CancelExecutionWith(c.ctx, id, how); err != nil {
		return refused(enginerpc.FunctionName(enginerpc.CancelExecutionCall{}), err)
	}
	return c.reply(http.StatusOK, result("Cancelled", fields{
		"execution_id": id, "public_state": fabrictype.NodeCancelled,
	}))
}

func changePriority(c *call) error {
	id, err := c.execution()
	if err != nil {
		return err
	}
	var b struct {
		NewPriority int32 `json:"new_priority"`
	}
	if err := c.decode(&b, "new_priority"); err != nil {
		return err
	}
	if _, err := c.operator.ChangePriority(c.ctx, id, int(b.NewPriority)); err != nil {
		return refused(enginerpc.FunctionName(enginerpc.ChangePriorityCall{}), err)
	}
	return c.reply(http.StatusOK, result("Changed", fields{"execution_id": id}))
}

func replayExecution(c *call) error {
	id, err := c.execution()
	if err != nil {
		return err
	}
	state, err := c.operator.ReplayExecution(c.ctx, id)
	if err != nil {
		return refused(enginerpc.FunctionName(enginerpc.ReplayExecutionCall{}), err)
	}
	return c.reply(http.StatusOK, result("Replayed", fields{"public_state": state}))
}

func revokeLease(c *call) error {
	id, err := c.execution()
	if err != nil {
		return err
	}
	r, err := c.operator.RevokeLease(c.ctx, id, "", "operator_revoke")
	switch {
	case err != nil:
		return err
	case r.Already:
		return c.reply(http.StatusOK, result("AlreadySatisfied", fields{"reason": r.Reason}))
	}
	return c.reply(http.StatusOK, result("Revoked", fields{"lease_id": r.Lease, "lease_epoch": r.Epoch}))
}
