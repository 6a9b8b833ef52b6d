package activity

import (
	"reflect"

	"github.com/flowfabric/flowfabric-go/internal/activityspec"
)

// ContinueAsNew returns the error by which a function starts anew: its steps, waits and sleeps are forgotten, and it
// runs again from its beginning, possibly on another worker, with the state in the place of its input. The function
// must return the error, as it is or wrapped. So a function can do more than its 256 steps, and its journal stays
// small.
//
//	if c.Page%100 == 0 {
//		return Report{}, activity.ContinueAsNew(c) // c is the input of the next call
//	}
//
// The state must have the type of the function's input, and at most 1 MiB in the activity's codec; otherwise
// the node fails without a retry. Forgetting and state are recorded in one atomic step: a lost worker neither repeats a
// step of a past generation nor loses the state. Each generation has the retries and the timeouts of the activity;
// Generation and Node.Generation of package runtime count them. The deadline of the run bounds all of them
// together.
//
// Waitpoints that were opened ahead of waits which have not begun stay open, with their tokens and the signals that
// they hold, for the wait of that name in a later generation; so do signals by name that came before a wait and that it
// did not need. Waits that are over are removed with their signals, so that a function can continue for ever, and the
// limits of signals count from the generation.
func ContinueAsNew[In any](state In) error {
	return &activityspec.Continuation{State: state, Type: reflect.TypeFor[In]()}
}
