package engine

import (
	"context"
	"slices"

	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/internal/errordetail"
)

// namedError is an error of the library by the name with which failures store it.
type namedError struct {
	name string
	err  error
}

// namedErrors are the sentinels of the library that do not contain their names: the errors of package enginecore,
// which imports nothing, and the errors that wrap another one. Names are stored, so they must not change.
var namedErrors = []namedError{
	{"flowfabric.other_graph", ErrOtherGraph},
	{"flowfabric.other_input", ErrOtherInput},
	{"flowfabric.not_in_contract", ErrNotInContract},
	{"flowfabric.unavailable", enginecore.ErrUnavailable},
	{"flowfabric.full", enginecore.ErrFull},
	{"flowfabric.closed", enginecore.ErrClosed},
	{"flowfabric.outcome_unknown", enginecore.ErrOutcomeUnknown},
	{"flowfabric.unauthorized", enginecore.ErrUnauthorized},
}

// errorsOfCalls are those that a call which waits for a run returns of itself. Found in the failure of a node they must
// not be taken for that.
var errorsOfCalls = []error{
	ErrInvalid, ErrNotFound, ErrRunNotFound, ErrRunFailed, ErrRunCancelled, ErrRunExpired, ErrNoResult,
	enginecore.ErrUnavailable,
	enginecore.ErrFull, enginecore.ErrClosed, enginecore.ErrOutcomeUnknown, enginecore.ErrUnauthorized,
	context.Canceled, context.DeadlineExceeded,
}

// nameOfError returns the name of such an error; empty for others. Answers of the engine have their code.
func nameOfError(err error) string {
	if code, ok := err.(enginecore.Code); ok {
		return "flowfabric.engine." + string(code)
	}
	for i := range namedErrors {
		if err == namedErrors[i].err {
			return namedErrors[i].name
		}
	}
	return ""
}

// FailureDetails returns the named errors in the chain of a failure in their stored form; nil without any.
func FailureDetails(failure error) []byte {
	return errordetail.Encode(errordetail.Of(failure, nameOfError))
}

// impliedErrors are the errors of failures that the engine itself causes, by the reason that it records.
var impliedErrors = map[string]error{
	"attempt_timeout": ErrStartToClose,
	"the attempt ran longer than its start-to-close timeout": ErrStartToClose,
	"execution_deadline": ErrDeadline,
	"flow_deadline":      ErrDeadline,
	"finally_deadline":   ErrDeadline,
}

// ImpliedError returns the error of a failure that the engine itself caused, by the reason that it records; nil for
// another reason.
func ImpliedError(reason string) error { return impliedErrors[reason] }

// StoredDetails reads the details of a failure with the reason that the engine has recorded.
func StoredDetails(stored []byte, reason string) []errordetail.Detail {
	if implied := ImpliedError(reason); implied != nil && len(stored) == 0 {
		return errordetail.Of(implied, nameOfError)
	}
	return errordetail.Decode(stored)
}

// IsInDetails reports whether details of a failure have the target, an error with a name.
func IsInDetails(list []errordetail.Detail, target error) bool {
	return errordetail.Is(list, target, nameOfError)
}

// IsErrorOfCall reports whether a call that waits for a run returns the target of itself.
func IsErrorOfCall(target error) bool {
	if _, ok := target.(enginecore.Code); ok {
		return true
	}
	return slices.Contains(errorsOfCalls, target)
}
