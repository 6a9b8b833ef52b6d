package keeper

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/flowfabric/flowfabric-go/internal/engine"
	"github.com/flowfabric/flowfabric-go/internal/engine/observe"
	"github.com/flowfabric/flowfabric-go/internal/sleep"
)

// builtInSettle is how long the keeper of workers waits for answers of others before it begins, if there are any.
const builtInSettle = 300 * time.Millisecond

// SharedKeeper is the keeper that the workers of a session share. It runs while workers run that use it, unless a
// keeper made by the public NewKeeper runs on the same session. While all running workers do without a keeper, it
// warns if the engine has none. It is safe for concurrent use.
type SharedKeeper struct {
	session *engine.Session
	config  Config
	// LookEvery is the interval at which workers without a keeper check that one exists. It must not be changed once
	// a worker has joined.
	LookEvery time.Duration
	// StandbyBeat is how often a hot standby announces itself. It must not be changed once a worker has joined.
	StandbyBeat time.Duration

	mu sync.Mutex
	// keeping and bare count the running workers with the keeper and without one; made counts the running keepers of
	// the public NewKeeper.
	keeping, bare, made int
	keeper              service
	// watch warns if the engine has no keeper.
	watch service
	fault error
}

// NewSharedKeeper returns the shared keeper of a session, not running. The config is for the keeper that it starts.
func NewSharedKeeper(s *engine.Session, config Config) *SharedKeeper {
	return &SharedKeeper{session: s, config: config, LookEvery: keeperLookEvery, StandbyBeat: standbyBeat}
}

// service is a goroutine that is started and stopped as needed.
type service struct {
	stop context.CancelFunc // nil when it is off
	done chan struct{}      // closed when the last one that was started has ended; nil before the first
}

// set starts or stops the goroutine. A new goroutine begins when the previous one has ended.
func (s *service) set(on bool, run func(context.Context)) {
	switch {
	case on && s.stop == nil:
		ctx, stop := context.WithCancel(context.Background())
		before, done := s.done, make(chan struct{})
		s.stop, s.done = stop, done
		go func() {
			defer close(done)
			if before != nil {
				<-before
			}
			run(ctx)
		}()
	case !on && s.stop != nil:
		s.stop()
		s.stop = nil
	}
}

// ending returns a channel that is closed when a stopped service has ended; nil if there is nothing to wait for.
func (s *service) ending() <-chan struct{} {
	if s.stop != nil {
		return nil
	}
	return s.done
}

// count changes one of the counts and starts or stops the services that depend on it.
func (b *SharedKeeper) count(what *int, change int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	*what += change
	b.keeper.set(b.keeping > 0 && b.made == 0, b.keep)
	b.watch.set(!b.session.Quiet && b.bare > 0 && b.keeping == 0 && b.made == 0, b.watchForKeepers)
}

// Yield stops the shared keeper, on behalf of a keeper made by the public NewKeeper, until the returned function is
// called.
func (b *SharedKeeper) Yield() (end func()) {
	b.count(&b.made, 1)
	return func() { b.count(&b.made, -1) }
}

// Join runs the shared keeper on behalf of a running worker; with without set, it only checks that the engine has a
// keeper. The returned function withdraws the worker, waits until a keeper that it stops has ended, and returns the
// error with which the shared keeper ended early, if it did.
func (b *SharedKeeper) Join(without bool) (leave func() error) {
	workers := &b.keeping
	if without {
		workers = &b.bare
	}
	b.count(workers, 1)
	return func() error {
		b.count(workers, -1)
		b.mu.Lock()
		ending := []<-chan struct{}{b.keeper.ending(), b.watch.ending()}
		b.mu.Unlock()
		for _, ended := range ending {
			if ended != nil {
				<-ended
			}
		}
		b.mu.Lock()
		defer b.mu.Unlock()
		return b.fault
	}
}

// keep runs the keeper until ctx ends.
func (b *SharedKeeper) keep(ctx context.Context) {
	k := New(b.session, b.config)
	k.Members.builtIn, k.standbyBeat = true, b.StandbyBeat
	err := k.runBuiltIn(ctx)
	if err == nil {
		return
	}
	b.session.Logger.LogAttrs(ctx, slog.LevelError,
		"flowfabric: the keeper of the workers has ended; the workers continue without it",
		observe.EventKeeperEnded.Attr(), slog.Any("error", err))
	b.mu.Lock()
	defer b.mu.Unlock()
	b.fault = err
}

// runBuiltIn maintains the engine while this keeper is not on standby, until ctx ends. When the engine stops serving
// this program, the workers report it.
func (k *Keeper) runBuiltIn(ctx context.Context) error {
	defer k.liveness.Begin()()
	ctx, release := k.Session.WhileServed(ctx)
	defer release()
	ctx, stop := context.WithCancel(ctx)
	var announcing sync.WaitGroup
	announcing.Go(func() { newHotStandby(k).run(ctx) })
	defer announcing.Wait()
	defer stop()
	for k.awaitTurn(ctx) {
		if err := k.keepTurn(ctx); err != nil {
			return err
		}
	}
	return nil
}

// awaitTurn waits until this keeper is to run, and returns false if ctx ends before.
func (k *Keeper) awaitTurn(ctx context.Context) bool {
	deaf := time.NewTimer(SilentBeats * k.Members.heartbeat)
	defer deaf.Stop()
	for listening := k.Members.isListening(); !listening; listening = listening || k.Members.isListening() {
		select {
		case <-ctx.Done():
			return false
		case <-k.Members.turned:
		case <-deaf.C:
			listening = true // it runs all the same, like other keepers without messages
		}
	}
	for {
		for k.Members.isStandby() {
			select {
			case <-ctx.Done():
				return false
			case <-k.Members.turned:
			}
		}
		if k.isAlone(ctx) || k.settles(ctx) {
			return true
		}
		if ctx.Err() != nil {
			return false
		}
	}
}

// isAlone reports whether no other keeper can answer.
func (k *Keeper) isAlone(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, builtInSettle)
	defer cancel()
	seen, known := k.Session.KeepersSeen(ctx)
	return known && seen <= 1
}

// settles waits for answers of other keepers, and reports whether this keeper still has to run.
func (k *Keeper) settles(ctx context.Context) bool {
	timer := time.NewTimer(builtInSettle)
	defer timer.Stop()
	for !k.Members.isStandby() {
		select {
		case <-ctx.Done():
			return false
		case <-timer.C:
			return true
		case <-k.Members.turned:
		}
	}
	return false
}

// keepTurn runs the loops until this keeper has to enter standby or ctx ends.
func (k *Keeper) keepTurn(ctx context.Context) error {
	unwatch, err := k.watchMetrics()
	if err != nil {
		return err
	}
	defer unwatch()
	sleep.Wake(k.becameActive)
	k.share()
	turn, end := context.WithCancel(ctx)
	var working sync.WaitGroup
	working.Go(func() { k.work(turn) })
	defer working.Wait()
	defer end()
	for !k.Members.isStandby() {
		select {
		case <-ctx.Done():
			return nil
		case <-k.Members.turned:
		}
	}
	return nil
}

const (
	// keeperLookEvery is the default of SharedKeeper.LookEvery.
	keeperLookEvery = 2 * ShortSweep
	// keeperLooks is the number of unsuccessful checks in a row after which they warn.
	keeperLooks = 2
	// keeperWarnEvery is the least time between two warnings.
	keeperWarnEvery = time.Minute
)

// watchForKeepers warns while the engine has no keeper, until ctx ends.
func (b *SharedKeeper) watchForKeepers(ctx context.Context) {
	var warned time.Time
	missed := 0
	for sleep.For(ctx, b.LookEvery); ctx.Err() == nil; sleep.For(ctx, b.LookEvery) {
		if seen, known := b.session.KeepersSeen(ctx); seen > 0 || !known {
			missed = 0
			continue
		}
		missed++
		if missed < keeperLooks || !warned.IsZero() && time.Since(warned) < keeperWarnEvery {
			continue
		}
		warned = time.Now()
		b.session.Logger.LogAttrs(ctx, slog.LevelWarn,
			"flowfabric: the process detects no keeper: retries, delays, timeouts and expired leases wait for one; "+
				"leave WorkerConfig.NoKeeper unset, or run a keeper", observe.EventKeeperMissing.Attr())
	}
}
