package worker

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"strconv"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
	"github.com/flowfabric/flowfabric-go/runtime/internal/dispatch"
	"github.com/flowfabric/flowfabric-go/runtime/internal/engine"
)

const (
	// serverSweep is how often a worker looks into every partition, in case a wake-up was lost. With more workers, each
	// looks less often, at the least every maxSweep. In a cluster it looks sooner: servers pass messages on to each other
	// over links that come and go, and who misses one is not told.
	serverSweep  = 15 * time.Second
	clusterSweep = 5 * time.Second
	maxSweep     = time.Minute
	// peersPerSweep more workers make a worker sweep later by another such time.
	peersPerSweep = 4
)

// listen hears where work waits and which executions to stop.
func (s *WorkerRun) listen(ctx context.Context) {
	keys := s.core.Keys()
	lanes := make(map[string]enginecore.LaneID, len(s.Worker.Config.Lanes))
	orders := keys.ChannelWorker(s.Worker.Instance)
	var channels []string
	for _, lane := range s.lanes() {
		channel := keys.ChannelWake(lane)
		lanes[channel] = lane
		channels = append(channels, channel)
	}
	channels = append(channels, orders)
	subscribed := func() {
		s.background.start(func() {
			s.publishPresence(ctx, "here")
			s.sweep(ctx)
			s.releaseAllBlocked(ctx)
		})
	}
	s.Session.Hub.Listen(ctx, channels, subscribed, func(channel, message string) {
		if channel == orders {
			s.handleControl(message)
			return
		}
		s.handleWake(ctx, lanes[channel], nil, message)
	})
}

// publishLeaving tells the others that this worker takes no more work.
func (s *WorkerRun) publishLeaving() {
	s.left.Store(true)
	leaving, cancel := context.WithTimeout(s.Base, time.Second)
	defer cancel()
	s.publishPresence(leaving, "left")
}

// lanes are those that the worker serves, each once.
func (s *WorkerRun) lanes() []enginecore.LaneID {
	var list []enginecore.LaneID
	seen := make(map[string]bool, len(s.Worker.Config.Lanes))
	for _, name := range s.Worker.Config.Lanes {
		if !seen[name] {
			seen[name] = true
			list = append(list, enginecore.LaneID(name))
		}
	}
	return list
}

// handleWake handles what is said on a lane's channel, or at a place of its rota, where only work and none are said:
//
//	work <partition> <number>      there is something to claim; the number makes messages differ
//	none <partition>               all of it has been claimed
//	aside <partition> <activity>   an execution was set aside, because the worker that met it cannot run the activity
//	here <instance>                a worker serves the lane
//	left <instance>                it does no more
func (s *WorkerRun) handleWake(ctx context.Context, lane enginecore.LaneID, place *int, message string) {
	verb, rest, _ := strings.Cut(message, " ")
	switch verb {
	case "here":
		if rest != string(s.Worker.Instance) && s.peers.Add(lane, rest, time.Now()) {
			s.answerNewcomers(ctx)
		}
		return
	case "left":
		s.peers.Remove(lane, rest)
		return
	}
	number, detail, _ := strings.Cut(rest, " ")
	index, err := strconv.ParseUint(number, 10, 16)
	if err != nil {
		return
	}
	at := dispatch.LaneShard{Lane: lane, Partition: enginecore.Partition{Family: enginecore.FlowFamily, Index: uint16(index)}}
	switch verb {
	case "work":
		if place == nil {
			s.queue.AddShared(at, func() (time.Duration, bool) { return s.peers.TurnDelay(lane, rest) })
			return
		}
		sent, _ := strconv.ParseInt(detail, 10, 64)
		wait, handOn := s.peers.SlotDelay(lane, *place, sent)
		s.queue.AddAssigned(at, *place, wait, handOn, func() { s.background.start(func() { s.broadcastWake(ctx, lane, message) }) })
	case "none":
		s.queue.MarkEmpty(at)
	case "aside":
		if s.Worker.handlers[detail] != nil {
			s.queue.AddSetAside(at)
		}
	}
}

// broadcastWake tells all workers of a lane what those on duty have not taken.
func (s *WorkerRun) broadcastWake(ctx context.Context, lane enginecore.LaneID, message string) {
	client := s.Session.Client
	// The sweeps make up for what is lost here.
	client.Do(ctx, client.B().Publish().Channel(s.core.Keys().ChannelWake(lane)).Message(message).Build())
}

// answerNewcomers makes this worker known to newcomers.
func (s *WorkerRun) answerNewcomers(ctx context.Context) {
	if !s.answering.CompareAndSwap(false, true) {
		return
	}
	s.background.start(func() {
		engine.Pause(ctx, rand.N(dispatch.AnnounceWithin))
		s.answering.Store(false)
		if ctx.Err() == nil {
			s.publishPresence(ctx, "here")
		}
	})
}

// publishPresence tells the other workers of its lanes that this one is there, or leaves.
func (s *WorkerRun) publishPresence(ctx context.Context, verb string) {
	if verb == "here" && s.left.Load() {
		return
	}
	client := s.Session.Client
	var messages rueidis.Commands
	for _, lane := range s.lanes() {
		messages = append(messages, client.B().Publish().Channel(s.core.Keys().ChannelWake(lane)).
			Message(verb+" "+string(s.Worker.Instance)).Build())
	}
	// What is lost here is said again soon, or shows by silence.
	client.DoMulti(ctx, messages...)
}

// handleControl handles "cancel <execution> <lease> <reason>". The lease tells a claim of the execution from a later one.
func (s *WorkerRun) handleControl(message string) {
	words := strings.SplitN(message, " ", 4)
	if len(words) == 4 && words[0] == "cancel" {
		s.Leases.cancel(enginecore.ExecutionID(words[1]), enginecore.LeaseID(words[2]), words[3])
	}
}

// presenceLoop shows presence and sweeps, until ctx ends.
func (s *WorkerRun) presenceLoop(ctx context.Context) {
	present := time.NewTicker(dispatch.PresenceEvery)
	defer present.Stop()
	sweeps := sweepTimer{every: s.sweepEvery(), last: time.Now()}
	looks := time.NewTicker(sweeps.every)
	defer looks.Stop()
	announced := time.Now()
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-present.C:
			s.peers.RemoveSilent(now)
			s.publishPresence(ctx, "here")
			if now.Sub(announced) > max(sweeps.every, maxSweep)-dispatch.PresenceEvery/2 {
				announced = now
				s.releaseAllBlocked(ctx)
			}
		case now := <-looks.C:
			if sweeps.isDue(now, s.peers.Size()) {
				s.sweep(ctx)
			}
		}
	}
}

// pollLoop looks for work of which nobody tells.
func (s *WorkerRun) pollLoop(ctx context.Context, every time.Duration) {
	for ctx.Err() == nil {
		engine.Pause(ctx, every)
		s.sweep(ctx)
	}
}

// sweepEvery is how often a worker sweeps that is alone.
func (s *WorkerRun) sweepEvery() time.Duration {
	if s.Worker.Config.Sweep > 0 {
		return s.Worker.Config.Sweep
	}
	if s.Session.Client.Mode() == rueidis.ClientModeCluster {
		return clusterSweep
	}
	return serverSweep
}

// sweepTimer tells when a worker sweeps. It is asked every so often, since how many others there are is not known when a worker
// begins, and changes.
type sweepTimer struct {
	every time.Duration // between sweeps of one that is alone
	last  time.Time
}

// isDue reports whether a worker beside so many others sweeps now.
func (r *sweepTimer) isDue(now time.Time, others int) bool {
	interval := min(time.Duration(1+others/peersPerSweep)*r.every, max(r.every, maxSweep))
	if now.Sub(r.last) < interval-r.every/2 {
		return false
	}
	r.last = now
	return true
}

// sweep puts every spot on the board that has something to claim.
func (s *WorkerRun) sweep(ctx context.Context) {
	for _, at := range s.laneShardsWith(ctx, s.Session.Backend.Claimable) {
		s.queue.Add(at)
	}
}

// releaseAllBlocked releases everywhere what waits for a worker like this one.
func (s *WorkerRun) releaseAllBlocked(ctx context.Context) {
	keys := s.core.Keys()
	filled := s.laneShardsWith(ctx, func(p enginecore.Partition, lane enginecore.LaneID) []string {
		return []string{keys.LaneBlockedRoute(p, lane)}
	})
	for _, at := range filled {
		s.releaseBlocked(ctx, at)
	}
}

// laneShardsWith lists the shards that have any of the keys. It costs the engine a command for each spot. Those of which it cannot
// be known are listed, too.
func (s *WorkerRun) laneShardsWith(ctx context.Context, keysOf func(enginecore.Partition, enginecore.LaneID) []string) []dispatch.LaneShard {
	client := s.Session.Client
	var spots []dispatch.LaneShard
	var questions rueidis.Commands
	for _, lane := range s.lanes() {
		for _, p := range s.Session.Partitions() {
			at := dispatch.LaneShard{Lane: lane, Partition: p}
			spots = append(spots, at)
			questions = append(questions, client.B().Exists().Key(keysOf(p, lane)...).Build())
		}
	}
	var filled []dispatch.LaneShard
	for i, answer := range client.DoMulti(ctx, questions...) {
		if n, err := answer.AsInt64(); err != nil || n > 0 {
			filled = append(filled, spots[i])
		}
	}
	return filled
}

// releaseBlocked releases what waits at one spot for a worker like this one, and claims it.
func (s *WorkerRun) releaseBlocked(ctx context.Context, at dispatch.LaneShard) {
	for cursor := ""; ; {
		reply, err := s.Session.Backend.Announce(ctx, enginerpc.AnnounceCall{
			Partition: at.Partition, LaneID: at.Lane, Kinds: s.request.Kinds, Capabilities: s.request.Capabilities, Cursor: cursor,
		})
		if err != nil && ctx.Err() == nil {
			s.Session.Logger.LogAttrs(ctx, slog.LevelWarn, "flowfabric: announcing the worker failed", engine.EventAnnounceFailed.Attr(), slog.Any("error", err))
		}
		if err != nil || reply.NextCursor == "" {
			break
		}
		cursor = reply.NextCursor
	}
	s.queue.Add(at)
}
