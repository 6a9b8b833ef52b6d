package admin

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"

	"github.com/redis/rueidis"

	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/internal/hashrecord"
)

// ErrCursor marks a cursor that does not come from a page of the same listing.
var ErrCursor = errors.New("bad cursor")

// Index is one of the indexes of a lane, in which an execution stands by what it does.
type Index string

// The indexes of a lane.
const (
	IndexEligible            Index = "eligible"
	IndexDelayed             Index = "delayed"
	IndexActive              Index = "active"
	IndexSuspended           Index = "suspended"
	IndexTerminal            Index = "terminal"
	IndexBlockedDependencies Index = "blocked:dependencies"
	IndexBlockedBudget       Index = "blocked:budget"
	IndexBlockedQuota        Index = "blocked:quota"
	IndexBlockedRoute        Index = "blocked:route"
	IndexBlockedOperator     Index = "blocked:operator"
)

// ExecutionQuery says which executions are wanted. The zero value is all of them. An execution must satisfy everything
// that is set.
type ExecutionQuery struct {
	// Lane is the lane of the execution.
	Lane enginecore.LaneID
	// States are the states of which it must be in one.
	States []enginecore.PublicState
	// Flow is the flow that it must be a member of. Only its members are looked at.
	Flow enginecore.FlowID
	// Tags are tags that it must have, with their values.
	Tags map[string]string
	// Index looks only at what stands in that index of Lane, which must be set then. It cannot be combined with Flow.
	Index Index
	// WithTags fills in the tags of what is found, at the cost of one more read for each.
	WithTags bool
}

// Check returns what Client.ListExecutions would refuse the query for, without an engine. The error wraps ErrInvalid.
func (q ExecutionQuery) Check() error {
	var faults []error
	if q.Index != "" {
		if _, known := (&Client{}).indexKey(enginecore.Partition{}, "x", q.Index); !known {
			faults = append(faults, fault("index", "%.40q is no index of a lane", string(q.Index)))
		}
		if q.Lane == "" {
			faults = append(faults, fault("index", "a lane must be given with it"))
		}
		if q.Flow != "" {
			faults = append(faults, fault("index", "cannot be combined with a flow"))
		}
	}
	if q.Lane != "" {
		if _, err := enginecore.ParseLaneID(string(q.Lane)); err != nil {
			faults = append(faults, fault("lane", "%v", err))
		}
	}
	if q.Flow != "" {
		if _, err := enginecore.ParseFlowID(string(q.Flow)); err != nil {
			faults = append(faults, fmt.Errorf("%w: %w", ErrInvalid, err))
		}
	}
	for _, state := range q.States {
		if states := enginecore.PublicStates(); !slices.Contains(states, state) {
			faults = append(faults, fault("state", "%q: must be one of %s", state,
				strings.Trim(fmt.Sprint(states), "[]")))
		}
	}
	return errors.Join(faults...)
}

func (c *Client) indexKey(p enginecore.Partition, lane enginecore.LaneID, index Index) (string, bool) {
	build, known := map[Index]func(enginecore.Partition, enginecore.LaneID) string{
		IndexEligible: c.keys.LaneEligible, IndexDelayed: c.keys.LaneDelayed, IndexActive: c.keys.LaneActive,
		IndexSuspended: c.keys.LaneSuspended, IndexTerminal: c.keys.LaneTerminal,
		IndexBlockedDependencies: c.keys.LaneBlockedDependencies, IndexBlockedBudget: c.keys.LaneBlockedBudget,
		IndexBlockedQuota: c.keys.LaneBlockedQuota, IndexBlockedRoute: c.keys.LaneBlockedRoute,
		IndexBlockedOperator: c.keys.LaneBlockedOperator,
	}[index]
	if !known {
		return "", false
	}
	return build(p, lane), true
}

// ExecutionPage is a part of the executions that a query finds.
type ExecutionPage struct {
	Executions []Execution
	// Next is where the following page begins, empty when there is none. A page may be empty and still have a next one.
	Next string
}

// ListExecutions lists executions, in no particular order, from a cursor on, which is the Next of the page before with
// the same query, or empty. About limit of them (1 to 1000, 0 for 100) are looked at for a page; those that the query
// leaves out make it shorter, and a small set that is stored in one piece may make it longer.
//
// Every execution that is there, and satisfies the query, from the first page to the last is in one of them. One that
// changes meanwhile is shown as it stands when it is read; one may be listed twice, also when it has not changed. With
// Index, one that leaves the index and comes back in between may be missing. Where a server has restarted, another one
// has taken over from it, or a slot has moved since the page before, the partition at hand is listed again from its
// beginning, so that nothing is left out.
//
// It wraps ErrInvalid for a query that makes no sense, ErrCursor for a bad cursor.
func (c *Client) ListExecutions(
	ctx context.Context, q ExecutionQuery, cursor string, limit int,
) (ExecutionPage, error) {
	ids, next, err := c.executionIDs(ctx, q, cursor, limit)
	if err != nil {
		return ExecutionPage{}, fmt.Errorf("list executions: %w", err)
	}
	found, err := c.readExecutions(ctx, q, ids)
	if err != nil {
		return ExecutionPage{}, fmt.Errorf("list executions: %w", err)
	}
	return ExecutionPage{found, next}, nil
}

// Executions is ListExecutions to the end. An error ends the sequence.
func (c *Client) Executions(ctx context.Context, q ExecutionQuery) iter.Seq2[Execution, error] {
	return all(func(cursor string) ([]Execution, string, error) {
		page, err := c.ListExecutions(ctx, q, cursor, 0)
		return page.Executions, page.Next, err
	})
}

// all yields what pages hold, one after the other.
func all[T any](page func(cursor string) ([]T, string, error)) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		for cursor := ""; ; {
			items, next, err := page(cursor)
			if err != nil {
				var none T
				yield(none, err)
				return
			}
			for _, item := range items {
				if !yield(item, nil) {
					return
				}
			}
			if cursor = next; cursor == "" {
				return
			}
		}
	}
}

func (c *Client) executionIDs(
	ctx context.Context, q ExecutionQuery, cursor string, limit int,
) ([]string, string, error) {
	if err := q.Check(); err != nil {
		return nil, "", err
	}
	s := source{partitions: c.core.Partitioning().FlowPartitions(), key: c.keys.IndexAllExecutions}
	switch {
	case q.Flow != "":
		p, err := c.flowPartition(q.Flow)
		if err != nil {
			return nil, "", err
		}
		s.partitions = []enginecore.Partition{p}
		s.key = func(p enginecore.Partition) string { return c.keys.FlowMembers(p, q.Flow) }
	case q.Index != "":
		s.sorted = true
		s.key = func(p enginecore.Partition) string {
			key, _ := c.indexKey(p, q.Lane, q.Index)
			return key
		}
	}
	if strings.HasPrefix(cursor, nodesCursor) {
		return c.nodeIDs(ctx, q, s.partitions, cursor, limit)
	}
	ids, next, err := c.scan(ctx, s, cursor, limit)
	if _, beside := q.Index.isOfIndex(Execution{}); next == "" && (beside || q.Index == "") {
		next = fmt.Sprintf("%s%d.", nodesCursor, s.partitions[0].Index)
	}
	return ids, next, err
}

func (c *Client) readExecutions(ctx context.Context, q ExecutionQuery, ids []string) ([]Execution, error) {
	commands := make([]rueidis.Completed, 0, 2*len(ids))
	tags := q.WithTags || len(q.Tags) > 0
	found, ids, err := c.findNodes(ctx, q, ids)
	if err != nil {
		return nil, err
	}
	for _, id := range ids {
		commands = append(commands, c.hmget(c.keys.ExecCore(enginecore.ExecutionID(id)), executionFields))
		if tags {
			commands = append(commands, c.client.B().Hgetall().Key(c.keys.ExecTags(enginecore.ExecutionID(id))).Build())
		}
	}
	results, err := c.read(ctx, commands...)
	if err != nil {
		return nil, err
	}
	step := len(commands) / max(1, len(ids))
	for i, id := range ids {
		r := hashrecord.Read(results[i*step], executionFields)
		if r == nil {
			continue // it is gone
		}
		e := executionOf(enginecore.ExecutionID(id), r)
		if tags {
			e.Tags = tagsOf(results[i*step+1])
		}
		if q.wants(e) {
			found = append(found, e)
		}
	}
	return found, nil
}

// findNodes reads those of the executions that are nodes of runs and returns them, as far as they are wanted, and the ids
// of the others.
func (c *Client) findNodes(
	ctx context.Context, q ExecutionQuery, ids []string,
) (found []Execution, others []string, err error) {
	nodes, err := c.readNodes(ctx, ids, executionFields)
	if err != nil {
		return nil, nil, err
	}
	for _, id := range ids {
		n, is := nodes[id]
		if !is {
			others = append(others, id)
			continue
		}
		e := executionOf(enginecore.ExecutionID(id), n.fields)
		if inIndex, known := q.Index.isOfIndex(e); known && !inIndex || !hasTags(n.tags, q.Tags) {
			continue
		}
		if e.Tags = n.tags; q.wants(e) {
			found = append(found, e)
		}
	}
	return found, others, nil
}

func (q ExecutionQuery) wants(e Execution) bool {
	return (q.Lane == "" || e.Lane == q.Lane) && (len(q.States) == 0 || slices.Contains(q.States, e.State)) &&
		(q.Flow == "" || e.Flow == q.Flow) && hasTags(e.Tags, q.Tags)
}

func hasTags(tags, wanted map[string]string) bool {
	for key, value := range wanted {
		if got, has := tags[key]; !has || got != value {
			return false
		}
	}
	return true
}

// Members yields the members of a flow, in no particular order. Every member that stays one is yielded, some perhaps
// twice. A flow that does not exist has none. An error ends the sequence.
func (c *Client) Members(ctx context.Context, flow enginecore.FlowID) iter.Seq2[enginecore.ExecutionID, error] {
	return all(func(cursor string) ([]enginecore.ExecutionID, string, error) {
		ids, next, err := c.executionIDs(ctx, ExecutionQuery{Flow: flow}, cursor, 0)
		return typed[enginecore.ExecutionID](ids), next, of(err, "members of", "flow", string(flow))
	})
}

func typed[T ~string](texts []string) []T {
	out := make([]T, len(texts))
	for i, text := range texts {
		out[i] = T(text)
	}
	return out
}

// FlowQuery says which flows are wanted. The zero value is all of them. A flow must satisfy everything that is set.
type FlowQuery struct {
	// Kind is the kind of the flow; of one that was submitted whole, its name.
	Kind string
	// States are the states of which it must be in one: FlowOpen, FlowCompleted, FlowFailed or FlowCancelled.
	States []enginecore.FlowState
	// Tags are tags that it must have, with their values.
	Tags map[string]string
	// WithTags fills in the tags of what is found, at the cost of one more read for each.
	WithTags bool
}

// FlowPage is a part of the flows that a query finds.
type FlowPage struct {
	Flows []FlowInfo
	// Next is where the following page begins, empty when there is none. A page may be empty and still have a next one.
	Next string
}

// ListFlows lists flows of whatever tool has made them, in no particular order, as ListExecutions lists executions and
// with the same promises. Client.Runs of package runtime finds runs by index, the newest first.
func (c *Client) ListFlows(ctx context.Context, q FlowQuery, cursor string, limit int) (FlowPage, error) {
	s := source{partitions: c.core.Partitioning().FlowPartitions(), key: c.keys.IndexFlowIndex}
	ids, next, places, err := c.scanPlaces(ctx, s, cursor, limit)
	if err != nil {
		return FlowPage{}, fmt.Errorf("list flows: %w", err)
	}
	commands := make([]rueidis.Completed, 0, 2*len(ids))
	for i, id := range ids {
		commands = append(commands, c.hmget(c.keys.FlowCore(places[i], enginecore.FlowID(id)), flowFields),
			c.client.B().Hgetall().Key(c.keys.FlowTags(places[i], enginecore.FlowID(id))).Build())
	}
	results, err := c.read(ctx, commands...)
	if err != nil {
		return FlowPage{}, fmt.Errorf("list flows: %w", err)
	}
	page := FlowPage{Next: next}
	for i, id := range ids {
		r := hashrecord.Read(results[2*i], flowFields)
		if r == nil {
			continue // it is gone
		}
		info, tags := flowOf(enginecore.FlowID(id), r), tagsOf(results[2*i+1])
		if q.WithTags || len(q.Tags) > 0 {
			info.Tags = tags
		}
		if (q.Kind == "" || info.Kind == q.Kind) && (len(q.States) == 0 || slices.Contains(q.States, info.State)) &&
			hasTags(tags, q.Tags) {
			page.Flows = append(page.Flows, info)
		}
	}
	return page, nil
}

// Flows is ListFlows to the end. An error ends the sequence.
func (c *Client) Flows(ctx context.Context, q FlowQuery) iter.Seq2[FlowInfo, error] {
	return all(func(cursor string) ([]FlowInfo, string, error) {
		page, err := c.ListFlows(ctx, q, cursor, 0)
		return page.Flows, page.Next, err
	})
}
