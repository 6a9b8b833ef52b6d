package runtime

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
)

// grantTTL is how long a worker gives itself to use a grant.
const grantTTL = 5 * time.Second

// grantPoll is how often such a worker looks for work of which nobody tells: what was granted to somebody who did not use it.
const grantPoll = time.Second

// claimGranted fills slots from one spot with what is granted.
func (s *workerRun) claimGranted(ctx context.Context, v claimTarget) {
	got := 0
	var err error
	// The granter is the program's own, and may end the goroutine.
	defer func() { s.claimedGranted(ctx, v, got, err) }()
	for got < v.slots && ctx.Err() == nil && !s.queue.isClosed() {
		sentAt := time.Now()
		var grant issuedGrant
		err = errGranterExited
		grant, err = s.worker.config.granter(ctx, grantRequest{
			Lane: string(v.lane), WorkerID: s.request.WorkerID, Instance: s.worker.instance, TTL: grantTTL,
			Capabilities: s.worker.config.capabilities, Activities: s.worker.activities(), Partition: &v.partition,
		})
		if err != nil {
			break
		}
		var claimed []enginerpc.ClaimedExecution
		if claimed, err = s.useGrant(ctx, grant); err != nil {
			break
		}
		for _, x := range claimed {
			t := newTask(s, v.laneShard, x, sentAt)
			s.tasks.Go(func() { s.work(t) })
			got++
		}
	}
}

// errGranterExited is what came of a call of a Granter that has ended the goroutine.
var errGranterExited = errors.New("the granter ended its goroutine (runtime.Goexit)")

// claimedGranted gives back the slots of a claim by grants that are not used.
func (s *workerRun) claimedGranted(ctx context.Context, v claimTarget, got int, err error) {
	s.worker.counts.claimed(got)
	failed := err != nil && !errors.Is(err, ErrNoGrant) && ctx.Err() == nil
	if failed {
		s.session.logger.LogAttrs(ctx, slog.LevelWarn, "flowfabric: claim by a grant failed", eventClaimFailed.attr(),
			slog.String("lane", string(v.lane)), slog.String("partition", v.partition.Tag()), slog.Any("error", err))
		pause(ctx, claimPause)
	}
	s.queue.finishClaim(v.slots - got)
	if failed || err == nil {
		s.queue.add(v.laneShard)
	}
}

// useGrant claims by a grant. It returns nothing when somebody was faster, or when the grant came to nothing otherwise.
func (s *workerRun) useGrant(ctx context.Context, grant issuedGrant) ([]enginerpc.ClaimedExecution, error) {
	core, err := capability[grantedClaims](s.session.backend)
	if err != nil {
		return nil, err
	}
	call := enginerpc.ClaimGrantedCall{
		Partition: grant.Partition, ExecutionID: grant.ExecutionID, ClaimRequest: s.claimRequest(grant.Lane, 1),
	}
	var reply enginerpc.ClaimGrantedReply
	err = s.claimUntilKnown(ctx, func(repeated bool) (err error) {
		call.Repeated = repeated
		reply, err = core.ClaimGranted(s.base, call)
		return err
	})
	for _, passing := range []error{
		enginecore.ErrExecutionNotFound, enginecore.ErrExecutionNotLeaseable, enginecore.ErrInvalidClaimGrant, enginecore.ErrClaimGrantExpired,
	} {
		if errors.Is(err, passing) {
			return nil, nil
		}
	}
	if err != nil {
		s.leases.markUncertain()
		return nil, fmt.Errorf("use the grant of %s: %w", grant.ExecutionID, err)
	}
	return reply.Executions, nil
}
