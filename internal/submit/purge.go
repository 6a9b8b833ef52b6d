package submit

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/internal/engine"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
	"github.com/flowfabric/flowfabric-go/internal/errorcode"
	"github.com/flowfabric/flowfabric-go/internal/flowgraph"
	"github.com/flowfabric/flowfabric-go/internal/keyspace"
)

// maxChildPurges bounds the child runs that a purge removes itself.
const maxChildPurges = 1000

// Purge removes a run that is over with all its data, including its own budgets and its child runs; keepers remove the
// child runs beyond maxChildPurges and the ones that are still ending. Unless closedAt is zero, it removes only a run
// with that end, and its error wraps [enginecore.ErrChangedMeanwhile] for one that has ended again. Its error wraps
// [engine.ErrRunOpen], [engine.ErrRunNotFound] or [engine.ErrNotInContract].
func (s *Submitter) Purge(
	ctx context.Context, flowName, runID string, id enginecore.FlowID, p keyspace.Partition, closedAt time.Time,
) error {
	core, err := engine.Capability[engine.RunControl](s.session.Backend)
	if err != nil {
		return fmt.Errorf("purge run %s of flow %s: %w", runID, flowName, err)
	}
	s.Completions.Untrack(id)
	found, err := (&purge{s, core, maxChildPurges}).remove(ctx, id, p, closedAt)
	switch {
	case errors.Is(err, errorcode.FlowNotTerminal):
		err = engine.ErrRunOpen
	case err == nil && !found:
		err = engine.ErrRunNotFound
	}
	if err != nil {
		return fmt.Errorf("purge run %s of flow %s: %w", runID, flowName, err)
	}
	return nil
}

// purge is one call of Submitter.Purge.
type purge struct {
	*Submitter
	core engine.RunControl
	// children is how many more child runs it removes.
	children int
}

// remove removes a run with its child runs, and reports whether it was there.
func (g *purge) remove(
	ctx context.Context, id enginecore.FlowID, p keyspace.Partition, closedAt time.Time,
) (found bool, err error) {
	for first := true; ; first = false {
		reply, err := g.core.PurgeFlow(ctx, enginerpc.PurgeFlowCall{Partition: p, FlowID: id, ClosedAt: closedAt})
		switch {
		case !first &&
			(errors.Is(err, errorcode.FlowNotTerminal) || errors.Is(err, enginecore.ErrChangedMeanwhile)):
			return true, nil // a keeper removed the rest, and the id has another run by now
		case err != nil:
			return false, err
		case first && reply.Status == enginerpc.StatusAlreadySatisfied:
			return false, nil
		}
		g.removeChildren(ctx, p, reply.Children)
		if !reply.More {
			g.removeBudgets(ctx, id, reply.Budgets)
			return true, nil
		}
		closedAt = reply.ClosedAt
	}
}

// removeChildren removes child runs of a run of a partition, so that the id of the run can be used again at once: the
// ids of child runs derive from it. Keepers remove the rest.
func (g *purge) removeChildren(ctx context.Context, of keyspace.Partition, children string) {
	relay, err := engine.Capability[engine.ChildRuns](g.session.Backend)
	if err != nil {
		return
	}
	for child := range strings.FieldsSeq(children) {
		if g.children == 0 {
			return
		}
		g.children--
		id := enginecore.FlowID(child)
		p, err := g.session.Core.FlowPartition(id)
		if err != nil {
			continue
		}
		if _, err = g.remove(ctx, id, p, time.Time{}); err == nil {
			_, _ = relay.EndRelayEntry(ctx, enginerpc.EndRelayEntryCall{Partition: of, Kind: "purge", FlowID: id})
		}
	}
}

// removeBudgets removes the budgets that a purged run had to itself. Keepers remove the rest.
func (s *Submitter) removeBudgets(ctx context.Context, id enginecore.FlowID, stored string) {
	list, _ := DecodeBudgets(stored)
	for _, b := range list {
		p, err := s.session.Core.Partitioning().BudgetPartition(b.ID)
		if err != nil || b.Scope != flowgraph.ScopeRun || b.ScopeID != string(id) {
			continue
		}
		gate := GateUpdate{Session: s.session, Partition: p, Budget: b.ID}
		if !b.Wide {
			gate.Flow = id
		}
		_ = gate.Remove(ctx) // see above
	}
}
