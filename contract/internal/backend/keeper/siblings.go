package keeper

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"

	"github.com/flowfabric/flowfabric-go/contract/internal/backend/execution"
	"github.com/flowfabric/flowfabric-go/contract/internal/backend/flows"
	"github.com/flowfabric/flowfabric-go/contract/internal/backend/link"
	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/internal/contractnode"
	"github.com/flowfabric/flowfabric-go/internal/engine"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
	"github.com/flowfabric/flowfabric-go/internal/hashrecord"
)

// Dispositions of an upstream that a join does not need: it was cancelled, it had ended, or it does not exist.
const (
	siblingCancelled = "cancelled"
	siblingEnded     = "already_terminal"
	siblingMissing   = "not_found"
)

var siblingFields = []string{"cancel_siblings_reason", "cancel_siblings_pending_members"}

// cancelSiblings ends the upstreams that joins no longer need, and counts them by disposition. A group that cannot be
// processed is put off.
func (t *tick) cancelSiblings(ctx context.Context) error {
	c, p := t.keeper, t.call.Partition
	if t.isIdle() && t.absent[c.Keys.IndexPendingCancelGroups(p)] {
		return nil
	}
	results, err := c.Read(ctx,
		c.Client.B().Srandmember().Key(c.Keys.IndexPendingCancelGroups(p)).Count(t.call.Limit).Build())
	if err != nil {
		return err
	}
	t.siblings, t.dispatched = make(map[string]int64), make(map[string]int64)
	for _, text := range t.without(link.IDsOf[string](results[0])) {
		if err := t.failed(text, t.workOffGroup(ctx, text)); err != nil {
			return err
		}
	}
	for _, disposition := range slices.Sorted(maps.Keys(t.siblings)) {
		t.reply.Siblings = append(t.reply.Siblings,
			enginerpc.SiblingCount{Disposition: disposition, Count: t.siblings[disposition]})
	}
	for _, reason := range slices.Sorted(maps.Keys(t.dispatched)) {
		t.reply.Dispatched = append(t.reply.Dispatched,
			enginerpc.SiblingDispatch{Reason: reason, Count: t.dispatched[reason]})
	}
	return nil
}

// workOffGroup ends the upstreams of one join, and takes it from the list.
func (t *tick) workOffGroup(ctx context.Context, text string) error {
	c, p := t.keeper, t.call.Partition
	flow, down, _ := strings.Cut(text, "|")
	id, group := enginecore.FlowID(flow), enginecore.ExecutionID(down)
	if !t.isHere(down) {
		return errMisplaced
	}
	if concerned, err := t.concernsJoin(ctx, group); err != nil || !concerned {
		return err
	}
	results, err := c.Read(ctx, c.Hmget(c.Keys.FlowEdgegroup(id, group), siblingFields),
		c.Client.B().Hget().Key(c.Keys.FlowTags(p, id)).Field(contractnode.TagResult).Build())
	if err != nil {
		return err
	}
	record := hashrecord.Read(results[0], siblingFields)
	result, _ := results[1].ToString() // "" for a flow of another program
	if err := t.cancelGroup(ctx, id, record, enginecore.ExecutionID(result)); err != nil {
		return err
	}
	_, err = link.CallAgain[enginerpc.DrainSiblingCancelGroupReply](ctx, c.Link, enginerpc.DrainSiblingCancelGroupCall{
		FlowID: id, DownstreamExecutionID: group,
	})
	return err
}

// concernsJoin reports whether the filter of the call lets a join pass. It concerns only flows of other programs: for
// runs of this project, no other program cancels siblings.
func (t *tick) concernsJoin(ctx context.Context, join enginecore.ExecutionID) (bool, error) {
	c, call := t.keeper, t.call
	if call.SiblingNamespace == "" && call.SiblingTag == "" {
		return true, nil
	}
	results, err := c.Read(ctx, c.Client.B().Hget().Key(c.Keys.ExecCore(join)).Field("namespace").Build(),
		c.Client.B().Hmget().Key(c.Keys.ExecTags(join)).Field(contractnode.TagNode, call.SiblingTag).Build())
	if err != nil {
		return false, err
	}
	namespace, _ := results[0].ToString() // "" where there is none
	tags := hashrecord.Read(results[1], []string{contractnode.TagNode, call.SiblingTag})
	if tags[contractnode.TagNode] != "" {
		return true, nil
	}
	return (call.SiblingNamespace == "" || namespace == call.SiblingNamespace) &&
		(call.SiblingTag == "" || tags[call.SiblingTag] == call.SiblingTagValue), nil
}

// cancelGroup ends the upstreams of one join, except the node whose result is the run's. The error joins one error for
// each upstream that could not be ended.
func (t *tick) cancelGroup(
	ctx context.Context, flow enginecore.FlowID, group hashrecord.Record, result enginecore.ExecutionID,
) error {
	c, p := t.keeper, t.call.Partition
	var ids []enginecore.ExecutionID
	for text := range strings.SplitSeq(group["cancel_siblings_pending_members"], "|") {
		if id := enginecore.ExecutionID(text); id != result && t.isHere(text) {
			ids = append(ids, id)
		}
	}
	ids, cores, faults := c.Readable(ctx, ids, flows.CancelFields)
	var ended []execution.End
	for i, id := range ids {
		reason := group["cancel_siblings_reason"]
		if cores[i].Exists() && !cores[i].IsTerminal() {
			t.dispatched[reason]++ // before the call, as other dispatchers count
		}
		disposition, err := c.cancelSibling(ctx, id, cores[i], reason)
		if err != nil {
			faults = errors.Join(faults, &engine.ItemError{Item: string(id), Err: err})
			continue
		}
		t.siblings[disposition]++
		if disposition == siblingCancelled {
			t.count++
			ended = append(ended, execution.End{ID: id, Flow: flow, Outcome: "cancelled"})
		}
	}
	_, err := c.Propagate(ctx, p, "", ended...)
	return errors.Join(faults, err)
}

// cancelSibling ends one upstream, and returns its disposition.
func (c *Keeper) cancelSibling(
	ctx context.Context, id enginecore.ExecutionID, core engine.Record, reason string,
) (disposition string, err error) {
	switch {
	case !core.Exists():
		return siblingMissing, nil
	case core.IsTerminal():
		return siblingEnded, nil
	}
	call := flows.CancelCall(id, core, reason)
	call.Source = "operator_override" // like the dispatchers of other programs; the composite library sends edge_group
	switch _, err := link.CallAgain[enginerpc.CancelExecutionReply](ctx, c.Link, call); {
	case errors.Is(err, enginecore.ErrExecutionNotActive):
		return siblingEnded, nil
	case errors.Is(err, enginecore.ErrExecutionNotFound):
		return siblingMissing, nil
	case err != nil:
		return "", err
	}
	c.TellStop(ctx, id, core, engine.StopCancelled, reason)
	return siblingCancelled, nil
}
