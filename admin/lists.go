package admin

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strconv"
	"strings"

	"github.com/redis/rueidis"

	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/internal/hashrecord"
	"github.com/flowfabric/flowfabric-go/internal/keyspace"
	"github.com/flowfabric/flowfabric-go/internal/recordstate"
	"github.com/flowfabric/flowfabric-go/runtime"
)

// Indexes of a lane that have a part in this package.
const (
	indexEligible            = "eligible"
	indexActive              = "active"
	indexTerminal            = "terminal"
	indexBlockedDependencies = "blocked:dependencies"
)

// ExecutionQuery selects executions. An execution must satisfy all fields that are set; the zero value selects all.
type ExecutionQuery struct {
	// Lane selects executions of this lane.
	Lane enginecore.LaneID
	// States selects executions in any of these states.
	States []fabrictype.NodeState
	// Flow selects members of this flow. Only its members are read.
	Flow enginecore.FlowID
	// Tags selects executions that have all of these tags with these values.
	Tags map[string]string
	// Index reads only the executions in this index of Lane, which must be set: eligible, delayed, active, suspended,
	// terminal, blocked:dependencies, blocked:budget, blocked:quota, blocked:route or blocked:operator. It cannot be
	// combined with Flow.
	Index string
	// Partition selects executions of one flow partition, by its number. Nil selects all. On our engine, a server that
	// has all partitions keeps the eligible index of a lane for all of them in partition 0.
	Partition *int
	// InOrder lists the index in the order in which workers claim: by priority, then age. It requires Index to be
	// eligible, and Partition. A page has the entries of the index at that moment from a rank on, so executions
	// that enter or leave it between pages may be missing or returned twice.
	InOrder bool
	// WithTags sets Execution.Tags, which costs one more read per execution.
	WithTags bool
}

// Check validates the query without an engine. The error wraps ErrInvalid; Client.ListExecutions would return the same.
func (q ExecutionQuery) Check() error {
	var faults []error
	if q.Index != "" {
		if _, known := (&Client{}).indexKey(keyspace.Partition{}, "x", q.Index); !known {
			faults = append(faults, fault("index", "%.40q is no index of a lane", q.Index))
		}
		if q.Lane == "" {
			faults = append(faults, fault("index", "a lane must be given with it"))
		}
		if q.Flow != "" {
			faults = append(faults, fault("index", "cannot be combined with a flow"))
		}
	}
	if q.InOrder && (q.Index != indexEligible || q.Partition == nil) {
		faults = append(faults, fault("order", "only index %q of one partition has one", indexEligible))
	}
	if q.Partition != nil && q.Flow != "" {
		faults = append(faults, fault("partition", "cannot be combined with a flow"))
	}
	if q.Lane != "" {
		if _, err := keyspace.ParseLaneID(string(q.Lane)); err != nil {
			faults = append(faults, fault("lane", "%v", err))
		}
	}
	if q.Flow != "" {
		if _, err := keyspace.ParseFlowID(string(q.Flow)); err != nil {
			faults = append(faults, fmt.Errorf("%w: %w", ErrInvalid, err))
		}
	}
	for _, state := range q.States {
		if states := recordstate.NodeStates(); !slices.Contains(states, state) {
			faults = append(faults, fault("state", "%q: must be one of %s", state,
				strings.Trim(fmt.Sprint(states), "[]")))
		}
	}
	return errors.Join(faults...)
}

func (c *Client) indexKey(p keyspace.Partition, lane enginecore.LaneID, index string) (string, bool) {
	build, known := map[string]func(keyspace.Partition, enginecore.LaneID) string{
		indexEligible: c.keys.LaneEligible, "delayed": c.keys.LaneDelayed, indexActive: c.keys.LaneActive,
		"suspended": c.keys.LaneSuspended, indexTerminal: c.keys.LaneTerminal,
		indexBlockedDependencies: c.keys.LaneBlockedDependencies, "blocked:budget": c.keys.LaneBlockedBudget,
		"blocked:quota": c.keys.LaneBlockedQuota, "blocked:route": c.keys.LaneBlockedRoute,
		"blocked:operator": c.keys.LaneBlockedOperator,
	}[index]
	if !known {
		return "", false
	}
	return build(p, lane), true
}

// ListExecutions returns a page of executions in no particular order, beginning at the cursor, which is empty or Next
// of the previous page of the same query. A page may be empty and still have a next one. The call examines about limit
// executions (1 to 1000; 0 means 100). Those that do not satisfy the query make the page shorter; a small set that is
// stored in one piece may make it longer.
//
// Every execution that exists and satisfies the query from the first page to the last is in one of the pages. One that
// changes between pages is returned as it was when it was read. An execution may be returned twice, also when it has
// not changed. With Index, one that leaves the index and returns to it between pages may be missing. If a server
// restarted, failed over or moved a slot since the previous page, the current partition is listed again from its
// beginning, so that nothing is missed.
//
// The error wraps ErrInvalid for an invalid query, or runtime.ErrCursor for an invalid cursor.
func (c *Client) ListExecutions(
	ctx context.Context, q ExecutionQuery, cursor string, limit int,
) (*fabrictype.Page[Execution], error) {
	ids, next, err := c.executionIDs(ctx, q, cursor, limit)
	if err != nil {
		return nil, fmt.Errorf("list executions: %w", err)
	}
	found, err := c.readExecutions(ctx, q, ids)
	if err != nil {
		return nil, fmt.Errorf("list executions: %w", err)
	}
	return &fabrictype.Page[Execution]{Items: found, Next: next}, nil
}

// Executions yields all executions that ListExecutions returns, page by page. An error ends the iteration.
func (c *Client) Executions(ctx context.Context, q ExecutionQuery) iter.Seq2[Execution, error] {
	return all(func(cursor string) ([]Execution, string, error) {
		page, err := c.ListExecutions(ctx, q, cursor, 0)
		if err != nil {
			return nil, "", err
		}
		return page.Items, page.Next, nil
	})
}

// all yields the elements of pages, one page after the other.
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
		s.partitions = []keyspace.Partition{p}
		s.key = func(p keyspace.Partition) string { return c.keys.FlowMembers(p, q.Flow) }
	case q.Index != "":
		s.sorted = true
		s.key = func(p keyspace.Partition) string {
			key, _ := c.indexKey(p, q.Lane, q.Index)
			return key
		}
	}
	if q.Partition != nil {
		if *q.Partition < 0 || *q.Partition >= len(s.partitions) {
			return nil, "", fault("partition", "%d is not between 0 and %d", *q.Partition, len(s.partitions)-1)
		}
		s.partitions = s.partitions[*q.Partition:][:1]
	}
	if q.InOrder {
		return c.inOrder(ctx, s.key(s.partitions[0]), cursor, limit)
	}
	if strings.HasPrefix(cursor, nodesCursor) {
		return c.nodeIDs(ctx, q, s.partitions, cursor, limit)
	}
	ids, next, err := c.scan(ctx, s, cursor, limit)
	if _, beside := isOfIndex(q.Index, Execution{}); next == "" && (beside || q.Index == "") {
		next = fmt.Sprintf("%s%d.", nodesCursor, s.partitions[0].Index)
	}
	return ids, next, err
}

// orderCursor begins the cursors of pages in the order of an index.
const orderCursor = "rank."

// inOrder returns a page of an index by rank.
func (c *Client) inOrder(ctx context.Context, key, cursor string, limit int) ([]string, string, error) {
	from := int64(0)
	if cursor != "" {
		text, found := strings.CutPrefix(cursor, orderCursor)
		var err error
		if from, err = strconv.ParseInt(text, 10, 64); err != nil || !found || from < 0 {
			return nil, "", fmt.Errorf("%w: %.40q", runtime.ErrCursor, cursor)
		}
	}
	size := int64(min(cmp.Or(max(limit, 0), 100), 1000))
	results, err := c.read(ctx, c.client.B().Zrange().Key(key).Min(strconv.FormatInt(from, 10)).
		Max(strconv.FormatInt(from+size-1, 10)).Build())
	if err != nil {
		return nil, "", err
	}
	ids, err := results[0].AsStrSlice()
	if err != nil || int64(len(ids)) < size {
		return ids, "", err
	}
	return ids, orderCursor + strconv.FormatInt(from+size, 10), nil
}

func (c *Client) readExecutions(ctx context.Context, q ExecutionQuery, ids []string) ([]Execution, error) {
	commands := make([]rueidis.Completed, 0, 2*len(ids))
	tags := q.WithTags || len(q.Tags) > 0
	listed := ids
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
	if q.InOrder {
		rank := make(map[string]int, len(listed))
		for i, id := range listed {
			rank[id] = i
		}
		slices.SortStableFunc(found, func(a, b Execution) int { return rank[string(a.ID)] - rank[string(b.ID)] })
	}
	return found, nil
}

// findNodes reads the executions that are nodes of runs. It returns those that the query selects, and the ids of the
// executions that are not nodes.
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
		if inIndex, known := isOfIndex(q.Index, e); known && !inIndex || !hasTags(n.tags, q.Tags) {
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

// Members yields the members of a flow in no particular order. Every execution that remains a member is yielded; one
// may be yielded twice. A flow that does not exist has no members. An error ends the iteration.
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

// FlowQuery selects flows. A flow must satisfy all fields that are set; the zero value selects all.
type FlowQuery struct {
	// Kind selects flows of this kind, which for a managed flow is its name.
	Kind string
	// States selects flows in any of these states: open, completed, failed or cancelled.
	States []string
	// Tags selects flows that have all of these tags with these values.
	Tags map[string]string
	// WithTags sets FlowInfo.Tags, which costs one more read per flow.
	WithTags bool
}

// ListFlows returns a page of flows of all tools in no particular order, with the cursor, the limit and the guarantees
// of ListExecutions. runtime.Client.Runs finds runs by index, the newest first.
func (c *Client) ListFlows(
	ctx context.Context, q FlowQuery, cursor string, limit int,
) (*fabrictype.Page[FlowInfo], error) {
	ids, next, places, err := c.flowIDs(ctx, cursor, limit)
	if err != nil {
		return nil, fmt.Errorf("list flows: %w", err)
	}
	flows := make([]enginecore.FlowID, len(ids))
	commands := make([]rueidis.Completed, len(ids))
	for i, id := range ids {
		flows[i] = enginecore.FlowID(id)
		commands[i] = c.client.B().Hgetall().Key(c.keys.FlowTags(places[i], flows[i])).Build()
	}
	found, err := c.core.FlowFields(ctx, flows, flowFields)
	if err != nil {
		return nil, fmt.Errorf("list flows: %w", err)
	}
	results, err := c.read(ctx, commands...)
	if err != nil {
		return nil, fmt.Errorf("list flows: %w", err)
	}
	page := &fabrictype.Page[FlowInfo]{Next: next}
	for i, id := range flows {
		r := found[id]
		if r == nil {
			continue // it is gone
		}
		info, tags := flowOf(id, r), tagsOf(results[i])
		if q.WithTags || len(q.Tags) > 0 {
			info.Tags = tags
		}
		if (q.Kind == "" || info.Kind == q.Kind) && (len(q.States) == 0 || slices.Contains(q.States, info.State)) &&
			hasTags(tags, q.Tags) {
			page.Items = append(page.Items, info)
		}
	}
	return page, nil
}

// Flows yields all flows that ListFlows returns, page by page. An error ends the iteration.
func (c *Client) Flows(ctx context.Context, q FlowQuery) iter.Seq2[FlowInfo, error] {
	return all(func(cursor string) ([]FlowInfo, string, error) {
		page, err := c.ListFlows(ctx, q, cursor, 0)
		if err != nil {
			return nil, "", err
		}
		return page.Items, page.Next, nil
	})
}
