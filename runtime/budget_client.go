package runtime

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/flow"
	"github.com/flowfabric/flowfabric-go/internal/auditlink"
	"github.com/flowfabric/flowfabric-go/internal/budgets"
	"github.com/flowfabric/flowfabric-go/internal/engine"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
	"github.com/flowfabric/flowfabric-go/internal/flowgraph"
	"github.com/flowfabric/flowfabric-go/internal/keyspace"
	"github.com/flowfabric/flowfabric-go/internal/submit"
)

// BudgetRef refers to one budget. Client.Budget returns one. It holds no state of the budget: each call queries the
// engine, in the namespace of the client. It is safe for concurrent use, as long as its client is open.
//
// The error of every call wraps ErrInvalid for a name that no budget can have.
type BudgetRef struct {
	client *Client
	name   fabrictype.BudgetName
}

// Budget returns a reference to a budget. It sends nothing, and the budget need not exist.
func (c *Client) Budget(name fabrictype.BudgetName) *BudgetRef {
	return &BudgetRef{client: c, name: name}
}

// Create creates the budget. Its limits apply whatever flows declare for it. The error wraps ErrConflict when the
// budget exists, because it was created or used before.
func (b *BudgetRef) Create(ctx context.Context, config flow.BudgetConfig) error {
	if err := b.set(ctx, enginerpc.SetBudgetCall{OnlyNew: true}, config); err != nil {
		return fmt.Errorf("create budget %s: %w", b.name, err)
	}
	return nil
}

// Set replaces the limits, the interval and the effect of the budget, or creates the budget. They apply from then on,
// whatever flows declare. The spent amounts are kept. If an exhausted budget has room again, the nodes that wait for it
// continue at once, in the order in which they would have started. If less is allowed than is spent already, nothing
// more can be spent.
func (b *BudgetRef) Set(ctx context.Context, config flow.BudgetConfig) error {
	if err := b.set(ctx, enginerpc.SetBudgetCall{}, config); err != nil {
		return fmt.Errorf("set budget %s: %w", b.name, err)
	}
	return nil
}

// Replace is Set unless the settings of the budget have been changed since Describe returned old: comparing the limits
// of all dimensions, ResetEvery, Effect and Set, and setting the budget, are one atomic step of the engine. The error
// matches enginecore.ErrChangedMeanwhile if they differ or the budget was deleted; nothing was changed then.
func (b *BudgetRef) Replace(ctx context.Context, old fabrictype.Budget, config flow.BudgetConfig) error {
	call := enginerpc.SetBudgetCall{
		Compare: true, OldEffect: old.Effect, OldInterval: old.ResetEvery.Duration, OldPinned: old.Set,
		OldDims: make([]enginerpc.SetBudgetOldDim, len(old.Amounts)),
	}
	for i, a := range old.Amounts {
		call.OldDims[i] = enginerpc.SetBudgetOldDim{Name: a.Dimension, Hard: a.Hard, Soft: a.Soft}
	}
	if err := b.set(ctx, call, config); err != nil {
		return fmt.Errorf("set budget %s: %w", b.name, err)
	}
	return nil
}

// set completes the call by the budget, and makes it.
func (b *BudgetRef) set(ctx context.Context, call enginerpc.SetBudgetCall, config flow.BudgetConfig) error {
	c, ref := b.client, b.name
	core, p, id, err := b.find(ctx)
	if err != nil {
		return err
	}
	spec := flowgraph.NewBudget(ref.Name, flowgraph.BudgetConfig[flow.BudgetEffect](config))
	if len(spec.KeyFrom) > 0 {
		return invalid("PerKey(%s): must not be set here: BudgetRef.Key names the key", strings.Join(spec.KeyFrom, "."))
	}
	// The reference has the scope.
	spec.Scope = submit.BudgetScope(ref)
	if err := spec.Validate(); err != nil {
		return invalid("%w", err)
	}
	if !spec.Declares() {
		return invalid("no dimension: Hard, Soft or Counted must name one")
	}
	var flowID enginecore.FlowID
	if ref.Run != "" {
		flowID = keyspace.FlowIDFor(c.session.Namespace, ref.Flow, ref.Run)
	}
	stored := submit.NewStoredBudget(c.session.Namespace, spec, ref, flowID)
	// The client does not know here whether the run has nodes with child runs.
	stored.Wide = ref.Run != ""
	call.Partition, call.BudgetID, call.BudgetDeclaration = p, id, stored.Declaration()
	for _, d := range stored.Dimensions {
		call.Dims = append(call.Dims, enginerpc.SetBudgetDim(d))
	}
	var reply enginerpc.SetBudgetReply
	entry := setBudgetEntry(c.actorName(), ref, call.OnlyNew, stored)
	err = c.audited(ctx, entry, func(ctx context.Context) (err error) {
		reply, err = core.SetBudget(ctx, call)
		if err == nil && reply.Told {
			update := submit.GateUpdate{
				Session: c.session, Partition: p, Budget: stored.ID, Version: reply.Gate, Closed: reply.Closed,
			}
			err = update.Publish(ctx)
		}
		if err == nil && reply.Status == enginerpc.StatusAlreadySatisfied {
			err = engine.ErrBudgetExists
		}
		return err
	})
	return err
}

// budgetName names a budget in the audit log.
func budgetName(ref fabrictype.BudgetName) string {
	name := ref.Name
	if ref.Key != "" {
		name += "/" + ref.Key
	}
	if ref.Run != "" {
		return ref.Flow + "/" + ref.Run + "/" + name
	}
	return name
}

// setBudgetEntry is the entry of the audit log for the limits of a budget.
func setBudgetEntry(
	actor string, ref fabrictype.BudgetName, onlyNew bool, b submit.StoredBudget,
) fabrictype.AuditEntry {
	e := fabrictype.AuditEntry{Actor: actor, Action: auditlink.SetBudget, Name: budgetName(ref)}
	if onlyNew {
		e.Action = auditlink.CreateBudget
	}
	var set []string
	for _, d := range b.Dimensions {
		set = append(set, fmt.Sprintf("%s: hard %d, soft %d", d.Name, d.Hard, d.Soft))
	}
	e.Detail = strings.Join(set, "; ")
	return e
}

// find returns the partition and the id of the budget.
func (b *BudgetRef) find(
	ctx context.Context,
) (engine.Library, keyspace.Partition, enginecore.BudgetID, error) {
	core, err := library(ctx, b.client, "budgets of flows")
	if err != nil {
		return core, keyspace.Partition{}, "", err
	}
	if err := checkBudgetRef(b.name, b.client.session.Namespace); err != nil {
		return core, keyspace.Partition{}, "", err
	}
	id := submit.BudgetID(b.client.session.Namespace, b.name)
	p, err := b.client.session.Core.Partitioning().BudgetPartition(id)
	return core, p, id, err
}

// Reset sets the spent amounts of the budget to 0, so that nodes that wait for it continue. Reserved amounts are kept,
// and the times of later resets do not change.
func (b *BudgetRef) Reset(ctx context.Context) error {
	fault := func(err error) error { return fmt.Errorf("reset budget %s: %w", b.name, err) }
	core, p, id, err := b.find(ctx)
	if err != nil {
		return fault(err)
	}
	err = b.client.audited(ctx, fabrictype.AuditEntry{
		Actor: b.client.actorName(), Action: auditlink.ResetBudget, Name: budgetName(b.name),
	},
		func(ctx context.Context) error { return b.reset(ctx, core, p, id) })
	if err != nil {
		return fault(err)
	}
	return nil
}

func (b *BudgetRef) reset(
	ctx context.Context, core engine.Library, p keyspace.Partition, id enginecore.BudgetID,
) error {
	now, err := b.client.session.Core.Now(ctx)
	if err != nil {
		return err
	}
	_, err = core.ResetBudget(ctx, enginerpc.ResetBudgetCall{Partition: p, BudgetID: id, Now: now})
	if errors.Is(err, enginecore.ErrBudgetNotFound) {
		err = engine.ErrBudgetNotFound
	}
	if err != nil {
		return err
	}
	reply, err := core.GetBudgets(ctx, enginerpc.GetBudgetsCall{Partition: p, BudgetIDs: []enginecore.BudgetID{id}})
	if err == nil && len(reply.Budgets) > 0 && reply.Budgets[0].Gate > 0 {
		err = updateOf(b.client.session, p, reply.Budgets[0]).Publish(ctx)
	}
	return err
}

// Delete deletes the budget with its spent and reserved amounts; nodes that wait for it continue. When a run of a flow
// that declares the budget uses it again, the engine creates it anew. Deleting a budget that does not exist is not an
// error.
func (b *BudgetRef) Delete(ctx context.Context) error {
	core, p, id, err := b.find(ctx)
	if err != nil {
		return fmt.Errorf("remove budget %s: %w", b.name, err)
	}
	err = b.client.audited(ctx, fabrictype.AuditEntry{
		Actor: b.client.actorName(), Action: auditlink.DeleteBudget, Name: budgetName(b.name),
	},
		func(ctx context.Context) error { return b.remove(ctx, core, p, id) })
	if err != nil {
		return fmt.Errorf("remove budget %s: %w", b.name, err)
	}
	return nil
}

func (b *BudgetRef) remove(
	ctx context.Context, core engine.Library, p keyspace.Partition, id enginecore.BudgetID,
) error {
	for {
		reply, err := core.RemoveBudget(ctx, enginerpc.RemoveBudgetCall{Partition: p, BudgetID: id})
		update := submit.GateUpdate{Session: b.client.session, Partition: p, Budget: id, Version: reply.Gate}
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

// Describe returns the state of the budget. The error wraps ErrNotFound when it was neither created nor used.
func (b *BudgetRef) Describe(ctx context.Context) (fabrictype.Budget, error) {
	core, p, id, err := b.find(ctx)
	if err != nil {
		return fabrictype.Budget{}, fmt.Errorf("budget %s: %w", b.name, err)
	}
	reply, err := core.GetBudgets(ctx, enginerpc.GetBudgetsCall{Partition: p, BudgetIDs: []enginecore.BudgetID{id}})
	if err == nil && len(reply.Budgets) == 0 {
		err = engine.ErrBudgetNotFound
	}
	if err != nil {
		return fabrictype.Budget{}, fmt.Errorf("budget %s: %w", b.name, err)
	}
	s := budgets.Read(reply.Budgets[0])
	name := b.name
	name.FlowID = s.FlowID
	s.BudgetName = name
	return s, nil
}

// Budgets returns the states of all budgets of the client's namespace that were created or used, sorted by name, flow
// and key.
func (c *Client) Budgets(ctx context.Context) ([]fabrictype.Budget, error) {
	core, err := library(ctx, c, "budgets of flows")
	if err != nil {
		return nil, fmt.Errorf("list budgets: %w", err)
	}
	byID := make(map[enginecore.BudgetID]fabrictype.Budget) // a listing in pages may show one twice
	for i := range c.session.Core.Partitioning().Budget {
		call := enginerpc.ListBudgetsCall{Partition: keyspace.Partition{
			Family: keyspace.BudgetFamily, Index: uint16(i),
		}}
		for {
			reply, err := core.ListBudgets(ctx, call)
			if err != nil {
				return nil, fmt.Errorf("list budgets: %w", err)
			}
			for _, b := range reply.Budgets {
				if b.Namespace == string(c.session.Namespace) {
					byID[b.BudgetID] = budgets.Read(b)
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
	if err := budgets.NameRuns(ctx, c.session, list); err != nil {
		return nil, fmt.Errorf("list budgets: %w", err)
	}
	slices.SortFunc(list, func(a, b fabrictype.Budget) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Flow, b.Flow),
			cmp.Compare(a.Key, b.Key), cmp.Compare(a.FlowID, b.FlowID))
	})
	return list, nil
}

// updateOf returns the present state of a budget's gate.
func updateOf(e *engine.Session, p keyspace.Partition, b enginerpc.BudgetState) submit.GateUpdate {
	n := submit.GateUpdate{Session: e, Partition: p, Budget: b.BudgetID, Version: b.Gate, Closed: b.Closed}
	if !b.Wide {
		n.Flow = enginecore.FlowID(budgets.Read(b).FlowID)
	}
	return n
}
