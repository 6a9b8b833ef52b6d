package engine

import (
	"context"
	"slices"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/internal/errordetail"
)

// namedError is an error of the library by the name with which failures store it.
type namedError struct {
	name string
	err  error
}

// namedErrors are the sentinels of the library and of package context. Names are stored, so they must not change.
var namedErrors = []namedError{
	{"flowfabric.invalid", ErrInvalid},
	{"flowfabric.run_conflict", ErrRunConflict},
	{"flowfabric.other_graph", ErrOtherGraph},
	{"flowfabric.other_input", ErrOtherInput},
	{"flowfabric.run_not_found", ErrRunNotFound},
	{"flowfabric.run_open", ErrRunOpen},
	{"flowfabric.nothing_to_rerun", ErrNothingToRerun},
	{"flowfabric.rerun_limit", ErrRerunLimit},
	{"flowfabric.unknown_node", ErrUnknownNode},
	{"flowfabric.node_over", ErrNodeOver},
	{"flowfabric.run_over", ErrRunOver},
	{"flowfabric.run_failed", ErrRunFailed},
	{"flowfabric.run_cancelled", ErrRunCancelled},
	{"flowfabric.run_expired", ErrRunExpired},
	{"flowfabric.no_result", ErrNoResult},
	{"flowfabric.too_large", ErrTooLarge},
	{"flowfabric.not_in_contract", ErrNotInContract},
	{"flowfabric.invalid_token", ErrInvalidToken},
	{"flowfabric.lease_lost", ErrLeaseLost},
	{"flowfabric.cancelled", ErrCancelled},
	{"flowfabric.stopping", ErrStopping},
	{"flowfabric.heartbeat_timeout", ErrHeartbeatTimeout},
	{"flowfabric.start_to_close", ErrStartToClose},
	{"flowfabric.deadline", ErrDeadline},
	{"flowfabric.budget_exceeded", activity.ErrBudgetExceeded},
	{"flowfabric.unknown_dimension", activity.ErrUnknownDimension},
	{"flowfabric.usage", activity.ErrUsage},
	{"flowfabric.live_value", activity.ErrLiveValue},
	{"flowfabric.wait_timed_out", activity.ErrWaitTimedOut},
	{"flowfabric.unavailable", enginecore.ErrUnavailable},
	{"flowfabric.full", enginecore.ErrFull},
	{"flowfabric.closed", enginecore.ErrClosed},
	{"flowfabric.outcome_unknown", enginecore.ErrOutcomeUnknown},
	{"flowfabric.unauthorized", enginecore.ErrUnauthorized},
	{"flowfabric.context_canceled", context.Canceled},
	{"flowfabric.context_deadline_exceeded", context.DeadlineExceeded},
}

// errorsOfCalls are those that a call which waits for a run returns of itself. Found in the failure of a node they must
// not be taken for that.
var errorsOfCalls = []error{
	ErrInvalid, ErrRunNotFound, ErrRunFailed, ErrRunCancelled, ErrRunExpired, ErrNoResult, enginecore.ErrUnavailable,
	enginecore.ErrFull, enginecore.ErrClosed, enginecore.ErrOutcomeUnknown, enginecore.ErrUnauthorized,
	context.Canceled, context.DeadlineExceeded,
}

// nameOfError returns the name of an error of the library; empty for others. Answers of the engine have their code.
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

// impliedErrors are the errors that the engine's own failures stand for, by the reason that it records.
var impliedErrors = map[string]error{
	"attempt_timeout": ErrStartToClose,
	"the attempt ran longer than its start-to-close timeout": ErrStartToClose,
	"execution_deadline": ErrDeadline,
	"flow_deadline":      ErrDeadline,
}

// StoredDetails reads the details of a failure with the reason that the engine has recorded.
func StoredDetails(stored []byte, reason string) []errordetail.Detail {
	if implied := impliedErrors[reason]; implied != nil && len(stored) == 0 {
		return []errordetail.Detail{{Name: nameOfError(implied)}}
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
