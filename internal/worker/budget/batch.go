package budget

import (
	"context"
	"errors"
	"slices"

	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/internal/admission"
	"github.com/flowfabric/flowfabric-go/internal/engine/batching"
	"github.com/flowfabric/flowfabric-go/internal/engine/retry"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
	"github.com/flowfabric/flowfabric-go/internal/worker/usage"
)

// maxUses bounds the entries in one call to a budget.
const maxUses = 64

// Batcher sends the usage of budgets by a worker's activities: reports in sums, where the budget has ample room, and
// otherwise entries. Entries of one budget share calls, in the order in which they were made.
type Batcher struct {
	send  func(context.Context, enginerpc.UseBudgetCall) (enginerpc.UseBudgetReply, error)
	batch batching.Batcher[useKey, enginerpc.UseBudgetCall, useResult]
	// Adder adds up reports.
	Adder *usage.Adder
	// OnBreach is called when an activity exceeds a limit of a budget; it may be nil.
	OnBreach func(context.Context, fabrictype.BudgetBreach)
}

// useKey holds the values that all entries of one call share.
type useKey struct {
	budget   enginecore.BudgetID
	declared string
	wide     bool
}

// useResult is the result of one entry.
type useResult struct {
	use enginerpc.BudgetUse
	// owed are the tasks that follow from the entry and that its caller performs.
	owed []string
	// gate and closed are the version and the state of the budget's gate after the call. gateChanged is set
	// for one entry of a call that changed the gate.
	gate        int64
	closed      string
	gateChanged bool
	err         error
}

// Calls are the functions of the engine that count usage; *enginerpc.Conn has them.
type Calls interface {
	UseBudget(context.Context, enginerpc.UseBudgetCall) (enginerpc.UseBudgetReply, error)
	CountUsage(context.Context, enginerpc.CountUsageCall) (enginerpc.CountUsageReply, error)
}

// NewBatcher returns a batcher that makes calls of its own.
func NewBatcher(calls Calls) *Batcher {
	b := &Batcher{send: calls.UseBudget, Adder: usage.NewAdder(calls.CountUsage)}
	b.batch.Single = func(ctx context.Context, _ useKey, call enginerpc.UseBudgetCall) useResult {
		return b.sendCalls(ctx, []enginerpc.UseBudgetCall{call})[0]
	}
	b.batch.Multi = func(ctx context.Context, _ useKey, calls []enginerpc.UseBudgetCall) []useResult {
		return b.sendCalls(ctx, calls)
	}
	b.batch.MaxRequests = func(useKey) int { return maxUses }
	return b
}

// do sends a call with one entry, which shares a call with other entries to the same budget if one is in
// flight. If ctx ends first, the entry may have been counted, or may still be.
func (b *Batcher) do(ctx context.Context, call enginerpc.UseBudgetCall) (useResult, error) {
	result, err := b.batch.Do(ctx, useKey{call.BudgetID, call.Declared, call.Wide}, call)
	if err == nil {
		err = result.err
	}
	if err != nil && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	return result, err
}

// sendCalls sends the entries of several calls in one. If the engine refuses that call, possibly because of a
// single entry, sendCalls sends each entry by itself.
func (b *Batcher) sendCalls(ctx context.Context, calls []enginerpc.UseBudgetCall) []useResult {
	results := make([]useResult, len(calls))
	reply, err := b.send(ctx, joinUses(calls))
	if err == nil && len(reply.Uses) != len(calls) {
		err = errors.New("the number of results in the reply differs from the number of uses")
	}
	if len(calls) > 1 && err != nil && !retry.IsUnavailable(err) && ctx.Err() == nil {
		for i := range calls {
			results[i] = b.sendCalls(ctx, calls[i:i+1])[0]
		}
		return results
	}
	owed := slices.Compact(reply.Owed)
	for i := range calls {
		results[i].err = err
		if err == nil {
			results[i] = useResult{
				use: reply.Uses[i], gate: reply.Gate, closed: reply.Closed, gateChanged: reply.Told && i == 0,
			}
			results[i].owed, owed = owedTo(calls[i].Entries[0], owed)
		}
	}
	return results
}

// joinUses returns one call with the entries of several. Of the declarations of limits that the calls carry,
// the latest counts.
func joinUses(calls []enginerpc.UseBudgetCall) enginerpc.UseBudgetCall {
	call := calls[0]
	call.Entries = make([]enginerpc.UseBudgetEntry, len(calls))
	for i := range calls {
		call.Entries[i] = calls[i].Entries[0]
		call.DeclaredAt = max(call.DeclaredAt, calls[i].DeclaredAt)
	}
	return call
}

// owedTo splits owed tasks into those that follow from an entry and the others.
func owedTo(e enginerpc.UseBudgetEntry, owed []string) (mine, others []string) {
	for _, text := range owed {
		if b, err := admission.ParseBreach(text); err == nil && b.EntryID == e.ID && b.Dimension == e.Dimension {
			mine = append(mine, text)
		} else {
			others = append(others, text)
		}
	}
	return mine, others
}
