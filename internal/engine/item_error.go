package engine

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
