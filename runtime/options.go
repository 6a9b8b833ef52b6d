package runtime

import "errors"

// apply applies options in their order. Its error matches ErrInvalid and names those that are nil.
func apply[O ~func(C), C any](to C, opts []O) error {
	var faults []error
	for i, opt := range opts {
		if opt == nil {
			faults = append(faults, invalid("option %d is nil", i+1))
			continue
		}
		opt(to)
	}
	return errors.Join(faults...)
}
