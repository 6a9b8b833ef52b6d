package runtime

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/google/uuid"
)

const (
	// sweepEvery is how often a worker looks into every partition, in case a wake-up was lost.
	sweepEvery = 15 * time.Second
	// announceEvery counts the sweeps between two announcements of what the worker can run.
	announceEvery = 4
	// claimPause is how long a spot rests after a claim that failed.
	claimPause = 200 * time.Millisecond
	// stopPatience is how long functions get to return after their context ended at a stop.
	stopPatience = 2 * time.Second
)

// shift is one run of a worker.
type shift struct {
	worker  *Worker
	engine  *Engine
	core    *enginecore.Engine
	request enginecore.ClaimRequest // without claim id, lane and count
	board   *board
	leases  *leaseBook
	// base carries the values of Run's context but does not end with it.
	base  context.Context
	tasks sync.WaitGroup // executions and claims
	drain drainer
	// errands are what messages ask for.
	errands errands
}

// errands are goroutines that messages start, which may come until the last moment.
type errands struct {
	mu      sync.Mutex
	over    bool
	running sync.WaitGroup
}

func (e *errands) start(do func()) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.over {
		e.running.Go(do)
	}
}

// finish waits for what runs; nothing is started any more.
func (e *errands) finish() {
	e.mu.Lock()
	e.over = true
	e.mu.Unlock()
	e.running.Wait()
}

func newShift(w *Worker) *shift {
	return &shift{
		worker: w, engine: w.engine, core: w.engine.core, board: newBoard(w.config.slots),
		request: enginecore.ClaimRequest{
			WorkerID: enginecore.WorkerID(w.config.id), WorkerInstanceID: w.instance, LeaseTTL: w.config.lease,
			Kinds: w.kinds(), Capabilities: strings.Join(w.config.capabilities, ","),
		},
		drain: drainer{core: w.engine.core, logger: w.engine.logger},
	}
}

func (s *shift) run(ctx context.Context) error {
	s.base = context.WithoutCancel(ctx)
	s.leases = newLeaseBook(s)
	if err := s.leases.register(ctx); err != nil {
		if ctx.Err() != nil {
			return nil
		}
		return fmt.Errorf("worker: %w", err)
	}
	background, stop := context.WithCancel(s.base)
	var services sync.WaitGroup
	services.Go(func() { s.leases.keep(background) })
	services.Go(func() { s.listen(background) })

	s.dispatch(ctx)

	s.board.close()
	err := s.finish()
	stop()
	services.Wait()
	s.errands.finish()
	s.drain.wait()
	s.leases.deregister()
	return err
}

// dispatch claims work for free slots until ctx ends.
func (s *shift) dispatch(ctx context.Context) {
	sweep := time.NewTicker(sweepEvery)
	defer sweep.Stop()
	for sweeps := 1; ; {
		for {
			spot, slots, ok := s.board.take()
			if !ok {
				break
			}
			s.tasks.Go(func() { s.claim(ctx, spot, slots) })
		}
		select {
		case <-ctx.Done():
			return
		case <-s.board.changed:
		case <-sweep.C:
			if sweeps%announceEvery == 0 {
				s.tasks.Go(func() { s.announceAll(ctx) })
			}
			sweeps++
			s.sweep()
		}
	}
}

// sweep puts every spot on the board.
func (s *shift) sweep() {
	for _, lane := range s.worker.config.lanes {
		for _, p := range s.engine.partitions() {
			s.board.add(spot{enginecore.LaneID(lane), p})
		}
	}
}

// claim fills slots from one spot.
func (s *shift) claim(ctx context.Context, from spot, slots int) {
	call := enginecore.ClaimCall{Partition: from.partition, ClaimRequest: s.claimRequest(from.lane, slots)}
	call.Aside = s.board.takeAside(from)
	sentAt := time.Now()
	reply, err := s.core.Claim(s.base, call)
	for errors.Is(err, enginecore.ErrOutcomeUnknown) && ctx.Err() == nil {
		s.leases.doubt()
		call.Repeated = true
		pause(ctx, claimPause)
		sentAt = time.Now()
		reply, err = s.core.Claim(s.base, call)
	}
	if err != nil {
		s.leases.doubt()
		s.engine.logger.LogAttrs(ctx, slog.LevelWarn, "flowfabric: claim failed", slog.String("lane", string(from.lane)),
			slog.String("partition", from.partition.Tag()), slog.Any("error", err))
		pause(ctx, claimPause)
		s.board.claimed(slots)
		if call.Aside {
			s.board.addAside(from)
		} else {
			s.board.add(from)
		}
		return
	}
	for _, claimed := range reply.Executions {
		t := newTask(s, from, claimed, sentAt)
		s.tasks.Go(func() { s.work(t) })
	}
	s.board.claimed(slots - len(reply.Executions))
	switch {
	case call.Aside && len(reply.Executions) == slots:
		s.board.addAside(from)
	case reply.Remaining > 0:
		s.board.add(from)
	}
}

func (s *shift) claimRequest(lane enginecore.LaneID, count int) enginecore.ClaimRequest {
	request := s.request
	request.LaneID, request.Count, request.ClaimID = lane, int64(count), uuid.NewString()
	return request
}

// maxInRow bounds how many executions of one spot a slot may run in a row while other spots wait.
const maxInRow = 8

// work occupies a slot: it runs a task and those that its completions hand on, then frees the slot.
func (s *shift) work(t *task) {
	for row := 1; t != nil; row++ {
		t = t.run(row < maxInRow || !s.board.crowded())
	}
	s.board.release()
}

// finish lets running functions end within the grace time, then ends their contexts and gives the rest back.
func (s *shift) finish() error {
	done := make(chan struct{})
	go func() {
		s.tasks.Wait()
		close(done)
	}()
	if waitFor(done, s.worker.config.grace) {
		return nil
	}
	s.leases.stopAll()
	if waitFor(done, stopPatience) {
		return nil
	}
	names := s.leases.abandonAll()
	return fmt.Errorf("worker: gave back what still runs after its context ended: %s", strings.Join(names, ", "))
}

func waitFor(done <-chan struct{}, limit time.Duration) bool {
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-done:
		return true
	case <-timer.C:
		return false
	}
}

// pause waits, or returns early when ctx ends.
func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}

// listen hears where work waits and which executions to stop.
func (s *shift) listen(ctx context.Context) {
	keys := s.core.Keys()
	lanes := make(map[string]enginecore.LaneID, len(s.worker.config.lanes))
	orders := keys.ChannelWorker(s.worker.instance)
	var channels []string
	for _, name := range s.worker.config.lanes {
		lane := enginecore.LaneID(name)
		if channel := keys.ChannelWake(lane); lanes[channel] == "" {
			lanes[channel] = lane
			channels = append(channels, channel)
		}
	}
	channels = append(channels, orders)
	subscribed := func() {
		s.sweep()
		s.errands.start(func() { s.announceAll(ctx) })
	}
	s.engine.hub.listen(ctx, channels, subscribed, func(channel, message string) {
		if channel == orders {
			s.obey(message)
			return
		}
		s.wake(lanes[channel], message)
	})
}

// wake handles "<partition>" and "<partition> <activity>": the latter tells that an execution was set aside because the
// worker that met it does not know the activity.
func (s *shift) wake(lane enginecore.LaneID, message string) {
	number, kind, setAside := strings.Cut(message, " ")
	index, err := strconv.ParseUint(number, 10, 16)
	if err != nil {
		return
	}
	at := spot{lane, enginecore.Partition{Family: enginecore.FlowFamily, Index: uint16(index)}}
	if !setAside {
		s.board.add(at)
		return
	}
	if s.worker.handlers[kind] != nil {
		s.board.addAside(at)
	}
}

// obey handles "cancel <execution> <lease> <reason>". The lease tells a claim of the execution from a later one.
func (s *shift) obey(message string) {
	words := strings.SplitN(message, " ", 4)
	if len(words) == 4 && words[0] == "cancel" {
		s.leases.cancel(enginecore.ExecutionID(words[1]), enginecore.LeaseID(words[2]), words[3])
	}
}

// announceAll releases everywhere what waits for a worker like this one.
func (s *shift) announceAll(ctx context.Context) {
	for _, lane := range s.worker.config.lanes {
		pipeline := s.core.Pipeline()
		pages := make(map[spot]*enginecore.Result[enginecore.AnnounceReply])
		for _, p := range s.engine.partitions() {
			at := spot{enginecore.LaneID(lane), p}
			pages[at] = enginecore.Add(pipeline, s.announcement(at, ""))
		}
		if err := pipeline.Run(ctx); err != nil && ctx.Err() == nil {
			s.engine.logger.LogAttrs(ctx, slog.LevelWarn, "flowfabric: announcing the worker failed", slog.Any("error", err))
		}
		for at, page := range pages {
			if reply, err := page.Get(); err == nil && reply.NextCursor != "" {
				s.announce(ctx, at)
			}
		}
	}
}

// announce releases what waits at one spot, and claims it.
func (s *shift) announce(ctx context.Context, at spot) {
	for cursor := ""; ; {
		reply, err := s.core.Announce(ctx, s.announcement(at, cursor))
		if err != nil || reply.NextCursor == "" {
			break
		}
		cursor = reply.NextCursor
	}
	s.board.add(at)
}

func (s *shift) announcement(at spot, cursor string) enginecore.AnnounceCall {
	return enginecore.AnnounceCall{
		Partition: at.partition, LaneID: at.lane, Kinds: s.request.Kinds, Capabilities: s.request.Capabilities, Cursor: cursor,
	}
}
