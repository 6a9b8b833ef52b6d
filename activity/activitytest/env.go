package activitytest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/internal/activitycontext"
	"github.com/flowfabric/flowfabric-go/internal/activityspec"
)

// Env replaces the engine in unit tests of functions that use Await, Step, OpenWaitpoint, Emit, ReportUsage and
// Reserve. It stores their records in memory. To simulate a resume or a retry, call the function again with a new
// context:
//
//	env := activitytest.New()
//	_, err := Deploy(env.Context(ctx), release)
//	// activitytest.Suspended(err) is "approve", true
//	env.Signal("approve", "approve", Approval{By: "ann"})
//	out, err := Deploy(env.Context(ctx), release)
//
// It may be used by several goroutines. The zero value is ready for use.
type Env struct {
	mu       sync.Mutex
	recorded map[string][]byte
	awaited  map[string]activitycontext.Awaited
	signals  map[string][]activity.Signal[json.RawMessage]
	expired  map[string]bool
	opened   map[string]bool
	frames   []Frame
	budget   testBudget
}

// Frame is a frame emitted by a function under test.
type Frame struct {
	Kind    string
	Payload []byte
}

// New returns an empty Env.
func New() *Env { return &Env{} }

// lock locks mu and initialises a zero value.
func (s *Env) lock() {
	s.mu.Lock()
	if s.recorded == nil {
		s.recorded, s.awaited = make(map[string][]byte), make(map[string]activitycontext.Awaited)
		s.signals = make(map[string][]activity.Signal[json.RawMessage])
		s.expired, s.opened = make(map[string]bool), make(map[string]bool)
	}
}

// Context returns the context for one call of a function under test. Each call gets its own, since calls with one name
// are counted in it.
func (s *Env) Context(ctx context.Context) context.Context {
	return activitycontext.WithSteps(ctx, &stepsCall{Env: s})
}

// Signal sends a signal to the Await of that step: its name, with "#2" and so on from the second call on. The signal is
// kept until the Await. It panics if the payload has no JSON form.
func (s *Env) Signal(step, name string, payload any) { s.SignalFrom(step, name, "test", payload) }

// SignalFrom is Signal from a named source.
func (s *Env) SignalFrom(step, name, source string, payload any) {
	data, err := (activity.JSON{}).Encode(payload)
	if err != nil {
		panic(fmt.Sprintf("signal %q: %v", name, err))
	}
	s.lock()
	defer s.mu.Unlock()
	s.signals[step] = append(s.signals[step], activity.Signal[json.RawMessage]{
		Name: name, Source: source, Payload: data, At: time.Now().UnixMilli(),
	})
}

// TimeOut lets the timeout of the wait pass, if it has one that resumes the function, or the time of the Sleep of that
// step.
func (s *Env) TimeOut(step string) {
	s.lock()
	defer s.mu.Unlock()
	s.expired[step] = true
}

// Opened reports whether the waitpoint of the step has been opened by OpenWaitpoint.
func (s *Env) Opened(step string) bool {
	s.lock()
	defer s.mu.Unlock()
	return s.opened[step]
}

// Frames returns the emitted frames.
func (s *Env) Frames() []Frame {
	s.lock()
	defer s.mu.Unlock()
	return slices.Clone(s.frames)
}

// stepsCall is one call of a function.
type stepsCall struct {
	*Env
	names activitycontext.StepNames
}

// Names implements activitycontext.Steps.
func (s *stepsCall) Names() *activitycontext.StepNames { return &s.names }

// Recorded implements activitycontext.Steps.
func (s *stepsCall) Recorded(step string) ([]byte, bool) {
	s.lock()
	defer s.mu.Unlock()
	data, ok := s.recorded[step]
	return data, ok
}

// Record implements activitycontext.Steps.
func (s *stepsCall) Record(_ context.Context, step string, data []byte) ([]byte, error) {
	s.lock()
	defer s.mu.Unlock()
	if first, ok := s.recorded[step]; ok {
		return first, nil
	}
	s.recorded[step] = data
	return data, nil
}

// Await implements activitycontext.Steps.
func (s *stepsCall) Await(_ context.Context, step string, wait activitycontext.Wait) (activitycontext.Awaited, error) {
	s.lock()
	defer s.mu.Unlock()
	if got, ok := s.awaited[step]; ok {
		return got, nil
	}
	matched, met := matching(wait, s.signals[step])
	met = met && !wait.Sleep
	var got activitycontext.Awaited
	switch {
	case met && wait.Collect:
		data, err := (activity.JSON{}).Encode(matched)
		if err != nil {
			return got, err
		}
		got.Data = data
	case met:
		got.Data = matched[len(matched)-1].Payload
	case s.expired[step] && wait.OnTimeout == string(activity.ResumeOnTimeout):
		got.TimedOut = true
	default:
		return got, &activitycontext.Suspension{Step: step, Wait: wait}
	}
	s.awaited[step] = got
	return got, nil
}

// matching picks the signals that count, in order, up to the one that ends the wait.
func matching(
	wait activitycontext.Wait, sent []activity.Signal[json.RawMessage],
) (matched []activity.Signal[json.RawMessage], met bool) {
	needed := max(1, wait.Count)
	if wait.All {
		needed = len(wait.Signals)
	}
	names, sources := make(map[string]bool), make(map[string]bool)
	for _, signal := range sent {
		if slices.Contains(wait.Decisive, signal.Name) {
			return append(matched, signal), true
		}
		if len(wait.Signals) > 0 && !slices.Contains(wait.Signals, signal.Name) ||
			wait.All && names[signal.Name] || wait.Distinct && sources[signal.Source] {
			continue
		}
		names[signal.Name], sources[signal.Source] = true, true
		if matched = append(matched, signal); len(matched) == needed {
			return matched, true
		}
	}
	return nil, false
}

// Open implements activitycontext.Steps.
func (s *stepsCall) Open(
	_ context.Context, step string, _ time.Duration, _ activitycontext.WaitText,
) (string, error) {
	s.lock()
	defer s.mu.Unlock()
	s.opened[step] = true
	return "test-" + step, nil
}

// Emit implements activitycontext.Steps.
func (s *stepsCall) Emit(_ context.Context, frame activitycontext.Frame) error {
	s.lock()
	defer s.mu.Unlock()
	s.frames = append(s.frames, Frame{Kind: frame.Kind, Payload: frame.Payload})
	return nil
}

// Suspended reports whether err wraps the error that activity.Await returns to suspend, and returns the name of the
// wait: the name given to Await, followed by "#2" and so on from the second call on.
func Suspended(err error) (step string, ok bool) {
	var s *activitycontext.Suspension
	if !errors.As(err, &s) {
		return "", false
	}
	return s.Step, true
}

// Continued reports whether err wraps the error of activity.ContinueAsNew, and returns its state.
func Continued[In any](err error) (state In, ok bool) {
	c, found := errors.AsType[*activityspec.Continuation](err)
	if !found {
		return state, false
	}
	state, ok = c.State.(In)
	return state, ok
}

// IsNonRetryable reports whether no attempt follows when a function returns err: it, or an error in it, was marked by
// activity.NonRetryable, is a *activity.BudgetError, or is an error of a codec.
func IsNonRetryable(err error) bool { return activityspec.IsNonRetryable(err) }

// CategoryOf returns the category that a failure has when a function returns err; empty for nil. See activity.Category.
func CategoryOf(err error) string { return activityspec.CategoryOf(err) }
