package schedule

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/internal/engine"
	"github.com/flowfabric/flowfabric-go/internal/engine/batching"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
	"github.com/flowfabric/flowfabric-go/internal/errorcode"
	"github.com/flowfabric/flowfabric-go/internal/keyspace"
)

// lookAgain is the time after which a keeper checks a schedule whose fires wait for the end of a run, in case it missed
// the message of that end, unless the session is quiet.
const lookAgain = 15 * time.Second

// Errors of schedules; returned errors wrap them.
var (
	// ErrScheduleFull reports that no further fire may wait.
	ErrScheduleFull = errors.New("too many fires wait to be started")
	// ErrFireSkipped reports a triggered fire for which the overlap policy starts no run.
	ErrFireSkipped = errors.New("fire skipped")
)

// Store reads and writes the records of schedules. Session must be set.
type Store struct{ Session *engine.Session }

// Read returns a schedule with up to history of its latest history entries. If there is none, the error is
// engine.ErrScheduleNotFound and the record has the id and the engine's time only, so that it can be filled and saved
// as a new one.
func (s Store) Read(
	ctx context.Context, p keyspace.Partition, id keyspace.ScheduleID, history int,
) (*Record, []string, error) {
	reply, err := s.Session.Core.ReadSchedule(ctx,
		enginerpc.ReadScheduleCall{Partition: p, ScheduleID: id, History: int64(history)})
	if err != nil {
		return nil, nil, err
	}
	if reply.Version == 0 {
		return &Record{id: id, part: p, now: reply.Now}, nil, engine.ErrScheduleNotFound
	}
	r, err := ReadRecord(p, reply.Now, enginerpc.ScheduleRecord{
		ScheduleID: id, Version: reply.Version, Spec: reply.Spec, State: reply.State,
	})
	return r, reply.History, err
}

// missingPlan returns the error for a schedule whose plan the engine does not have: errorcode.ScheduleChanged if
// another process has written or removed the schedule since r was read, else gone, the error of the read.
func (s Store) missingPlan(ctx context.Context, r *Record, gone error) error {
	now, _, err := s.Read(ctx, r.part, r.id, 0)
	switch {
	case errors.Is(err, engine.ErrScheduleNotFound), err == nil && now.version != r.version:
		return fmt.Errorf("%w: %w", errorcode.ScheduleChanged, gone)
	case err != nil:
		return err
	}
	return gone
}

// Content is the content of a schedule: the encoded definition of the flow and the input of its runs.
type Content struct{ Definition, Input []byte }

// save writes a record if it is still the one that was read; otherwise the error wraps errorcode.ScheduleChanged.
// A content is stored as the current revision; withSpec writes the spec as well.
func (s Store) save(ctx context.Context, r *Record, content *Content, withSpec bool) error {
	call := enginerpc.WriteScheduleCall{
		Partition: r.part, ScheduleID: r.id, Version: r.version, WriteID: uuid.NewString(),
		DueAt:        r.recheck(s.Session.LookEvery(lookAgain)),
		DroppedPlans: r.State.dropPlans(), History: r.history,
	}
	if r.starting() >= 0 {
		call.Keeper = cmp.Or(r.keeper, "unknown")
	}
	if content != nil {
		call.Plan, call.Definition, call.Input = fmt.Sprint(r.State.Plan), content.Definition, content.Input
	}
	var err error
	if withSpec {
		if call.Spec, err = json.Marshal(&r.Spec); err != nil {
			return err
		}
	}
	if call.State, err = json.Marshal(&r.State); err != nil {
		return err
	}
	if _, err = s.Session.Core.WriteSchedule(ctx, call); err != nil {
		return err
	}
	r.version++
	r.history = nil
	return nil
}

// change reads a schedule, applies a change and writes it, again if another process has written it in between. The
// function returns false if there is nothing to write.
func (s Store) change(
	ctx context.Context, p keyspace.Partition, id keyspace.ScheduleID, change func(*Record) (bool, error),
) (*Record, error) {
	for {
		r, _, err := s.Read(ctx, p, id, 0)
		if err != nil {
			return nil, err
		}
		write, err := change(r)
		if err != nil || !write {
			return r, err
		}
		err = s.save(ctx, r, nil, false)
		if !errors.Is(err, errorcode.ScheduleChanged) {
			return r, err
		}
	}
}

// remove removes a record that was read, and the records of its fires in the partitions.
func (s Store) remove(ctx context.Context, r *Record) error {
	call := enginerpc.DeleteScheduleCall{Partition: r.part, ScheduleID: r.id, Version: r.version}
	for _, revision := range r.State.Plans {
		call.Plans = append(call.Plans, fmt.Sprint(revision))
	}
	if _, err := s.Session.Core.DeleteSchedule(ctx, call); err != nil {
		return err
	}
	var forget []enginerpc.ForgetFiresCall
	for _, p := range s.Session.Partitions() {
		forget = append(forget, enginerpc.ForgetFiresCall{Partition: p, ScheduleID: r.id})
	}
	_, err := batching.SendAll(ctx, s.Session.Core, forget)
	return err
}

// isLastRunOpen reports whether the last started run of the schedule is open.
func (s Store) isLastRunOpen(ctx context.Context, r *Record) (bool, error) {
	if r.State.Last == nil {
		return false, nil
	}
	id, p, err := s.LocateLastRun(r)
	if err != nil {
		return false, err
	}
	reply, err := s.Session.Backend.FlowResult(ctx, enginerpc.FlowResultCall{Partition: p, FlowID: id})
	if errors.Is(err, enginecore.ErrFlowNotFound) {
		return false, nil
	}
	return err == nil && reply.ClosedAt.IsZero(), err
}

// settleDue takes the due times out of the timetable of a schedule, as Record.settle does. It reads whether the
// last run is open if the overlap policy needs that.
func (s Store) settleDue(ctx context.Context, r *Record) error {
	if !r.isRipe() {
		return nil
	}
	open := false
	if r.Spec.Overlap != fabrictype.OverlapAllow {
		var err error
		if open, err = s.isLastRunOpen(ctx, r); err != nil {
			return err
		}
	}
	r.settle(open)
	return nil
}

// LocateLastRun returns flow id and partition of the last started run. The record must have one: State.Last is not
// nil.
func (s Store) LocateLastRun(r *Record) (enginecore.FlowID, keyspace.Partition, error) {
	return s.locateRun(r, r.State.Last)
}
