package execution

import (
	"bytes"
	"encoding/json"
	"math"
	"strconv"
	"time"

	"github.com/flowfabric/flowfabric-go/internal/activityspec"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
)

// Delays before a retry, in milliseconds, for a policy without them: the contract's defaults.
const (
	defaultDelay      = 1000
	defaultMaxDelay   = 60_000
	defaultMultiplier = 2
)

// retryPolicy is the retry policy of an execution as the contract reads it: every program may have written it, so a
// member with a value of another type counts as missing.
type retryPolicy struct {
	Max     looseNumber     `json:"max_retries"`
	Backoff json.RawMessage `json:"backoff"`
	// This project's own: categories that are retried or not, and how long attempts may begin.
	Only, Except looseTexts
	Within       looseNumber `json:"within_ms"`
}

// retryBackoff is the delay of a retry policy. The jitter is this project's own.
type retryBackoff struct {
	Type       looseText   `json:"type"`
	Fixed      looseNumber `json:"delay_ms"`
	Initial    looseNumber `json:"initial_delay_ms"`
	Max        looseNumber `json:"max_delay_ms"`
	Multiplier looseNumber `json:"multiplier"`
	Jitter     looseNumber `json:"jitter_permille"`
}

// looseNumber is a number, also as a text; any other value leaves it unset.
type looseNumber struct {
	value float64
	set   bool
}

// UnmarshalJSON never fails.
func (n *looseNumber) UnmarshalJSON(data []byte) error {
	value, err := strconv.ParseFloat(string(bytes.Trim(data, `" `)), 64)
	if err == nil && !math.IsNaN(value) && !math.IsInf(value, 0) {
		n.value, n.set = value, true
	}
	return nil
}

// or returns the number, or a default if it is unset.
func (n looseNumber) or(fallback float64) float64 {
	if n.set {
		return n.value
	}
	return fallback
}

// looseText is a text; any other value leaves it empty.
type looseText string

// UnmarshalJSON never fails.
func (t *looseText) UnmarshalJSON(data []byte) error {
	var text string
	if json.Unmarshal(data, &text) == nil {
		*t = looseText(text)
	}
	return nil
}

// looseTexts are texts; any other value leaves them empty.
type looseTexts []string

// UnmarshalJSON never fails.
func (t *looseTexts) UnmarshalJSON(data []byte) error {
	var texts []string
	if json.Unmarshal(data, &texts) == nil {
		*t = texts
	}
	return nil
}

// retryOf returns the retry policy for one failure: the limit of the stored policy with a fixed delay, computed
// here because the contract has neither jitter nor a delay that the failure requests. begun returns how long ago the
// first attempt began; it is called for policies that limit that time. Nil means that there will be no retry.
func retryOf(lease *heldLease, call enginerpc.FailCall, begun func() time.Duration) []byte {
	var stored struct {
		Retry json.RawMessage `json:"retry_policy"`
	}
	var policy *retryPolicy
	if err := json.Unmarshal(lease.policy, &stored); err != nil || !call.Retryable ||
		json.Unmarshal(stored.Retry, &policy) != nil || policy == nil {
		return nil
	}
	ms := int64(min(policy.delay(lease.retries, call.JitterPermille), math.MaxInt32*1000))
	if call.RetryAfter > 0 {
		ms = call.RetryAfter.Milliseconds()
	}
	rules := activityspec.RetryRules{Only: policy.Only, Except: policy.Except}
	if !rules.Allow(call.Category) {
		return nil
	}
	within := time.Duration(policy.Within.value) * time.Millisecond
	if policy.Within.set && begun()+time.Duration(ms)*time.Millisecond > within {
		return nil
	}
	type fixed struct {
		Type  string `json:"type"`
		Delay int64  `json:"delay_ms"`
	}
	encoded, _ := json.Marshal(struct { // these types always have a JSON form
		MaxRetries float64 `json:"max_retries"`
		Backoff    fixed   `json:"backoff"`
	}{policy.Max.or(0), fixed{"fixed", max(ms, 1)}})
	return encoded
}

// delay returns the milliseconds before the retry that follows a number of earlier ones. jitter, in thousandths, scales
// the jitter of the policy.
func (p *retryPolicy) delay(retries, jitter int64) float64 {
	var backoff retryBackoff
	if json.Unmarshal(p.Backoff, &backoff) != nil {
		return defaultDelay
	}
	switch backoff.Type {
	case "fixed":
		return backoff.Fixed.or(defaultDelay)
	case "exponential":
	default:
		return defaultDelay
	}
	delay := min(backoff.Initial.or(defaultDelay)*math.Pow(backoff.Multiplier.or(defaultMultiplier), float64(retries)),
		backoff.Max.or(defaultMaxDelay))
	return delay + delay*backoff.Jitter.or(0)/1000*float64(jitter)/1000
}
