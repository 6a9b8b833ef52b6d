package activityspec

import "errors"

// IsMark reports whether an error of a function requests another end of its attempt than a failure: a cancellation or
// a postponement.
func IsMark(err error) bool {
	var cancellation *Cancellation
	var postponement *Postponement
	return errors.As(err, &cancellation) || errors.As(err, &postponement)
}
