package worker

import (
	"context"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel"

	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/internal/dispatch"
	"github.com/flowfabric/flowfabric-go/internal/engine"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
)

// A worker sends a second call when half of the completions that it can have are waiting: at least half of
// what one call can carry, at most as many as one call can carry.
func TestCompletionOverflow(t *testing.T) {
	t.Parallel()
	for slots, want := range map[int]int{1: 8, 16: 8, 20: 10, 32: 16, 1000: 16} {
		require.Equal(t, want, completionOverflow(slots), "%d slots", slots)
	}
}

// manyCompletions answers calls with several completions: it refuses some completions, and leases and offers
// executions for others.
type manyCompletions struct {
	engine.Backend
	refused    map[enginecore.ExecutionID]bool
	executions []enginerpc.ClaimedExecution
	candidates []enginerpc.Candidate
}

func (c *manyCompletions) CompleteMany(
	_ context.Context, call enginerpc.CompleteManyCall,
) (enginerpc.CompleteManyReply, error) {
	reply := enginerpc.CompleteManyReply{Executions: c.executions, Candidates: c.candidates, More: true, Remaining: 3}
	outcomes := make([]string, len(call.Completions))
	for i, one := range call.Completions {
		code := string(enginerpc.StatusOK)
		if c.refused[one.ExecutionID] {
			code = string(enginecore.ErrStaleLease)
		}
		outcomes[i] = code
	}
	reply.Outcomes = strings.Join(outcomes, " ")
	return reply, nil
}

// Executions that a call with several completions leases are assigned to the committed completions that
// requested one. The rest, and what concerns the partition, is assigned to the first completion, even if that
// was refused.
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
	c := &completer{
		session: &engine.Session{Backend: engine_}, base: t.Context(), markUncertain: func() { t.Error("nothing is uncertain") },
		claimRequest: func(_ enginecore.LaneID, n int) enginerpc.ClaimRequest {
			return enginerpc.ClaimRequest{Count: int64(n)}
		},
	}
	b := newCompletionBatcher(c, 1)
	var batch []completionRequest
	for i, x := range leased("a", "b", "c", "d") {
		l := &lease{claimed: &x, begun: time.Now()}
		l.extend(time.Now(), time.Minute)
		slots := 1
		if i == 2 {
			slots = 0
		}
		batch = append(batch, completionRequest{lease: l, slots: slots})
	}
	results := b.completeMany(t.Context(), dispatch.LaneShard{}, batch)
	require.True(t, results[0].refused)
	require.True(t, results[0].handoff.more && results[0].handoff.remaining)
	require.Equal(t, leased("surplus"), results[0].handoff.surplus)
	require.Equal(t, enginecore.ExecutionID("next"), results[1].handoff.next.ExecutionID)
	require.Nil(t, results[2].handoff.next)
	require.Equal(t, enginecore.ExecutionID("other"), results[3].handoff.next.ExecutionID)

	engine_.executions, engine_.candidates = leased("next"), []enginerpc.Candidate{{ExecutionID: "x"}}
	results = b.completeMany(t.Context(), dispatch.LaneShard{}, batch)
	require.Equal(t, enginecore.ExecutionID("next"), results[1].handoff.next.ExecutionID)
	require.Equal(t, engine_.candidates, results[3].handoff.candidates)
	require.Empty(t, results[0].handoff.spare)
	results = b.completeMany(t.Context(), dispatch.LaneShard{}, batch[:3])
	require.Equal(t, engine_.candidates, results[0].handoff.spare, "nobody has a slot for them")
}

// refusingCalls refuses completions, since the results of the items of a map are too large, and records failures.
type refusingCalls struct {
	manyCompletions
	failures []enginerpc.FailCall
}

func (c *refusingCalls) Complete(context.Context, enginerpc.CompleteCall) (enginerpc.CompleteReply, error) {
	return enginerpc.CompleteReply{}, &enginecore.Error{
		Function: "ffx_complete", Code: enginecore.ErrResultsTooLarge, Details: []string{"3", "8", "1200009", "1048576"},
	}
}

func (c *refusingCalls) Fail(_ context.Context, call enginerpc.FailCall) (enginerpc.FailReply, error) {
	c.failures = append(c.failures, call)
	return enginerpc.FailReply{}, nil
}

// An attempt whose result the engine refuses as too large fails, and what the call with several completions has leased beside it
// is not lost.
func TestRefusedResultFailsTheAttempt(t *testing.T) {
	t.Parallel()
	telemetry, err := engine.NewTelemetry(otel.GetTracerProvider(), otel.GetMeterProvider())
	require.NoError(t, err)
	engine_ := &refusingCalls{}
	s := &services{
		base: t.Context(), worker: &Worker{config: Config{Lease: time.Minute}},
		session: &engine.Session{Backend: engine_, Logger: slog.New(slog.DiscardHandler), Telemetry: telemetry},
	}
	surplus := []enginerpc.ClaimedExecution{{ExecutionID: "other"}}
	s.completer = &completer{
		session: s.session, base: s.base, markUncertain: func() { t.Error("nothing is uncertain") },
		claimRequest: func(enginecore.LaneID, int) enginerpc.ClaimRequest { return enginerpc.ClaimRequest{} },
	}
	s.completer.batch = newCompletionBatcher(s.completer, 1)
	s.completer.batch.batch.Single = func(context.Context, dispatch.LaneShard, completionRequest) completionResult {
		return completionResult{refused: true, handoff: handoff{surplus: surplus, more: true}}
	}
	x := s.NewTask(dispatch.LaneShard{}, &enginerpc.ClaimedExecution{ExecutionID: "{fp:1}:x", LeaseID: "lease"}, time.Now())
	reported := x.report(attemptOutcome{kind: outcomeKindCompleted, result: []byte("1")}, 1)
	require.NoError(t, reported.err)
	require.Equal(t, surplus, reported.handoff.surplus)
	require.True(t, reported.handoff.more)
	require.Len(t, engine_.failures, 1)
	failure := engine_.failures[0]
	require.False(t, failure.Retryable)
	require.Equal(t, engine.CategoryTooLarge, failure.Category)
	require.Contains(t, failure.Reason, "with the result of this item, those of 3 of 8 items have 1200009 bytes, at most 1048576")
}
