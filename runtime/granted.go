package runtime

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/flowfabric/flowfabric-go/enginecore"
)

// Through makes the worker claim nothing by itself: it asks for grants, and runs what it is granted. It is for workers that
// are not trusted with budgets, quotas and capabilities; the Scheduler that grants runs elsewhere, behind a service that
// checks what the worker says it offers. What a completion makes ready is not handed on to the worker either, so each
// execution costs a grant and a claim.
func Through(g Granter) WorkerOption { return func(c *workerConfig) { c.granter, c.through = g, true } }

// grantTTL is how long a worker gives itself to use a grant.
const grantTTL = 5 * time.Second

// grantPoll is how often such a worker looks for work of which nobody tells: what was granted to somebody who did not use it.
const grantPoll = time.Second

// claimGranted fills slots from one spot with what is granted.
func (s *shift) claimGranted(ctx context.Context, v visit) {
	got := 0
	var err error
	// The granter is the program's own, and may end the goroutine.
	defer func() { s.claimedGranted(ctx, v, got, err) }()
	for got < v.slots && ctx.Err() == nil && !s.board.isClosed() {
		sentAt := time.Now()
		var grant Grant
		err = errGranterExited
		grant, err = s.worker.config.granter.ClaimForWorker(ctx, GrantRequest{
			Lane: string(v.lane), WorkerID: s.request.WorkerID, Instance: s.worker.instance, TTL: grantTTL,
			Capabilities: s.worker.config.capabilities, Activities: s.worker.activities(), Partition: &v.partition,
		})
		if err != nil {
			break
		}
		var claimed []enginecore.ClaimedExecution
		if claimed, err = s.useGrant(ctx, grant); err != nil {
			break
		}
		for _, x := range claimed {
			t := newTask(s, v.spot, x, sentAt)
			s.tasks.Go(func() { s.work(t) })
			got++
		}
	}
}

// errGranterExited is what came of a call of a Granter that has ended the goroutine.
var errGranterExited = errors.New("the granter ended its goroutine (runtime.Goexit)")

// claimedGranted gives back the slots of a claim by grants that are not used.
func (s *shift) claimedGranted(ctx context.Context, v visit, got int, err error) {
	s.worker.counts.claimed(got)
	failed := err != nil && !errors.Is(err, ErrNoGrant) && ctx.Err() == nil
	if failed {
		s.session.logger.LogAttrs(ctx, slog.LevelWarn, "flowfabric: claim by a grant failed", eventClaimFailed.attr(),
			slog.String("lane", string(v.lane)), slog.String("partition", v.partition.Tag()), slog.Any("error", err))
		pause(ctx, claimPause)
	}
	s.board.claimed(v.slots - got)
	if failed || err == nil {
		s.board.add(v.spot)
	}
}

// useGrant claims by a grant. It returns nothing when somebody was faster, or when the grant came to nothing otherwise.
func (s *shift) useGrant(ctx context.Context, grant Grant) ([]enginecore.ClaimedExecution, error) {
	core, err := capability[grantedClaims](s.session.backend)
	if err != nil {
		return nil, err
	}
	call := enginecore.ClaimGrantedCall{
		Partition: grant.Partition, ExecutionID: grant.ExecutionID, ClaimRequest: s.claimRequest(grant.Lane, 1),
	}
	reply, err := core.ClaimGranted(s.base, call)
	for errors.Is(err, enginecore.ErrOutcomeUnknown) && ctx.Err() == nil {
		s.leases.doubt()
		call.Repeated = true
		pause(ctx, claimPause)
		reply, err = core.ClaimGranted(s.base, call)
	}
	for _, passing := range []error{
		enginecore.ErrExecutionNotFound, enginecore.ErrExecutionNotLeaseable, enginecore.ErrInvalidClaimGrant, enginecore.ErrClaimGrantExpired,
	} {
		if errors.Is(err, passing) {
			return nil, nil
		}
	}
	if err != nil {
		s.leases.doubt()
		return nil, fmt.Errorf("use the grant of %s: %w", grant.ExecutionID, err)
	}
	return reply.Executions, nil
}

// activities are the names of what the worker knows.
func (w *Worker) activities() []string {
	names := make([]string, 0, len(w.handlers)+2)
	names = append(names, mapKind, subKind)
	for name := range w.handlers {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}
