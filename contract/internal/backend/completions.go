package backend

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/redis/rueidis"

	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/internal/engine"
	"github.com/flowfabric/flowfabric-go/internal/engine/observe"
	"github.com/flowfabric/flowfabric-go/internal/engine/retry"
	"github.com/flowfabric/flowfabric-go/internal/hashrecord"
	"github.com/flowfabric/flowfabric-go/internal/keyspace"
	"github.com/flowfabric/flowfabric-go/internal/sleep"
)

const (
	// followAfter is how long a keeper leaves the propagation of an end to the program that reported it.
	followAfter = 200 * time.Millisecond
	// maxFollowed bounds the ends that wait for FollowCompletions. Reconciliation finds those beyond it.
	maxFollowed = 10_000
)

// completion is the contract's message about an execution that has ended.
type completion struct {
	FlowID      enginecore.FlowID      `json:"flow_id"`
	ExecutionID enginecore.ExecutionID `json:"execution_id"`
	Outcome     string                 `json:"outcome"`
}

// completionQueue collects received completions. It is safe for concurrent use.
type completionQueue struct {
	mu    sync.Mutex
	heard []completion
}

// add appends a message, unless it is malformed or the queue is full.
func (q *completionQueue) add(message string) {
	var m completion
	if err := json.Unmarshal([]byte(message), &m); err != nil || m.FlowID == "" {
		return
	}
	if _, err := keyspace.PartitionOf(m.ExecutionID); err != nil {
		return
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.heard) < maxFollowed {
		q.heard = append(q.heard, m)
	}
}

// take returns and removes the collected completions.
func (q *completionQueue) take() []completion {
	q.mu.Lock()
	defer q.mu.Unlock()
	heard := q.heard
	q.heard = nil
	return heard
}

// FollowCompletions receives the completions of executions and, until ctx ends, propagates those that the reporting
// program does not propagate: because its worker died between two calls, or because it is a program without that
// step. It waits 0.2 to 0.4 s before it does. Failures are logged and left to reconciliation.
func (c *contract) FollowCompletions(ctx context.Context) {
	var q completionQueue
	var listening sync.WaitGroup
	listening.Go(func() {
		c.session.Hub.Listen(ctx, []string{c.keys.ChannelCompletions()}, func() {}, func(_, message string) { q.add(message) })
	})
	defer listening.Wait()
	for ctx.Err() == nil {
		sleep.For(ctx, followAfter)
		batch := q.take()
		if len(batch) == 0 {
			continue
		}
		sleep.For(ctx, followAfter)
		if err := c.follow(ctx, batch); err != nil && ctx.Err() == nil {
			c.logger.LogAttrs(ctx, slog.LevelWarn,
				"flowfabric: the worker could not process ended executions; the next reconciliation does",
				observe.EventAttendFailed.Attr(),
				slog.Any("error", err))
		}
	}
}

// follow propagates the ends whose edges are not all resolved, and checks whether their flows are over.
func (c *contract) follow(ctx context.Context, batch []completion) error {
	byPartition := make(map[keyspace.Partition][]completion)
	for _, m := range batch {
		p, err := keyspace.PartitionOf(m.ExecutionID)
		if err == nil {
			byPartition[p] = append(byPartition[p], m)
		}
	}
	var faults error
	for p, ends := range byPartition {
		for page := range slices.Chunk(ends, contractPage) {
			if faults = errors.Join(faults, c.followPage(ctx, p, page)); retry.IsUnavailable(faults) {
				return faults
			}
		}
	}
	return faults
}

// followPage does so for ends of one partition.
func (c *contract) followPage(ctx context.Context, p keyspace.Partition, page []completion) error {
	commands := make(rueidis.Commands, len(page))
	ids := make([]enginecore.ExecutionID, len(page))
	for i, m := range page {
		commands[i] = c.client.B().Smembers().Key(c.keys.FlowOut(m.FlowID, m.ExecutionID)).Build()
		ids[i] = m.ExecutionID
	}
	results, err := c.readEach(ctx, commands...)
	if err != nil {
		return err
	}
	edges := make(map[enginecore.ExecutionID][]enginecore.EdgeID, len(page))
	flows := make(map[enginecore.ExecutionID]enginecore.FlowID, len(page))
	for i, m := range page {
		edges[m.ExecutionID], flows[m.ExecutionID] = idsOf[enginecore.EdgeID](results[i]), m.FlowID
	}
	ids, cores, faults := c.readable(ctx, ids, followFields)
	for i, id := range ids {
		if retry.IsUnavailable(faults) {
			return faults
		}
		outcome := cores[i]["terminal_outcome"]
		if !cores[i].IsTerminal() || outcome == "" || outcome == "none" {
			continue // it has been replayed
		}
		end := contractEnd{id: id, flow: flows[id], outcome: outcome}
		if err := c.followEnd(ctx, p, end, cores[i], edges[id]); err != nil {
			faults = errors.Join(faults, &engine.ItemError{Item: string(id), Err: err})
		}
	}
	return faults
}

var followFields = []string{
	"lifecycle_phase", "terminal_outcome", "current_attempt_index", "cancellation_reason", "failure_reason",
}

// followEnd does so for one end.
func (c *contract) followEnd(
	ctx context.Context, p keyspace.Partition, end contractEnd, core engine.Record, edges []enginecore.EdgeID,
) error {
	done, err := c.isFollowed(ctx, p, end, edges)
	if err != nil {
		return err
	}
	if !done {
		if _, err := c.propagate(ctx, p, "", end); err != nil {
			return err
		}
	}
	if end.outcome == "cancelled" || end.outcome == "expired" || end.outcome == "skipped" {
		if err := c.tellLast(ctx, end.id, core); err != nil {
			return err
		}
	}
	return c.ends.check(ctx, c, p, end.flow)
}

// tellLast notifies the worker of the last attempt that the execution was ended by another program. A worker that has
// finished the attempt ignores the message.
func (c *contract) tellLast(ctx context.Context, id enginecore.ExecutionID, core engine.Record) error {
	if core["current_attempt_index"] == "" {
		return nil
	}
	fields := []string{"worker_instance_id", "lease_id"}
	attempt := enginecore.AttemptIndex(core.Int("current_attempt_index"))
	results, err := c.read(ctx, c.hmget(c.keys.AttemptRecord(id, attempt), fields))
	if err != nil {
		return err
	}
	last := hashrecord.Read(results[0], fields)
	holder := engine.Record{
		"current_worker_instance_id": last["worker_instance_id"], "current_lease_id": last["lease_id"],
	}
	switch core["terminal_outcome"] {
	case "cancelled":
		c.tellStop(ctx, id, holder, engine.StopCancelled, core["cancellation_reason"])
	case "expired":
		c.tellStop(ctx, id, holder, engine.StopExpired, core["failure_reason"])
	default:
		c.tellStop(ctx, id, holder, engine.StopCancelled, core["terminal_outcome"])
	}
	return nil
}

// isFollowed reports whether all edges from an execution are resolved.
func (c *contract) isFollowed(
	ctx context.Context, p keyspace.Partition, end contractEnd, edges []enginecore.EdgeID,
) (bool, error) {
	commands := make(rueidis.Commands, len(edges))
	for i, edge := range edges {
		commands[i] = c.client.B().Hget().Key(c.keys.FlowEdge(p, end.flow,
			edge)).Field("downstream_execution_id").Build()
	}
	downs, err := c.read(ctx, commands...)
	if err != nil {
		return false, err
	}
	commands = commands[:0]
	for i, edge := range edges {
		if down, err := downs[i].ToString(); err == nil {
			commands = append(commands,
				c.client.B().Sismember().Key(c.keys.ExecDepsUnresolved(enginecore.ExecutionID(down))).
					Member(string(edge)).Build())
		}
	}
	open, err := c.read(ctx, commands...)
	if err != nil {
		return false, err
	}
	for _, result := range open {
		if n, err := result.AsInt64(); err != nil || n == 1 {
			return false, nil
		}
	}
	return true, nil
}
