package link

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/internal/engine/observe"
)

// laneList caches the set of lanes in use, as a keeper last read it. All programs of this project share that set, so
// that any keeper serves the lanes of any worker, run and creation. The zero value is empty; it is safe for concurrent
// use.
type laneList struct {
	mu    sync.Mutex
	lanes []enginecore.LaneID
	read  time.Time // when the set was last read
}

// isDue reports whether the set is to be read again, and notes that it is being read.
func (l *laneList) isDue(every time.Duration) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	if now.Sub(l.read) < every {
		return false
	}
	l.read = now
	return true
}

func (l *laneList) set(lanes []enginecore.LaneID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lanes = lanes
}

// with returns the lanes of the list and the given ones, sorted and without duplicates.
func (l *laneList) with(more ...enginecore.LaneID) []enginecore.LaneID {
	l.mu.Lock()
	defer l.mu.Unlock()
	lanes := slices.Concat(l.lanes, more)
	slices.Sort(lanes)
	return slices.Compact(lanes)
}

// EnterLanes enters lanes into the set that all keepers read.
func (c *Link) EnterLanes(ctx context.Context, lanes ...enginecore.LaneID) error {
	return c.Core.EnterLanes(ctx, lanes...)
}

// KnownLanes returns the lanes that any program of this project has entered, "default", the lane of waitpoint nodes,
// and the given ones, sorted and without duplicates. It enters the given ones, too, and reads the set at most once per
// poll interval; if that fails, it returns the lanes of the last read.
func (c *Link) KnownLanes(ctx context.Context, more []enginecore.LaneID) []enginecore.LaneID {
	var err error
	if c.lanes.isDue(c.Poll) {
		var lanes []enginecore.LaneID
		if lanes, err = c.Core.UsedLanes(ctx); err == nil {
			c.lanes.set(lanes)
		}
	}
	if err = errors.Join(err, c.Core.EnterLanes(ctx, more...)); err != nil && ctx.Err() == nil {
		c.Logger.LogAttrs(ctx, slog.LevelWarn,
			"flowfabric: the keeper could not read which lanes are in use, and continues with those that it knows",
			observe.EventTickFailed.Attr(), slog.Any("error", err))
	}
	return c.lanes.with(append([]enginecore.LaneID{defaultLane, WaitLane}, more...)...)
}

// defaultLane is the lane of executions that were created without one.
const defaultLane enginecore.LaneID = "default"

// Waitpoint nodes are executions of a separate lane and kind, which only the backend claims: in the contract, an
// execution waits only after a worker has claimed it.
const (
	WaitLane = enginecore.LaneID("flowfabric.waits")
	WaitKind = "flowfabric.waitpoint"
)
