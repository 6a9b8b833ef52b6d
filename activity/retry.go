package activity

import (
	"time"

	"github.com/flowfabric/flowfabric-go/internal/activityspec"
)

// RetryPolicy defines the number of attempts, the delays between them, and the failures that are retried. The zero
// value is the default of every activity: 5 attempts, 1 s before the first retry, twice as long before each further
// one, at most 1 min, with jitter. A policy of a node that has only Only, Except or Within keeps the attempts and
// delays of its activity. Err of the activity, or Build of the flow, reports invalid values.
type RetryPolicy struct {
	// Attempts is the number of attempts including the first. Defaults to 5; 1 allows no retry.
	Attempts int
	// First is the delay before the first retry. Defaults to 1 s; use a millisecond for an immediate retry.
	First time.Duration
	// Max bounds the delays, before jitter. Defaults to 1 min, or to First where that is longer.
	Max time.Duration
	// Factor is the growth from one delay to the next, 1 to 1,000. Defaults to 2; 1 waits equally long before each
	// retry.
	Factor float64
	// JitterPermille lengthens each delay by a random part of up to this many thousandths, so that executions that
	// failed together are not retried together. Defaults to 100, with Factor 1 to none; negative is none; at most
	// 1,000.
	JitterPermille int
	// Only restricts retries to failures of the categories named, which may be categories of the library, such as
	// "timeout", or your own by Category; any other failure is final. Except makes failures of the categories
	// named final. Set one of them; names are one line of at most 128 bytes, up to 32 of them. By default a node has
	// the categories of its activity.
	Only, Except []string
	// Within limits the time of all attempts together: no attempt begins later than this after the beginning of the
	// first attempt that failed. A failure after which the next attempt would begin later is final, even if Attempts
	// grants more. The delays before attempts and the time of waits count. The last attempt may take as long as
	// StartToClose allows. A rerun begins anew. At most ten years. By default a node has the limit of its activity, and
	// an activity none.
	Within time.Duration
}

// plan returns the attempts and delays with every default filled in.
func (p RetryPolicy) plan() activityspec.RetryPlan {
	jitter := activityspec.DefaultJitterPermille
	if p.Factor == 1 {
		jitter = 0
	}
	plan := activityspec.RetryPlan{
		Attempts:       or(p.Attempts, activityspec.DefaultAttempts),
		First:          activityspec.Milliseconds(or(p.First, activityspec.DefaultFirstDelay)),
		Factor:         or(p.Factor, activityspec.DefaultFactor),
		JitterPermille: max(0, or(p.JitterPermille, jitter)),
	}
	longest := max(plan.First, activityspec.DefaultMaxDelay)
	if plan.Factor == 1 {
		longest = plan.First
	}
	plan.Max = activityspec.Milliseconds(or(p.Max, longest))
	return plan.Normalized()
}

// onlyRestricts reports whether the policy has nothing but Only, Except or Within, so that the attempts and delays of
// the activity stay.
func (p RetryPolicy) onlyRestricts() bool {
	hasPlan := p.Attempts != 0 || p.First != 0 || p.Max != 0 || p.Factor != 0 || p.JitterPermille != 0
	return !hasPlan && (len(p.Only) > 0 || len(p.Except) > 0 || p.Within != 0)
}

// restrict sets the failures that are retried, where the policy has them.
func (p RetryPolicy) restrict(rules *activityspec.RetryRules) {
	if len(p.Only) > 0 || len(p.Except) > 0 {
		rules.Only, rules.Except = p.Only, p.Except
	}
	if p.Within != 0 {
		rules.Within = activityspec.Milliseconds(p.Within)
	}
}

func or[T comparable](value, fallback T) T {
	var zero T
	if value == zero {
		return fallback
	}
	return value
}
