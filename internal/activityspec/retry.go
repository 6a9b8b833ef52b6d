package activityspec

import (
	"errors"
	"fmt"
	"math"
	"time"
)

// Defaults of zero fields of a retry policy.
const (
	DefaultAttempts       = 5
	DefaultFirstDelay     = time.Second
	DefaultMaxDelay       = time.Minute
	DefaultFactor         = 2.0
	DefaultJitterPermille = 100

	// maxAttempts bounds the attempts of a policy.
	maxAttempts = 1_000_000
	maxFactor   = 1_000
)

// DefaultRetry returns the plan of the zero Exponential.
func DefaultRetry() RetryPlan {
	return RetryPlan{
		Attempts: DefaultAttempts, First: DefaultFirstDelay, Max: DefaultMaxDelay, Factor: DefaultFactor,
		JitterPermille: DefaultJitterPermille,
	}
}

// RetryPlan is a policy with every value spelled out. Durations are whole milliseconds. With one attempt all other
// fields are zero.
type RetryPlan struct {
	Attempts       int           // all attempts, the first one too
	First          time.Duration // before the first retry
	Max            time.Duration // bound of every delay, before jitter
	Factor         float64       // growth from one delay to the next; 1 keeps it fixed
	JitterPermille int           // thousandths by which a delay may be longer
}

// NoRetry returns the plan of activity.RetryPolicy{Attempts: 1}: a single attempt.
func NoRetry() RetryPlan {
	p := DefaultRetry()
	p.Attempts = 1
	return p.Normalized()
}

// Retries returns how many attempts may follow the first one.
func (p RetryPlan) Retries() int { return max(0, p.Attempts-1) }

// Delay returns the time to wait before the given retry, which counts from 1, in whole milliseconds. random, from 0
// to 1, picks the jitter.
func (p RetryPlan) Delay(retry int, random float64) time.Duration {
	ms := float64(p.First.Milliseconds()) * math.Pow(p.Factor, float64(max(0, retry-1)))
	ms = min(ms, float64(p.Max.Milliseconds()))
	ms += ms * float64(p.JitterPermille) / 1000 * min(1, max(0, random))
	return time.Duration(min(ms, math.MaxInt64/1e6)) * time.Millisecond
}

// Validate returns every fault of p, joined, or nil.
func (p RetryPlan) Validate() error {
	var errs []error
	fault := func(format string, args ...any) { errs = append(errs, fmt.Errorf("retry: "+format, args...)) }
	if p.Attempts < 1 || p.Attempts > maxAttempts {
		fault("%d attempts are outside 1 to %d", p.Attempts, maxAttempts)
	}
	if p.Attempts == 1 {
		return errors.Join(errs...)
	}
	if p.First <= 0 {
		fault("first delay %s is not positive", p.First)
	}
	if p.First%time.Millisecond != 0 || p.Max%time.Millisecond != 0 {
		fault("delays %s and %s are not in whole milliseconds", p.First, p.Max)
	}
	if p.Max < p.First {
		fault("longest delay %s is shorter than the first, %s", p.Max, p.First)
	}
	if !(p.Factor >= 1 && p.Factor <= maxFactor) {
		fault("factor %v is outside 1 to %d", p.Factor, maxFactor)
	}
	if p.JitterPermille < 0 || p.JitterPermille > 1000 {
		fault("jitter of %d thousandths is outside 0 to 1000", p.JitterPermille)
	}
	return errors.Join(errs...)
}

// Normalized gives equivalent plans equal fields.
func (p RetryPlan) Normalized() RetryPlan {
	if p.Attempts == 1 {
		return RetryPlan{Attempts: 1}
	}
	p.First, p.Max = Milliseconds(p.First), Milliseconds(p.Max)
	return p
}
