package runtime

import (
	"context"
	"testing"
	"time"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/flow"
	"github.com/flowfabric/flowfabric-go/runtime/internal/admission"
	"github.com/flowfabric/flowfabric-go/runtime/internal/engine"
	"github.com/flowfabric/flowfabric-go/runtime/internal/keeper"
	"github.com/flowfabric/flowfabric-go/runtime/internal/submit"
)

// Bounds that the documentation says as numbers.
const (
	MaxActor    = engine.MaxActor
	MaxReason   = engine.MaxReason
	MaxFailures = submit.MaxFailures
	MaxGrantTTL = admission.MaxGrantTTL
	MaxListed   = maxListed
)

// EngineToken is the part of a token that the engine made, which must not show either.
func EngineToken(tb testing.TB, token activity.Token) string {
	tb.Helper()
	parts, err := engine.OpenToken(token)
	if err != nil {
		tb.Fatal(err)
	}
	return parts.Signature
}

// Plan is what Start would submit.
type Plan = submit.RunPlan

// NewPlan returns what Start would submit. Nothing is sent.
func NewPlan[In, Out any](c *Client, def *flow.Definition[In, Out], in In, opts ...StartOption) (*Plan, error) {
	return planRun(c, def, in, opts)
}

// SubmitTogether sends runs of one flow and partition with one call and returns the codes of their outcomes.
func SubmitTogether(ctx context.Context, c *Client, plans ...*Plan) ([]string, error) {
	requests := make([]submit.StartRequest, len(plans))
	for i, plan := range plans {
		requests[i] = submit.NewStartRequest(plan, nil)
	}
	reply, err := c.submitter.Starts.Send(ctx, submit.StartCall(submit.StartKeyOf(plans[0]), requests))
	codes := make([]string, len(reply.Outcomes))
	for i, outcome := range reply.Outcomes {
		codes[i] = outcome.Code
	}
	return codes, err
}

// SubmitAlone sends a run by itself.
func SubmitAlone(ctx context.Context, c *Client, plan *Plan) (existed bool, err error) {
	return c.submitter.Send(ctx, plan)
}

// SubmitInPieces sends a run in several calls: its nodes, then for each piece the edges at these places, then the call
// that lets it go.
func SubmitInPieces(ctx context.Context, c *Client, plan *Plan, pieces ...[]int) error {
	nodes := plan.Nodes()
	edges := plan.Edges(nodes)
	call := plan.Header(nodes, len(edges))
	call.Nodes = nodes
	if _, err := c.submitter.SendOne(ctx, plan, call); err != nil {
		return err
	}
	call.Nodes = nil
	for _, piece := range pieces {
		call.Edges = nil
		for _, i := range piece {
			call.Edges = append(call.Edges, edges[i])
		}
		if _, err := c.submitter.SendOne(ctx, plan, call); err != nil {
			return err
		}
	}
	call.Edges, call.Last = nil, true
	_, err := c.submitter.SendOne(ctx, plan, call)
	return err
}

// OnlyMessages returns the config of a worker that does for an hour what messages tell it: it neither sweeps nor renews
// leases before. A test with it needs no bound of time: what is not announced does not happen within the test.
func OnlyMessages(config WorkerConfig) WorkerConfig {
	config.sweep, config.Lease = time.Hour, time.Hour
	return config
}

// RetryFor is the config of an engine whose calls are sent again for d before they fail.
func RetryFor(d time.Duration) OpenConfig { return OpenConfig{retryFor: d} }

// CheckLibraryEvery is the config of a keeper that looks at the server's library at an interval.
func CheckLibraryEvery(d time.Duration) KeeperConfig { return KeeperConfig{libraryCheck: d} }

// HoldWatches sets how long the engine holds a read of a watch that waits for news.
func HoldWatches(e *Engine, d time.Duration) { e.session.Watches.Held = d }

// LookForKeepersEvery is how often workers without a keeper look whether there is one. Workers must not run yet.
func LookForKeepersEvery(e *Engine, d time.Duration) {
	e.session.Keeper.(*keeper.SharedKeeper).LookEvery = d
}

// KeepersSeen counts the keepers that are connected.
func KeepersSeen(ctx context.Context, e *Engine) (int64, bool) { return e.session.KeepersSeen(ctx) }
