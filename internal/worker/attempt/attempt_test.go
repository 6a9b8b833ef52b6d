package attempt

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel"

	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/internal/dispatch"
	"github.com/flowfabric/flowfabric-go/internal/engine"
	"github.com/flowfabric/flowfabric-go/internal/engine/observe"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
	"github.com/flowfabric/flowfabric-go/internal/errorcode"
	"github.com/flowfabric/flowfabric-go/internal/worker/completion"
)

// refusingEngine refuses completions, since the results of the items of a map are too large, and records failures.
type refusingEngine struct {
	engine.Backend
	failures []enginerpc.FailCall
}

func (*refusingEngine) Complete(context.Context, enginerpc.CompleteCall) (enginerpc.CompleteReply, error) {
	return enginerpc.CompleteReply{}, &enginecore.Error{
		Function: "ffx_complete", Code: errorcode.ResultsTooLarge, Details: []string{"3", "8", "1200009", "1048576"},
	}
}

func (e *refusingEngine) Fail(_ context.Context, call enginerpc.FailCall) (enginerpc.FailReply, error) {
	e.failures = append(e.failures, call)
	return enginerpc.FailReply{}, nil
}

// An attempt whose result the engine refuses as too large fails.
func TestRefusedResultFailsTheAttempt(t *testing.T) {
	t.Parallel()
	telemetry, err := observe.NewTelemetry(otel.GetTracerProvider(), otel.GetMeterProvider())
	require.NoError(t, err)
	refusing := new(refusingEngine)
	session := &engine.Session{Backend: refusing, Logger: slog.New(slog.DiscardHandler), Telemetry: telemetry}
	run := &Shared{Base: t.Context(), LeaseTTL: time.Minute, Session: session, Completer: &completion.Completer{
		Session: session, Base: t.Context(), MarkUncertain: func() { t.Error("nothing is uncertain") },
		ClaimRequest: func(enginecore.LaneID, int) enginerpc.ClaimRequest { return enginerpc.ClaimRequest{} },
	}}
	var a Attempt
	a.Init(run, dispatch.LaneShard{}, &enginerpc.ClaimedExecution{ExecutionID: "{fp:1}:x", LeaseID: "lease"}, time.Now())
	reported := a.Report(completion.Outcome{Kind: completion.KindCompleted, Result: []byte("1")}, 1)
	require.NoError(t, reported.Err)
	require.Len(t, refusing.failures, 1)
	require.False(t, refusing.failures[0].Retryable)
	require.Equal(t, engine.CategoryTooLarge, refusing.failures[0].Category)
	require.Contains(t, refusing.failures[0].Reason, "with the result of this item, the results of 3 of 8 items have 1200009 bytes")
}
