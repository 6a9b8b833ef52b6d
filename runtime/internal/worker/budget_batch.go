package worker

import (
	"context"
	"errors"
	"slices"

	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
	"github.com/flowfabric/flowfabric-go/runtime/internal/admission"
	"github.com/flowfabric/flowfabric-go/runtime/internal/engine"
)

// maxUses bounds the entries of one call to a budget.
const maxUses = 64

// budgetBatcher sends what the functions of a worker use of budgets. Entries of one budget share calls, in the order in which they
// came.
type budgetBatcher struct {
	send  func(context.Context, enginerpc.UseBudgetCall) (enginerpc.UseBudgetReply, error)
	batch engine.Batcher[useKey, enginerpc.UseBudgetCall, useResult]
}

// useKey is what the entries of one call have in common.
type useKey struct {
	budget   enginecore.BudgetID
	declared string
	wide     bool
}

// useResult is what came of one entry.
type useResult struct {
	use enginerpc.BudgetUse
	// owed is what follows from the entry and has to be carried out.
	owed []string
	// gate and closed are the state of the gate after the call. gateChanged is set for one of the entries of a call that changed it.
	gate        int64
	closed      string
	gateChanged bool
	err         error
}

func newBudgetBatcher(send func(context.Context, enginerpc.UseBudgetCall) (enginerpc.UseBudgetReply, error)) *budgetBatcher {
	b := &budgetBatcher{send: send}
	b.batch.Single = func(ctx context.Context, _ useKey, call enginerpc.UseBudgetCall) useResult {
		return b.sendCalls(ctx, []enginerpc.UseBudgetCall{call})[0]
	}
	b.batch.Multi = func(ctx context.Context, _ useKey, calls []enginerpc.UseBudgetCall) []useResult {
		return b.sendCalls(ctx, calls)
	}
	b.batch.MaxRequests = func(useKey) int { return maxUses }
	return b
}

// do sends a call with one entry, together with others to the same budget when one is in flight. When ctx ends first, the entry
// may have been counted, or still be.
func (b *budgetBatcher) do(ctx context.Context, call enginerpc.UseBudgetCall) (useResult, error) {
	result, err := b.batch.Do(ctx, useKey{call.BudgetID, call.Declared, call.Wide}, call)
	if err == nil {
		err = result.err
	}
	if err != nil && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	return result, err
}

// sendCalls sends the entries of several calls with one. Where the engine refuses the call, one of the entries may be to blame, and
// each goes by itself.
func (b *budgetBatcher) sendCalls(ctx context.Context, calls []enginerpc.UseBudgetCall) []useResult {
	results := make([]useResult, len(calls))
	reply, err := b.send(ctx, joinUses(calls))
	if err == nil && len(reply.Uses) != len(calls) {
		err = errors.New("the reply tells of another number of uses")
	}
	if len(calls) > 1 && err != nil && !engine.IsUnavailable(err) && ctx.Err() == nil {
		for i := range calls {
			results[i] = b.sendCalls(ctx, calls[i:i+1])[0]
		}
		return results
	}
	owed := slices.Compact(reply.Owed)
	for i := range calls {
		results[i].err = err
		if err == nil {
			results[i] = useResult{use: reply.Uses[i], gate: reply.Gate, closed: reply.Closed, gateChanged: reply.Told && i == 0}
			results[i].owed, owed = owedTo(calls[i].Entries[0], owed)
		}
	}
	return results
}

// joinUses is the call for several entries. The latest declaration of the limits, which all of them make, counts.
func joinUses(calls []enginerpc.UseBudgetCall) enginerpc.UseBudgetCall {
	call := calls[0]
	call.Entries = make([]enginerpc.UseBudgetEntry, len(calls))
	for i := range calls {
		call.Entries[i] = calls[i].Entries[0]
		call.DeclaredAt = max(call.DeclaredAt, calls[i].DeclaredAt)
	}
	return call
}

// owedTo are the texts that follow from an entry, and the others.
func owedTo(e enginerpc.UseBudgetEntry, owed []string) (mine, others []string) {
	for _, text := range owed {
		if b, err := admission.ParseBreach(text); err == nil && b.Id == e.ID && b.Dimension == e.Dimension {
			mine = append(mine, text)
		} else {
			others = append(others, text)
		}
	}
	return mine, others
}
