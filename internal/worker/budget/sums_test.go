package budget

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
	"github.com/flowfabric/flowfabric-go/internal/errorcode"
	"github.com/flowfabric/flowfabric-go/internal/keyspace"
	"github.com/flowfabric/flowfabric-go/internal/submit"
	"github.com/flowfabric/flowfabric-go/internal/worker/attempt"
)

// counter answers calls with sums, each as the test says.
type counter struct {
	calls   chan []enginerpc.CountUsageSum
	answers chan countAnswer
}

type countAnswer struct {
	counted []bool
	err     error
}

func (c *counter) count(_ context.Context, call enginerpc.CountUsageCall) (enginerpc.CountUsageReply, error) {
	c.calls <- call.Sums
	answer := <-c.answers
	return enginerpc.CountUsageReply{Counted: answer.counted}, answer.err
}

// adding is an adder under test, with an attempt that reports.
type adding struct {
	*counter
	*adder
	t       *testing.T
	attempt *attempt.Attempt
	ended   chan bool
}

func newAdding(t *testing.T) *adding {
	t.Helper()
	c := &counter{calls: make(chan []enginerpc.CountUsageSum), answers: make(chan countAnswer)}
	return &adding{
		c, newAdder(c.count, true), t, &attempt.Attempt{Run: &attempt.Shared{Base: t.Context()}, Ctx: t.Context()}, make(chan bool, 16),
	}
}

func (x *adding) account(id enginecore.BudgetID) *account {
	of, _ := x.adder.account(&submit.StoredBudget{ID: id}, keyspace.Partition{}, "d")
	return of
}

// report begins to report an amount.
func (x *adding) report(of *account, n int64) {
	go func() {
		counted, err := x.do(x.t.Context(), addRequest{x.attempt, of, n})
		if err != nil {
			x.t.Error(err)
		}
		x.ended <- counted
	}()
}

// next returns the serial and the amount of each sum of the next call.
func (x *adding) next() (sums [][2]int64) {
	for _, s := range <-x.calls {
		sums = append(sums, [2]int64{s.Serial, s.Amount})
	}
	return sums
}

// waitFor waits until n reports wait for the call in flight.
func (x *adding) waitFor(n int) {
	require.Eventually(x.t, func() bool {
		_, waiting := x.batch.Load()
		return waiting == n
	}, eventually, tick)
}

// Reports that are made while a call is in flight are one sum for each account in the next call.
func TestReportsAreAddedUp(t *testing.T) {
	x := newAdding(t)
	one, other := x.account("one"), x.account("other")
	require.NotEqual(t, one.name, other.name)
	x.report(one, 1)
	require.Equal(t, [][2]int64{{1, 1}}, x.next())
	for i, of := range []*account{one, other, one, one} {
		x.report(of, int64(i+2))
		x.waitFor(i + 1)
	}
	x.answers <- countAnswer{counted: []bool{true}}
	require.Equal(t, [][2]int64{{2, 2 + 4 + 5}, {1, 3}}, x.next())
	x.answers <- countAnswer{counted: []bool{false, true}}
	counted := 0
	for range 5 {
		if <-x.ended {
			counted++
		}
	}
	require.Equal(t, 2, counted)
	require.False(t, one.ample)
	require.True(t, other.ample)
}

// A sum whose reply was lost is sent again as it was. Sums of a call that was refused are sent again one by one.
func TestSumsAreRepeatedAsTheyWere(t *testing.T) {
	x := newAdding(t)
	one, other := x.account("one"), x.account("other")
	x.report(one, 1)
	require.Equal(t, [][2]int64{{1, 1}}, x.next())
	x.report(one, 2)
	x.waitFor(1)
	x.report(other, 3)
	x.waitFor(2)
	x.answers <- countAnswer{err: enginecore.ErrUnavailable}
	require.Equal(t, [][2]int64{{1, 1}}, x.next())
	x.answers <- countAnswer{counted: []bool{true}}
	require.True(t, <-x.ended)
	require.Equal(t, [][2]int64{{2, 2}, {1, 3}}, x.next())
	x.answers <- countAnswer{err: errorcode.InvalidInput}
	require.Equal(t, [][2]int64{{2, 2}}, x.next())
	x.answers <- countAnswer{counted: []bool{true}}
	require.Equal(t, [][2]int64{{1, 3}}, x.next())
	x.answers <- countAnswer{err: errors.New("of this sum")}
	require.NotEqual(t, <-x.ended, <-x.ended, "the report of the refused sum is sent as an entry")
}

// Reports are joined only where there is room for many of them.
func TestAmpleRoom(t *testing.T) {
	x := newAdding(t)
	of := x.account("one")
	for _, c := range []struct {
		use   enginerpc.BudgetUse
		ample bool
	}{
		{enginerpc.BudgetUse{State: "ok", Spent: 1 << 50}, true},
		{enginerpc.BudgetUse{State: "refused"}, false},
		{enginerpc.BudgetUse{State: "ok", Hard: 1000, Spent: 300, Reserved: 59}, true},
		{enginerpc.BudgetUse{State: "ok", Hard: 1000, Spent: 300, Reserved: 60}, false},
		{enginerpc.BudgetUse{State: "ok", Soft: 1000, Spent: 360}, true},
		{enginerpc.BudgetUse{State: "ok", Soft: 1000, Spent: 361}, false},
		{enginerpc.BudgetUse{State: "applied", Soft: 1000, Spent: 1001}, true},
	} {
		x.observe(of, 10, c.use)
		require.Equal(t, c.ample, of.ample, "%+v", c.use)
	}
}
