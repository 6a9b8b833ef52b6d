package activity

import (
	"errors"
	"fmt"
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

// NewLimit returns a limit. Validate tells whether it is one.
func NewLimit(name string, opts ...LimitOption) activityspec.Limit {
	s := activityspec.Limit{Name: name}
	for i, opt := range opts {
		if opt == nil {
			s.Faults = append(s.Faults, fmt.Errorf("option %d is nil", i+1))
			continue
		}
		opt(&s)
	}
	return s
}

// Limit bounds how often, or how many at once, executions of the activity start. Used more than once, all of them hold. It
// needs AtMost or AtOnce, or both.
func Limit(name string, opts ...LimitOption) Option {
	return func(d *declaration) { d.options.Limits = append(d.options.Limits, NewLimit(name, opts...)) }
}
