package completion

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/internal/dispatch"
	"github.com/flowfabric/flowfabric-go/internal/engine"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
	"github.com/flowfabric/flowfabric-go/internal/sleep"
	"github.com/flowfabric/flowfabric-go/internal/worker/lease"
)

// fullCalls refuses reports of the end of an attempt until a given time, or until the context of the call
// ends.
type fullCalls struct {
	engine.Library
	until    time.Time
	tries    int
	repeated bool // of the last try
}

func (c *fullCalls) refuse(ctx context.Context) error {
	c.tries++
	if !time.Now().Before(c.until) {
		return nil
	}
	sleep.For(ctx, time.Second) // as the engine retries by itself
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
	ctx context.Context, call enginerpc.WorkCall, _ []*enginerpc.ClaimedExecution,
) (enginerpc.WorkReply, error) {
	c.repeated = call.Repeated
	outcomes := strings.Repeat("stale_lease ", len(call.Completions))
	return enginerpc.WorkReply{Outcomes: outcomes}, c.refuse(ctx)
}

// A result is sent again as long as renewals extend the lease, and not after the lease has ended.
func TestReportRepeatsUntilLeaseEnds(t *testing.T) {
	t.Parallel()
	const ttl = 10 * time.Second
	for name, report := range map[string]func(*Batcher, *lease.Lease) error{
		"complete": func(b *Batcher, l *lease.Lease) error {
			return b.completer.Report(l, Outcome{Kind: KindCompleted, Result: []byte("1")}, 0).Err
		},
		"fail": func(b *Batcher, l *lease.Lease) error {
			return b.completer.Report(l, Outcome{Kind: KindFailed, Err: errors.New("failed")}, 0).Err
		},
		"batch": func(b *Batcher, l *lease.Lease) error {
			_, _, err := b.sendUntilKnown(dispatch.LaneShard{}, []Request{{lease: l}, {lease: l}}, nil)
			return err
		},
	} {
		for _, renewed := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, renewed %v", name, renewed), func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					engine_ := &fullCalls{until: time.Now().Add(5 * ttl)}
					c := &Completer{
						Session: &engine.Session{Backend: engine_}, Base: t.Context(), MarkUncertain: func() {},
						ClaimRequest: func(enginecore.LaneID, int) enginerpc.ClaimRequest { return enginerpc.ClaimRequest{} },
					}
					held := &lease.Lease{
						Begun: time.Now(), Claimed: &enginerpc.ClaimedExecution{ExecutionID: "{fp:1}:x", LeaseID: "lease"},
					}
					held.Extend(time.Now(), ttl)
					begun, done := time.Now(), make(chan error)
					go func() { done <- report(&Batcher{completer: c, send: engine_.completeMany}, held) }()
					var failed error
					for ended := false; !ended; {
						select {
						case failed = <-done:
							ended = true
						case <-time.After(ttl / 3):
							if renewed {
								held.Extend(time.Now(), ttl)
							}
						}
					}
					took := time.Since(begun)
					if renewed {
						require.GreaterOrEqual(t, took, 5*ttl)
						require.Less(t, took, 5*ttl+2*time.Second)
						require.NoError(t, failed)
						require.True(t, engine_.repeated || name == "fail")
						return
					}
					require.LessOrEqual(t, took, ttl)
					require.Error(t, failed)
				})
			})
		}
	}
}
