package activityspec

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Limit bounds how many executions that share it start within a time or run at a time. Executions share a limit of the
// same name and key in one namespace, across activities and flows. A run uses the limit as declared when it was
// started.
type Limit struct {
	// Name of the limit.
	Name string
	// AtMost executions start within any Per; 0 means unlimited.
	AtMost int
	Per    time.Duration
	// AtOnce executions run at a time; 0 means unlimited. An execution that waits for a signal, a delay or its next
	// attempt is not running.
	AtOnce int
	// KeyFrom is where the flow's input, which must be JSON then, has the key: the names of nested fields. Empty is one
	// limit for all.
	KeyFrom []string
}

// MaxLimits bounds the limits of one node, MaxLimitCount the numbers of a limit, maxLimitWindow its Per.
const (
	MaxLimits      = 8
	MaxLimitCount  = 1_000_000
	maxLimitWindow = 30 * 24 * time.Hour
)

// Validate returns every fault of s, joined, or nil.
func (s Limit) Validate() error {
	var errs []error
	if err := CheckName(s.Name); err != nil {
		errs = append(errs, err)
	}
	if s.AtMost < 0 || s.AtMost > MaxLimitCount || s.AtOnce < 0 || s.AtOnce > MaxLimitCount {
		errs = append(errs, fmt.Errorf("at most %d, at once %d: must be 0 to %d", s.AtMost, s.AtOnce, MaxLimitCount))
	}
	if s.AtMost == 0 && s.AtOnce == 0 {
		errs = append(errs, errors.New("it allows nothing: at most or at once must be above 0"))
	}
	if s.AtMost > 0 && (s.Per < time.Millisecond || s.Per > maxLimitWindow || s.Per%time.Millisecond != 0) {
		errs = append(errs, fmt.Errorf("at most %d per %s: the time must be 1ms to %s, in whole milliseconds", s.AtMost,
			s.Per, maxLimitWindow))
	}
	if s.AtMost == 0 && s.Per != 0 {
		errs = append(errs, fmt.Errorf("per %s without a number", s.Per))
	}
	if slices.Contains(s.KeyFrom, "") {
		errs = append(errs, fmt.Errorf("key from %q: a field has no name", strings.Join(s.KeyFrom, ".")))
	}
	for i, err := range errs {
		errs[i] = fmt.Errorf("limit %q: %w", s.Name, err)
	}
	return errors.Join(errs...)
}

// String describes the limit in words.
func (s Limit) String() string {
	var parts []string
	if s.AtOnce > 0 {
		parts = append(parts, fmt.Sprintf("%d at once", s.AtOnce))
	}
	if s.AtMost > 0 {
		parts = append(parts, fmt.Sprintf("%d per %s", s.AtMost, s.Per))
	}
	return strings.Join(parts, ", ")
}

// same reports whether two limits are one and the same quota.
func (s Limit) same(o Limit) bool {
	return s.Name == o.Name && slices.Equal(s.KeyFrom, o.KeyFrom)
}

// checkLimits returns the faults of the limits of one node or activity.
func checkLimits(list []Limit) []error {
	var errs []error
	if len(list) > MaxLimits {
		errs = append(errs, fmt.Errorf("%d limits, at most %d are allowed", len(list), MaxLimits))
	}
	for i, s := range list {
		errs = append(errs, s.Validate())
		if slices.ContainsFunc(list[:i], s.same) {
			errs = append(errs, fmt.Errorf("limit %q is there twice", s.Name))
		}
	}
	return errs
}

// sortLimits converts limits to the canonical order of equal options.
func sortLimits(list []Limit) {
	slices.SortFunc(list, func(a, b Limit) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), slices.Compare(a.KeyFrom, b.KeyFrom))
	})
}

// SetLimit adds a limit to o. It replaces a limit with the same name and key.
func (o *Options) SetLimit(s Limit) {
	o.Limits = slices.DeleteFunc(slices.Clone(o.Limits), s.same)
	o.Limits = append(o.Limits, s)
	sortLimits(o.Limits)
}
