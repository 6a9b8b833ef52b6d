package activity

import (
	"errors"
	"time"

	"github.com/flowfabric/flowfabric-go/internal/activityspec"
)

// LimitOption says what a limit bounds.
type LimitOption func(*activityspec.Limit)

// AtMost lets n executions start within any time of that length: a sliding window.
func AtMost(n int, per time.Duration) LimitOption {
	return func(s *activityspec.Limit) { s.AtMost, s.Per = n, activityspec.Milliseconds(per) }
}

// AtOnce lets n executions run at a time.
func AtOnce(n int) LimitOption { return func(s *activityspec.Limit) { s.AtOnce = n } }

// KeyFrom makes it one limit for each value that the flow's input has at a path of field names: KeyFrom("tenant", "id").
// The value must be a text, a number or a boolean: the flow's Build checks what the type of the input says of it, the start of
// a run the rest.
func KeyFrom(path ...string) LimitOption {
	return func(s *activityspec.Limit) {
		if len(path) == 0 {
			s.Faults = append(s.Faults, errors.New("key from: it names no field"))
		}
		s.KeyFrom = path
	}
}

// Limit bounds how often, or how many at once, executions start that share the limit: all that have one of the same name and key
// in the namespace, of whichever activities and flows. Used more than once, all of them hold; one of a node replaces its activity's of
// the same name and key. A limit needs AtMost or AtOnce, or both.
func Limit(name string, opts ...LimitOption) ExecutionOption {
	return func(t activityspec.Target) error {
		t.AddLimit(activityspec.NewLimit(name, opts...))
		return nil
	}
}
