package runtime

import (
	"context"
	"fmt"

	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/flow"
	"github.com/flowfabric/flowfabric-go/internal/auditlink"
	"github.com/flowfabric/flowfabric-go/internal/budgets"
	"github.com/flowfabric/flowfabric-go/internal/flowgraph"
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
	if err := b.set(ctx, config, true, nil); err != nil {
		return fmt.Errorf("create budget %s: %w", b.name, err)
	}
	return nil
}

// Set replaces the limits, the interval and the effect of the budget, or creates the budget. They apply from then on,
// whatever flows declare. The spent amounts are kept. If an exhausted budget has room again, the nodes that wait for it
// continue at once, in the order in which they would have started. If less is allowed than is spent already, nothing
// more can be spent.
func (b *BudgetRef) Set(ctx context.Context, config flow.BudgetConfig) error {
	if err := b.set(ctx, config, false, nil); err != nil {
		return fmt.Errorf("set budget %s: %w", b.name, err)
	}
	return nil
}

// Replace is Set unless the settings of the budget have been changed since Describe returned old: comparing the limits
// of all dimensions, ResetEvery, Effect and Set, and setting the budget, are one atomic step of the engine. The error
// matches enginecore.ErrChangedMeanwhile if they differ or the budget was deleted; nothing was changed then.
func (b *BudgetRef) Replace(ctx context.Context, old fabrictype.Budget, config flow.BudgetConfig) error {
	if err := b.set(ctx, config, false, &old); err != nil {
		return fmt.Errorf("set budget %s: %w", b.name, err)
	}
	return nil
}

// set changes the settings: with onlyNew if the budget does not exist, unless old is nil if it has these.
func (b *BudgetRef) set(ctx context.Context, config flow.BudgetConfig, onlyNew bool, old *fabrictype.Budget) error {
	budget, err := b.find(ctx)
	if err != nil {
		return err
	}
	spec := flowgraph.NewBudget(b.name.Name, flowgraph.BudgetConfig[flow.BudgetEffect](config))
	change, err := budget.NewChange(spec, onlyNew, old)
	if err != nil {
		return err
	}
	return b.client.audited(ctx, change.Entry(b.client.actorName()), change.Make)
}

// find returns the budget for the calls of the client.
func (b *BudgetRef) find(ctx context.Context) (budgets.Budget, error) {
	core, err := library(ctx, b.client, "budgets of flows")
	if err != nil {
		return budgets.Budget{}, err
	}
	return budgets.Find(b.client.session, core, b.name)
}

// Reset sets the spent amounts of the budget to 0, so that nodes that wait for it continue. Reserved amounts are kept,
// and the times of later resets do not change.
func (b *BudgetRef) Reset(ctx context.Context) error {
	budget, err := b.find(ctx)
	if err == nil {
		err = b.client.audited(ctx, budget.Entry(b.client.actorName(), auditlink.ResetBudget), budget.Reset)
	}
	if err != nil {
		return fmt.Errorf("reset budget %s: %w", b.name, err)
	}
	return nil
}

// Delete deletes the budget with its spent and reserved amounts; nodes that wait for it continue. When a run of a flow
// that declares the budget uses it again, the engine creates it anew. Deleting a budget that does not exist is not an
// error.
func (b *BudgetRef) Delete(ctx context.Context) error {
	budget, err := b.find(ctx)
	if err == nil {
		err = b.client.audited(ctx, budget.Entry(b.client.actorName(), auditlink.DeleteBudget), budget.Delete)
	}
	if err != nil {
		return fmt.Errorf("remove budget %s: %w", b.name, err)
	}
	return nil
}

// Describe returns the state of the budget. The error wraps ErrNotFound when it was neither created nor used.
func (b *BudgetRef) Describe(ctx context.Context) (fabrictype.Budget, error) {
	budget, err := b.find(ctx)
	var state fabrictype.Budget
	if err == nil {
		state, err = budget.Describe(ctx)
	}
	if err != nil {
		return fabrictype.Budget{}, fmt.Errorf("budget %s: %w", b.name, err)
	}
	return state, nil
}

// Budgets returns the states of all budgets of the client's namespace that were created or used, sorted by name, flow
// and key.
func (c *Client) Budgets(ctx context.Context) ([]fabrictype.Budget, error) {
	core, err := library(ctx, c, "budgets of flows")
	var list []fabrictype.Budget
	if err == nil {
		list, err = budgets.List(ctx, c.session, core)
	}
	if err != nil {
		return nil, fmt.Errorf("list budgets: %w", err)
	}
	return list, nil
}
