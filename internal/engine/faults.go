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

// ItemError is the error of one of the items that a step of a keeper works on: an execution, a run, a waitpoint. The
// step has worked on the others.
type ItemError struct {
	// Item is its id.
	Item string
	Err  error
}

// Error names the item and its error.
func (e *ItemError) Error() string { return e.Item + ": " + e.Err.Error() }

// Unwrap returns the error of the item.
func (e *ItemError) Unwrap() error { return e.Err }
