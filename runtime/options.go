package runtime

import (
	"errors"
	"fmt"
)

// apply applies options in their order. Its error names those that are nil.
func apply[O ~func(C), C any](to C, opts []O) error {
	var faults []error
	for i, opt := range opts {
		if opt == nil {
			faults = append(faults, fmt.Errorf("option %d is nil", i+1))
			continue
		}
		opt(to)
	}
	return errors.Join(faults...)
}
