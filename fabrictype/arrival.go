package fabrictype

import (
	"fmt"
	"time"
)

// KeyTakenError is the error of Start for a run WithKey whose key has as many open runs as it may, and of Rerun for a
// run whose key has no free place. errors.Is reports each *KeyTakenError as equal to any other.
type KeyTakenError struct {
	// Key is the key; empty for a rerun.
	Key string
	// Run is the id of one of the open runs of the key.
	Run string
}

// Error names the key and the open run.
func (e *KeyTakenError) Error() string {
	if e.Key == "" {
		return fmt.Sprintf("run %s of the same key is open", e.Run)
	}
	return fmt.Sprintf("run %s of key %q is open", e.Run, e.Key)
}

// Is reports whether target is a *KeyTakenError.
func (e *KeyTakenError) Is(target error) bool {
	_, same := target.(*KeyTakenError)
	return same
}

// ThrottledError is the error of Start for a run WithThrottle and Throttle.Reject when as many runs have started as
// may. errors.Is reports each *ThrottledError as equal to any other.
type ThrottledError struct {
	// Key is the key; empty for a throttle of all runs of the flow.
	Key string
	// Until is when the next run may start, by the engine's clock.
	Until time.Time
}

// Error names the key and the time.
func (e *ThrottledError) Error() string {
	if e.Key == "" {
		return "the throttle of the flow has room at " + e.Until.UTC().Format(time.RFC3339Nano)
	}
	return fmt.Sprintf("the throttle of key %q has room at %s", e.Key, e.Until.UTC().Format(time.RFC3339Nano))
}

// Is reports whether target is a *ThrottledError.
func (e *ThrottledError) Is(target error) bool {
	_, same := target.(*ThrottledError)
	return same
}
