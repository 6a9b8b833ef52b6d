package engine

import "fmt"

// Errorf returns err with the operation on the run: "cancel run r of flow f: err".
func (r *Run) Errorf(doing string, err error) error {
	return fmt.Errorf("%s run %s of flow %s: %w", doing, r.ID, r.Flow, err)
}

// Reworded returns an error with a sentence for people in place of the text of the call and its code.
func Reworded(err error, text string) error { return &reworded{text, err} }

type reworded struct {
	text string
	err  error
}

// Error implements error.
func (r *reworded) Error() string { return r.text }

// Unwrap returns the error of the call.
func (r *reworded) Unwrap() error { return r.err }

// Invalid returns an error that wraps [ErrInvalid].
func Invalid(format string, args ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{ErrInvalid}, args...)...)
}
