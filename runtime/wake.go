package runtime

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
func (s *workerRun) listen(ctx context.Context) {
	keys := s.core.Keys()
	lanes := make(map[string]enginecore.LaneID, len(s.worker.config.lanes))
	orders := keys.ChannelWorker(s.worker.instance)
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
	s.session.hub.listen(ctx, channels, subscribed, func(channel, message string) {
		if channel == orders {
			s.handleControl(message)
			return
		}
		s.handleWake(ctx, lanes[channel], nil, message)
	})
}

// publishLeaving tells the others that this worker takes no more work.
func (s *workerRun) publishLeaving() {
	s.left.Store(true)
	leaving, cancel := context.WithTimeout(s.base, time.Second)
	defer cancel()
	s.publishPresence(leaving, "left")
}

// lanes are those that the worker serves, each once.
func (s *workerRun) lanes() []enginecore.LaneID {
	var list []enginecore.LaneID
	seen := make(map[string]bool, len(s.worker.config.lanes))
	for _, name := range s.worker.config.lanes {
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
func (s *workerRun) handleWake(ctx context.Context, lane enginecore.LaneID, place *int, message string) {
	verb, rest, _ := strings.Cut(message, " ")
	switch verb {
	case "here":
		if rest != string(s.worker.instance) && s.peers.add(lane, rest, time.Now()) {
			s.answerNewcomers(ctx)
		}
		return
	case "left":
		s.peers.remove(lane, rest)
		return
	}
	number, detail, _ := strings.Cut(rest, " ")
	index, err := strconv.ParseUint(number, 10, 16)
	if err != nil {
		return
	}
	at := laneShard{lane, enginecore.Partition{Family: enginecore.FlowFamily, Index: uint16(index)}}
	switch verb {
	case "work":
		if place == nil {
			s.queue.addShared(at, func() (time.Duration, bool) { return s.peers.turnDelay(lane, rest) })
			return
		}
		sent, _ := strconv.ParseInt(detail, 10, 64)
		wait, handOn := s.peers.slotDelay(lane, *place, sent)
		s.queue.addAssigned(at, *place, wait, handOn, func() { s.background.start(func() { s.broadcastWake(ctx, lane, message) }) })
	case "none":
		s.queue.markEmpty(at)
	case "aside":
		if s.worker.handlers[detail] != nil {
			s.queue.addSetAside(at)
		}
	}
}

// broadcastWake tells all workers of a lane what those on duty have not taken.
func (s *workerRun) broadcastWake(ctx context.Context, lane enginecore.LaneID, message string) {
	client := s.session.client
	// The sweeps make up for what is lost here.
	client.Do(ctx, client.B().Publish().Channel(s.core.Keys().ChannelWake(lane)).Message(message).Build())
}

// answerNewcomers makes this worker known to newcomers.
func (s *workerRun) answerNewcomers(ctx context.Context) {
	if !s.answering.CompareAndSwap(false, true) {
		return
	}
	s.background.start(func() {
		pause(ctx, rand.N(announceWithin))
		s.answering.Store(false)
		if ctx.Err() == nil {
			s.publishPresence(ctx, "here")
		}
	})
}

// publishPresence tells the other workers of its lanes that this one is there, or leaves.
func (s *workerRun) publishPresence(ctx context.Context, verb string) {
	if verb == "here" && s.left.Load() {
		return
	}
	client := s.session.client
	var messages rueidis.Commands
	for _, lane := range s.lanes() {
		messages = append(messages, client.B().Publish().Channel(s.core.Keys().ChannelWake(lane)).
			Message(verb+" "+string(s.worker.instance)).Build())
	}
	// What is lost here is said again soon, or shows by silence.
	client.DoMulti(ctx, messages...)
}

// handleControl handles "cancel <execution> <lease> <reason>". The lease tells a claim of the execution from a later one.
func (s *workerRun) handleControl(message string) {
	words := strings.SplitN(message, " ", 4)
	if len(words) == 4 && words[0] == "cancel" {
		s.leases.cancel(enginecore.ExecutionID(words[1]), enginecore.LeaseID(words[2]), words[3])
	}
}

// presenceLoop shows presence and sweeps, until ctx ends.
func (s *workerRun) presenceLoop(ctx context.Context) {
	present := time.NewTicker(presenceEvery)
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
			s.peers.removeSilent(now)
			s.publishPresence(ctx, "here")
			if now.Sub(announced) > max(sweeps.every, maxSweep)-presenceEvery/2 {
				announced = now
				s.releaseAllBlocked(ctx)
			}
		case now := <-looks.C:
			if sweeps.isDue(now, s.peers.size()) {
				s.sweep(ctx)
			}
		}
	}
}

// pollLoop looks for work of which nobody tells.
func (s *workerRun) pollLoop(ctx context.Context, every time.Duration) {
	for ctx.Err() == nil {
		pause(ctx, every)
		s.sweep(ctx)
	}
}

// sweepEvery is how often a worker sweeps that is alone.
func (s *workerRun) sweepEvery() time.Duration {
	if s.worker.config.sweep > 0 {
		return s.worker.config.sweep
	}
	if s.session.client.Mode() == rueidis.ClientModeCluster {
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
func (s *workerRun) sweep(ctx context.Context) {
	for _, at := range s.laneShardsWith(ctx, s.session.backend.claimable) {
		s.queue.add(at)
	}
}

// releaseAllBlocked releases everywhere what waits for a worker like this one.
func (s *workerRun) releaseAllBlocked(ctx context.Context) {
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
func (s *workerRun) laneShardsWith(ctx context.Context, keysOf func(enginecore.Partition, enginecore.LaneID) []string) []laneShard {
	client := s.session.client
	var spots []laneShard
	var questions rueidis.Commands
	for _, lane := range s.lanes() {
		for _, p := range s.session.partitions() {
			at := laneShard{lane, p}
			spots = append(spots, at)
			questions = append(questions, client.B().Exists().Key(keysOf(p, lane)...).Build())
		}
	}
	var filled []laneShard
	for i, answer := range client.DoMulti(ctx, questions...) {
		if n, err := answer.AsInt64(); err != nil || n > 0 {
			filled = append(filled, spots[i])
		}
	}
	return filled
}

// releaseBlocked releases what waits at one spot for a worker like this one, and claims it.
func (s *workerRun) releaseBlocked(ctx context.Context, at laneShard) {
	for cursor := ""; ; {
		reply, err := s.session.backend.Announce(ctx, enginerpc.AnnounceCall{
			Partition: at.partition, LaneID: at.lane, Kinds: s.request.Kinds, Capabilities: s.request.Capabilities, Cursor: cursor,
		})
		if err != nil && ctx.Err() == nil {
			s.session.logger.LogAttrs(ctx, slog.LevelWarn, "flowfabric: announcing the worker failed", eventAnnounceFailed.attr(), slog.Any("error", err))
		}
		if err != nil || reply.NextCursor == "" {
			break
		}
		cursor = reply.NextCursor
	}
	s.queue.add(at)
}
