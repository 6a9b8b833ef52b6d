package runtime

import "errors"

// apply applies options in their order. Its error matches ErrInvalid and names those that are nil.
func apply[O ~func(C), C any](to C, opts []O) error {
	var faults []error
	for i, opt := range opts {
		if opt == nil {
			faults = append(faults, nilOption(i))
			continue
		}
		opt(to)
	}
	return errors.Join(faults...)
}

// nilOption is the fault of an option that is nil, by its index.
func nilOption(i int) error { return invalid("option %d is nil", i+1) }
