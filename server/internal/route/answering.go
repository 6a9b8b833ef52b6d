package route

import (
	"context"
	"sync/atomic"
	"time"
)

const (
	// askEvery is the time between two questions to the engine while streams are open, askWithin the time for an
	// answer.
	askEvery, askWithin = time.Second, 2 * time.Second
	// silent is the age of the last answer from which streams report it.
	silent = 3 * time.Second
)

// answering knows how long ago the engine has answered. It asks only while streams are open.
type answering struct {
	ask   func(context.Context) error
	open  atomic.Int64 // streams
	asked atomic.Bool
	last  atomic.Pointer[time.Time]
}

// enter counts a stream until the returned function is called.
func (a *answering) enter(stop context.Context) (leave func()) {
	a.open.Add(1)
	if a.asked.CompareAndSwap(false, true) {
		a.touch()
		go a.run(stop)
	}
	return func() { a.open.Add(-1) }
}

func (a *answering) touch() {
	now := time.Now()
	a.last.Store(&now)
}

// run asks the engine until no stream is open.
func (a *answering) run(stop context.Context) {
	tick := time.NewTicker(askEvery)
	defer tick.Stop()
	for {
		select {
		case <-stop.Done():
			return
		case <-tick.C:
		}
		if a.open.Load() == 0 {
			a.asked.Store(false)
			if a.open.Load() == 0 || !a.asked.CompareAndSwap(false, true) {
				return
			}
		}
		ctx, cancel := context.WithTimeout(stop, askWithin)
		if a.ask(ctx) == nil {
			a.touch()
		}
		cancel()
	}
}

// age returns how long ago the engine has answered.
func (a *answering) age() time.Duration {
	if last := a.last.Load(); last != nil {
		return time.Since(*last)
	}
	return 0
}
