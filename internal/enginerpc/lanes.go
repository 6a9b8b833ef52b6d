package enginerpc

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/redis/rueidis"

	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/internal/keyspace"
)

// laneRegister is a connection's copy of the set of lanes in use, from which keepers in contract mode learn which lanes
// to serve. The zero value is empty; it is safe for concurrent use.
type laneRegister struct {
	mu      sync.Mutex
	entered map[enginecore.LaneID]bool
}

// defaultLane is the lane that keepers serve in any case.
const defaultLane enginecore.LaneID = "default"

// missing returns the lanes of the list that are not known to be in the set, without duplicates.
func (r *laneRegister) missing(lanes []enginecore.LaneID) (names []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, lane := range lanes {
		if lane != "" && lane != defaultLane && !r.entered[lane] && !slices.Contains(names, string(lane)) {
			names = append(names, string(lane))
		}
	}
	return names
}

// note notes whether lanes are in the set.
func (r *laneRegister) note(entered bool, lanes ...string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.entered == nil {
		r.entered = make(map[enginecore.LaneID]bool)
	}
	for _, lane := range lanes {
		r.entered[enginecore.LaneID(lane)] = entered
	}
}

// renew notes which lanes the set has. Lanes that it has lost are entered again by the connections that use them.
func (r *laneRegister) renew(lanes []string) {
	r.mu.Lock()
	r.entered = nil
	r.mu.Unlock()
	r.note(true, lanes...)
}

// EnterLanes enters lanes into the set of lanes in use, unless this connection has done so. It does nothing on a
// connection that is not bound to the contract: the whole library notes lanes itself.
func (conn *Conn) EnterLanes(ctx context.Context, lanes ...enginecore.LaneID) error {
	if err := conn.connected(); err != nil {
		return err
	}
	if !conn.contractOnly {
		return nil
	}
	names := conn.lanes.missing(lanes)
	if len(names) == 0 {
		return nil
	}
	add := conn.client.B().Sadd().Key(conn.keys.UsedLanes()).Member(names...).Build()
	if err := conn.client.Do(ctx, add).Error(); err != nil {
		return fmt.Errorf("enter lanes: %w", commandError(ctx, err))
	}
	conn.lanes.note(true, names...)
	return nil
}

// EnterLanesAgain enters lanes as EnterLanes does, also those that this connection has entered before: the server may
// have lost them.
func (conn *Conn) EnterLanesAgain(ctx context.Context, lanes ...enginecore.LaneID) error {
	if err := conn.connected(); err != nil {
		return err
	}
	for _, lane := range lanes {
		conn.lanes.note(false, string(lane))
	}
	return conn.EnterLanes(ctx, lanes...)
}

// UsedLanes reads the set of lanes in use, in no order. It leaves out entries that are not names of lanes.
func (conn *Conn) UsedLanes(ctx context.Context) ([]enginecore.LaneID, error) {
	if err := conn.connected(); err != nil {
		return nil, err
	}
	names, err := conn.client.Do(ctx, conn.client.B().Smembers().Key(conn.keys.UsedLanes()).Build()).AsStrSlice()
	if err != nil {
		return nil, fmt.Errorf("read lanes: %w", commandError(ctx, err))
	}
	conn.lanes.renew(names)
	lanes := make([]enginecore.LaneID, 0, len(names))
	for _, name := range names {
		if lane, err := keyspace.ParseLaneID(name); err == nil {
			lanes = append(lanes, lane)
		}
	}
	return lanes, nil
}

// laneUser is a call that makes the engine use a lane.
type laneUser interface{ laneInUse() enginecore.LaneID }

func (c CreateExecutionCall) laneInUse() enginecore.LaneID { return c.LaneID }

// enterLaneOf enters the lane of a call that is a laneUser.
func (conn *Conn) enterLaneOf(ctx context.Context, call any) error {
	if user, ok := call.(laneUser); ok {
		return conn.EnterLanes(ctx, user.laneInUse())
	}
	return nil
}

// commandError classifies the error of a plain command.
func commandError(ctx context.Context, err error) error {
	if ended := Unanswered(ctx, err); ended != nil {
		return ended
	}
	if _, refused := rueidis.IsRedisErr(err); refused {
		return connectError(err)
	}
	return fmt.Errorf("%w: %w", enginecore.ErrUnavailable, err)
}
