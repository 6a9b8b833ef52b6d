package activity

import (
	"time"

	"github.com/flowfabric/flowfabric-go/internal/activityspec"
)

// RetryPolicy defines the number of attempts and the delays between them. Exponential, Fixed and Attempts are the
// policies. Err of the activity, or Build of the flow, reports invalid values.
type RetryPolicy interface {
	// plan returns the policy with every default filled in.
	plan() activityspec.RetryPlan
}

// Exponential waits longer before each retry: First, then Factor times as long, and so on, up to Max. Its zero value
// is the default of every activity.
type Exponential struct {
	// First is the delay before the first retry. Defaults to 1 s.
	First time.Duration
	// Max bounds the delays, before jitter. Defaults to 1 min, or to First where that is longer.
	Max time.Duration
	// Factor is the growth from one delay to the next, 1 to 1,000. Defaults to 2.
	Factor float64
	// Attempts is the number of attempts including the first. Defaults to 5; 1 allows no retry.
	Attempts int
	// JitterPermille lengthens each delay by a random part of up to this many thousandths, so that executions that
	// failed together are not retried together. Defaults to 100; negative is none; at most 1,000.
	JitterPermille int
}

func (e Exponential) plan() activityspec.RetryPlan {
	p := activityspec.RetryPlan{
		Attempts:       or(e.Attempts, activityspec.DefaultAttempts),
		First:          activityspec.Milliseconds(or(e.First, activityspec.DefaultFirstDelay)),
		Factor:         or(e.Factor, activityspec.DefaultFactor),
		JitterPermille: max(0, or(e.JitterPermille, activityspec.DefaultJitterPermille)),
	}
	p.Max = activityspec.Milliseconds(or(e.Max, max(p.First, activityspec.DefaultMaxDelay)))
	return p.Normalized()
}

// Fixed waits equally long before each retry, without jitter.
type Fixed struct {
	// Delay is the time between a failure and the next attempt. Defaults to 1 s; use a millisecond for an immediate
	// retry.
	Delay time.Duration
	// Attempts is the number of attempts including the first. Defaults to 5.
	Attempts int
}

func (f Fixed) plan() activityspec.RetryPlan {
	delay := activityspec.Milliseconds(or(f.Delay, activityspec.DefaultFirstDelay))
	return activityspec.RetryPlan{Attempts: or(f.Attempts, activityspec.DefaultAttempts), First: delay, Max: delay,
		Factor: 1}.Normalized()
}

// Attempts is a policy with this number of attempts and the delays of Exponential{}.
type Attempts int

// NoRetry makes the first failure final.
const NoRetry Attempts = 1

func (n Attempts) plan() activityspec.RetryPlan {
	p := Exponential{}.plan()
	p.Attempts = int(n)
	return p.Normalized()
}

func or[T comparable](value, fallback T) T {
	var zero T
	if value == zero {
		return fallback
	}
	return value
}
