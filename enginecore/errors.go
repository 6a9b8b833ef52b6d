package enginecore

import (
	"errors"
	"fmt"
	"strings"
)

// Code is an error code of the library. The generated constants such as ErrLeaseExpired are codes, and are
// errors themselves, so errors.Is(err, ErrLeaseExpired) works.
type Code string

// Error implements error.
func (c Code) Error() string { return string(c) }

// Error is a refusal by the library: the call was understood and declined. Unless the function's header says
// otherwise, a refusal has written nothing.
type Error struct {
	// Function is the name of the library function.
	Function string
	// Code is the reason.
	Code Code
	// Details are the values that came with the code, in the order of the function's header.
	Details []string
}

// Error implements error.
func (e *Error) Error() string {
	if len(e.Details) == 0 {
		return e.Function + ": " + string(e.Code)
	}
	return e.Function + ": " + string(e.Code) + " (" + strings.Join(e.Details, ", ") + ")"
}

// Unwrap makes errors.Is find the code.
func (e *Error) Unwrap() error { return e.Code }

// Class tells what a caller can do about the error.
func (e *Error) Class() Class { return e.Code.Class() }

// Detail is the detail with a name of the function's header, or "" when the reply did not carry it.
func (e *Error) Detail(name string) string {
	i := detailIndex(e.Code, name)
	if i < 0 || i >= len(e.Details) {
		return ""
	}
	return e.Details[i]
}

// ErrOutcomeUnknown marks the error of a call that may or may not have been applied: the connection broke
// between sending and the reply, and the call is not safe to send again. Read the state to find out.
var ErrOutcomeUnknown = errors.New("outcome unknown")

// DecodeError is a reply that does not have the shape that the function's header promises: another library
// answers under the same name, or one that is too new or too old.
type DecodeError struct {
	// Function is the name of the library function.
	Function string
	// Field is the path to the offending value, such as executions[2].lease_id, or "" for the reply as a whole.
	Field string
	// Problem says what was found.
	Problem string
}

// Error implements error.
func (e *DecodeError) Error() string {
	if e.Field == "" {
		return fmt.Sprintf("%s: unexpected reply: %s", e.Function, e.Problem)
	}
	return fmt.Sprintf("%s: unexpected reply: %s: %s", e.Function, e.Field, e.Problem)
}

// CallError is a call that was not sent, because its arguments cannot make sense.
type CallError struct {
	// Function is the name of the library function.
	Function string
	// Field is the argument at fault.
	Field string
	// Problem says what is wrong with it.
	Problem string
}

// Error implements error.
func (e *CallError) Error() string {
	return fmt.Sprintf("%s: not sent: %s: %s", e.Function, e.Field, e.Problem)
}

// ServerError is an error reply of the server itself, not a refusal by the library.
type ServerError struct {
	// Function is the name of the library function or server command.
	Function string
	// Message is the server's text.
	Message string
}

// Error implements error.
func (e *ServerError) Error() string { return e.Function + ": server error: " + e.Message }
