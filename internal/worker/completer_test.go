package worker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel"

	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/internal/dispatch"
	"github.com/flowfabric/flowfabric-go/internal/engine"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
)

// fullCalls refuses reports of the end of an attempt until a given time, or until the context of the call
// ends.
type fullCalls struct {
	engine.Backend
	until    time.Time
	tries    int
	repeated bool // of the last try
}

func (c *fullCalls) refuse(ctx context.Context) error {
	c.tries++
	if !time.Now().Before(c.until) {
		return nil
	}
	engine.Sleep(ctx, time.Second) // as the engine retries by itself
	return fmt.Errorf("full: %w: %w", enginecore.ErrFull, enginecore.ErrUnavailable)
}

func (c *fullCalls) Complete(ctx context.Context, call enginerpc.CompleteCall) (enginerpc.CompleteReply, error) {
	c.repeated = call.Repeated
	return enginerpc.CompleteReply{}, c.refuse(ctx)
}

func (c *fullCalls) Fail(ctx context.Context, _ enginerpc.FailCall) (enginerpc.FailReply, error) {
	return enginerpc.FailReply{}, c.refuse(ctx)
}

func (c *fullCalls) completeMany(
	ctx context.Context, call enginerpc.CompleteManyCall,
) (enginerpc.CompleteManyReply, error) {
	c.repeated = call.Repeated
	outcomes := strings.Repeat("stale_lease ", len(call.Completions))
	return enginerpc.CompleteManyReply{Outcomes: outcomes}, c.refuse(ctx)
}

// A result is sent again as long as renewals extend the lease, however long that is, and no longer.
func TestReportsLastAsLongAsTheLease(t *testing.T) {
	t.Parallel()
	const lease = 10 * time.Second
	for name, report := range map[string]func(*completionBatcher, *Task){
		"complete": func(_ *completionBatcher, t *Task) {
			t.report(attemptOutcome{kind: outcomeKindCompleted, result: []byte("1")}, 0)
		},
		"fail": func(_ *completionBatcher, t *Task) {
			t.report(attemptOutcome{kind: outcomeKindFailed, err: errors.New("failed")}, 0)
		},
		"batch": func(b *completionBatcher, t *Task) {
			if _, _, err := b.sendUntilKnown(dispatch.LaneShard{},
				[]completionRequest{{lease: &t.lease}, {lease: &t.lease}}); err != nil {
				t.log(slog.LevelWarn, engine.EventResultLost, "not committed", slog.Any("error", err))
			}
		},
	} {
		for _, renewed := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, renewed %v", name, renewed), func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					telemetry, err := engine.NewTelemetry(otel.GetTracerProvider(), otel.GetMeterProvider())
					require.NoError(t, err)
					var logged strings.Builder
					engine_ := &fullCalls{until: time.Now().Add(5 * lease)}
					s := &services{
						base: t.Context(), worker: &Worker{config: Config{Lease: lease}},
						session: &engine.Session{
							Backend: engine_, Logger: slog.New(slog.NewTextHandler(&logged, nil)), Telemetry: telemetry,
						},
					}
					s.completer = &completer{
						session: s.session, base: s.base, markUncertain: s.markUncertain,
						claimRequest: func(enginecore.LaneID, int) enginerpc.ClaimRequest { return enginerpc.ClaimRequest{} },
					}
					x := s.NewTask(dispatch.LaneShard{},
						&enginerpc.ClaimedExecution{ExecutionID: "{fp:1}:x", LeaseID: "lease"}, time.Now())
					begun, done := time.Now(), make(chan struct{})
					go func() {
						defer close(done)
						report(&completionBatcher{completer: s.completer, send: engine_.completeMany}, x)
					}()
					for ended := false; !ended; {
						select {
						case <-done:
							ended = true
						case <-time.After(lease / 3):
							if renewed {
								x.extendLease(time.Now())
							}
						}
					}
					took := time.Since(begun)
					if renewed {
						require.GreaterOrEqual(t, took, 5*lease)
						require.Less(t, took, 5*lease+2*time.Second)
						require.Empty(t, logged.String())
						require.True(t, engine_.repeated || name == "fail")
						return
					}
					require.LessOrEqual(t, took, lease)
					require.Contains(t, logged.String(), "level=WARN")
				})
			})
		}
	}
}
