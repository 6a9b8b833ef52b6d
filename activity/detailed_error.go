package activity

import (
	"encoding/json"

	"github.com/flowfabric/flowfabric-go/internal/errordetail"
)

// DetailedError is an error that keeps its type from the worker to the program that waits for the run. Give your error
// type the method ErrorName, and return such an error from a function, alone or wrapped. Its JSON form is stored with
// the failure, up to 16 KiB for all of one failure, and errors.As finds it in the *RunError of the run, in the
// NodeFailure of the node, and in the flow.Failure and flow.ItemOutcome that other nodes get:
//
//	type OutOfStock struct {
//		Item string `json:"item"`
//		Left int    `json:"left"`
//	}
//
//	func (*OutOfStock) ErrorName() string { return "shop.out_of_stock" }
//	func (e *OutOfStock) Error() string   { return e.Item + " is out of stock" }
//
// The name identifies the type in every program and must not change; names with the prefix "flowfabric." are the
// library's own. ErrorName is also called on a zero value, so it returns a constant. SentinelError makes errors that
// have nothing but a name.
type DetailedError interface {
	error
	// ErrorName returns the name of the type: one line of at most 128 bytes. Longer ones are truncated.
	ErrorName() string
}

// SentinelError returns an error for a package variable, as errors.New does, that errors.Is finds across processes: if
// a function returns it, alone or wrapped, it is in the *RunError of the run and in the NodeFailure of the node for
// every program that has a sentinel of the same name.
//
//	var ErrClosed = activity.SentinelError("shop.closed", "the shop is closed")
//
// Names follow the rules of a DetailedError. Two sentinels of one name are different errors within a process.
func SentinelError(name, text string) error { return errordetail.NewSentinel(name, text) }

// ErrorDetail is an error with a name as it is stored with a failure: a DetailedError, a sentinel, or an error of this
// library.
type ErrorDetail struct {
	Name string `json:"name"`
	// Value is the error in JSON; nil for a sentinel.
	Value json.RawMessage `json:"value,omitempty"`
	// OmittedBytes is the size of a value that was not stored, since the values of the failure had more than 16 KiB
	// together.
	OmittedBytes int `json:"omitted_bytes,omitempty"`
}
