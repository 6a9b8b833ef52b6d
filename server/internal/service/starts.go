package service

import (
	"context"
	"encoding/json"
	"time"

	"github.com/flowfabric/flowfabric-go/api"
	"github.com/flowfabric/flowfabric-go/internal/httpapi"
	"github.com/flowfabric/flowfabric-go/runtime"
	"github.com/flowfabric/flowfabric-go/server/internal/login"
)

// StartRun implements httpapi.StartRun.
func (s *Service) StartRun(ctx context.Context, in *httpapi.StartRunInput) (*api.StartedRun, error) {
	start, err := startOf(&in.Body.NewRun, named(ctx, in.Body.ID))
	if err != nil {
		return nil, err
	}
	if in.Body.Signal != nil {
		return s.startOrSignal(ctx, in.Flow, start, in.Body.Signal)
	}
	run, err := s.as(ctx).Flow(in.Flow).Start(ctx, start.Input, start.Options...)
	if err != nil {
		return nil, err
	}
	return startedRun(run), nil
}

// startOrSignal starts a run with a signal, or signals the one that there is.
func (s *Service) startOrSignal(
	ctx context.Context, flow string, start runtime.NewRun[json.RawMessage], to *api.StartSignal,
) (*api.StartedRun, error) {
	if err := login.Need(ctx, api.Approve); err != nil {
		return nil, err
	}
	signal, err := signalOf(ctx, &to.SignalBody)
	if err != nil {
		return nil, err
	}
	wait := runtime.WaitName{Node: to.Node, Step: to.Step}
	start.Options = append(start.Options, runtime.WithSignal(wait, signal))
	run, err := s.as(ctx).Flow(flow).Start(ctx, start.Input, start.Options...)
	if err != nil {
		return nil, err
	}
	out := startedRun(run)
	out.Delivery, err = replied(run.SignalResult(), nil)
	return out, err
}

// StartRuns implements httpapi.StartRuns. problemOf returns the problem by which an error is answered.
func (s *Service) StartRuns(
	ctx context.Context, in *httpapi.StartRunsInput, problemOf func(error) api.Problem,
) (*httpapi.StartedRuns, error) {
	out := &httpapi.StartedRuns{Runs: make([]api.StartOutcome, len(in.Body.Runs))}
	refuse := func(i int, err error) {
		problem := problemOf(err)
		run := api.StartedRun{Flow: in.Flow, Run: in.Body.Runs[i].ID}
		out.Runs[i] = api.StartOutcome{StartedRun: run, Problem: &problem}
	}
	var starts []runtime.NewRun[json.RawMessage]
	var places []int // of the starts among the runs
	for i := range in.Body.Runs {
		start, err := startOf(&in.Body.Runs[i], in.Body.Runs[i].ID)
		if err != nil {
			refuse(i, err)
			continue
		}
		starts, places = append(starts, start), append(places, i)
	}
	started, err := s.as(ctx).Flow(in.Flow).StartMany(ctx, starts)
	if err != nil {
		return nil, err
	}
	for i, outcome := range started {
		if outcome.Err != nil {
			refuse(places[i], outcome.Err)
			continue
		}
		out.Runs[places[i]].StartedRun = *startedRun(outcome.Run)
	}
	return out, nil
}

func startedRun(run *runtime.Run[json.RawMessage]) *api.StartedRun {
	return &api.StartedRun{Flow: run.FlowName(), Run: run.ID(), Existed: run.Existed()}
}

// startOf returns the run that a request starts. It has the given id; a run with a key has the id of the request, or
// one that the engine chooses.
func startOf(b *api.NewRun, id string) (start runtime.NewRun[json.RawMessage], err error) {
	start.Input = b.Input
	if len(start.Input) == 0 {
		start.Input = json.RawMessage("null")
	}
	var opts []runtime.StartOption
	if b.Key != nil || b.Throttle != nil || b.Debounce != nil {
		id = b.ID
	}
	if id != "" {
		opts = append(opts, runtime.WithID(id))
	}
	for key, value := range b.Tags {
		opts = append(opts, runtime.WithTag(key, value))
	}
	if b.Priority != nil {
		opts = append(opts, runtime.WithPriority(*b.Priority))
	}
	if b.Deadline.Duration != 0 {
		opts = append(opts, runtime.WithDeadline(b.Deadline.Duration))
	}
	if len(b.Memo) > 0 {
		opts = append(opts, runtime.WithMemo(b.Memo))
	}
	switch {
	case !b.StartAt.IsZero() && b.Delay.Duration != 0:
		return start, faultAt("/delay", "set either start_at or delay, not both")
	case !b.StartAt.IsZero():
		opts = append(opts, runtime.StartAt(b.StartAt))
	case b.Delay.Duration != 0:
		opts = append(opts, runtime.StartAt(time.Now().Add(b.Delay.Duration)))
	}
	start.Options = append(opts, arrivalOf(b)...)
	if d := b.Debounce; d != nil && d.Collect {
		start.Input = append(append(json.RawMessage{'['}, start.Input...), ']')
	}
	return start, nil
}

// defaultInputs is how many inputs a call collects by default.
const defaultInputs = 1000

// arrivalOf returns the options by which a run has a key. The engine refuses several of them.
func arrivalOf(b *api.NewRun) (opts []runtime.StartOption) {
	if k := b.Key; k != nil {
		opts = append(opts, runtime.WithKey(k.Key, runtime.KeyPolicy{
			AtOnce: k.AtOnce, WhenTaken: runtime.WhenTaken(k.WhenTaken), UniqueFor: k.UniqueFor.Duration,
		}))
	}
	if t := b.Throttle; t != nil {
		limit := runtime.Throttle{Starts: t.Starts, Per: t.Per.Duration, Reject: t.Reject}
		for _, w := range t.Also {
			limit.Also = append(limit.Also, runtime.Throttle{Starts: w.Starts, Per: w.Per.Duration})
		}
		opts = append(opts, runtime.WithThrottle(t.Key, limit))
	}
	if d := b.Debounce; d != nil {
		policy := runtime.DebouncePolicy{Quiet: d.Quiet.Duration, AtMost: d.AtMost.Duration}
		if d.Collect {
			policy.MaxInputs = d.MaxInputs
			if policy.MaxInputs == 0 {
				policy.MaxInputs = defaultInputs
			}
		}
		opts = append(opts, runtime.WithDebounce(d.Key, policy))
	}
	return opts
}
