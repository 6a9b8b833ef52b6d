package budgets

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/internal/activityspec"
	"github.com/flowfabric/flowfabric-go/internal/auditlink"
	"github.com/flowfabric/flowfabric-go/internal/engine"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
	"github.com/flowfabric/flowfabric-go/internal/flowgraph"
	"github.com/flowfabric/flowfabric-go/internal/keyspace"
	"github.com/flowfabric/flowfabric-go/internal/submit"
)

// Budget identifies a budget, and knows where the engine keeps it.
type Budget struct {
	session   *engine.Session
	core      engine.Library
	name      fabrictype.BudgetName
	id        enginecore.BudgetID
	partition keyspace.Partition
}

// Find returns a budget of the session's namespace. It sends nothing, and the budget need not exist. Its error wraps
// [engine.ErrInvalid] for a name that no budget can have.
func Find(s *engine.Session, core engine.Library, name fabrictype.BudgetName) (Budget, error) {
	if err := checkName(name, s.Namespace); err != nil {
		return Budget{}, err
	}
	b := Budget{session: s, core: core, name: name, id: submit.BudgetID(s.Namespace, name)}
	var err error
	b.partition, err = s.Core.Partitioning().BudgetPartition(b.id)
	return b, err
}

// checkName returns the fault of a name in a namespace.
func checkName(r fabrictype.BudgetName, namespace keyspace.Namespace) error {
	err := activityspec.CheckName(r.Name)
	switch {
	case err != nil:
	case r.Key != "" && r.Flow != "":
		err = fmt.Errorf("the Key %.80q: must be empty for a budget of a flow or of a run", r.Key)
	case r.Run != "" && r.Flow == "":
		err = fmt.Errorf("the Run %.80q: Flow must be set, too", r.Run)
	case r.FlowID != "" && r.Run == "":
		err = fmt.Errorf("the FlowID %.80q: Flow and Run must be set, too", r.FlowID)
	case r.FlowID != "" && r.FlowID != string(keyspace.FlowIDFor(namespace, r.Flow, r.Run)):
		err = fmt.Errorf("the FlowID %.80q: is not that of run %s of flow %s", r.FlowID, r.Run, r.Flow)
	case len(r.Key) > submit.MaxLimitKey:
		err = fmt.Errorf("the Key has %d bytes, at most %d are allowed", len(r.Key), submit.MaxLimitKey)
	default:
		return nil
	}
	return engine.Invalid("budget reference: %w", err)
}

// Change is a change of the settings of a budget, ready to be made.
type Change struct {
	budget Budget
	stored submit.StoredBudget
	call   enginerpc.SetBudgetCall
}

// NewChange returns the change that gives the budget new settings. With onlyNew, it refuses a budget that exists;
// unless old is nil, it refuses one with other settings than these. The error wraps [engine.ErrInvalid] for settings
// that the budget cannot have.
func (b Budget) NewChange(spec flowgraph.Budget, onlyNew bool, old *fabrictype.Budget) (*Change, error) {
	if len(spec.KeyFrom) > 0 {
		return nil, engine.Invalid("PerKey(%s): must not be set here: BudgetRef.Key names the key",
			strings.Join(spec.KeyFrom, "."))
	}
	// The reference has the scope.
	spec.Scope = submit.BudgetScope(b.name)
	if err := spec.Validate(); err != nil {
		return nil, engine.Invalid("%w", err)
	}
	if !spec.Declares() {
		return nil, engine.Invalid("no dimension: Hard, Soft or Counted must name one")
	}
	var flowID enginecore.FlowID
	if b.name.Run != "" {
		flowID = keyspace.FlowIDFor(b.session.Namespace, b.name.Flow, b.name.Run)
	}
	c := &Change{budget: b, stored: submit.NewStoredBudget(b.session.Namespace, spec, b.name, flowID)}
	// The client does not know here whether the run has nodes with child runs.
	c.stored.Wide = b.name.Run != ""
	c.call = enginerpc.SetBudgetCall{
		OnlyNew: onlyNew, Partition: b.partition, BudgetID: b.id, BudgetDeclaration: c.stored.Declaration(),
	}
	for _, d := range c.stored.Dimensions {
		c.call.Dims = append(c.call.Dims, enginerpc.SetBudgetDim(d))
	}
	if old != nil {
		c.call.Compare, c.call.OldEffect, c.call.OldInterval = true, old.Effect, old.ResetEvery.Duration
		c.call.OldPinned, c.call.OldDims = old.Set, make([]enginerpc.SetBudgetOldDim, len(old.Amounts))
		for i, a := range old.Amounts {
			c.call.OldDims[i] = enginerpc.SetBudgetOldDim{Name: a.Dimension, Hard: a.Hard, Soft: a.Soft}
		}
	}
	return c, nil
}

// Make makes the change. Nodes that wait for the budget continue if it has room now. The error wraps
// [engine.ErrBudgetExists] or [enginecore.ErrChangedMeanwhile].
func (c *Change) Make(ctx context.Context) error {
	b := c.budget
	reply, err := b.core.SetBudget(ctx, c.call)
	if err == nil && reply.Told {
		update := submit.GateUpdate{
			Session: b.session, Partition: b.partition, Budget: c.stored.ID, Version: reply.Gate, Closed: reply.Closed,
		}
		err = update.Publish(ctx)
	}
	if err == nil && reply.Status == enginerpc.StatusAlreadySatisfied {
		err = engine.ErrBudgetExists
	}
	return err
}

// Entry is the entry of the audit log for the change.
func (c *Change) Entry(actor string) fabrictype.AuditEntry {
	action := auditlink.SetBudget
	if c.call.OnlyNew {
		action = auditlink.CreateBudget
	}
	e := c.budget.Entry(actor, action)
	var set []string
	for _, d := range c.stored.Dimensions {
		set = append(set, fmt.Sprintf("%s: hard %d, soft %d", d.Name, d.Hard, d.Soft))
	}
	e.Detail = strings.Join(set, "; ")
	return e
}

// Entry is the entry of the audit log for an action on the budget.
func (b Budget) Entry(actor string, action string) fabrictype.AuditEntry {
	name := b.name.Name
	if b.name.Key != "" {
		name += "/" + b.name.Key
	}
	if b.name.Run != "" {
		name = b.name.Flow + "/" + b.name.Run + "/" + name
	}
	return fabrictype.AuditEntry{Actor: actor, Action: action, Name: name}
}

// Reset sets the spent amounts to 0. Nodes that wait for the budget continue. The error wraps
// [engine.ErrBudgetNotFound].
func (b Budget) Reset(ctx context.Context) error {
	now, err := b.session.Core.Now(ctx)
	if err != nil {
		return err
	}
	_, err = b.core.ResetBudget(ctx, enginerpc.ResetBudgetCall{Partition: b.partition, BudgetID: b.id, Now: now})
	if errors.Is(err, enginecore.ErrBudgetNotFound) {
		err = engine.ErrBudgetNotFound
	}
	if err != nil {
		return err
	}
	reply, err := b.get(ctx)
	if err == nil && len(reply.Budgets) > 0 && reply.Budgets[0].Gate > 0 {
		err = b.gateOf(reply.Budgets[0]).Publish(ctx)
	}
	return err
}

func (b Budget) get(ctx context.Context) (enginerpc.GetBudgetsReply, error) {
	return b.core.GetBudgets(ctx,
		enginerpc.GetBudgetsCall{Partition: b.partition, BudgetIDs: []enginecore.BudgetID{b.id}})
}

// gateOf returns the present state of the budget's gate.
func (b Budget) gateOf(state enginerpc.BudgetState) submit.GateUpdate {
	n := submit.GateUpdate{
		Session: b.session, Partition: b.partition, Budget: state.BudgetID, Version: state.Gate, Closed: state.Closed,
	}
	if !state.Wide {
		n.Flow = enginecore.FlowID(Read(state).FlowID)
	}
	return n
}

// Delete deletes the budget. Nodes that wait for it continue. Deleting a budget that does not exist is not an error.
func (b Budget) Delete(ctx context.Context) error {
	for {
		reply, err := b.core.RemoveBudget(ctx, enginerpc.RemoveBudgetCall{Partition: b.partition, BudgetID: b.id})
		update := submit.GateUpdate{Session: b.session, Partition: b.partition, Budget: b.id, Version: reply.Gate}
		switch {
		case err == nil && reply.Told:
			err = update.Publish(ctx)
		case err == nil && reply.Status == enginerpc.StatusAlreadySatisfied:
			return nil
		case err == nil:
			update.Forget = true
			if err = update.Publish(ctx); err == nil {
				return nil
			}
		}
		if err != nil {
			return err
		}
	}
}

// Describe returns the state of the budget. The error wraps [engine.ErrBudgetNotFound].
func (b Budget) Describe(ctx context.Context) (fabrictype.Budget, error) {
	reply, err := b.get(ctx)
	if err == nil && len(reply.Budgets) == 0 {
		err = engine.ErrBudgetNotFound
	}
	if err != nil {
		return fabrictype.Budget{}, err
	}
	state := Read(reply.Budgets[0])
	name := b.name
	name.FlowID = state.FlowID
	state.BudgetName = name
	return state, nil
}

// List returns the states of all budgets of the session's namespace, sorted by name, flow and key.
func List(ctx context.Context, s *engine.Session, core engine.Library) ([]fabrictype.Budget, error) {
	byID := make(map[enginecore.BudgetID]fabrictype.Budget) // a listing in pages may show one twice
	for i := range s.Core.Partitioning().Budget {
		call := enginerpc.ListBudgetsCall{Partition: keyspace.Partition{
			Family: keyspace.BudgetFamily, Index: uint16(i),
		}}
		for {
			reply, err := core.ListBudgets(ctx, call)
			if err != nil {
				return nil, err
			}
			for _, b := range reply.Budgets {
				if b.Namespace == string(s.Namespace) {
					byID[b.BudgetID] = Read(b)
				}
			}
			if call.Cursor = reply.NextCursor; call.Cursor == "" {
				break
			}
		}
	}
	list := make([]fabrictype.Budget, 0, len(byID))
	for _, s := range byID {
		list = append(list, s)
	}
	if err := NameRuns(ctx, s, list); err != nil {
		return nil, err
	}
	slices.SortFunc(list, func(a, b fabrictype.Budget) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Flow, b.Flow),
			cmp.Compare(a.Key, b.Key), cmp.Compare(a.FlowID, b.FlowID))
	})
	return list, nil
}
