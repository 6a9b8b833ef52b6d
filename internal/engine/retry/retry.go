// Package retry repeats calls whose outcome is unknown, and reports which errors leave it unknown.
package retry

import (
	"context"
	"errors"
	"time"

	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
	"github.com/flowfabric/flowfabric-go/internal/sleep"
)

// IsUnavailable reports whether a call failed because the engine was not reached or did not answer, including a call
// whose context ended first. The engine may have executed the call; one that is safe to repeat may be sent again.
func IsUnavailable(err error) bool { return IsOutcomeUnknown(err) || IsUnreached(err) }

// IsUnreached reports whether a call that only reads or is safe to repeat failed because the engine was not reached or
// did not answer, be it that the context of the call ended first.
func IsUnreached(err error) bool {
	return errors.Is(err, enginecore.ErrUnavailable) || enginerpc.IsUnanswered(err)
}

// IsOutcomeUnknown reports whether the engine may have executed a call that failed.
func IsOutcomeUnknown(err error) bool { return errors.Is(err, enginecore.ErrOutcomeUnknown) }

// Policy decides whether a call is sent again, and after which pause. The zero value repeats while the engine is
// unavailable, without pause.
type Policy struct {
	Pause time.Duration
	// Retryable reports whether the call is to be repeated after an error. The default is [IsUnavailable].
	Retryable func(error) bool
	// Until returns the time from which on no further try begins. It is called after each try. Nil means no limit.
	Until func() time.Time
	// Failed is called with the error of a try before the pause that precedes the next one. Optional.
	Failed func(error)
}

// UntilKnown repeats call while the policy allows its error and ctx has not ended. repeated is set from the second
// try on. It returns the error of the last try.
func UntilKnown(ctx context.Context, policy Policy, call func(repeated bool) error) error {
	for repeated := false; ; repeated = true {
		err := call(repeated)
		if err == nil || !policy.allows(err) || ctx.Err() != nil {
			return err
		}
		if policy.Failed != nil {
			policy.Failed(err)
		}
		sleep.For(ctx, policy.Pause)
	}
}

func (p *Policy) allows(err error) bool {
	retryable := p.Retryable
	if retryable == nil {
		retryable = IsUnavailable
	}
	return retryable(err) && (p.Until == nil || time.Now().Before(p.Until()))
}
