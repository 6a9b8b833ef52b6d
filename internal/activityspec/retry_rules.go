package activityspec

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/flowfabric/flowfabric-go/internal/recordtext"
)

// RetryRules restrict the attempts that a retry plan grants. The zero value restricts nothing.
type RetryRules struct {
	// Only are the categories of failures that are retried; empty is all. Except are those that are not.
	Only, Except []string
	// Within is how long after the beginning of the first attempt that failed another one may begin; 0 means
	// unlimited. Whole milliseconds.
	Within time.Duration
}

// Limits of retry rules.
const (
	maxRetryCategories = 32
	maxRetryCategory   = 128
	maxRetryWithin     = 10 * 365 * 24 * time.Hour
)

// IsZero reports whether the rules restrict nothing.
func (r RetryRules) IsZero() bool { return len(r.Only) == 0 && len(r.Except) == 0 && r.Within == 0 }

// Allow reports whether another attempt may follow a failure of a category.
func (r RetryRules) Allow(category string) bool {
	return (len(r.Only) == 0 || slices.Contains(r.Only, category)) && !slices.Contains(r.Except, category)
}

// Clone returns a copy that shares nothing with r.
func (r RetryRules) Clone() RetryRules {
	r.Only, r.Except = slices.Clone(r.Only), slices.Clone(r.Except)
	return r
}

// Validate returns every fault of r, joined, or nil.
func (r RetryRules) Validate() error {
	var errs []error
	if len(r.Only) > 0 && len(r.Except) > 0 {
		errs = append(errs, errors.New("retry: either name categories that are retried (Only) or categories that "+
			"are not (Except)"))
	}
	names := slices.Concat(r.Only, r.Except)
	if len(names) > maxRetryCategories {
		errs = append(errs, fmt.Errorf("retry: %d categories, the limit is %d", len(names), maxRetryCategories))
	}
	for i, name := range names {
		switch {
		case name == "":
			errs = append(errs, fmt.Errorf("retry: category %d is empty", i+1))
		case name != recordtext.Line(name, maxRetryCategory):
			errs = append(errs, fmt.Errorf("retry: category %q: must be one line of at most %d bytes", name,
				maxRetryCategory))
		}
	}
	if r.Within < 0 || r.Within > maxRetryWithin {
		errs = append(errs, fmt.Errorf("retry: time %s must be 0 to 10 years", r.Within))
	}
	return errors.Join(errs...)
}

// Normalized gives equivalent rules equal fields.
func (r RetryRules) Normalized() RetryRules {
	r = r.Clone()
	slices.Sort(r.Only)
	slices.Sort(r.Except)
	r.Only, r.Except = slices.Compact(r.Only), slices.Compact(r.Except)
	r.Within = Milliseconds(r.Within)
	return r
}
