package activitycontext

import "errors"

// IsSuspension reports whether an error of a function is the one by which it waits for signals.
func IsSuspension(err error) bool {
	var s *Suspension
	return errors.As(err, &s)
}
