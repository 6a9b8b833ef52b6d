package activity

import (
	"time"

	"github.com/flowfabric/flowfabric-go/internal/activityspec"
)

// DefaultLane is the lane of activities and nodes that name none.
const DefaultLane = activityspec.DefaultLane

// Option configures an activity in New: Alias, WithCodec, and every ExecutionOption. Err of the activity reports
// invalid values.
type Option interface {
	applyActivity(*declaration)
}

type declarationOption func(*declaration)

func (o declarationOption) applyActivity(d *declaration) { o(d) }

// ExecutionOption configures how executions are scheduled and retried: Retry, LostWorkers, StartToClose,
// HeartbeatTimeout, ScheduleToStart, Lane, Priority, Capabilities, KeepFrames and Limit. In New, it applies to all
// nodes that run the activity; in flow.Node or flow.Map, it replaces the activity's option for that node.
type ExecutionOption func(activityspec.Target) error

func (o ExecutionOption) applyActivity(d *declaration) {
	if o == nil {
		d.fault("%w", activityspec.ErrNilOption)
		return
	}
	if err := o(activityspec.Target{Options: &d.options}); err != nil {
		d.fault("%w", err)
	}
}

// NodeOption marks an ExecutionOption as a flow.NodeOption.
func (ExecutionOption) NodeOption(activityspec.Mark) {}

// set returns an option that cannot fail.
func set(change func(*activityspec.Options)) ExecutionOption {
	return func(t activityspec.Target) error {
		change(t.Options)
		return nil
	}
}

// Retry sets the retry policy.
func Retry(policy RetryPolicy) ExecutionOption {
	return set(func(o *activityspec.Options) {
		if !policy.onlyRestricts() {
			o.Retry = policy.plan()
		}
		policy.restrict(&o.RetryRules)
	})
}

// LostWorkers is how many workers in a row an execution may lose: processes that are killed or crash, and machines that
// go away, while its function runs. Each loss is followed by another attempt, which costs no retry; with the next one
// it fails with category "worker_lost". The default is 5; 0 runs the function once only, whatever becomes of its
// worker.
//
// A killed process takes down all that it runs. So that one execution that kills its workers fails no others, an
// execution that is lost again waits 1 s, then twice as long each time, at most 1 min, for a worker that has lived for
// a lease or 5 s. From the third loss on, and the last time in any case, a worker runs it alone. A wait or a child run
// that ends begins the count anew.
func LostWorkers(n int) ExecutionOption {
	return set(func(o *activityspec.Options) {
		switch {
		case n == 0:
			o.LostWorkers = activityspec.NoLostWorker
		case n < 0:
			o.LostWorkers = n - 1 // refused, also if it is NoLostWorker
		default:
			o.LostWorkers = n
		}
	})
}

// StartToClose limits one attempt, from its claim to its end. An attempt that takes longer fails with category
// "timeout" and is retried by Retry. The default is 0, no limit. This and all other options round fractions of a
// millisecond up.
func StartToClose(limit time.Duration) ExecutionOption {
	return set(func(o *activityspec.Options) { o.StartToClose = activityspec.Milliseconds(limit) })
}

// HeartbeatTimeout limits the time between two calls of Heartbeat. An attempt that misses it fails with category
// "timeout" and is retried by Retry. The default is 0: no heartbeat is expected.
func HeartbeatTimeout(limit time.Duration) ExecutionOption {
	return set(func(o *activityspec.Options) { o.HeartbeatTimeout = activityspec.Milliseconds(limit) })
}

// ScheduleToStart limits the time that an execution waits for a worker. The default is 0, no limit. After it the node
// fails without a retry.
func ScheduleToStart(limit time.Duration) ExecutionOption {
	return set(func(o *activityspec.Options) { o.ScheduleToStart = activityspec.Milliseconds(limit) })
}

// Lane names the queue that workers claim from, 1 to 64 printable ASCII characters without spaces. The default is
// DefaultLane.
func Lane(name string) ExecutionOption {
	return set(func(o *activityspec.Options) { o.Lane = name })
}

// Priority orders the executions of a lane, from 0 (the default) to 9,000, higher first. To prevent starvation,
// every eighth claim from a lane of a partition with waiting priorities takes the node that was created first.
func Priority(p int) ExecutionOption {
	return set(func(o *activityspec.Options) { o.Priority = p })
}

// Capabilities lists the capabilities that a worker must offer to claim an execution, such as "gpu": non-empty texts
// without commas, white space and control characters, at most 256, and 4,096 bytes with a comma between them. Used more
// than once, it adds; the capabilities of a node add to the capabilities of its activity. The default is none.
func Capabilities(names ...string) ExecutionOption {
	return set(func(o *activityspec.Options) { o.Capabilities = append(o.Capabilities, names...) })
}

// KeepFrames sets how many frames of an attempt are kept, the last ones, at most 100,000. The default, 0, is
// about 10,000.
func KeepFrames(n int) ExecutionOption {
	return set(func(o *activityspec.Options) { o.KeepFrames = n })
}

// Alias lists previous names of the activity, so that flows stored under them still run. Used more than once, it
// adds.
func Alias(oldNames ...string) Option {
	return declarationOption(func(d *declaration) { d.aliases = append(d.aliases, oldNames...) })
}

// WithCodec replaces JSON as the encoding of the input and the result. Lists and structs of results are composed for
// JSON activities only; flow.Builder.Build reports violations.
func WithCodec(c Codec) Option {
	return declarationOption(func(d *declaration) {
		if c == nil {
			d.fault("codec is nil")
			return
		}
		if err := activityspec.CheckName(c.Name()); err != nil {
			d.fault("codec: %w", err)
		}
		d.codec = c
	})
}
