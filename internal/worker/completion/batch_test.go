package completion

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/internal/activityspec"
	"github.com/flowfabric/flowfabric-go/internal/dispatch"
	"github.com/flowfabric/flowfabric-go/internal/engine"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
	"github.com/flowfabric/flowfabric-go/internal/errorcode"
	"github.com/flowfabric/flowfabric-go/internal/keyspace"
	"github.com/flowfabric/flowfabric-go/internal/submit"
	"github.com/flowfabric/flowfabric-go/internal/worker/lease"
	"github.com/flowfabric/flowfabric-go/internal/worker/usage"
)

// A worker sends a second call when half of the completions that it can have are waiting: at least half of the
// completions that fit into one call, at most as many as fit into one call.
func TestCompletionOverflow(t *testing.T) {
	t.Parallel()
	for slots, want := range map[int]int{1: 8, 16: 8, 20: 10, 32: 16, 1000: 16} {
		require.Equal(t, want, completionOverflow(slots), "%d slots", slots)
	}
}

// manyCompletions answers calls with several completions: it refuses some completions, and leases and offers
// executions for others.
type manyCompletions struct {
	engine.Library
	refused    map[enginecore.ExecutionID]bool
	executions []enginerpc.ClaimedExecution
	candidates []enginerpc.Candidate
	sums       []enginerpc.UsageSum // of the last call
	counted    string
	err        error
}

func (c *manyCompletions) Commit(
	_ context.Context, call enginerpc.WorkCall, _ []*enginerpc.ClaimedExecution,
) (enginerpc.WorkReply, error) {
	reply := enginerpc.WorkReply{Executions: c.executions, Candidates: c.candidates, More: true, Remaining: 3, Counted: c.counted}
	c.sums = call.Sums
	outcomes := make([]string, len(call.Completions))
	for i, one := range call.Completions {
		code := string(enginerpc.StatusOK)
		if c.refused[one.ExecutionID] {
			code = string(enginecore.ErrStaleLease)
		}
		outcomes[i] = code
	}
	reply.Outcomes = strings.Join(outcomes, " ")
	return reply, c.err
}

// Executions that a call with several completions leases are assigned to the committed completions that requested one.
// The rest, and the data about the partition, are assigned to the first completion, even if that was refused.
func TestHandoffsOfSeveralCompletions(t *testing.T) {
	t.Parallel()
	leased := func(ids ...enginecore.ExecutionID) (list []enginerpc.ClaimedExecution) {
		for _, id := range ids {
			list = append(list, enginerpc.ClaimedExecution{ExecutionID: id})
		}
		return list
	}
	engine_ := &manyCompletions{
		refused: map[enginecore.ExecutionID]bool{"a": true}, executions: leased("next", "other", "surplus"),
	}
	c := &Completer{
		Session: &engine.Session{Backend: engine_}, Base: t.Context(), MarkUncertain: func() { t.Error("nothing is uncertain") },
		ClaimRequest: func(_ enginecore.LaneID, n int) enginerpc.ClaimRequest {
			return enginerpc.ClaimRequest{Count: int64(n)}
		},
	}
	b := NewBatcher(c, 1, usage.NewAdder(nil))
	var batch []Request
	for i, x := range leased("a", "b", "c", "d") {
		l := &lease.Lease{Claimed: &x, Begun: time.Now()}
		l.Extend(time.Now(), time.Minute)
		slots := 1
		if i == 2 {
			slots = 0
		}
		batch = append(batch, Request{lease: l, slots: slots})
	}
	results := b.work(t.Context(), dispatch.LaneShard{}, batch)
	require.True(t, results[0].refused)
	require.True(t, results[0].handoff.More && results[0].handoff.Remaining)
	require.Equal(t, leased("surplus"), results[0].handoff.Surplus)
	require.Equal(t, enginecore.ExecutionID("next"), results[1].handoff.Next.ExecutionID)
	require.Nil(t, results[2].handoff.Next)
	require.Equal(t, enginecore.ExecutionID("other"), results[3].handoff.Next.ExecutionID)

	engine_.executions, engine_.candidates = leased("next"), []enginerpc.Candidate{{ExecutionID: "x"}}
	results = b.work(t.Context(), dispatch.LaneShard{}, batch)
	require.Equal(t, enginecore.ExecutionID("next"), results[1].handoff.Next.ExecutionID)
	require.Equal(t, engine_.candidates, results[3].handoff.Candidates)
	require.Empty(t, results[0].handoff.Spare)
	results = b.work(t.Context(), dispatch.LaneShard{}, batch[:3])
	require.Equal(t, engine_.candidates, results[0].handoff.Spare, "no slot is free for them")
}

// refusingCalls refuses completions, since the results of the items of a map are too large.
type refusingCalls struct{ manyCompletions }

func (*refusingCalls) Complete(context.Context, enginerpc.CompleteCall) (enginerpc.CompleteReply, error) {
	return enginerpc.CompleteReply{}, &enginecore.Error{
		Function: "ffx_complete", Code: errorcode.ResultsTooLarge, Details: []string{"3", "8", "1200009", "1048576"},
	}
}

// A result that the engine refuses as too large is a failure of the attempt. The executions that the call with several
// completions has leased all the same are not lost.
func TestRefusedResultKeepsLeasedExecutions(t *testing.T) {
	t.Parallel()
	surplus := []enginerpc.ClaimedExecution{{ExecutionID: "other"}}
	c := &Completer{
		Session: &engine.Session{Backend: new(refusingCalls)}, Base: t.Context(),
		MarkUncertain: func() { t.Error("nothing is uncertain") },
		ClaimRequest:  func(enginecore.LaneID, int) enginerpc.ClaimRequest { return enginerpc.ClaimRequest{} },
	}
	c.Batch = NewBatcher(c, 1, usage.NewAdder(nil))
	c.Batch.batch.Single = func(context.Context, dispatch.LaneShard, Request) Result {
		return Result{refused: true, handoff: Handoff{Surplus: surplus, More: true}}
	}
	l := &lease.Lease{Claimed: &enginerpc.ClaimedExecution{ExecutionID: "{fp:1}:x", LeaseID: "lease"}, Begun: time.Now()}
	l.Extend(time.Now(), time.Minute)
	reported := c.Report(l, Outcome{Kind: KindCompleted, Result: []byte("1")}, 1)
	require.NoError(t, reported.Err)
	require.Equal(t, surplus, reported.Handoff.Surplus)
	require.True(t, reported.Handoff.More)
	require.True(t, activityspec.IsNonRetryable(reported.Refused))
	require.Equal(t, engine.CategoryTooLarge, activityspec.CategoryOf(reported.Refused))
	require.ErrorContains(t, reported.Refused,
		"with the result of this item, the results of 3 of 8 items have 1200009 bytes, at most 1048576")
}

// Reports share the call of the completions. If its outcome is not known, the same sums are sent alone.
func TestReportsRideWithCompletions(t *testing.T) {
	t.Parallel()
	var alone []enginerpc.UsageSum
	adder := usage.NewAdder(func(_ context.Context, call enginerpc.CountUsageCall) (enginerpc.CountUsageReply, error) {
		alone = call.Sums
		return enginerpc.CountUsageReply{Counted: strings.Repeat("1", len(call.Sums))}, nil
	})
	engine_ := &manyCompletions{counted: "01", executions: []enginerpc.ClaimedExecution{{ExecutionID: "next"}}}
	c := &Completer{
		Session: &engine.Session{Backend: engine_}, Base: t.Context(), MarkUncertain: func() {},
		ClaimRequest: func(enginecore.LaneID, int) enginerpc.ClaimRequest { return enginerpc.ClaimRequest{} },
	}
	b := NewBatcher(c, 1, adder)
	l := &lease.Lease{Claimed: &enginerpc.ClaimedExecution{}, Begun: time.Now()}
	l.Extend(time.Now(), time.Minute)
	report := func(dimension string, n int64) Request {
		of, _ := adder.Account(&submit.StoredBudget{}, keyspace.Partition{}, dimension)
		return Request{lease: l, report: &usage.Report{Lease: l, Account: of, Amount: n}}
	}
	batch := []Request{report("a", 1), {lease: l}, report("b", 2), {lease: l, slots: 1}, report("a", 3)}
	amounts := func(sums []enginerpc.UsageSum) (list []int64) {
		for _, s := range sums {
			list = append(list, s.Amount)
		}
		return list
	}
	results := b.work(t.Context(), dispatch.LaneShard{}, batch)
	require.Equal(t, []int64{4, 2}, amounts(engine_.sums))
	require.Nil(t, alone)
	require.Equal(t, enginecore.ExecutionID("next"), results[3].handoff.Next.ExecutionID)
	require.True(t, results[1].handoff.More)
	require.Equal(t, []bool{false, true, false}, []bool{results[0].counted, results[2].counted, results[4].counted})

	engine_.err = errorcode.InvalidInput
	results = b.work(t.Context(), dispatch.LaneShard{}, batch)
	require.True(t, results[1].refused && results[3].refused)
	require.Equal(t, engine_.sums, alone)
	require.True(t, results[0].counted && results[2].counted && results[4].counted)

	results = b.work(t.Context(), dispatch.LaneShard{}, batch[:1])
	require.True(t, results[0].counted)
	require.Equal(t, []int64{1}, amounts(alone))
}
