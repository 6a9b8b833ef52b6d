package activity

import (
	"time"

	"github.com/flowfabric/flowfabric-go/internal/activityspec"
)

// DefaultLane is the lane of activities and nodes that name none.
const DefaultLane = activityspec.DefaultLane

// MaxPriority is the highest priority; the lowest, and the default, is 0.
const MaxPriority = activityspec.MaxPriority

// Option changes how New declares an activity. Where a value is invalid, Err of the activity tells.
type Option func(*declaration)

// Retry says how often and how soon a failed attempt is repeated. The default is Exponential{}: 5 attempts, 1 s
// before the first retry, twice as long before each further one, at most 1 min, with jitter.
func Retry(policy RetryPolicy) Option {
	return func(d *declaration) {
		if policy == nil {
			d.fault("retry policy is nil")
			return
		}
		d.options.Retry = policy.Plan()
	}
}

// StartToClose limits one attempt, from its claim to its end. The default is 0, no limit. Fractions of a millisecond
// count as a whole one, here and in all other options.
func StartToClose(limit time.Duration) Option {
	return func(d *declaration) { d.options.StartToClose = activityspec.Milliseconds(limit) }
}

// HeartbeatTimeout limits the time between two calls of Heartbeat. The default is 0: no heartbeat is expected.
func HeartbeatTimeout(limit time.Duration) Option {
	return func(d *declaration) { d.options.HeartbeatTimeout = activityspec.Milliseconds(limit) }
}

// ScheduleToStart limits the time that an execution waits for a worker. The default is 0, no limit. When it passes,
// the node fails for good: it is not retried.
func ScheduleToStart(limit time.Duration) Option {
	return func(d *declaration) { d.options.ScheduleToStart = activityspec.Milliseconds(limit) }
}

// Lane names the queue that workers claim from, 1 to 64 printable ASCII characters without spaces. The default is
// DefaultLane.
func Lane(name string) Option {
	return func(d *declaration) { d.options.Lane = name }
}

// Priority orders the executions of a lane, from 0 (the default) to MaxPriority, higher first.
func Priority(p int) Option {
	return func(d *declaration) { d.options.Priority = p }
}

// Capabilities lists what a worker must announce before it may claim, such as "gpu": non-empty texts without commas,
// white space and control characters, at most 256, and 4,096 bytes with a comma between them. Used more than once,
// it adds. The default is none.
func Capabilities(names ...string) Option {
	return func(d *declaration) { d.options.Capabilities = append(d.options.Capabilities, names...) }
}

// KeepFrames is how many of the frames that an attempt emits are kept, the last ones, at most MaxKeepFrames. The default,
// 0, is about 10,000.
func KeepFrames(n int) Option {
	return func(d *declaration) { d.options.KeepFrames = n }
}

// Alias lists names that the activity had before, so that flows stored under them still run. Used more than once, it
// adds.
func Alias(oldNames ...string) Option {
	return func(d *declaration) { d.aliases = append(d.aliases, oldNames...) }
}

// WithCodec replaces JSON as the encoding of the input and the result. Lists and structs of results are composed for
// JSON activities only; flow.Build tells where that does not fit.
func WithCodec(c Codec) Option {
	return func(d *declaration) {
		if c == nil {
			d.fault("codec is nil")
			return
		}
		if err := activityspec.CheckName(c.Name()); err != nil {
			d.fault("codec: %w", err)
		}
		d.codec = c
	}
}
