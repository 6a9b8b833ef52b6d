package runtime

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/internal/activityspec"
	"github.com/flowfabric/flowfabric-go/internal/engine"
	"github.com/flowfabric/flowfabric-go/internal/submit"
)

// ErrRunQueued is returned by MoveStart for a run that waits in the queue of its key.
var ErrRunQueued = enginecore.ErrRunQueued

// Bounds of the policies of keys.
const (
	// maxAtOnce is the most open runs of a key.
	maxAtOnce = 1000
	// maxThrottle is the most starts that a window of a throttle counts, and maxWindows the most windows of one.
	maxThrottle = 10_000
	maxWindows  = 8
	// maxDebounced is the most inputs that WithDebounce gathers for one run.
	maxDebounced = 10_000
)

// WhenTaken selects the treatment of a run whose key has as many open runs as it may.
type WhenTaken string

// The values of WhenTaken.
const (
	// RejectRun does not start the run: Start returns a *fabrictype.KeyTakenError that names a run that is open.
	RejectRun WhenTaken = "reject"
	// QueueRun starts the run when its turn comes, in the order of the calls. The run exists, is listed with
	// Run.Queued, can be cancelled, and its deadline counts from its turn on. Up to 10,000 runs of a key wait;
	// Start returns ErrTooLarge for more.
	QueueRun WhenTaken = "queue"
	// JoinRun starts no run: Start returns the open one, whatever its input is, and Existed reports true.
	JoinRun WhenTaken = "join"
	// CancelRunning cancels the oldest runs of the key, also those in its queue, and starts the run when they have
	// ended: mostly in the same step.
	CancelRunning WhenTaken = "cancel"
)

// KeyPolicy defines how many runs of a key may be open, and the treatment of others.
type KeyPolicy struct {
	// AtOnce is how many runs of the key may be open at a time, up to 1,000; 0 is 1, unless only UniqueFor is set,
	// when it is any number.
	AtOnce int
	// WhenTaken is the treatment of a run for which no place is free. The default is RejectRun.
	WhenTaken WhenTaken
	// UniqueFor makes Start return the last run of the key that was started with a UniqueFor, open or over, instead of
	// another one, when that is not longer ago. Runs are remembered for the longest UniqueFor that calls for the key
	// have had. 0 is not at all; at most ten years. A purged run no longer counts: keep runs (flow.Retention) for at
	// least that long.
	UniqueFor time.Duration
}

// WithKey gives the run a key, such as a customer or a file, by which few runs of the flow are open at a time. The
// engine decides that in the step that starts the run, so two concurrent calls cannot both get the last place. Runs of
// one flow with one key share its places, whatever their policies are: a run counts the open ones against its own
// AtOnce, and waits after the runs already in the queue.
//
// The engine chooses the id of the run, so WithKey does not go with WithID, StartAt and WithSignal. A flow with more
// than 256 nodes without upstreams cannot have one. A rerun takes a place again, and fails with a
// *fabrictype.KeyTakenError without one. In contract mode Start returns ErrNotInContract.
func WithKey(key string, policy KeyPolicy) StartOption {
	return startFunc(func(c *startConfig) { c.addArrival("WithKey", key, policy.arrival(), policy.check(key)) })
}

func (p KeyPolicy) check(key string) error {
	if key == "" {
		return invalid("key: it is empty")
	}
	switch p.WhenTaken {
	case "", RejectRun, QueueRun, JoinRun, CancelRunning:
	default:
		return invalid("key policy: when taken %q: must be reject, queue, join or cancel", string(p.WhenTaken))
	}
	if p.AtOnce < 0 || p.AtOnce > maxAtOnce {
		return invalid("key policy: at once %d: must be 0 to %d", p.AtOnce, maxAtOnce)
	}
	return checkSpan("key policy: unique for", p.UniqueFor, true)
}

func (p KeyPolicy) arrival() submit.ArrivalPolicy {
	if p.AtOnce == 0 && (p.UniqueFor == 0 || p.WhenTaken != "") {
		p.AtOnce = 1
	}
	return submit.AtOnce(p.AtOnce, string(cmp.Or(p.WhenTaken, RejectRun)), p.UniqueFor)
}

// Throttle bounds the number of runs that start within a time.
type Throttle struct {
	// Starts is how many runs start in any span of the length Per: 1 to 10,000, and a millisecond to ten
	// years.
	Starts int
	Per    time.Duration
	// Also are further numbers and times that must have room for a start, such as 100 an hour in addition to 10 a
	// minute: up to 7, with Starts and Per alone.
	Also []Throttle
	// Reject makes Start return a *fabrictype.ThrottledError for a run that would be one too many. By default the run
	// exists, and starts as soon as it may: see RunDescription.StartsAt.
	Reject bool
}

// WithThrottle bounds the number of runs of the flow with the key that start within a time, in the order of the calls;
// an empty key is for all runs of the flow that are started with it. Throttles of one flow with one key count the same
// starts, whatever their numbers and times are: each start is held to its own. A run that is put off counts as a start
// also when it is cancelled before, or moved by MoveStart.
//
// The engine chooses the id of the run, so WithThrottle does not go with WithID, WithKey, StartAt and WithSignal. In
// contract mode Start returns ErrNotInContract.
func WithThrottle(key string, t Throttle) StartOption {
	return startFunc(func(c *startConfig) { c.addArrival("WithThrottle", key, t.arrival(), t.check()) })
}

func (t Throttle) check() error {
	if len(t.Also) >= maxWindows {
		return invalid("throttle: %d windows: must be at most %d", len(t.Also)+1, maxWindows)
	}
	var faults []error
	for i, w := range t.windows() {
		name := "throttle"
		if i > 0 {
			name = fmt.Sprintf("throttle: also %d", i)
		}
		if w.Starts < 1 || w.Starts > maxThrottle {
			faults = append(faults, invalid("%s: starts %d: must be 1 to %d", name, w.Starts, maxThrottle))
		}
		if i > 0 && (w.Reject || len(w.Also) > 0) {
			faults = append(faults, invalid("%s: it has Starts and Per alone", name))
		}
		faults = append(faults, checkSpan(name+": per", w.Per, false))
	}
	return errors.Join(faults...)
}

// windows returns all windows of a throttle.
func (t Throttle) windows() []Throttle { return append([]Throttle{t}, t.Also...) }

func (t Throttle) arrival() submit.ArrivalPolicy {
	var windows []submit.Window
	for _, w := range t.windows() {
		windows = append(windows, submit.Window{Starts: w.Starts, Per: w.Per})
	}
	return submit.Throttled(windows, t.Reject)
}

// DebouncePolicy defines the start time of a run for several calls.
type DebouncePolicy struct {
	// Quiet is how long after the last call the run starts: a millisecond to ten years.
	Quiet time.Duration
	// AtMost is how long after the first call it starts at the latest, Quiet to ten years. Defaults to ten times Quiet,
	// or to ten years where that is less.
	AtMost time.Duration
	// MaxInputs collects the inputs of the calls, up to that many and at most 10,000: the input of each call is a list
	// of one element in JSON, and the run gets the elements of all calls, in their order. When the run has MaxInputs of
	// them, or its input would be larger than 1 MiB, the call fails with ErrTooLarge, and the run is unchanged. By
	// default the run gets the input of the last call.
	MaxInputs int
}

// WithDebounce starts one run for all calls with the key that come close to each other: the first call creates it, each
// later one replaces its input and puts its start off, and it starts when no call has come for the time Quiet. All of
// them return the same run, which is listed with Run.StartsAt, and can be cancelled, or started by MoveStart. The next
// call begins another one. Each call is one atomic step.
//
// All other options are the options of the first call, but limits and FairBy follow the input. A call with another
// graph begins another run. The engine chooses the id of the run, so WithDebounce does not go with WithID, WithKey,
// WithThrottle, StartAt and WithSignal.
//
// Start returns ErrInvalid for a flow with more than 256 nodes without upstreams, and for one whose budgets take their
// keys from the input. In contract mode it returns ErrNotInContract.
func WithDebounce(key string, p DebouncePolicy) StartOption {
	if p.AtMost == 0 {
		p.AtMost = min(10*min(p.Quiet, maxStartDelay), maxStartDelay)
	}
	return startFunc(func(c *startConfig) {
		c.addArrival("WithDebounce", key, submit.Debounced(p.Quiet, p.AtMost, p.MaxInputs), p.check(key))
	})
}

func (p DebouncePolicy) check(key string) error {
	if key == "" {
		return invalid("key: it is empty")
	}
	if err := checkSpan("debounce: quiet", p.Quiet, false); err != nil {
		return err
	}
	if p.AtMost < p.Quiet || p.AtMost > maxStartDelay {
		return invalid("debounce: at most %s: must be quiet, %s, to 10 years", p.AtMost, p.Quiet)
	}
	if p.MaxInputs < 0 || p.MaxInputs > maxDebounced {
		return invalid("debounce: max inputs %d: must be 0 to %d", p.MaxInputs, maxDebounced)
	}
	return nil
}

// checkSpan refuses a time that is not between a millisecond, or zero if that may be, and ten years.
func checkSpan(name string, d time.Duration, zero bool) error {
	if zero && d == 0 || d >= time.Millisecond && d <= 10*365*24*time.Hour {
		return nil
	}
	least := "1ms"
	if zero {
		least = "0"
	}
	return invalid("%s %s: must be %s to 10 years", name, d, least)
}

func (c *startConfig) addArrival(option, key string, policy submit.ArrivalPolicy, fault error) {
	if c.Key != nil {
		c.keyFaults = append(c.keyFaults, invalid("%s and %s cannot be combined", c.Key.Option, option))
	}
	c.Key = &submit.KeyedStart{Option: option, Key: key, Policy: policy}
	if fault != nil {
		c.keyFaults = append(c.keyFaults, fault)
	}
	if err := engine.CheckText("key", key, maxKey); err != nil {
		c.keyFaults = append(c.keyFaults, err)
	}
}

// checkArrival returns the conflicts between the key of a run and the other options.
func (c *startConfig) checkArrival() []error {
	if c.Key == nil {
		return nil
	}
	faults, option := c.keyFaults, c.Key.Option
	if c.Named {
		faults = append(faults, invalid("WithID and %s cannot be combined: the id follows from the key", option))
	}
	if c.signal != nil {
		faults = append(faults, invalid("WithSignal and %s cannot be combined", option))
	}
	if !c.StartAt.IsZero() {
		faults = append(faults, invalid("StartAt and %s cannot be combined", option))
	}
	return faults
}

// refTo returns a reference to the run of a plan that was submitted: to the one that there was instead, if there was.
func (c *Client) refTo(plan *submit.RunPlan) RunRef {
	if plan.Joined != "" {
		return *c.Run(plan.Flow, plan.Joined)
	}
	return RunRef{client: c, at: plan.Located()}
}

// RunKey returns the open and the queued runs of a flow with a key, by one read. A key without runs has the zero state.
// The flow need not be published. In contract mode the error is ErrNotInContract.
func (f *FlowRef) RunKey(ctx context.Context, key string) (fabrictype.KeyState, error) {
	state, err := f.client.runKey(ctx, f.name, key)
	if err != nil {
		return fabrictype.KeyState{}, fmt.Errorf("key %.140q of flow %.140q: %w", key, f.name, err)
	}
	return state, nil
}

func (c *Client) runKey(ctx context.Context, flowName, key string) (fabrictype.KeyState, error) {
	store, err := library(ctx, c, "runs by key")
	if err != nil {
		return fabrictype.KeyState{}, err
	}
	if err := activityspec.CheckName(flowName); err != nil {
		return fabrictype.KeyState{}, invalid("flow: %w", err)
	}
	if err := engine.CheckText("key", key, maxKey); err != nil {
		return fabrictype.KeyState{}, err
	}
	return c.submitter.ReadKey(ctx, store, flowName, key)
}
