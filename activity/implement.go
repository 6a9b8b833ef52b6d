package activity

import (
	"context"
	"errors"
)

// Implement gives an activity of Declare its function, for the worker that registers the result: in most cases a method
// of a struct with the dependencies of the function, such as a database, so that programs which only declare and start
// flows do not have it.
//
//	var Charge = activity.Declare[Order, Receipt]("shop.charge", activity.StartToClose(time.Minute))
//
//	func (s *Shop) Handlers() []activity.Handler { // in the worker
//		return []activity.Handler{activity.Implement(Charge, s.Charge)}
//	}
//
// Name, types, options, codec and aliases come from the declaration, so the compiler checks the function against it.
// The declaration stays as it is: another call gives another implementation, as in a test. Err of the result reports a
// declaration that is faulty or has a function, and a function that is nil.
func Implement[In, Out any](
	declared *Activity[In, Out], fn func(context.Context, In) (Out, error),
) *Activity[In, Out] {
	if declared == nil {
		return nil // its Err reports that
	}
	a := *declared
	a.fn, a.declared = fn, false
	var faults []error
	if a.err != nil {
		faults = append(faults, a.err)
	}
	if !declared.declared && declared.fn != nil {
		faults = append(faults, errors.New("it has a function already: only an activity of Declare can be implemented"))
	}
	if fn == nil {
		faults = append(faults, errors.New("function is nil"))
	}
	if len(faults) > 0 && a.err == nil {
		a.err = &declarationError{Activity: a.name, Err: errors.Join(faults...)}
	}
	return &a
}
