package runtime

import (
	"context"
	"testing"
	"time"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/runtime/internal/engine"
	"github.com/flowfabric/flowfabric-go/runtime/internal/keeper"
	"github.com/flowfabric/flowfabric-go/runtime/internal/submit"
	"github.com/flowfabric/flowfabric-go/runtime/internal/worker"
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

// SubmitTogether sends runs of one flow and partition with one call and returns the codes of their outcomes.
func SubmitTogether(ctx context.Context, c *Client, plans ...*Plan) ([]string, error) {
	requests := make([]submit.StartRequest, len(plans))
	for i, plan := range plans {
		requests[i] = submit.NewStartRequest(plan.plan, nil)
	}
	reply, err := c.submitter.Starts.Send(ctx, submit.StartCall(submit.StartKeyOf(plans[0].plan), requests))
	codes := make([]string, len(reply.Outcomes))
	for i, outcome := range reply.Outcomes {
		codes[i] = outcome.Code
	}
	return codes, err
}

// SubmitAlone sends a run by itself.
func SubmitAlone(ctx context.Context, c *Client, plan *Plan) (existed bool, err error) {
	return c.submitter.Send(ctx, plan.plan)
}

// SubmitInPieces sends a run in several calls: its nodes, then for each piece the edges at these places, then the call that
// lets it go.
func SubmitInPieces(ctx context.Context, c *Client, plan *Plan, pieces ...[]int) error {
	nodes := plan.plan.Nodes()
	edges := plan.plan.Edges(nodes)
	call := plan.plan.Header(nodes, len(edges))
	call.Nodes = nodes
	if _, err := c.submitter.SendOne(ctx, plan.plan, call); err != nil {
		return err
	}
	call.Nodes = nil
	for _, piece := range pieces {
		call.Edges = nil
		for _, i := range piece {
			call.Edges = append(call.Edges, edges[i])
		}
		if _, err := c.submitter.SendOne(ctx, plan.plan, call); err != nil {
			return err
		}
	}
	call.Edges, call.Last = nil, true
	_, err := c.submitter.SendOne(ctx, plan.plan, call)
	return err
}

// OnlyMessages makes a worker do for an hour what messages tell it: it neither sweeps nor renews leases before. A test with it needs
// no bound of time: what is not announced does not happen within the test.
func OnlyMessages() WorkerOption {
	return func(c *worker.Config) { c.Sweep, c.Lease = time.Hour, time.Hour }
}

// RetryFor is for how long a call to the engine is sent again before it fails.
func RetryFor(d time.Duration) OpenOption { return func(c *openConfig) { c.core.RetryFor = d } }

// CheckLibraryEvery is how often a keeper looks at the server's library.
func CheckLibraryEvery(d time.Duration) KeeperOption {
	return func(c *keeper.Config) { c.LibraryCheck = d }
}

// HoldWatches sets how long the engine holds a read of a watch that waits for news.
func HoldWatches(e *Engine, d time.Duration) { e.session.Watches.Held = d }

// LookForKeepersEvery is how often workers without a keeper look whether there is one. Workers must not run yet.
func LookForKeepersEvery(e *Engine, d time.Duration) {
	e.session.Keeper.(*keeper.SharedKeeper).LookEvery = d
}

// KeepersSeen counts the keepers that are connected.
func KeepersSeen(ctx context.Context, e *Engine) (int64, bool) { return e.session.KeepersSeen(ctx) }
