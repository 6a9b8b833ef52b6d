package activity

import (
	"errors"
	"time"

	"github.com/flowfabric/flowfabric-go/internal/activityspec"
)

// LimitOption sets a bound or the key of a limit.
type LimitOption func(*activityspec.Limit)

// AtMost lets n functions begin within any time of that length: a sliding window, by the clock of the engine. Each
// attempt counts, and each time that a function begins again after a wait or in place of a lost worker. A task of
// Worker.Next counts when Next returns it, an item of NewBatch when it joins the batch, a map or sub-flow when its
// child runs are started.
func AtMost(n int, per time.Duration) LimitOption {
	return func(s *activityspec.Limit) { s.AtMost, s.Per = n, activityspec.Milliseconds(per) }
}

// AtOnce lets n executions run at a time.
func AtOnce(n int) LimitOption { return func(s *activityspec.Limit) { s.AtOnce = n } }

// KeyFrom makes it one limit for each value that the flow's input has at a path of field names: KeyFrom("tenant",
// "id"). The value must be a string, a number or a boolean: the flow's Build checks the type of the input, and the
// start of a run checks the value.
func KeyFrom(path ...string) LimitOption {
	return func(s *activityspec.Limit) {
		if len(path) == 0 {
			s.Faults = append(s.Faults, errors.New("KeyFrom: the path must name at least one field of the input"))
		}
		s.KeyFrom = path
	}
}

// Limit bounds how many executions that share it start within a time or run at a time. Executions share a limit of the
// same name and key in one namespace, across activities and flows. Several limits all apply; a limit of a node replaces
// the limit of its activity with the same name and key. A limit needs AtMost or AtOnce, or both.
func Limit(name string, opts ...LimitOption) ExecutionOption {
	return func(t activityspec.Target) error {
		t.AddLimit(activityspec.NewLimit(name, opts...))
		return nil
	}
}
