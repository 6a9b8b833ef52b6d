// Package valuefault has the faults of a JSON value that was held against a JSON Schema: of an input that a run was to
// be started with, and of an answer to a waitpoint.
package valuefault

import (
	"fmt"
	"github.com/flowfabric/flowfabric-go/fabrictype"
	"strings"
)

// MaxFaults is how many faults an Error lists. Error.More counts the others.
const MaxFaults = 100

// Error says why a JSON value does not fit its schema. Package runtime returns it wrapped, so that errors.As finds it
// and errors.Is finds runtime.ErrInvalid; nothing was written then.
type Error struct {
	// Subject names the value, such as: input of flow "order".
	Subject string
	// Faults are the faults of the value, ordered by their place in it: one at least, MaxFaults at most.
	Faults []fabrictype.ValueFault
	// More is how many further faults the value has.
	More int
}

// Fault is one fault of a JSON value.
type Fault struct {
	// Pointer is the JSON Pointer (RFC 6901) to the part that is wrong or missing: empty for the whole value.
	Pointer string
	// Message says what is wrong with that part, in English.
	Message string
}

// Error lists the faults with their places.
func (e *fabrictype.ValueError) Error() string {
	faults := make([]string, 0, len(e.Faults)+1)
	for _, fault := range e.Faults {
		faults = append(faults, fault.String())
	}
	if e.More > 0 {
		faults = append(faults, fmt.Sprintf("and %d more faults", e.More))
	}
	return e.Subject + ": " + strings.Join(faults, "; ")
}

// String returns place and message, or only the message of a fault of the whole value.
func (f fabrictype.ValueFault) String() string {
	if f.Pointer == "" {
		return f.Message
	}
	return f.Pointer + ": " + f.Message
}
