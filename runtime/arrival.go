package runtime

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/internal/activityspec"
	"github.com/flowfabric/flowfabric-go/internal/engine"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
	"github.com/flowfabric/flowfabric-go/internal/submit"
)

// ErrRunQueued is returned by MoveStart for a run that waits in the queue of its key.
var ErrRunQueued = enginecore.ErrRunQueued

// Bounds of the policies of keys.
const (
	// maxKey is the longest key of runs, in bytes.
	maxKey = 256
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
	return startFunc(func(c *startConfig) { c.addArrival("WithKey", key, policy.arrival, policy.check(key)) })
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

func (p KeyPolicy) arrival(a *enginerpc.SubmitArrival) {
	a.AtOnce, a.WhenTaken, a.UniqueFor = int64(p.AtOnce), string(p.WhenTaken), activityspec.Milliseconds(p.UniqueFor)
	if a.AtOnce == 0 && (p.UniqueFor == 0 || p.WhenTaken != "") {
		a.AtOnce = 1
	}
	if a.WhenTaken == "" {
		a.WhenTaken = string(RejectRun)
	}
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
	return startFunc(func(c *startConfig) { c.addArrival("WithThrottle", key, t.arrival, t.check()) })
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

func (t Throttle) arrival(a *enginerpc.SubmitArrival) {
	var windows []string
	for _, w := range t.windows() {
		windows = append(windows, fmt.Sprintf("%d/%d", w.Starts, activityspec.Milliseconds(w.Per).Milliseconds()))
	}
	a.Windows, a.WhenMany = strings.Join(windows, ","), "delay"
	if t.Reject {
		a.WhenMany = "reject"
	}
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

func (c *startConfig) addArrival(option, key string, fill func(*enginerpc.SubmitArrival), fault error) {
	a := &startArrival{option: option, key: key, fill: fill}
	if c.arrival != nil {
		a.faults = append(c.arrival.faults, invalid("%s and %s cannot be combined", c.arrival.option, option))
	}
	if fault != nil {
		a.faults = append(a.faults, fault)
	}
	if err := engine.CheckText("key", key, maxKey); err != nil {
		a.faults = append(a.faults, err)
	}
	c.arrival = a
}

// checkArrival returns the conflicts between the key of a run and the other options.
func (c *startConfig) checkArrival() []error {
	a := c.arrival
	if a == nil {
		return nil
	}
	faults := a.faults
	if c.named {
		faults = append(faults, invalid("WithID and %s cannot be combined: the id follows from the key", a.option))
	}
	if c.signal != nil {
		faults = append(faults, invalid("WithSignal and %s cannot be combined", a.option))
	}
	if !c.startAt.IsZero() {
		faults = append(faults, invalid("StartAt and %s cannot be combined", a.option))
	}
	return faults
}

// placeRun chooses the id of a run that has none, for a run with a key in the partition of the key, and returns the key
// and the policy for the engine; nil for other runs.
func (c *Client) placeRun(flowName string, config *startConfig) (*enginerpc.SubmitArrival, error) {
	a := config.arrival
	switch {
	case config.named:
		return nil, nil
	case a == nil:
		config.id = c.submitter.RunIDs.Next(flowName)
		return nil, nil
	}
	if _, err := c.session.Library(a.option); err != nil {
		return nil, fmt.Errorf("flow %s: %w", flowName, err)
	}
	id, partition, err := c.submitter.KeyOf(flowName, a.key)
	if err != nil {
		return nil, err
	}
	config.id = c.submitter.RunIDs.NextIn(flowName, partition)
	arrival := &enginerpc.SubmitArrival{KeyID: id, Key: a.key}
	a.fill(arrival)
	return arrival, nil
}

// refTo returns a reference to the run of a plan that was submitted: to the one that there was instead, if there was.
func (c *Client) refTo(plan *submit.RunPlan) *RunRef {
	if plan.Joined != "" {
		return c.Run(plan.Flow, plan.Joined)
	}
	return &RunRef{client: c, flow: plan.Flow, id: plan.Run, flowID: plan.FlowID, partition: plan.Partition}
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
	id, partition, err := c.submitter.KeyOf(flowName, key)
	if err != nil {
		return fabrictype.KeyState{}, err
	}
	reply, err := store.ReadRunKey(ctx, enginerpc.ReadRunKeyCall{Partition: partition, RunKeyID: id})
	if err != nil {
		return fabrictype.KeyState{}, err
	}
	state := fabrictype.KeyState{
		Open: keyedRuns(reply.Open), Queued: keyedRuns(reply.Queued), OpenCount: int(reply.OpenCount),
		QueuedCount: int(reply.QueuedCount), First: keyedRun(reply.First), Debounced: keyedRun(reply.Pending),
	}
	for _, start := range reply.Starts {
		state.Starts = append(state.Starts, start.At)
	}
	return state, nil
}

func keyedRuns(list []enginerpc.KeyedRun) []fabrictype.KeyedRun {
	var runs []fabrictype.KeyedRun
	for _, r := range list {
		runs = append(runs, fabrictype.KeyedRun{Run: r.RunID, At: r.At})
	}
	return runs
}

func keyedRun(list []enginerpc.KeyedRun) *fabrictype.KeyedRun {
	if runs := keyedRuns(list); len(runs) > 0 {
		return &runs[0]
	}
	return nil
}
