package activityspec

import (
	"errors"
	"fmt"
	"slices"
	"time"
)

// DefaultLane is the lane of activities and nodes that name none.
const DefaultLane = "default"

// Bounds that calls check before anything is sent.
const (
	// MaxPriority is the highest priority; the lowest, and the default, is 0.
	MaxPriority = 9000
	// MaxStep is the largest encoded result of a step, and state of a new generation, in bytes.
	MaxStep = 1 << 20
)

// Handle carries the options of an activity.Handler to packages of this module; programs can do nothing with it.
type Handle struct{ options *Options }

// HandleOf returns the handle of options, which must not change afterwards.
func HandleOf(o *Options) Handle { return Handle{o} }

// OptionsOf returns the resolved options of an activity: every default is filled in, and all are the defaults if one of
// the given ones is invalid.
func OptionsOf(h Handle) Options {
	if h.options == nil || h.options.Lane == "" {
		return DefaultOptions()
	}
	return h.options.Clone()
}

// Options define how the executions of an activity are scheduled and retried. All durations are whole milliseconds.
type Options struct {
	// Retry defines the number of attempts and the delays between them.
	Retry RetryPlan
	// RetryRules restrict the attempts that Retry grants.
	RetryRules RetryRules
	// LostWorkers is how many workers in a row an execution may lose before it fails; 0 is DefaultLostWorkers,
	// NoLostWorker is none.
	LostWorkers int
	// StartToClose limits one attempt, from its claim to its end; 0 means unlimited. An attempt that takes longer
	// fails with category "timeout" and is retried by Retry.
	StartToClose time.Duration
	// HeartbeatTimeout limits the time between two heartbeats of a running attempt; 0 means unlimited. An attempt that
	// misses it fails with category "timeout" and is retried by Retry.
	HeartbeatTimeout time.Duration
	// ScheduleToStart limits the time from becoming eligible to the first claim; 0 means unlimited. It is terminal for
	// the node, which is not retried.
	ScheduleToStart time.Duration
	// Lane is the queue that workers claim from, 1 to 64 printable ASCII characters without spaces.
	Lane string
	// Priority orders the executions of a lane, 0 to MaxPriority, higher first.
	Priority int
	// Capabilities must all be announced by a worker before it may claim. They are sorted and without duplicates.
	Capabilities []string
	// KeepFrames is how many frames of an attempt are kept, the last ones, at most maxKeepFrames; 0 is about 10,000.
	KeepFrames int
	// Limits bound how often, and how many at once, executions start. They are sorted by name.
	Limits []Limit
}

// DefaultLostWorkers is how many workers an execution may lose by default, NoLostWorker the value of
// Options.LostWorkers for none.
const (
	DefaultLostWorkers = 5
	NoLostWorker       = -1
)

// maxLostWorkers bounds LostWorkers.
const maxLostWorkers = 1_000_000

// maxKeepFrames bounds KeepFrames.
const maxKeepFrames = 100_000

// DefaultOptions returns the options of an activity declared without any: DefaultRetry, no timeouts, DefaultLane,
// priority 0, no capabilities.
func DefaultOptions() Options {
	return Options{Retry: DefaultRetry(), Lane: DefaultLane}
}

// Clone returns a copy that shares nothing with o.
func (o Options) Clone() Options {
	o.Capabilities = slices.Clone(o.Capabilities)
	o.Limits = slices.Clone(o.Limits)
	o.RetryRules = o.RetryRules.Clone()
	return o
}

// Validate returns every fault of o, joined, or nil.
func (o Options) Validate() error {
	errs := []error{o.Retry.Validate(), o.RetryRules.Validate()}
	for _, d := range []struct {
		name  string
		value time.Duration
	}{
		{"start-to-close timeout", o.StartToClose},
		{"heartbeat timeout", o.HeartbeatTimeout},
		{"schedule-to-start timeout", o.ScheduleToStart},
	} {
		if d.value < 0 {
			errs = append(errs, fmt.Errorf("%s %s is negative", d.name, d.value))
		}
		if d.value%time.Millisecond != 0 {
			errs = append(errs, fmt.Errorf("%s %s is not in whole milliseconds", d.name, d.value))
		}
	}
	if err := CheckLane(o.Lane); err != nil {
		errs = append(errs, err)
	}
	if o.Priority < 0 || o.Priority > MaxPriority {
		errs = append(errs, fmt.Errorf("priority %d is outside 0 to %d", o.Priority, MaxPriority))
	}
	if o.LostWorkers < NoLostWorker || o.LostWorkers > maxLostWorkers {
		errs = append(errs, fmt.Errorf("%d lost workers are outside 0 to %d", o.LostWorkers, maxLostWorkers))
	}
	if o.KeepFrames < 0 || o.KeepFrames > maxKeepFrames {
		errs = append(errs, fmt.Errorf("%d frames to keep are outside 0 to %d", o.KeepFrames, maxKeepFrames))
	}
	errs = append(errs, checkLimits(o.Limits)...)
	return errors.Join(append(errs, checkCapabilities(o.Capabilities)...)...)
}

// Normalized converts o to the canonical form of equal options.
func (o Options) Normalized() Options {
	o = o.Clone()
	slices.Sort(o.Capabilities)
	o.Capabilities = slices.Compact(o.Capabilities)
	sortLimits(o.Limits)
	o.RetryRules = o.RetryRules.Normalized()
	return o
}

// Milliseconds rounds d up to whole milliseconds, the unit in which the engine keeps time. Negative durations become
// smaller, not zero.
func Milliseconds(d time.Duration) time.Duration {
	whole := d.Truncate(time.Millisecond)
	switch {
	case d > whole && whole > time.Duration(1<<63-1)-time.Millisecond:
		return whole
	case d > whole:
		return whole + time.Millisecond
	case d < whole && whole == 0:
		return -time.Millisecond
	default:
		return whole
	}
}
