package fabrictype

import (
	"fmt"
	"strings"
)

// ValueError lists the faults of a JSON value against its JSON Schema: the input that a run was to be started with, or
// the answer to a wait. Package runtime returns it wrapped, so that errors.As finds it and errors.Is finds
// runtime.ErrInvalid; nothing was written then.
type ValueError struct {
	// Subject names the value, such as: input of flow "order".
	Subject string `json:"subject"`
	// Faults are the faults of the value, ordered by their place in it: at least one, at most 100.
	Faults []ValueFault `json:"faults"`
	// More is how many further faults the value has.
	More int `json:"more,omitempty"`
}

// Error lists the faults with their places.
func (e *ValueError) Error() string {
	faults := make([]string, 0, len(e.Faults)+1)
	for _, fault := range e.Faults {
		faults = append(faults, fault.String())
	}
	if e.More > 0 {
		faults = append(faults, fmt.Sprintf("and %d more faults", e.More))
	}
	return e.Subject + ": " + strings.Join(faults, "; ")
}

// ValueFault is one fault of a JSON value.
type ValueFault struct {
	// Pointer is the JSON Pointer (RFC 6901) to the part that is wrong or missing: empty for the whole value.
	Pointer string `json:"pointer,omitempty"`
	// Message describes the fault of that part in English.
	Message string `json:"message"`
}

// String returns place and message, or only the message of a fault of the whole value.
func (f ValueFault) String() string {
	if f.Pointer == "" {
		return f.Message
	}
	return f.Pointer + ": " + f.Message
}
