package runtime

import (
	"context"
	"fmt"
	"iter"

	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/internal/describe"
	"github.com/flowfabric/flowfabric-go/internal/engine"
	"github.com/flowfabric/flowfabric-go/internal/schedule"
)

// Describe returns the state of the schedule, with its history.
func (s *ScheduleRef) Describe(ctx context.Context) (*fabrictype.Schedule, error) {
	fail := func(err error) (*fabrictype.Schedule, error) {
		return nil, fmt.Errorf("describe schedule %.140q: %w", s.name, err)
	}
	p, id, err := s.locate(ctx)
	if err != nil {
		return fail(err)
	}
	r, history, err := s.client.schedules().Read(ctx, p, id, schedule.ScheduleHistory)
	if err != nil {
		return fail(err)
	}
	if r.State.Deleting {
		return fail(engine.ErrScheduleNotFound)
	}
	d, err := s.client.schedules().Describe(ctx, r, history)
	if err != nil {
		return fail(err)
	}
	return d, nil
}

// Input returns the input of the runs of the schedule, as it was encoded. The field that FireTimeField names has the
// value of the declaration: fires set it anew.
func (s *ScheduleRef) Input(ctx context.Context) (*fabrictype.Value, error) {
	fail := func(err error) (*fabrictype.Value, error) {
		return nil, fmt.Errorf("read input of schedule %.140q: %w", s.name, err)
	}
	p, id, err := s.locate(ctx)
	if err != nil {
		return fail(err)
	}
	content, err := s.client.schedules().ReadPresent(ctx, p, id)
	if err != nil {
		return fail(err)
	}
	return describe.Value(describe.Codec(content.Flow.Graph.Codec), len(content.Input), content.Input), nil
}

// Schedules yields the schedules of the client's namespace without their histories, in no particular order. It reads
// them in pages; a schedule that is created or deleted during the iteration may be included or not. An error ends the
// iteration.
func (c *Client) Schedules(ctx context.Context) iter.Seq2[*fabrictype.Schedule, error] {
	return func(yield func(*fabrictype.Schedule, error) bool) {
		if _, err := library(ctx, c, "schedules"); err != nil {
			yield(nil, fmt.Errorf("list schedules: %w", err))
			return
		}
		for d, err := range c.schedules().List(ctx) {
			if err != nil {
				yield(nil, fmt.Errorf("list schedules: %w", err))
				return
			}
			if !yield(d, nil) {
				return
			}
		}
	}
}

// schedules are the schedules of the engine.
func (c *Client) schedules() schedule.Store { return schedule.Store{Session: c.session} }
