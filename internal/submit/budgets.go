package submit

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/internal/engine"
	"github.com/flowfabric/flowfabric-go/internal/engine/batching"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
	"github.com/flowfabric/flowfabric-go/internal/flowgraph"
	"github.com/flowfabric/flowfabric-go/internal/keyspace"
)

// BudgetScope returns the scope of a reference, which follows from its fields: run, flow or shared.
func BudgetScope(r fabrictype.BudgetName) flowgraph.BudgetScope {
	switch {
	case r.Run != "":
		return flowgraph.ScopeRun
	case r.Flow != "":
		return flowgraph.ScopeFlow
	}
	return flowgraph.ScopeShared
}

// BudgetID returns the id under which the engine keeps the budget of a namespace.
func BudgetID(namespace keyspace.Namespace, r fabrictype.BudgetName) enginecore.BudgetID {
	switch BudgetScope(r) {
	case flowgraph.ScopeRun:
		return keyspace.BudgetIDFor(namespace, string(flowgraph.ScopeRun), r.Flow, r.Run, r.Name)
	case flowgraph.ScopeFlow:
		return keyspace.BudgetIDFor(namespace, string(flowgraph.ScopeFlow), r.Flow, r.Name)
	}
	return keyspace.BudgetIDFor(namespace, string(flowgraph.ScopeShared), r.Name, r.Key)
}

// StoredBudget is one budget of a run as the flow's record keeps it, in JSON. The library reads id and scope.
type StoredBudget struct {
	ID enginecore.BudgetID `json:"id"`
	// Namespace is empty for the default one.
	Namespace keyspace.Namespace    `json:"ns,omitempty"`
	Scope     flowgraph.BudgetScope `json:"scope"`
	ScopeID   string                `json:"of,omitempty"`
	Name      string                `json:"name"`
	Key       string                `json:"key,omitempty"`
	// Wide is set on the budget of a run with map or sub-flow nodes, whose child runs use it too.
	Wide       bool                   `json:"wide,omitempty"`
	Effect     flowgraph.BudgetEffect `json:"effect"`
	EveryMS    int64                  `json:"every,omitempty"`
	Dimensions []storedDimension      `json:"dims,omitempty"`
	// DeclaredAt is 0 in graphs: then the run was created when the budget was declared.
	DeclaredAt int64 `json:"at"`
}

type storedDimension struct {
	Name string `json:"n"`
	Hard int64  `json:"h,omitempty"`
	Soft int64  `json:"s,omitempty"`
}

// NewStoredBudget returns the stored form of a declared budget, declared now. flowID is the id of the run.
func NewStoredBudget(
	namespace keyspace.Namespace, s flowgraph.Budget, ref fabrictype.BudgetName, flowID enginecore.FlowID,
) StoredBudget {
	b := StoredBudget{
		ID: BudgetID(namespace, ref), Scope: BudgetScope(ref), Name: s.Name, Key: strings.Map(printable, ref.Key),
		Effect:     s.Effect,
		EveryMS:    s.Every.Milliseconds(),
		DeclaredAt: time.Now().UnixMilli(),
	}
	if namespace != engine.DefaultNamespace {
		b.Namespace = namespace
	}
	switch b.Scope {
	case flowgraph.ScopeRun:
		b.ScopeID = string(flowID)
	case flowgraph.ScopeFlow:
		b.ScopeID = ref.Flow
	case flowgraph.ScopeShared:
		b.ScopeID = cmp.Or(ref.Key, s.Name)
	}
	for _, l := range s.Limits {
		b.Dimensions = append(b.Dimensions, storedDimension{l.Dimension, l.Hard, l.Soft})
	}
	return b
}

// Declares reports whether the flow declares the limits of the budget. Otherwise the budget must have been created.
func (b *StoredBudget) Declares() bool { return len(b.Dimensions) > 0 }

// Declaration returns the part of a call that uses the budget which creates it if it does not exist.
func (b *StoredBudget) Declaration() enginerpc.BudgetDeclaration {
	text := fmt.Sprint(b.Effect, " ", b.EveryMS)
	for _, d := range b.Dimensions {
		text += fmt.Sprint(" ", d.Name, ":", d.Hard, ":", d.Soft)
	}
	return enginerpc.BudgetDeclaration{
		Name: b.Name, Key: b.Key, Namespace: string(cmp.Or(b.Namespace, engine.DefaultNamespace)),
		ScopeType: string(b.Scope), ScopeID: b.ScopeID, Effect: string(b.Effect), Wide: b.Wide,
		Interval: time.Duration(b.EveryMS) * time.Millisecond, Declared: text, DeclaredAt: b.DeclaredAt,
	}
}

// DecodeBudgets decodes the budgets of a flow's record; none for "".
func DecodeBudgets(text string) ([]StoredBudget, error) {
	if text == "" {
		return nil, nil
	}
	var list []StoredBudget
	if err := json.Unmarshal([]byte(text), &list); err != nil {
		return nil, fmt.Errorf("budgets of the run: %w", err)
	}
	return list, nil
}

// hasFixedBudgets reports whether a flow has budgets, and all of them are the same for all of its runs in a namespace.
func hasFixedBudgets(g *flowgraph.Graph) bool {
	differs := func(s flowgraph.Budget) bool { return s.Scope == flowgraph.ScopeRun || len(s.KeyFrom) > 0 }
	return len(g.Budgets) > 0 && !slices.ContainsFunc(g.Budgets, differs)
}

// budgetsOf resolves the budgets of a run.
func budgetsOf(
	namespace keyspace.Namespace, g *flowgraph.Graph, runID string, flowID enginecore.FlowID, input []byte,
) ([]StoredBudget, error) {
	var list []StoredBudget
	for _, s := range g.Budgets {
		ref := fabrictype.BudgetName{Name: s.Name}
		switch {
		case s.Scope == flowgraph.ScopeRun:
			ref.Flow, ref.Run = g.Name, runID
		case s.Scope == flowgraph.ScopeFlow:
			ref.Flow = g.Name
		case len(s.KeyFrom) > 0:
			key, err := keyFrom(s.KeyFrom, input, g.Codec)
			if err != nil {
				return nil, fmt.Errorf("flow %s: %w: no key for a budget: budget %q takes it from %w", g.Name,
					engine.ErrInvalid, s.Name, err)
			}
			ref.Key = key
		}
		b := NewStoredBudget(namespace, s, ref, flowID)
		b.Wide = b.Scope == flowgraph.ScopeRun && slices.ContainsFunc(g.Nodes, func(n flowgraph.Node) bool { return IsChild(&n) })
		list = append(list, b)
	}
	return list, nil
}

// InheritBudgets adds the budgets of the parent run to the budgets of a child run, except the ones that it has already.
func InheritBudgets(own, parent []StoredBudget) []StoredBudget {
	for _, b := range parent {
		if !slices.ContainsFunc(own, func(o StoredBudget) bool { return o.ID == b.ID }) {
			own = append(own, b)
		}
	}
	return own
}

// encodeBudgets returns the budgets of a submission: all of them, and the ids of those that may keep nodes from
// starting.
func encodeBudgets(list []StoredBudget) []enginerpc.SubmitBudget {
	if len(list) == 0 {
		return nil
	}
	text, _ := json.Marshal(list) // texts and numbers always have a form
	var blocking []string
	for _, b := range list {
		// Whether one that is not declared here blocks is only known where it was created.
		if b.Effect == flowgraph.BlockNodes || !b.Declares() {
			blocking = append(blocking, string(b.ID))
		}
	}
	return []enginerpc.SubmitBudget{{Text: text, Blocking: strings.Join(blocking, ",")}}
}

// ReadBudgets reads the state of budgets, in the order of the list. An element is nil if the budget was not used yet.
func ReadBudgets(ctx context.Context, core *enginerpc.Conn, list []StoredBudget) ([]*enginerpc.BudgetState, error) {
	calls := make([]enginerpc.GetBudgetsCall, len(list))
	for i, b := range list {
		p, err := core.Partitioning().BudgetPartition(b.ID)
		if err != nil {
			return nil, err
		}
		calls[i] = enginerpc.GetBudgetsCall{Partition: p, BudgetIDs: []enginecore.BudgetID{b.ID}}
	}
	answers, err := batching.SendAll(ctx, core, calls)
	if err != nil {
		return nil, err
	}
	states := make([]*enginerpc.BudgetState, len(list))
	for i := range list {
		if found := answers[i].Reply.Budgets; len(found) > 0 {
			states[i] = &found[0]
		}
	}
	return states, nil
}

// BudgetAmounts returns the dimensions of a budget's state.
func BudgetAmounts(b *enginerpc.BudgetState) []fabrictype.BudgetAmount {
	amounts := make([]fabrictype.BudgetAmount, 0, len(b.Dims))
	for _, d := range b.Dims {
		amounts = append(amounts, fabrictype.BudgetAmount{
			Budget: b.Name, Key: b.Key, Dimension: d.Name, Spent: d.Spent, Reserved: d.Reserved, Hard: d.Hard,
			Soft: d.Soft,
		})
	}
	return amounts
}

// ReadBudgetAmounts reads the dimensions of several budgets of a run. Of a budget that was not used yet, nothing is
// spent.
func ReadBudgetAmounts(
	ctx context.Context, core *enginerpc.Conn, list []StoredBudget,
) ([]fabrictype.BudgetAmount, error) {
	states, err := ReadBudgets(ctx, core, list)
	if err != nil {
		return nil, err
	}
	var amounts []fabrictype.BudgetAmount
	for i, state := range states {
		if state != nil {
			amounts = append(amounts, BudgetAmounts(state)...)
		} else {
			amounts = append(amounts, list[i].UnusedAmounts()...)
		}
	}
	return amounts, nil
}

// UnusedAmounts returns the dimensions of a budget before its first use.
func (b *StoredBudget) UnusedAmounts() []fabrictype.BudgetAmount {
	var amounts []fabrictype.BudgetAmount
	for _, d := range b.Dimensions {
		amounts = append(amounts, fabrictype.BudgetAmount{
			Budget: b.Name, Key: b.Key, Dimension: d.Name, Hard: d.Hard, Soft: d.Soft,
		})
	}
	return amounts
}
