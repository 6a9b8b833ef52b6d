package engine

import (
	"context"
	"errors"
	"time"

	"github.com/flowfabric/flowfabric-go/enginecore"
)

// IsUnavailable reports whether a call failed because the engine could not be reached, or did not answer: the call may
// have been carried out, and one that is safe to repeat may be sent again.
func IsUnavailable(err error) bool {
	return errors.Is(err, enginecore.ErrOutcomeUnknown) || errors.Is(err, enginecore.ErrUnavailable)
}

// IsOutcomeUnknown reports whether a call may have been carried out although it failed.
func IsOutcomeUnknown(err error) bool { return errors.Is(err, enginecore.ErrOutcomeUnknown) }

// RetryPolicy says when a call is sent again, and how soon. The zero value repeats while the engine is unavailable,
// without pause.
type RetryPolicy struct {
	Pause time.Duration
	// Retryable reports whether an error is worth another try. Defaults to IsUnavailable.
	Retryable func(error) bool
	// Until is when the last try begins at the latest; it is asked after each one. Without it there is no such time.
	Until func() time.Time
	// Failed is called before the pause that precedes another try. Optional.
	Failed func(error)
}

// RetryUntilKnown calls until the error says what came of it, or the policy or ctx ends the tries. A try that follows
// one without an answer is marked as repeated. It returns the error of the last try.
func RetryUntilKnown(ctx context.Context, policy RetryPolicy, call func(repeated bool) error) error {
	for repeated := false; ; repeated = true {
		err := call(repeated)
		if err == nil || !policy.allows(err) || ctx.Err() != nil {
			return err
		}
		if policy.Failed != nil {
			policy.Failed(err)
		}
		Pause(ctx, policy.Pause)
	}
}

func (p *RetryPolicy) allows(err error) bool {
	retryable := p.Retryable
	if retryable == nil {
		retryable = IsUnavailable
	}
	return retryable(err) && (p.Until == nil || time.Now().Before(p.Until()))
}
