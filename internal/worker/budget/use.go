package budget

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/internal/activitycontext"
	"github.com/flowfabric/flowfabric-go/internal/activityspec"
	"github.com/flowfabric/flowfabric-go/internal/admission"
	"github.com/flowfabric/flowfabric-go/internal/engine"
	"github.com/flowfabric/flowfabric-go/internal/engine/observe"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
	"github.com/flowfabric/flowfabric-go/internal/errorcode"
	"github.com/flowfabric/flowfabric-go/internal/flowgraph"
	"github.com/flowfabric/flowfabric-go/internal/keyspace"
	"github.com/flowfabric/flowfabric-go/internal/submit"
	"github.com/flowfabric/flowfabric-go/internal/worker/attempt"
	"github.com/flowfabric/flowfabric-go/internal/worker/usage"
)

// Use is the state of an attempt's use of budgets. mu guards the fields after it.
type Use struct {
	attempt *attempt.Attempt
	calls   *Batcher

	mu     sync.Mutex
	serial int
	// budgets are the budgets of the run, decoded at the first use.
	budgets []submit.StoredBudget
	// breached contains the budgets and dimensions whose hard limit the attempt has exceeded; further refusals are not
	// reported as breaches.
	breached map[string]bool
	open     map[*reservation]bool
}

// Init binds the use of budgets to an attempt; calls sends its entries.
func (u *Use) Init(a *attempt.Attempt, calls *Batcher) { u.attempt, u.calls = a, calls }

// next returns the next serial number of an entry of the attempt.
func (u *Use) next() int {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.serial++
	return u.serial
}

// OfRun returns the budgets of the run, which came with the claim.
func (u *Use) OfRun() ([]submit.StoredBudget, error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.budgets == nil && u.attempt.Claimed.Budgets != "" {
		list, err := submit.DecodeBudgets(u.attempt.Claimed.Budgets)
		if err != nil {
			return nil, activity.NonRetryable(err)
		}
		for i := range list {
			list[i].DeclaredAt = cmp.Or(list[i].DeclaredAt, u.attempt.Claimed.CreatedAt.UnixMilli())
		}
		u.budgets = list
	}
	return u.budgets, nil
}

// budgetsWith returns those budgets of the run that have a dimension; none if the run has no budget. It
// returns activity.ErrInvalid if the run has budgets but none with the dimension.
func (u *Use) budgetsWith(ctx context.Context, dimension string) ([]submit.StoredBudget, error) {
	all, err := u.OfRun()
	if err != nil || len(all) == 0 {
		return nil, err
	}
	var with []submit.StoredBudget
	var known []string
	for i := range all {
		names, err := u.dimensionsOf(ctx, &all[i])
		if err != nil {
			return nil, err
		}
		if slices.Contains(names, dimension) {
			with = append(with, all[i])
		}
		known = append(known, names...)
	}
	if len(with) == 0 {
		slices.Sort(known)
		return nil, activity.NonRetryable(fmt.Errorf("%w: there are %s", activityspec.ErrUnknownDimension,
			strings.Join(slices.Compact(known), ", ")))
	}
	return with, nil
}

// dimensionsOf returns the names of the dimensions of a budget. The engine has to be called for a budget that
// was created by a client, since the plan does not declare its dimensions.
func (u *Use) dimensionsOf(ctx context.Context, b *submit.StoredBudget) ([]string, error) {
	var names []string
	if b.Declares() {
		for _, d := range b.Dimensions {
			names = append(names, d.Name)
		}
		return names, nil
	}
	var states []*enginerpc.BudgetState
	err := u.attempt.RetryUntilKnown(ctx, func() (err error) {
		states, err = submit.ReadBudgets(ctx, u.attempt.Run.Core, []submit.StoredBudget{*b})
		return err
	})
	if err != nil {
		return nil, err
	}
	if states[0] == nil {
		return nil, activity.NonRetryable(fmt.Errorf("budget %q: %w", b.Name, engine.ErrBudgetNotFound))
	}
	for _, d := range states[0].Dims {
		names = append(names, d.Name)
	}
	return names, nil
}

// addUp counts an amount in a sum of the worker, and reports whether it is counted. If not, it has to be sent as an
// entry.
func (u *Use) addUp(ctx context.Context, b *submit.StoredBudget, x activitycontext.Usage) (counted bool, err error) {
	p, err := u.attempt.Run.Core.Partitioning().BudgetPartition(b.ID)
	if err != nil {
		return false, err
	}
	of, ample := u.calls.Adder.Account(b, p, x.Dimension)
	if !ample {
		return false, nil
	}
	if over := context.Cause(u.attempt.Run.Base); over != nil {
		return false, over // the run has returned before the function
	}
	counted, err = u.calls.Adder.Add(ctx, usage.Report{Lease: &u.attempt.Lease, Account: of, Amount: x.Amount})
	if err != nil && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	return counted, err
}

// send sends one entry to a budget and performs the tasks that follow from it. It returns a *activity.BudgetError if
// the engine refused the entry.
func (u *Use) send(ctx context.Context, b *submit.StoredBudget, e enginerpc.UseBudgetEntry) error {
	p, err := u.attempt.Run.Core.Partitioning().BudgetPartition(b.ID)
	if err != nil {
		return err
	}
	place := string(b.ID) + " " + e.Dimension
	u.mu.Lock()
	e.Quiet = u.breached[place]
	u.mu.Unlock()
	claimed := u.attempt.Claimed
	e.FlowID, e.Node, e.Attempt = claimed.FlowID, claimed.Node, int64(claimed.AttemptIndex)
	e.Lease = max(0, time.Until(u.attempt.LeaseEnd()))
	call := enginerpc.UseBudgetCall{
		Partition: p, BudgetID: b.ID, Declares: b.Declares(), BudgetDeclaration: b.Declaration(),
		Entries: []enginerpc.UseBudgetEntry{e},
	}
	for _, d := range b.Dimensions {
		call.Dims = append(call.Dims, enginerpc.UseBudgetDim(d))
	}
	var used useResult
	if err := u.attempt.RetryUntilKnown(ctx, func() (err error) {
		used, err = u.calls.do(ctx, call)
		return err
	}); err != nil {
		return useError(b, err)
	}
	use := used.use
	if e.Kind == "report" && !e.Lasting {
		of, _ := u.calls.Adder.Account(b, p, e.Dimension)
		u.calls.Adder.Observe(of, e.Amount, use)
	}
	waits := use.Waits && (b.Effect == flowgraph.BlockNodes || !b.Declares())
	if used.gateChanged || waits {
		if err := u.publishGate(ctx, b, p, used, waits); err != nil {
			return fmt.Errorf("budget %q is used up, which could not be passed on: %w", b.Name, err)
		}
	}
	for _, text := range used.owed {
		u.reportBreach(ctx, b, p, text, e, use)
	}
	if use.State != "refused" {
		return nil
	}
	u.mu.Lock()
	if u.breached == nil {
		u.breached = make(map[string]bool)
	}
	u.breached[place] = true
	u.mu.Unlock()
	return &activity.BudgetError{
		Budget: b.Name, Key: b.Key, Dimension: e.Dimension, Asked: e.Amount, Spent: use.Spent, Reserved: use.Reserved,
		Hard: use.Hard, Waits: waits,
	}
}

// useError adds the budget to an error of the engine and maps it to the errors of the public API.
func useError(b *submit.StoredBudget, err error) error {
	switch {
	case errors.Is(err, enginecore.ErrBudgetNotFound):
		err = fmt.Errorf("budget %q: %w", b.Name, engine.ErrBudgetNotFound)
	case errors.Is(err, errorcode.UnknownBudgetDimension):
		err = fmt.Errorf("budget %q: %w", b.Name, activityspec.ErrUnknownDimension)
	case errors.As(err, new(*enginecore.Error)):
		err = fmt.Errorf("budget %q: %w", b.Name, err)
	default:
		return err
	}
	return activity.NonRetryable(err)
}

// publishGate publishes a changed gate. It updates the partition of the task before it returns if the node
// waits for the budget, so that the node does not start again at once; other partitions are updated in the
// background.
func (u *Use) publishGate(
	ctx context.Context, b *submit.StoredBudget, p keyspace.Partition, used useResult, waits bool,
) error {
	update := submit.GateUpdate{
		Session: u.attempt.Run.Session, Partition: p, Budget: b.ID, Version: used.gate, Closed: used.closed,
	}
	if b.Scope == flowgraph.ScopeRun && !b.Wide {
		update.Flow = u.attempt.Claimed.FlowID
	}
	if used.gateChanged {
		u.publishElsewhere(update)
	}
	if !waits {
		return nil
	}
	return u.attempt.RetryUntilKnown(ctx, func() error {
		return update.Send(ctx, []keyspace.Partition{u.attempt.Shard.Partition})
	})
}

// publishElsewhere publishes a changed gate to all partitions in the background. If that fails, keepers do
// it.
func (u *Use) publishElsewhere(update submit.GateUpdate) {
	u.attempt.Run.Background.Start(func() {
		if err := update.Publish(u.attempt.Run.Base); err != nil {
			u.attempt.Log(slog.LevelWarn, observe.EventBudgetFailed,
				"the worker could not publish the state of a budget; keepers publish it", slog.Any("error", err))
		}
	})
}

// reportBreach performs the task of a breach, and calls the OnBudget function of the worker. If the task fails, a
// keeper performs it.
func (u *Use) reportBreach(
	ctx context.Context, b *submit.StoredBudget, p keyspace.Partition, text string, e enginerpc.UseBudgetEntry,
	use enginerpc.BudgetUse,
) {
	// Carrying out the task may end the function's context.
	reporting, cancel := u.attempt.Reporting()
	defer cancel()
	owed, err := admission.ParseBreach(text)
	if err == nil {
		err = owed.Apply(reporting, u.attempt.Run.Session)
	}
	if err == nil {
		_, err = u.attempt.Run.Core.BudgetDone(reporting,
			enginerpc.BudgetDoneCall{Partition: p, Done: []enginerpc.BudgetDoneDone{{Text: text}}})
	}
	if err != nil {
		u.attempt.Log(slog.LevelWarn, observe.EventBudgetFailed,
			"the worker could not record a breach of a budget; keepers record it", slog.Any("error", err))
	}
	report := u.calls.OnBreach
	if report == nil || owed.Words == "" {
		return
	}
	breach := fabrictype.BudgetBreach{
		Flow: u.attempt.Claimed.FlowName, Run: u.attempt.Claimed.RunID, Node: u.attempt.Claimed.Node,
		Attempt: int(u.attempt.Claimed.AttemptIndex) + 1, Budget: b.Name, Key: b.Key,
		Dimension: e.Dimension, Hard: owed.Kind == admission.HardBreach, Words: owed.Words,
		Amount: fabrictype.BudgetAmount{
			Budget: b.Name, Key: b.Key, Dimension: e.Dimension, Spent: use.Spent, Reserved: use.Reserved,
			Hard: use.Hard, Soft: use.Soft,
		},
	}
	if breach.Hard {
		breach.Asked = e.Amount
	}
	report(ctx, breach)
}
