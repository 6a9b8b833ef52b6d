package budget

import (
	"context"
	"crypto/rand"
	"errors"
	"strconv"
	"sync"
	"time"

	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/internal/engine/batching"
	"github.com/flowfabric/flowfabric-go/internal/engine/retry"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
	"github.com/flowfabric/flowfabric-go/internal/keyspace"
	"github.com/flowfabric/flowfabric-go/internal/submit"
	"github.com/flowfabric/flowfabric-go/internal/worker/attempt"
	"github.com/flowfabric/flowfabric-go/internal/worker/lease"
)

const (
	// maxAccounts bounds the accounts that a worker keeps. It begins anew when it has more.
	maxAccounts = 4096
	// ampleReports is for how many reports like the last one a dimension must have room, so that they are joined.
	ampleReports = 64
)

// adder counts reports in sums: the reports of a worker for one dimension of a budget that are made while a call is in
// flight are one number in the next call. The engine counts a sum only where nothing follows from a single report, such
// as a breach. So reports are joined after a use of the budget has shown that it has ample room.
type adder struct {
	send  func(context.Context, enginerpc.CountUsageCall) (enginerpc.CountUsageReply, error)
	batch batching.Batcher[keyspace.Partition, addRequest, addResult]
	// together is set where a call may work in several partitions. The keys of batch are the zero partition then.
	together bool
	name     string // begins the names of the accounts

	mu       sync.Mutex
	accounts map[accountKey]*account
	opened   int
}

// accountKey identifies an account. Versions of a flow that declare other limits have accounts of their own.
type accountKey struct {
	budget              enginecore.BudgetID
	dimension, declared string
}

// account is one dimension of a budget, as the runs of a flow declare it. The lock of the adder guards the fields
// after its key.
type account struct {
	accountKey
	partition keyspace.Partition
	declares  bool
	name      string

	declaredAt int64 // of the latest run
	serial     int64 // of the last sum
	ample      bool  // there was ample room at the last use
}

// addRequest is an amount that an attempt reports.
type addRequest struct {
	attempt *attempt.Attempt
	account *account
	amount  int64
}

// addResult is whether a report is counted. If not, it has to be sent as an entry.
type addResult struct {
	counted bool
	err     error
}

func newAdder(
	send func(context.Context, enginerpc.CountUsageCall) (enginerpc.CountUsageReply, error), together bool,
) *adder {
	a := &adder{send: send, together: together, name: rand.Text(), accounts: make(map[accountKey]*account)}
	a.batch.Single = func(ctx context.Context, _ keyspace.Partition, one addRequest) addResult {
		return a.add(ctx, []addRequest{one})[0]
	}
	a.batch.Multi = func(ctx context.Context, _ keyspace.Partition, requests []addRequest) []addResult {
		return a.add(ctx, requests)
	}
	a.batch.MaxRequests = func(keyspace.Partition) int { return maxUses }
	return a
}

// account returns the account of a dimension of a budget, and whether reports to it can be joined.
func (a *adder) account(b *submit.StoredBudget, p keyspace.Partition, dimension string) (found *account, ample bool) {
	key := accountKey{b.ID, dimension, b.Declaration().Declared}
	a.mu.Lock()
	defer a.mu.Unlock()
	found = a.accounts[key]
	if found == nil {
		if len(a.accounts) >= maxAccounts {
			clear(a.accounts)
		}
		a.opened++
		found = &account{
			accountKey: key, partition: p, declares: b.Declares(), name: a.name + "/" + strconv.Itoa(a.opened),
		}
		a.accounts[key] = found
	}
	found.declaredAt = max(found.declaredAt, b.DeclaredAt)
	return found, found.ample
}

// observe notes the state of an account's dimension after an amount was used.
func (a *adder) observe(of *account, n int64, use enginerpc.BudgetUse) {
	n *= ampleReports
	ample := use.State != "refused" && (use.Hard == 0 || use.Spent+use.Reserved+n < use.Hard) &&
		(use.Soft == 0 || use.Spent > use.Soft || use.Spent+n <= use.Soft)
	a.mu.Lock()
	defer a.mu.Unlock()
	of.ample = ample
}

// do adds a report to the next sum of its account, and reports whether the sum is counted. If ctx ends first, the report
// may have been counted, or may still be.
func (a *adder) do(ctx context.Context, one addRequest) (counted bool, err error) {
	if over := context.Cause(one.attempt.Run.Base); over != nil {
		return false, over // the run has returned before the function
	}
	var key keyspace.Partition
	if !a.together {
		key = one.account.partition
	}
	result, err := a.batch.Do(ctx, key, one)
	if err == nil {
		err = result.err
	}
	if err != nil && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	return result.counted, err
}

// add sends the sums of several reports.
func (a *adder) add(ctx context.Context, requests []addRequest) []addResult {
	call, place := a.sum(requests)
	counted, err := a.sendUntilKnown(ctx, requests, call)
	results := make([]addResult, len(requests))
	for i, one := range requests {
		results[i] = addResult{err == nil && counted[place[one.account]], err}
	}
	if err == nil {
		a.mu.Lock()
		defer a.mu.Unlock()
		for of, at := range place {
			of.ample = counted[at]
		}
	}
	return results
}

// sum returns the call with the sums of all reports, and the place of each account in it.
func (a *adder) sum(requests []addRequest) (enginerpc.CountUsageCall, map[*account]int) {
	call := enginerpc.CountUsageCall{Partition: requests[0].account.partition}
	place := make(map[*account]int)
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, one := range requests {
		of := one.account
		at, found := place[of]
		if !found {
			at = len(call.Sums)
			place[of] = at
			of.serial++
			call.Sums = append(call.Sums, enginerpc.CountUsageSum{
				Partition: int64(of.partition.Index), BudgetID: of.budget, Dimension: of.dimension, Account: of.name,
				Serial: of.serial, Declares: of.declares, Declared: of.declared, DeclaredAt: of.declaredAt,
			})
		}
		call.Sums[at].Amount += one.amount
	}
	return call, place
}

// sendUntilKnown repeats a call while the engine is unavailable and an attempt waits for it, and returns which sums
// were counted. If the engine refuses the call, possibly because of a single sum, each is sent by itself. One that is
// refused then is not counted.
func (a *adder) sendUntilKnown(
	ctx context.Context, requests []addRequest, call enginerpc.CountUsageCall,
) ([]bool, error) {
	var reply enginerpc.CountUsageReply
	again := retry.Policy{Pause: lease.ReportPause, Retryable: func(err error) bool {
		return retry.IsUnavailable(err) && isAwaited(requests)
	}}
	err := retry.UntilKnown(ctx, again, func(bool) (err error) {
		reply, err = a.send(ctx, call)
		return err
	})
	switch {
	case err == nil && len(reply.Counted) != len(call.Sums):
		return nil, errors.New("the number of results in the reply differs from the number of sums")
	case err == nil:
		return reply.Counted, nil
	case retry.IsUnavailable(err) || ctx.Err() != nil:
		return nil, err
	case len(call.Sums) == 1:
		return []bool{false}, nil
	}
	counted := make([]bool, len(call.Sums))
	for i := range call.Sums {
		one := enginerpc.CountUsageCall{Partition: call.Partition, Sums: call.Sums[i : i+1]}
		alone, err := a.sendUntilKnown(ctx, requests, one)
		if err != nil {
			return nil, err
		}
		counted[i] = alone[0]
	}
	return counted, nil
}

// isAwaited reports whether one of the attempts still waits for the reply.
func isAwaited(requests []addRequest) bool {
	for _, one := range requests {
		if one.attempt.Ctx.Err() == nil || time.Now().Before(one.attempt.LeaseEnd()) {
			return true
		}
	}
	return false
}
