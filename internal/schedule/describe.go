package schedule

import (
	"context"
	"errors"
	"iter"
	"log/slog"
	"time"

	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/internal/engine/observe"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
	"github.com/flowfabric/flowfabric-go/internal/keyspace"
	"github.com/flowfabric/flowfabric-go/internal/recordstate"
)

// List yields the schedules of the session's namespace without their histories, in no particular order. An error ends
// the sequence.
func (s Store) List(ctx context.Context) iter.Seq2[*fabrictype.Schedule, error] {
	return func(yield func(*fabrictype.Schedule, error) bool) {
		for _, p := range s.Session.Partitions() {
			proceed, err := s.yieldSchedules(ctx, p, yield)
			if err != nil {
				yield(nil, err)
				return
			}
			if !proceed {
				return
			}
		}
	}
}

// yieldSchedules yields the schedules of a partition.
func (s Store) yieldSchedules(
	ctx context.Context, p keyspace.Partition, yield func(*fabrictype.Schedule, error) bool,
) (bool, error) {
	call := enginerpc.ListSchedulesCall{Partition: p}
	for {
		reply, err := s.Session.Core.ListSchedules(ctx, call)
		if err != nil {
			return false, err
		}
		for _, stored := range reply.Schedules {
			r, err := ReadRecord(p, reply.Now, stored)
			if errors.Is(err, ErrScheduleVersion) {
				s.Session.Logger.LogAttrs(ctx, slog.LevelWarn,
					"flowfabric: the client omits a schedule that it cannot read from a list",
					observe.EventScheduleFailed.Attr(),
					slog.Any("error", err))
				continue
			}
			if err != nil {
				return false, err
			}
			if r.State.Deleting || keyspace.Namespace(r.Spec.Namespace) != s.Session.Namespace {
				continue
			}
			d, err := s.Describe(ctx, r, nil)
			if err != nil {
				return false, err
			}
			if !yield(d, nil) {
				return false, nil
			}
		}
		if call.Cursor = reply.NextCursor; call.Cursor == "" {
			return true, nil
		}
	}
}

// parseFire reads an entry of the history.
func parseFire(text string) (fabrictype.ScheduleFire, error) {
	entry, err := ReadFire(text)
	if err != nil {
		return fabrictype.ScheduleFire{}, err
	}
	return fabrictype.ScheduleFire{
		At: UnixTime(entry.At), Until: UnixTime(max(entry.At, entry.Until)),
		Count: max(1, entry.Count), DoneAt: UnixTime(entry.Done),
		Outcome: entry.Outcome, Flow: entry.Flow, Run: entry.Run, Reason: entry.Reason,
		Triggered: entry.Manual, Backfilled: entry.Backfill,
	}, nil
}

// Describe returns a schedule for callers of the API, with entries of its history.
func (s Store) Describe(
	ctx context.Context, r *Record, history []string,
) (*fabrictype.Schedule, error) {
	spec, state := &r.Spec, &r.State
	d := &fabrictype.Schedule{
		Name: spec.Name, Flow: spec.Flow, Cron: spec.Cron, TimeZone: spec.Zone,
		Every:      fabrictype.Duration{Duration: time.Duration(spec.EveryMS) * time.Millisecond},
		StartingAt: UnixTime(spec.StartMS), EndingAt: UnixTime(spec.EndMS),
		Jitter:  fabrictype.Duration{Duration: time.Duration(spec.JitterMS) * time.Millisecond},
		CatchUp: fabrictype.Duration{Duration: spec.CatchUp()}, Overlap: spec.Overlap, QueueLimit: spec.QueueLimit,
		Tags:      spec.Tags,
		CreatedAt: UnixTime(state.CreatedAt), UpdatedAt: UnixTime(state.UpdatedAt),
		PausedAt:    UnixTime(state.PausedAt),
		PauseReason: state.PauseReason, NextFire: r.NextDue(),
		LastFire: UnixTime(state.LastFire),
		Waiting:  len(state.Waiting), Started: state.Started, Skipped: state.Skipped, Missed: state.Missed,
		Failed: state.Failed, Backfills: backfillsOf(state.Backfills),
	}
	for _, text := range history {
		fire, err := parseFire(text)
		if err != nil {
			return nil, err
		}
		d.History = append(d.History, fire)
	}
	if state.Last == nil {
		return d, nil
	}
	d.LastRun, d.LastRunFlow = state.Last.Run, state.Last.Flow
	id, p, err := s.LocateLastRun(r)
	if err != nil {
		return nil, err
	}
	reply, err := s.Session.Backend.FlowResult(ctx, enginerpc.FlowResultCall{Partition: p, FlowID: id})
	switch {
	case errors.Is(err, enginecore.ErrFlowNotFound):
		// The run was purged.
	case err != nil:
		return nil, err
	default:
		d.LastRunState = recordstate.RunState(reply.State, reply.Outcome)
	}
	return d, nil
}

// backfillsOf describes the backfills of a schedule that are not finished.
func backfillsOf(stored []Backfill) []fabrictype.Backfill {
	var list []fabrictype.Backfill
	for _, b := range stored {
		list = append(list, fabrictype.Backfill{
			From: UnixTime(b.Next), Until: UnixTime(b.Until),
			Overlap: b.Overlap,
		})
	}
	return list
}
