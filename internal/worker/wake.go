package worker

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"strconv"
	"time"

	"github.com/redis/rueidis"

	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/internal/dispatch"
	"github.com/flowfabric/flowfabric-go/internal/engine/observe"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
	"github.com/flowfabric/flowfabric-go/internal/keyspace"
	"github.com/flowfabric/flowfabric-go/internal/sleep"
)

const (
	// serverSweep is the interval at which a worker without peers sweeps all its shards, in case a wake-up
	// was lost; clusterSweep is that interval on a cluster, whose servers forward messages over links that
	// can fail without notice. With more peers each worker sweeps less often, but at least every maxSweep.
	serverSweep  = time.Minute
	clusterSweep = 5 * time.Second
	maxSweep     = 5 * time.Minute
	// releaseEvery is the least time between two scans of executions that are blocked until a worker like this
	// appears.
	releaseEvery = time.Minute
	// peersPerSweep is the number of peers that adds one more interval to the time between two sweeps.
	peersPerSweep = 4
)

// listen subscribes to the wake channels of the lanes and to the control channel of this worker until ctx
// ends. Whenever it is subscribed, it renews the leases, announces the worker, sweeps, and releases blocked executions,
// which makes up for messages that were lost before.
func (r *Run) listen(ctx context.Context) {
	keys := r.Core.Keys()
	lanes := make(map[string]enginecore.LaneID, len(r.worker.config.Lanes))
	orders := keys.ChannelWorker(r.worker.Instance)
	var channels []string
	for _, lane := range r.lanes() {
		channel := keys.ChannelWake(lane)
		lanes[channel] = lane
		channels = append(channels, channel)
	}
	channels = append(channels, orders)
	subscribed := func() {
		if r.worker.sweep == 0 {
			r.leases.RenewSoon()
		}
		r.Background.Start(func() { r.reportPresence(ctx) })
		r.Background.Start(func() {
			r.publishPresence(ctx)
			r.sweep(ctx)
			r.releaseAllBlocked(ctx)
		})
	}
	r.Session.Hub.Listen(ctx, channels, subscribed, func(channel, message string) {
		if channel == orders {
			r.handleControl(ctx, message)
			return
		}
		r.handleWake(ctx, lanes[channel], nil, message)
	})
}

// publishLeaving announces to peers that this worker claims no more work.
func (r *Run) publishLeaving() {
	r.left.Store(true)
	leaving, cancel := context.WithTimeout(r.Base, time.Second)
	defer cancel()
	// Peers that miss the message remove the worker when its announcements stop.
	r.publishToPeers(leaving, enginerpc.LeftMessage{WorkerInstanceID: r.worker.Instance}.Text())
}

// lanes returns the lanes that the worker serves, without duplicates.
func (r *Run) lanes() []enginecore.LaneID {
	var list []enginecore.LaneID
	seen := make(map[string]bool, len(r.worker.config.Lanes))
	for _, name := range r.worker.config.Lanes {
		if !seen[name] {
			seen[name] = true
			list = append(list, enginecore.LaneID(name))
		}
	}
	return list
}

// handleWake handles a message on the wake channel of a lane, or in a slot of its wake ring. slot is that slot, nil for
// the channel of the lane. Slots carry [enginerpc.WorkMessage] and [enginerpc.NoneMessage] only. It ignores malformed
// and unknown messages.
func (r *Run) handleWake(ctx context.Context, lane enginecore.LaneID, slot *int, message string) {
	if m, ok := enginerpc.ParseWorkMessage(message); ok {
		r.handleWork(ctx, dispatch.LaneShard{Lane: lane, Partition: m.Partition}, slot, m.Mark, message)
	} else if m, ok := enginerpc.ParseNoneMessage(message); ok {
		r.queue.MarkEmpty(dispatch.LaneShard{Lane: lane, Partition: m.Partition})
	} else if m, ok := enginerpc.ParseAsideMessage(message); ok {
		if r.worker.Knows(m.Activity) {
			r.queue.AddSetAside(dispatch.LaneShard{Lane: lane, Partition: m.Partition})
		}
	} else if m, ok := enginerpc.ParseHereMessage(message); ok {
		if m.WorkerInstanceID != r.worker.Instance && r.peers.Add(lane, string(m.WorkerInstanceID), time.Now()) {
			r.answerNewcomers(ctx)
		}
	} else if m, ok := enginerpc.ParseLeftMessage(message); ok {
		r.peers.Remove(lane, string(m.WorkerInstanceID))
	}
}

// handleWork queues a shard that has executions to claim. In a slot, mark is the time of the message.
func (r *Run) handleWork(ctx context.Context, at dispatch.LaneShard, slot *int, mark, message string) {
	if slot == nil {
		r.queue.AddShared(at, func() (time.Duration, bool) { return r.peers.TurnDelay(at.Lane, message) })
		return
	}
	sent, _ := strconv.ParseInt(mark, 10, 64)
	wait, patience := r.peers.SlotDelay(at.Lane, *slot, sent)
	r.queue.AddAssigned(at, *slot, wait, patience, func() {
		r.Background.Start(func() { r.broadcastWake(ctx, at.Lane, message) })
	})
}

// broadcastWake publishes a wake-up to all workers of a lane, after the workers of the slot have not claimed
// the work.
func (r *Run) broadcastWake(ctx context.Context, lane enginecore.LaneID, message string) {
	client := r.Session.Client
	// Errors are ignored: sweeps find the work of a lost message.
	client.Do(ctx, client.B().Publish().Channel(r.Core.Keys().ChannelWake(lane)).Message(message).Build())
}

// answerNewcomers announces this worker to new peers, after a random delay; calls during the delay share one
// announcement.
func (r *Run) answerNewcomers(ctx context.Context) {
	if !r.answering.CompareAndSwap(false, true) {
		return
	}
	r.Background.Start(func() {
		sleep.For(ctx, rand.N(dispatch.AnnounceWithin))
		r.answering.Store(false)
		if ctx.Err() == nil {
			r.publishPresence(ctx)
		}
	})
}

// publishPresence announces to the peers of all lanes that this worker is present.
func (r *Run) publishPresence(ctx context.Context) {
	// A lost message is repeated soon.
	if !r.left.Load() {
		r.publishToPeers(ctx, enginerpc.HereMessage{WorkerInstanceID: r.worker.Instance}.Text())
	}
}

// publishToPeers publishes a message on the wake channels of all lanes.
func (r *Run) publishToPeers(ctx context.Context, message string) {
	client := r.Session.Client
	var messages rueidis.Commands
	for _, lane := range r.lanes() {
		messages = append(messages,
			client.B().Publish().Channel(r.Core.Keys().ChannelWake(lane)).Message(message).Build())
	}
	client.DoMulti(ctx, messages...)
}

// handleControl handles a message to this worker. The lease id of a cancellation distinguishes this claim of the
// execution from a later one.
func (r *Run) handleControl(ctx context.Context, message string) {
	if m, ok := enginerpc.ParseCancelMessage(message); ok {
		r.leases.Cancel(m)
	} else if m, ok := enginerpc.ParseAwaitedMessage(message); ok {
		r.leases.Await(m)
	} else if m, ok := enginerpc.ParseDrainMessage(message); ok && m.WorkerInstanceID == r.worker.Instance {
		r.Background.Start(func() { r.drainOut(ctx) })
	}
}

// presenceLoop announces the worker, reports its use, removes silent peers, sweeps, and from time to time releases
// blocked executions, until ctx ends.
func (r *Run) presenceLoop(ctx context.Context) {
	if r.Session.Quiet {
		return // listen does the same whenever a message may have been lost
	}
	present := time.NewTicker(dispatch.PresenceEvery)
	defer present.Stop()
	sweeps := sweepTimer{every: r.sweepEvery(), last: time.Now()}
	looks := time.NewTicker(sweeps.every)
	defer looks.Stop()
	uses := time.NewTicker(useEvery)
	defer uses.Stop()
	announced, said := time.Now(), time.Now()
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-present.C:
			r.peers.RemoveSilent(now)
			if now.Sub(said) > r.peers.PresenceInterval(r.lanes())-dispatch.PresenceEvery/2 {
				said = now
				r.publishPresence(ctx)
			}
			if now.Sub(announced) > max(sweeps.every, releaseEvery)-dispatch.PresenceEvery/2 {
				announced = now
				r.releaseAllBlocked(ctx)
			}
		case now := <-uses.C:
			r.reportDue(ctx, now)
		case now := <-looks.C:
			if sweeps.isDue(now, r.peers.Size()) {
				r.sweep(ctx)
			}
		}
	}
}

// pollLoop sweeps at a fixed interval until ctx ends, for backends that send no wake-ups for some work.
func (r *Run) pollLoop(ctx context.Context, every time.Duration) {
	for ctx.Err() == nil {
		sleep.For(ctx, every)
		r.sweep(ctx)
	}
}

// sweepEvery returns the interval of sweeps of a worker without peers.
func (r *Run) sweepEvery() time.Duration {
	if r.worker.sweep > 0 {
		return r.worker.sweep
	}
	if r.Session.Client.Mode() == rueidis.ClientModeCluster {
		return clusterSweep
	}
	return serverSweep
}

// sweepTimer decides when a worker sweeps. It is checked at a fixed interval, since the number of peers is
// unknown when a worker starts, and changes.
type sweepTimer struct {
	every time.Duration // interval without peers
	last  time.Time
}

// isDue reports whether a worker with a number of peers sweeps now, and records the sweep.
func (r *sweepTimer) isDue(now time.Time, others int) bool {
	interval := min(time.Duration(1+others/peersPerSweep)*r.every, max(r.every, maxSweep))
	if now.Sub(r.last) < interval-r.every/2 {
		return false
	}
	r.last = now
	return true
}

// sweep queues every shard that has executions to claim.
func (r *Run) sweep(ctx context.Context) {
	for _, at := range r.laneShardsWith(ctx, r.Session.Backend.Claimable) {
		r.queue.Add(at)
	}
}

// releaseAllBlocked makes executions eligible that are blocked until a worker with this worker's activities
// and capabilities appears, in all shards.
func (r *Run) releaseAllBlocked(ctx context.Context) {
	r.enterDirectory(ctx)
	keys := r.Core.Keys()
	filled := r.laneShardsWith(ctx, func(p keyspace.Partition, lane enginecore.LaneID) []string {
		return []string{keys.LaneBlockedRoute(p, lane)}
	})
	for _, at := range filled {
		r.releaseBlocked(ctx, at)
	}
}

// enterDirectory records the worker's capabilities and lanes for other programs of the contract. It does so again and
// again, which makes up for data that a server has lost.
func (r *Run) enterDirectory(ctx context.Context) {
	directory, stepwise := r.Session.Stepwise()
	if !stepwise || r.left.Load() {
		return // this project's library needs no list
	}
	err := directory.EnterWorker(ctx, r.worker.Instance, r.request.Capabilities, r.lanes())
	if err != nil && ctx.Err() == nil {
		r.warnOfAnnouncement(ctx, err)
	}
}

// leaveDirectory removes the worker from the list of enterDirectory. If that fails, the list has a worker too many,
// as after a crash.
func (r *Run) leaveDirectory() {
	directory, stepwise := r.Session.Stepwise()
	if !stepwise {
		return
	}
	ctx, cancel := context.WithTimeout(r.Base, stopPatience)
	defer cancel()
	if err := directory.LeaveWorker(ctx, r.worker.Instance); err != nil && !errors.Is(err, enginecore.ErrClosed) {
		r.warnOfAnnouncement(ctx, err)
	}
}

func (r *Run) warnOfAnnouncement(ctx context.Context, err error) {
	r.Session.Logger.LogAttrs(ctx, slog.LevelWarn,
		"flowfabric: the worker could not announce its capabilities and retries",
		observe.EventAnnounceFailed.Attr(), slog.Any("error", err))
}

// laneShardsWith returns the shards that have one of the keys, and those for which the read failed. It costs a server
// that has all partitions one command if no shard has any, and otherwise one for each shard.
func (r *Run) laneShardsWith(
	ctx context.Context, keysOf func(keyspace.Partition, enginecore.LaneID) []string,
) []dispatch.LaneShard {
	var shards []dispatch.LaneShard
	var keys [][]string
	for _, lane := range r.lanes() {
		for _, p := range r.Session.Partitions() {
			shards = append(shards, dispatch.LaneShard{Lane: lane, Partition: p})
			keys = append(keys, keysOf(p, lane))
		}
	}
	var some []dispatch.LaneShard
	for i, filled := range r.Session.Filled(ctx, keys) {
		if filled {
			some = append(some, shards[i])
		}
	}
	return some
}

// releaseBlocked makes executions of one shard eligible that wait for a worker with this worker's activities
// and capabilities, and queues the shard.
func (r *Run) releaseBlocked(ctx context.Context, at dispatch.LaneShard) {
	for cursor := ""; ; {
		reply, err := r.Session.Backend.Announce(ctx, enginerpc.AnnounceCall{
			Partition: at.Partition, LaneID: at.Lane, Kinds: r.request.Kinds, Capabilities: r.request.Capabilities,
			Cursor: cursor,
		})
		if err != nil && ctx.Err() == nil {
			r.warnOfAnnouncement(ctx, err)
		}
		if err != nil || reply.NextCursor == "" {
			break
		}
		cursor = reply.NextCursor
	}
	r.queue.Add(at)
}
