package budget

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
	"github.com/flowfabric/flowfabric-go/internal/errorcode"
)

// desk answers calls to budgets, each after the test has released it.
type desk struct {
	mu      sync.Mutex
	calls   [][]string
	came    chan int
	proceed chan error
}

func (d *desk) UseBudget(ctx context.Context, call enginerpc.UseBudgetCall) (enginerpc.UseBudgetReply, error) {
	var ids []string
	reply := enginerpc.UseBudgetReply{Told: true}
	for i, e := range call.Entries {
		ids = append(ids, e.ID)
		reply.Uses = append(reply.Uses, enginerpc.BudgetUse{State: "ok", Spent: int64(i)})
		reply.Owed = append(reply.Owed, fmt.Sprintf("breach %s %s soft event f f n 0 %s words", call.BudgetID, e.ID,
			e.Dimension))
	}
	d.mu.Lock()
	d.calls = append(d.calls, ids)
	d.mu.Unlock()
	d.came <- len(ids)
	select {
	case err := <-d.proceed:
		return reply, err
	case <-ctx.Done():
		return reply, ctx.Err()
	}
}

func (d *desk) CountUsage(context.Context, enginerpc.CountUsageCall) (enginerpc.CountUsageReply, error) {
	return enginerpc.CountUsageReply{}, errors.ErrUnsupported
}

func (d *desk) sent() [][]string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.calls)
}

// waitFor waits until n entries wait for the call in flight.
func (b *Batcher) waitFor(t *testing.T, n int) {
	t.Helper()
	require.Eventually(t, func() bool {
		_, waiting := b.batch.Load()
		return waiting == n
	}, 5*time.Minute, time.Millisecond)
}

// Entries that are made while a call is in flight share the next call, in order, and each gets its own
// result.
func TestBudgetBatcherJoinsEntries(t *testing.T) {
	d := &desk{came: make(chan int), proceed: make(chan error)}
	b := NewBatcher(d)
	type answer struct {
		id     string
		result useResult
		err    error
	}
	answers := make(chan answer, maxUses+8)
	start := func(ctx context.Context, id string) {
		call := enginerpc.UseBudgetCall{BudgetID: "b", Entries: []enginerpc.UseBudgetEntry{{ID: id, Dimension: "d"}}}
		go func() {
			result, err := b.do(ctx, call)
			answers <- answer{id, result, err}
		}()
	}
	start(t.Context(), "first")
	require.Equal(t, 1, <-d.came)
	impatient, giveUp := context.WithCancel(t.Context())
	start(impatient, "left")
	b.waitFor(t, 1)
	var want []string
	for i := range maxUses + 2 {
		want = append(want, fmt.Sprint("n", i))
		start(t.Context(), want[i])
		b.waitFor(t, i+2)
	}
	giveUp()
	require.ErrorIs(t, (<-answers).err, context.Canceled)
	d.proceed <- nil
	require.Equal(t, maxUses, <-d.came)
	require.Equal(t, [][]string{{"first"}, want[:maxUses]}, d.sent())
	d.proceed <- nil
	require.Equal(t, 2, <-d.came)
	bad := errorcode.InvalidInput
	d.proceed <- bad
	// The engine may refuse a call because of one of its entries only.
	require.Equal(t, 1, <-d.came)
	d.proceed <- nil
	require.Equal(t, 1, <-d.came)
	d.proceed <- bad
	told := 0
	for range maxUses + 3 {
		a := <-answers
		if a.id == want[maxUses+1] {
			require.ErrorIs(t, a.err, bad)
			continue
		}
		require.NoError(t, a.err)
		require.Equal(t, []string{"breach b " + a.id + " soft event f f n 0 d words"}, a.result.owed)
		if a.result.gateChanged {
			told++
		}
	}
	require.Equal(t, 3, told, "one for each call that has changed the gate")
	inFlight, waiting := b.batch.Load()
	require.Zero(t, inFlight+waiting)
}

// A call ends when its last caller no longer waits, and the next calls are sent.
func TestBudgetBatcherCallEndsWithItsLastCaller(t *testing.T) {
	d := &desk{came: make(chan int), proceed: make(chan error)}
	b := NewBatcher(d)
	ctx, cancel := context.WithCancelCause(t.Context())
	call := enginerpc.UseBudgetCall{BudgetID: "b", Entries: []enginerpc.UseBudgetEntry{{ID: "x"}}}
	lost := make(chan error, 1)
	go func() {
		_, err := b.do(ctx, call)
		lost <- err
	}()
	<-d.came
	why := errors.New("the attempt is over")
	cancel(why)
	require.ErrorIs(t, <-lost, why)
	next := make(chan error, 1)
	go func() {
		_, err := b.do(t.Context(), call)
		next <- err
	}()
	<-d.came
	d.proceed <- nil
	require.NoError(t, <-next)
}
