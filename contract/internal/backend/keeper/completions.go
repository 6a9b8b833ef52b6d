package keeper

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/redis/rueidis"

	"github.com/flowfabric/flowfabric-go/contract/internal/backend/execution"
	"github.com/flowfabric/flowfabric-go/contract/internal/backend/link"
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
	mu       sync.Mutex
	received []completion
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
	if len(q.received) < maxFollowed {
		q.received = append(q.received, m)
	}
}

// take returns and removes the collected completions.
func (q *completionQueue) take() []completion {
	q.mu.Lock()
	defer q.mu.Unlock()
	received := q.received
	q.received = nil
	return received
}

// FollowCompletions receives the completions of executions and, until ctx ends, propagates those that the reporting
// program does not propagate: because its worker died between two calls, or because it is a program without that
// step. It waits 0.2 to 0.4 s before it does. Failures are logged and left to reconciliation.
func (c *Keeper) FollowCompletions(ctx context.Context) {
	var q completionQueue
	var listening sync.WaitGroup
	listening.Go(func() {
		c.Session.Hub.Listen(ctx, []string{c.Keys.ChannelCompletions()}, func() {}, func(_, message string) { q.add(message) })
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
			c.Logger.LogAttrs(ctx, slog.LevelWarn,
				"flowfabric: the worker could not process ended executions; the next reconciliation does",
				observe.EventAttendFailed.Attr(),
				slog.Any("error", err))
		}
	}
}

// follow propagates the ends whose edges are not all resolved, and checks whether their flows are over.
func (c *Keeper) follow(ctx context.Context, batch []completion) error {
	byPartition := make(map[keyspace.Partition][]completion)
	for _, m := range batch {
		p, err := keyspace.PartitionOf(m.ExecutionID)
		if err == nil {
			byPartition[p] = append(byPartition[p], m)
		}
	}
	var faults error
	for p, ends := range byPartition {
		for page := range slices.Chunk(ends, link.Page) {
			if faults = errors.Join(faults, c.followPage(ctx, p, page)); retry.IsUnavailable(faults) {
				return faults
			}
		}
	}
	return faults
}

// followPage does so for ends of one partition.
func (c *Keeper) followPage(ctx context.Context, p keyspace.Partition, page []completion) error {
	commands := make(rueidis.Commands, len(page))
	ids := make([]enginecore.ExecutionID, len(page))
	for i, m := range page {
		commands[i] = c.Client.B().Smembers().Key(c.Keys.FlowOut(m.FlowID, m.ExecutionID)).Build()
		ids[i] = m.ExecutionID
	}
	results, err := c.ReadEach(ctx, commands...)
	if err != nil {
		return err
	}
	edges := make(map[enginecore.ExecutionID][]enginecore.EdgeID, len(page))
	flows := make(map[enginecore.ExecutionID]enginecore.FlowID, len(page))
	for i, m := range page {
		edges[m.ExecutionID], flows[m.ExecutionID] = link.IDsOf[enginecore.EdgeID](results[i]), m.FlowID
	}
	ids, cores, faults := c.Readable(ctx, ids, followFields)
	for i, id := range ids {
		if retry.IsUnavailable(faults) {
			return faults
		}
		outcome := cores[i]["terminal_outcome"]
		if !cores[i].IsTerminal() || outcome == "" || outcome == "none" {
			continue // it has been replayed
		}
		end := execution.End{ID: id, Flow: flows[id], Outcome: outcome}
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
func (c *Keeper) followEnd(
	ctx context.Context, p keyspace.Partition, end execution.End, core engine.Record, edges []enginecore.EdgeID,
) error {
	done, err := c.isFollowed(ctx, p, end, edges)
	if err != nil {
		return err
	}
	if !done {
		if _, err := c.Propagate(ctx, p, "", end); err != nil {
			return err
		}
	}
	if end.Outcome == "cancelled" || end.Outcome == "expired" || end.Outcome == "skipped" {
		if err := c.notifyLast(ctx, end.ID, core); err != nil {
			return err
		}
	}
	return c.CheckEnd(ctx, p, end.Flow)
}

// notifyLast notifies the worker of the last attempt that the execution was ended by another program. A worker that has
// finished the attempt ignores the message.
func (c *Keeper) notifyLast(ctx context.Context, id enginecore.ExecutionID, core engine.Record) error {
	if core["current_attempt_index"] == "" {
		return nil
	}
	fields := []string{"worker_instance_id", "lease_id"}
	attempt := enginecore.AttemptIndex(core.Int("current_attempt_index"))
	results, err := c.Read(ctx, c.Hmget(c.Keys.AttemptRecord(id, attempt), fields))
	if err != nil {
		return err
	}
	last := hashrecord.Read(results[0], fields)
	holder := engine.Record{
		"current_worker_instance_id": last["worker_instance_id"], "current_lease_id": last["lease_id"],
	}
	switch core["terminal_outcome"] {
	case "cancelled":
		c.TellStop(ctx, id, holder, engine.StopCancelled, core["cancellation_reason"])
	case "expired":
		c.TellStop(ctx, id, holder, engine.StopExpired, core["failure_reason"])
	default:
		c.TellStop(ctx, id, holder, engine.StopCancelled, core["terminal_outcome"])
	}
	return nil
}

// isFollowed reports whether all edges from an execution are resolved.
func (c *Keeper) isFollowed(
	ctx context.Context, p keyspace.Partition, end execution.End, edges []enginecore.EdgeID,
) (bool, error) {
	commands := make(rueidis.Commands, len(edges))
	for i, edge := range edges {
		commands[i] = c.Client.B().Hget().Key(c.Keys.FlowEdge(p, end.Flow,
			edge)).Field("downstream_execution_id").Build()
	}
	downs, err := c.Read(ctx, commands...)
	if err != nil {
		return false, err
	}
	commands = commands[:0]
	for i, edge := range edges {
		if down, err := downs[i].ToString(); err == nil {
			commands = append(commands,
				c.Client.B().Sismember().Key(c.Keys.ExecDepsUnresolved(enginecore.ExecutionID(down))).
					Member(string(edge)).Build())
		}
	}
	open, err := c.Read(ctx, commands...)
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
