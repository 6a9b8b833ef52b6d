package runtime

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
)

// lookAgain is when a keeper looks again at a schedule whose fires wait for the end of a run, in case it was not told of it.
const lookAgain = 15 * time.Second

// Errors of schedules.
var (
	errScheduleNotFound = errors.New("no such schedule")
	errScheduleFull     = errors.New("too many fires wait to be started")
	errFireSkipped      = errors.New("fire skipped")
)

// scheduleStore reads and writes the records of schedules.
type scheduleStore struct{ session *session }

// read reads a schedule by its id, with the latest entries of its history. Where there is none, the record has the engine's
// time, and the error is errScheduleNotFound.
func (s scheduleStore) read(ctx context.Context, p enginecore.Partition, id enginecore.ScheduleID, history int) (*scheduleRecord, []string, error) {
	reply, err := s.session.core.ReadSchedule(ctx, enginerpc.ReadScheduleCall{Partition: p, ScheduleID: id, History: int64(history)})
	if err != nil {
		return nil, nil, err
	}
	if reply.Version == 0 {
		return &scheduleRecord{id: id, part: p, now: reply.Now}, nil, errScheduleNotFound
	}
	r, err := readRecord(p, reply.Now, enginerpc.ScheduleRecord{
		ScheduleID: id, Version: reply.Version, Spec: reply.Spec, State: reply.State,
	})
	return r, reply.History, err
}

// scheduleContent is what a schedule starts.
type scheduleContent struct{ definition, input []byte }

// save writes a record if it is the one that was read, else the error wraps enginecore.ErrScheduleChanged. A content
// is stored as the present revision; withSpec writes the spec as well.
func (s scheduleStore) save(ctx context.Context, r *scheduleRecord, content *scheduleContent, withSpec bool) error {
	call := enginerpc.WriteScheduleCall{
		Partition: r.part, ScheduleID: r.id, Version: r.version, WriteID: uuid.NewString(), DueAt: r.lookAt(),
		DroppedPlans: r.state.dropPlans(), History: r.history,
	}
	if content != nil {
		call.Plan, call.Definition, call.Input = fmt.Sprint(r.state.Plan), content.definition, content.input
	}
	var err error
	if withSpec {
		if call.Spec, err = json.Marshal(&r.spec); err != nil {
			return err
		}
	}
	if call.State, err = json.Marshal(&r.state); err != nil {
		return err
	}
	if _, err = s.session.core.WriteSchedule(ctx, call); err != nil {
		return err
	}
	r.version++
	r.history = nil
	return nil
}

// change reads a schedule, applies a change, and writes it, again if it was written by another process meanwhile. The change
// returns false when there is nothing to write.
func (s scheduleStore) change(ctx context.Context, p enginecore.Partition, id enginecore.ScheduleID, change func(*scheduleRecord) (bool, error)) (*scheduleRecord, error) {
	for {
		r, _, err := s.read(ctx, p, id, 0)
		if err != nil {
			return nil, err
		}
		write, err := change(r)
		if err != nil || !write {
			return r, err
		}
		err = s.save(ctx, r, nil, false)
		if !errors.Is(err, enginecore.ErrScheduleChanged) {
			return r, err
		}
	}
}

// remove removes a record that was read, and what partitions remember of its fires.
func (s scheduleStore) remove(ctx context.Context, r *scheduleRecord) error {
	call := enginerpc.DeleteScheduleCall{Partition: r.part, ScheduleID: r.id, Version: r.version}
	for _, revision := range r.state.Plans {
		call.Plans = append(call.Plans, fmt.Sprint(revision))
	}
	if _, err := s.session.core.DeleteSchedule(ctx, call); err != nil {
		return err
	}
	var forget []enginerpc.ForgetFiresCall
	for _, p := range s.session.partitions() {
		forget = append(forget, enginerpc.ForgetFiresCall{Partition: p, ScheduleID: r.id})
	}
	_, err := sendAll(ctx, s.session.core, forget)
	return err
}

// isLastRunOpen reports whether the run that the schedule started last is open.
func (s scheduleStore) isLastRunOpen(ctx context.Context, r *scheduleRecord) (bool, error) {
	if r.state.Last == nil {
		return false, nil
	}
	id, p, err := s.locateLastRun(r)
	if err != nil {
		return false, err
	}
	reply, err := s.session.backend.FlowResult(ctx, enginerpc.FlowResultCall{Partition: p, FlowID: id})
	if errors.Is(err, enginecore.ErrFlowNotFound) {
		return false, nil
	}
	return err == nil && reply.ClosedAt.IsZero(), err
}

// locateLastRun finds the run that the schedule started last.
func (s scheduleStore) locateLastRun(r *scheduleRecord) (enginecore.FlowID, enginecore.Partition, error) {
	id := enginecore.FlowIDFor(enginecore.Namespace(r.spec.Namespace), r.state.Last.Flow, r.state.Last.Run)
	p, err := s.session.core.FlowPartition(id)
	return id, p, err
}
