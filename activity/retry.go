package activity

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

	// MaxAttempts bounds the attempts of a policy.
	MaxAttempts = 1_000_000
	maxFactor   = 1_000
)

// RetryPolicy defines the number of attempts and the delays between them. Exponential, Fixed, Attempts and RetryPlan
// implement it.
type RetryPolicy interface {
	// Plan returns the policy with every default filled in. It may be invalid: see RetryPlan.Validate.
	Plan() RetryPlan
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
	// Attempts is the number of attempts including the first. Defaults to 5; 1 is no retry.
	Attempts int
	// JitterPermille lengthens each delay by a random part of up to this many thousandths, so that executions that
	// failed together are not retried together. Defaults to 100; negative is none; at most 1,000.
	JitterPermille int
}

// Plan implements RetryPolicy.
func (e Exponential) Plan() RetryPlan {
	p := RetryPlan{
		Attempts:       or(e.Attempts, DefaultAttempts),
		First:          Milliseconds(or(e.First, DefaultFirstDelay)),
		Factor:         or(e.Factor, DefaultFactor),
		JitterPermille: max(0, or(e.JitterPermille, DefaultJitterPermille)),
	}
	p.Max = Milliseconds(or(e.Max, max(p.First, DefaultMaxDelay)))
	return p.normalized()
}

// Fixed waits equally long before each retry, without jitter.
type Fixed struct {
	// Delay is the time between a failure and the next attempt. Defaults to 1 s; use a millisecond for an immediate
	// retry.
	Delay time.Duration
	// Attempts is the number of attempts including the first. Defaults to 5.
	Attempts int
}

// Plan implements RetryPolicy.
func (f Fixed) Plan() RetryPlan {
	delay := Milliseconds(or(f.Delay, DefaultFirstDelay))
	return RetryPlan{Attempts: or(f.Attempts, DefaultAttempts), First: delay, Max: delay, Factor: 1}.normalized()
}

// Attempts is a policy with this number of attempts and the delays of Exponential{}.
type Attempts int

// NoRetry makes the first failure final.
const NoRetry Attempts = 1

// Plan implements RetryPolicy.
func (n Attempts) Plan() RetryPlan {
	p := Exponential{}.Plan()
	p.Attempts = int(n)
	return p.normalized()
}

// DefaultRetry returns the plan of Exponential{}.
func DefaultRetry() RetryPlan { return Exponential{}.Plan() }

// RetryPlan is a policy with every value spelled out. Durations are whole milliseconds. With one attempt all other
// fields are zero.
type RetryPlan struct {
	Attempts       int           // all attempts, the first one too
	First          time.Duration // before the first retry
	Max            time.Duration // bound of every delay, before jitter
	Factor         float64       // growth from one delay to the next; 1 keeps it fixed
	JitterPermille int           // thousandths by which a delay may be longer
}

// Plan implements RetryPolicy: it returns p itself.
func (p RetryPlan) Plan() RetryPlan { return p.normalized() }

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
	if p.Attempts < 1 || p.Attempts > MaxAttempts {
		fault("%d attempts are outside 1 to %d", p.Attempts, MaxAttempts)
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

// normalized gives equivalent plans equal fields.
func (p RetryPlan) normalized() RetryPlan {
	if p.Attempts == 1 {
		return RetryPlan{Attempts: 1}
	}
	p.First, p.Max = Milliseconds(p.First), Milliseconds(p.Max)
	return p
}

func or[T comparable](value, fallback T) T {
	var zero T
	if value == zero {
		return fallback
	}
	return value
}
