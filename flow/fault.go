package flow

import (
	"errors"

	"github.com/flowfabric/flowfabric-go/internal/flowgraph"
)

// ErrInvalid matches every error of Build.
var ErrInvalid = flowgraph.ErrInvalid

// Fault is one fault of a flow.
type Fault struct {
	// Flow is the name of the flow.
	Flow string
	// Node is the name of the node; empty for a fault of the flow.
	Node string
	// Path is the position in the node or flow, such as "input.files[2].shard" or "tags"; it may be empty.
	Path string
	// Kind is the class of the fault, such as "cycle" or "type mismatch": the same error for all faults of the class.
	Kind error
	// Detail describes the found and the expected value; it may be empty.
	Detail string
	// Cause is the error that caused the fault; it may be nil.
	Cause error
	// Place is where the node, or the flow, was declared: the base name of the file and the line, as "orders.go:12".
	Place string
}

// Error names the position, the kind and the detail.
func (f *Fault) Error() string { return (*flowgraph.Fault)(f).Error() }

// Unwrap returns ErrInvalid and Kind, and Cause if there is one.
func (f *Fault) Unwrap() []error { return (*flowgraph.Fault)(f).Unwrap() }

// Faults returns all faults in an error of Build, in the order in which they were found.
func Faults(err error) []*Fault {
	var found []*Fault
	switch e := err.(type) {
	case nil:
	case *Fault:
		found = append(found, e)
	case *flowgraph.Fault:
		found = append(found, (*Fault)(e))
	case interface{ Unwrap() []error }:
		for _, inner := range e.Unwrap() {
			found = append(found, Faults(inner)...)
		}
	default:
		found = Faults(errors.Unwrap(err))
	}
	return found
}

// faultsError returns the faults of a flow as an error of this package; nil without faults. placeOf gives each fault
// its place.
func faultsError(err error, placeOf func(*Fault) string) error {
	var list []error
	for _, fault := range Faults(err) {
		fault.Place = placeOf(fault)
		list = append(list, fault)
	}
	return errors.Join(list...)
}
