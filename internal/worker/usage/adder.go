package usage

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/internal/engine/batching"
	"github.com/flowfabric/flowfabric-go/internal/engine/retry"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
	"github.com/flowfabric/flowfabric-go/internal/keyspace"
	"github.com/flowfabric/flowfabric-go/internal/submit"
	"github.com/flowfabric/flowfabric-go/internal/worker/lease"
)

const (
	// maxReports bounds the reports that share a call.
	maxReports = 64
	// maxAccounts bounds the accounts that a worker keeps. It begins anew when it has more.
	maxAccounts = 4096
	// ampleReports is for how many reports like the last one a dimension must have room, so that they are added up.
	ampleReports = 64
)

// Adder adds up the reports of a worker, and sends the sums. The engine counts a sum only where nothing follows from a
// single report, such as a breach. So reports are added up after a use of the budget has shown that it has ample room.
type Adder struct {
	send  func(context.Context, enginerpc.CountUsageCall) (enginerpc.CountUsageReply, error)
	batch batching.Batcher[keyspace.Partition, Report, result]
	name  string // begins the names of the accounts
	// Ride sends a report together with other requests of the worker; nil where calls cannot work in the partitions of
	// executions and of budgets at once. It reports whether the report is counted.
	Ride func(context.Context, Report) (counted bool, err error)

	mu       sync.Mutex
	accounts map[accountKey]*Account
	opened   int
	serial   int64 // of the last call
	// idle are the channels without a call in flight. Calls of different channels may reach the engine in any order.
	idle     []int
	channels int
}

// accountKey identifies an account. Versions of a flow that declare other limits have accounts of their own.
type accountKey struct {
	budget              enginecore.BudgetID
	dimension, declared string
}

// Account is one dimension of a budget, as the runs of a flow declare it. The lock of the adder guards the fields after
// number.
type Account struct {
	accountKey
	partition keyspace.Partition
	declares  bool
	number    int

	declaredAt int64 // of the latest run
	ample      bool  // there was ample room at the last use
}

// Report is an amount that an attempt has used.
type Report struct {
	Lease   *lease.Lease
	Account *Account
	Amount  int64
}

// result is whether a report is counted.
type result struct {
	counted bool
	err     error
}

// NewAdder returns an adder that sends calls of its own.
func NewAdder(send func(context.Context, enginerpc.CountUsageCall) (enginerpc.CountUsageReply, error)) *Adder {
	a := &Adder{send: send, name: rand.Text(), accounts: make(map[accountKey]*Account)}
	a.batch.Single = func(ctx context.Context, _ keyspace.Partition, one Report) result {
		return a.sendAlone(ctx, []Report{one})[0]
	}
	a.batch.Multi = func(ctx context.Context, _ keyspace.Partition, reports []Report) []result {
		return a.sendAlone(ctx, reports)
	}
	a.batch.MaxRequests = func(keyspace.Partition) int { return maxReports }
	return a
}

// Account returns the account of a dimension of a budget, and whether reports to it are added up.
func (a *Adder) Account(b *submit.StoredBudget, p keyspace.Partition, dimension string) (found *Account, ample bool) {
	key := accountKey{b.ID, dimension, b.Declaration().Declared}
	a.mu.Lock()
	defer a.mu.Unlock()
	found = a.accounts[key]
	if found == nil {
		if len(a.accounts) >= maxAccounts {
			clear(a.accounts)
		}
		a.opened++
		found = &Account{accountKey: key, partition: p, declares: b.Declares(), number: a.opened}
		a.accounts[key] = found
	}
	found.declaredAt = max(found.declaredAt, b.DeclaredAt)
	return found, found.ample
}

// Observe notes the state of an account's dimension after an amount was used.
func (a *Adder) Observe(of *Account, n int64, use enginerpc.BudgetUse) {
	n *= ampleReports
	ample := use.State != "refused" && (use.Hard == 0 || use.Spent+use.Reserved+n < use.Hard) &&
		(use.Soft == 0 || use.Spent > use.Soft || use.Spent+n <= use.Soft)
	a.mu.Lock()
	defer a.mu.Unlock()
	of.ample = ample
}

// Add adds a report to the next sum of its account, and reports whether the sum is counted. If ctx ends first, the
// report may have been counted, or may still be.
func (a *Adder) Add(ctx context.Context, one Report) (counted bool, err error) {
	if a.Ride != nil {
		return a.Ride(ctx, one)
	}
	r, err := a.batch.Do(ctx, one.Account.partition, one)
	if err == nil {
		err = r.err
	}
	return r.counted, err
}

// sendAlone counts reports by a call of their own.
func (a *Adder) sendAlone(ctx context.Context, reports []Report) []result {
	counted, err := a.Sum(reports).SendAlone(ctx)
	results := make([]result, len(reports))
	for i := range reports {
		results[i].err = err
		if err == nil {
			results[i].counted = counted[i]
		}
	}
	return results
}

// Sums are the sums of several reports that share a call. The call is repeated with the same sums until its outcome is
// known.
type Sums struct {
	List []enginerpc.UsageSum

	adder    *Adder
	reports  []Report
	accounts []*Account // of the sums in the list
	channel  int
}

// Sum returns the sums of some reports, for a call whose outcome is still to be known: [Sums.Counted] returns it, or
// [Sums.SendAlone] makes a call.
func (a *Adder) Sum(reports []Report) *Sums {
	s := &Sums{adder: a, reports: reports}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.serial++
	if last := len(a.idle) - 1; last >= 0 {
		s.channel, a.idle = a.idle[last], a.idle[:last]
	} else {
		a.channels++
		s.channel = a.channels
	}
	for _, r := range reports {
		of := r.Account
		at := slices.Index(s.accounts, of)
		if at < 0 {
			at = len(s.accounts)
			s.accounts = append(s.accounts, of)
			s.List = append(s.List, enginerpc.UsageSum{
				Partition: int64(of.partition.Index), BudgetID: of.budget, Dimension: of.dimension,
				Account: fmt.Sprintf("%s/%d/%d", a.name, of.number, s.channel), Serial: a.serial,
				Declares: of.declares, Declared: of.declared, DeclaredAt: of.declaredAt,
			})
		}
		s.List[at].Amount += r.Amount
	}
	return s
}

// Counted returns which of the reports are counted by a reply to a call with the sums: it has a digit for each sum.
func (s *Sums) Counted(digits string) ([]bool, error) {
	if len(digits) != len(s.List) {
		return nil, errors.New("the number of results in the reply differs from the number of sums")
	}
	a := s.adder
	a.mu.Lock()
	defer a.mu.Unlock()
	a.idle = append(a.idle, s.channel)
	for i, of := range s.accounts {
		of.ample = digits[i] == '1'
	}
	counted := make([]bool, len(s.reports))
	for i, r := range s.reports {
		counted[i] = digits[slices.Index(s.accounts, r.Account)] == '1'
	}
	return counted, nil
}

// SendAlone makes a call with the sums alone, and repeats it while the engine is unavailable and one of the leases
// lasts. It returns which of the reports are counted: none if the engine refuses the call. After an error, the
// channel of the sums is not used again, because the call may still reach the engine.
func (s *Sums) SendAlone(ctx context.Context) ([]bool, error) {
	call := enginerpc.CountUsageCall{Partition: s.accounts[0].partition, Sums: s.List}
	var reply enginerpc.CountUsageReply
	again := retry.Policy{Pause: lease.ReportPause, Until: s.lastLeaseEnd}
	err := retry.UntilKnown(ctx, again, func(bool) (err error) {
		reply, err = s.adder.send(ctx, call)
		return err
	})
	switch {
	case err == nil:
		return s.Counted(reply.Counted)
	case retry.IsUnavailable(err) || ctx.Err() != nil:
		return nil, err
	}
	return make([]bool, len(s.reports)), nil
}

// lastLeaseEnd returns the latest end of the leases of the reports, as renewed by now.
func (s *Sums) lastLeaseEnd() time.Time {
	var last time.Time
	for _, r := range s.reports {
		if end := r.Lease.LeaseEnd(); end.After(last) {
			last = end
		}
	}
	return last
}
