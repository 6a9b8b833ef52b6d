package activity

import (
	"errors"
	"fmt"
	"slices"
	"time"
)

// Limits of a wait.
const (
	// MaxSignalNames bounds the names of one wait.
	MaxSignalNames = 64
	// MaxSignals bounds the number of signals that one wait requires, times its number of names.
	MaxSignals = 1024
	// MaxWait is the longest timeout of a wait.
	MaxWait = 10 * 365 * 24 * time.Hour
)

// TimeoutBehavior is the effect of a timeout that passes before the wait's signals have arrived.
type TimeoutBehavior string

// Effects of a timeout.
const (
	// FailOnTimeout fails the node, with category "timeout", without a retry.
	FailOnTimeout TimeoutBehavior = "fail"
	// CancelOnTimeout cancels the node.
	CancelOnTimeout TimeoutBehavior = "cancel"
	// ExpireOnTimeout ends the node as expired.
	ExpireOnTimeout TimeoutBehavior = "expire"
	// ResumeOnTimeout continues: a waitpoint node succeeds with the zero value (with no signals, where they are
	// collected), and Await returns ErrWaitTimedOut.
	ResumeOnTimeout TimeoutBehavior = "resume"
	// Escalate keeps waiting, and records the escalation in the run's events and its waitpoints.
	Escalate TimeoutBehavior = "escalate"
)

// Wait defines which signals end a wait. NewWait creates one.
type Wait struct {
	// Signals are the names that count, without duplicates. None: every name counts.
	Signals []string
	// All requires one signal of each name; Count is 0 then.
	All bool
	// Count is the number of required signals with any accepted name; at least 1, except with All.
	Count int
	// Distinct counts only one signal of each source.
	Distinct bool
	// Decisive are names of which one signal ends the wait at once, whatever else is required. They are not in Signals.
	Decisive []string
	// Timeout limits the wait; 0 is no limit. Whole milliseconds.
	Timeout time.Duration
	// OnTimeout is set exactly when Timeout is.
	OnTimeout TimeoutBehavior
}

// WaitOption adjusts Await and AwaitAll.
type WaitOption func(*Wait)

// Signals names the signals that count, at most MaxSignalNames. Names follow CheckName. Used more than once, it adds. The
// default is that every signal counts.
func Signals(names ...string) WaitOption {
	return func(w *Wait) { w.Signals = append(w.Signals, names...) }
}

// MatchAny ends the wait with the first signal that counts. It is the default.
func MatchAny() WaitOption { return AtLeast(1) }

// MatchAll ends the wait after one signal of each name in Signals.
func MatchAll() WaitOption {
	return func(w *Wait) { w.All, w.Count, w.Distinct = true, 0, false }
}

// AtLeast ends the wait with the n-th signal that counts, of one name or of several.
func AtLeast(n int) WaitOption {
	return func(w *Wait) { w.All, w.Count, w.Distinct = false, n, false }
}

// AtLeastDistinct ends the wait after accepted signals from n different sources.
func AtLeastDistinct(n int) WaitOption {
	return func(w *Wait) { w.All, w.Count, w.Distinct = false, n, true }
}

// Decisive names signals of which one ends the wait at once, whatever else is required: a single rejection where
// several approvals are needed. It counts even if its source was counted before. The names must differ from those of
// Signals; both together have at most MaxSignalNames. Used more than once, it adds. The default is none.
func Decisive(names ...string) WaitOption {
	return func(w *Wait) { w.Decisive = append(w.Decisive, names...) }
}

// Timeout limits the wait, at most to MaxWait, and sets the effect of the timeout. The default is no limit. Fractions
// of a millisecond are rounded up.
func Timeout(limit time.Duration, then TimeoutBehavior) WaitOption {
	return func(w *Wait) {
		w.Timeout, w.OnTimeout = Milliseconds(limit), then
		if w.Timeout == 0 {
			w.Timeout = -1 // not "no limit", which is not to be had by mistake
		}
	}
}

// NewWait returns the wait defined by the options, which may be invalid: see Validate.
func NewWait(opts ...WaitOption) Wait {
	w := Wait{Count: 1}
	for _, opt := range opts {
		if opt == nil {
			w.Count = -1
			continue
		}
		opt(&w)
	}
	return w
}

// Needed is the number of signals that end the wait if none of them is decisive.
func (w Wait) Needed() int {
	if w.All {
		return len(w.Signals)
	}
	return max(1, w.Count)
}

// Clone returns a copy that shares nothing with w.
func (w Wait) Clone() Wait {
	w.Signals, w.Decisive = slices.Clone(w.Signals), slices.Clone(w.Decisive)
	return w
}

// Validate returns every fault of w, joined, or nil.
func (w Wait) Validate() error {
	var errs []error
	fault := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	names := slices.Concat(w.Signals, w.Decisive)
	if len(names) > MaxSignalNames {
		fault("%d signal names, the limit is %d", len(names), MaxSignalNames)
	}
	seen := make(map[string]bool, len(names))
	for _, name := range names {
		if err := CheckName(name); err != nil {
			fault("signal: %w", err)
		}
		if seen[name] {
			fault("signal %q is named twice", name)
		}
		seen[name] = true
	}
	switch {
	case w.All && len(w.Signals) == 0:
		fault("all signals are waited for, but none is named")
	case w.All && (w.Count != 0 || w.Distinct):
		fault("all signals are waited for, and %d: only one of the two is possible", w.Count)
	case !w.All && w.Count < 1:
		fault("%d signals are waited for, it must be at least 1", w.Count)
	case w.Count*max(1, len(w.Signals)) > MaxSignals:
		fault("%d signals of %d names are waited for, the limit of their product is %d", w.Count, max(1, len(w.Signals)), MaxSignals)
	}
	w.validateTimeout(fault)
	return errors.Join(errs...)
}

func (w Wait) validateTimeout(fault func(format string, args ...any)) {
	switch {
	case w.Timeout < 0:
		fault("timeout %s is not positive", w.Timeout)
	case w.Timeout%time.Millisecond != 0:
		fault("timeout %s is not in whole milliseconds", w.Timeout)
	case w.Timeout > MaxWait:
		fault("timeout %s, the limit is %s", w.Timeout, MaxWait)
	}
	switch w.OnTimeout {
	case FailOnTimeout, CancelOnTimeout, ExpireOnTimeout, ResumeOnTimeout, Escalate:
		if w.Timeout == 0 {
			fault("what happens after the timeout is said, but no timeout is")
		}
	case "":
		if w.Timeout != 0 {
			fault("what happens after the timeout of %s is not said", w.Timeout)
		}
	default:
		fault("unknown behaviour %q after the timeout", w.OnTimeout)
	}
}
