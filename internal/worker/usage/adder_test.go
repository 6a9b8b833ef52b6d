package usage

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
	"github.com/flowfabric/flowfabric-go/internal/errorcode"
	"github.com/flowfabric/flowfabric-go/internal/keyspace"
	"github.com/flowfabric/flowfabric-go/internal/submit"
	"github.com/flowfabric/flowfabric-go/internal/worker/lease"
)

// counter answers calls with sums, each as the test says.
type counter struct {
	calls   chan []enginerpc.UsageSum
	answers chan countAnswer
}

type countAnswer struct {
	counted string
	err     error
}

func (c *counter) count(_ context.Context, call enginerpc.CountUsageCall) (enginerpc.CountUsageReply, error) {
	c.calls <- call.Sums
	answer := <-c.answers
	return enginerpc.CountUsageReply{Counted: answer.counted}, answer.err
}

// adding is an adder under test, with a lease whose attempt reports.
type adding struct {
	*counter
	*Adder
	t     *testing.T
	lease *lease.Lease
	ended chan bool
}

func newAdding(t *testing.T) *adding {
	t.Helper()
	c := &counter{calls: make(chan []enginerpc.UsageSum), answers: make(chan countAnswer)}
	l := &lease.Lease{Begun: time.Now()}
	l.Extend(time.Now(), time.Hour)
	return &adding{c, NewAdder(c.count), t, l, make(chan bool, 16)}
}

func (x *adding) account(id enginecore.BudgetID) *Account {
	of, _ := x.Account(&submit.StoredBudget{ID: id}, keyspace.Partition{}, "d")
	return of
}

// report begins to report an amount.
func (x *adding) report(of *Account, n int64) {
	go func() {
		counted, err := x.Add(x.t.Context(), Report{x.lease, of, n})
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
	}, 5*time.Minute, time.Millisecond)
}

// Reports that are made while a call is in flight are one sum for each account in the next call.
func TestReportsAreAddedUp(t *testing.T) {
	x := newAdding(t)
	one, other := x.account("one"), x.account("other")
	require.NotEqual(t, one.number, other.number)
	x.report(one, 1)
	require.Equal(t, [][2]int64{{1, 1}}, x.next())
	for i, of := range []*Account{one, other, one, one} {
		x.report(of, int64(i+2))
		x.waitFor(i + 1)
	}
	x.answers <- countAnswer{counted: "1"}
	require.Equal(t, [][2]int64{{2, 2 + 4 + 5}, {2, 3}}, x.next())
	x.answers <- countAnswer{counted: "01"}
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

// Sums whose reply was lost are sent again as they were. The reports of a call that was refused are not counted.
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
	x.answers <- countAnswer{counted: "1"}
	require.True(t, <-x.ended)
	require.Equal(t, [][2]int64{{2, 2}, {2, 3}}, x.next())
	x.answers <- countAnswer{err: errorcode.InvalidInput}
	require.False(t, <-x.ended)
	require.False(t, <-x.ended)
}

// Calls that are in flight at the same time are of different channels, since the engine ignores a serial that comes
// after a later one of the channel. A channel whose last call has an unknown outcome is not used again.
func TestChannelsOfCalls(t *testing.T) {
	x := newAdding(t)
	of := x.account("one")
	sum := func() (*Sums, string) {
		s := x.Sum([]Report{{x.lease, of, 1}})
		return s, s.List[0].Account
	}
	first, a := sum()
	_, b := sum()
	require.NotEqual(t, a, b)
	counted, err := first.Counted("1")
	require.NoError(t, err)
	require.Equal(t, []bool{true}, counted)
	again, c := sum()
	require.Equal(t, a, c)
	require.Greater(t, again.List[0].Serial, first.List[0].Serial)
	_, d := sum()
	require.NotContains(t, []string{a, b}, d)
	_, err = again.Counted("")
	require.Error(t, err)
}

// Reports are added up only where there is room for many of them.
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
		x.Observe(of, 10, c.use)
		require.Equal(t, c.ample, of.ample, "%+v", c.use)
	}
}
