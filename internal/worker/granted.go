package worker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/internal/dispatch"
	"github.com/flowfabric/flowfabric-go/internal/engine/observe"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
	"github.com/flowfabric/flowfabric-go/internal/errorcode"
	"github.com/flowfabric/flowfabric-go/internal/keyspace"
	"github.com/flowfabric/flowfabric-go/internal/sleep"
	"github.com/flowfabric/flowfabric-go/internal/worker/lease"
	"github.com/flowfabric/flowfabric-go/internal/worker/task"
)

// grantTTL is the time within which the worker uses a grant that it requests.
const grantTTL = 5 * time.Second

// grantPoll is the interval at which a worker that claims by grants searches for executions without a wake-up, such as
// executions whose grant was not used.
const grantPoll = time.Second

// claimGranted fills free slots from one shard by requesting grants.
func (r *Run) claimGranted(ctx context.Context, v dispatch.ClaimTarget) {
	got := 0
	var err error
	// The granter is code of the application and can end the goroutine.
	defer func() { r.claimedGranted(ctx, v, got, err) }()
	for got < v.Slots && ctx.Err() == nil && !r.queue.IsClosed() {
		sentAt := time.Now()
		var grant enginecore.Grant
		err = errGranterExited
		grant, err = r.worker.config.Granter(ctx, enginecore.GrantRequest{
			Lane: string(v.Lane), WorkerID: r.request.WorkerID, Instance: r.worker.Instance, TTL: grantTTL,
			Capabilities: r.worker.config.Capabilities, Activities: r.worker.activities(), Partition: v.Partition.Tag(),
		})
		if err != nil {
			break
		}
		var claimed []enginerpc.ClaimedExecution
		if claimed, err = r.useGrant(ctx, grant); err != nil {
			break
		}
		r.launch(v.LaneShard, claimed, sentAt, false)
		got += len(claimed)
	}
}

// errGranterExited is the result of a Granter call that ended its goroutine.
var errGranterExited = errors.New("the granter ended its goroutine (runtime.Goexit)")

// claimedGranted frees the slots that a claim by grants did not use, and queues the shard again unless
// nothing more was granted.
func (r *Run) claimedGranted(ctx context.Context, v dispatch.ClaimTarget, got int, err error) {
	r.worker.Counts.claimed(got)
	failed := err != nil && !errors.Is(err, enginecore.ErrNoGrant) && ctx.Err() == nil
	if failed {
		r.Session.Logger.LogAttrs(ctx, slog.LevelWarn, "flowfabric: the worker could not claim with a grant",
			observe.EventClaimFailed.Attr(),
			slog.String("lane", string(v.Lane)), slog.String("partition", v.Partition.Tag()), slog.Any("error", err))
		sleep.For(ctx, lease.ClaimPause)
	}
	r.queue.FinishClaim(v.Slots - got)
	if failed || err == nil {
		r.queue.Add(v.LaneShard)
	}
}

// useGrant claims by a grant. It returns no execution and no error if the grant has expired or the execution was
// claimed or ended in the meantime.
func (r *Run) useGrant(ctx context.Context, grant enginecore.Grant) ([]enginerpc.ClaimedExecution, error) {
	partition, err := keyspace.PartitionOf(grant.ExecutionID)
	if err != nil {
		return nil, fmt.Errorf("use the grant: %w", err)
	}
	call := enginerpc.ClaimGrantedCall{
		Partition: partition, ExecutionID: grant.ExecutionID, ClaimRequest: r.claimRequest(grant.Lane, 1),
	}
	var reply enginerpc.ClaimGrantedReply
	err = r.claimUntilKnown(ctx, func(repeated bool) (err error) {
		call.Repeated = repeated
		reply, err = r.Session.Backend.ClaimGranted(r.Base, call)
		return err
	})
	for _, passing := range []error{
		enginecore.ErrExecutionNotFound, errorcode.ExecutionNotLeaseable, errorcode.InvalidClaimGrant,
		errorcode.ClaimGrantExpired,
	} {
		if errors.Is(err, passing) {
			return nil, nil
		}
	}
	if err != nil {
		r.Doubt.Mark()
		return nil, fmt.Errorf("use the grant of %s: %w", grant.ExecutionID, err)
	}
	return reply.Executions, nil
}

// LeaseGranted leases the execution of a grant and returns its task.
func (r *Run) LeaseGranted(ctx context.Context, grant enginecore.Grant) (*task.Task, error) {
	sentAt := time.Now()
	claimed, err := r.useGrant(ctx, grant)
	if err != nil {
		return nil, err
	}
	if len(claimed) == 0 {
		return nil, fmt.Errorf("%w: the grant of %s is used up, has expired or is for another worker",
			enginecore.ErrNoGrant, grant.ExecutionID)
	}
	partition, err := keyspace.PartitionOf(grant.ExecutionID)
	if err != nil {
		return nil, err
	}
	t := r.NewTask(dispatch.LaneShard{Lane: grant.Lane, Partition: partition}, &claimed[0], sentAt)
	r.acquire([]*task.Task{t})
	return t, nil
}
