package link

import (
	"context"
	"math/rand/v2"
	"strconv"
	"time"

	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/internal/engine"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
	"github.com/flowfabric/flowfabric-go/internal/keyspace"
)

// TellWork notifies the workers of a lane. The random number makes messages distinct.
func (c *Link) TellWork(ctx context.Context, p keyspace.Partition, lane enginecore.LaneID) {
	work := enginerpc.WorkMessage{Partition: p, Mark: strconv.FormatUint(rand.Uint64(), 36)}
	c.Publish(ctx, c.Keys.ChannelWake(lane), work.Text())
}

// TellDue notifies keepers of an item that is due at a time in Unix ms.
func (c *Link) TellDue(ctx context.Context, p keyspace.Partition, at int64) {
	c.Publish(ctx, c.Keys.ChannelDue(), enginerpc.DueMessage{Partition: p, At: time.UnixMilli(at)}.Text())
}

// Publish publishes a hint. A subscriber that misses it finds the work by polling.
func (c *Link) Publish(ctx context.Context, channel, message string) {
	c.Client.Do(ctx, c.Client.B().Publish().Channel(channel).Message(message).Build())
}

// TellStop notifies the worker of an execution, if it has one, to stop it. core has the execution as it was; kind is
// one of package engine.
func (c *Link) TellStop(ctx context.Context, id enginecore.ExecutionID, core engine.Record, kind, reason string) {
	worker := enginecore.WorkerInstanceID(core["current_worker_instance_id"])
	if worker == "" {
		return
	}
	stop := enginerpc.CancelMessage{
		ExecutionID: id, LeaseID: enginecore.LeaseID(core["current_lease_id"]), Kind: kind, Reason: reason,
	}
	c.Publish(ctx, c.Keys.ChannelWorker(worker), stop.Text())
}
