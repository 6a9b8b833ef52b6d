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

// Error is a refusal by the library: the call was understood and declined. A refusal has written nothing, with
// exceptions that the function's header names.
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
	// Problem describes the finding.
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
	// Problem describes the fault.
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

// ErrUnavailable marks an error of a server that could not be reached or cannot serve at the moment. Nothing has
// happened, or the call only reads or is safe to repeat. Of a call whose context ended before an answer came, the error
// wraps the cause of the context, and ErrUnavailable only if an earlier try of the call had failed so.
var ErrUnavailable = errors.New("engine unavailable")

// ErrClosed marks an error of a call that came after this program closed the engine or the client, or was waiting then:
// of Result, Watch and Stream, for example. The error of a call that was sent, but not answered, wraps ErrUnavailable
// or ErrOutcomeUnknown, too.
var ErrClosed = errors.New("closed by this program")

// ErrNotReplicated marks an error of a call that the primary has executed, while fewer replicas than
// runtime.Replication requires had confirmed it in time. The effects of the call persist, unless the primary is lost
// before its replicas have caught up. The same call with the same id (of the run, the signal or the answer) may be
// repeated: it does nothing twice, and waits for the replicas again.
var ErrNotReplicated = errors.New("done, but not replicated")

// ErrFull marks an error of a server that takes in nothing now: its memory is full (maxmemory), or it refuses writes
// since it cannot persist them. The error wraps ErrUnavailable, too, and means the same for the call, which was sent
// again for a while. While the memory is full, only calls that add new work are refused: those with the flag intake in
// the reference of the functions.
var ErrFull = errors.New("engine full")

// ErrUnauthorized marks a wrong or missing user name or password, or a lack of permissions.
var ErrUnauthorized = errors.New("not authorized")

// ErrNotReachable is returned when no server answered.
var ErrNotReachable = errors.New("server not reachable")

// ErrUnsupportedServer is returned for a server without functions: it is older than Redis 7.0 and Valkey 7.2.
var ErrUnsupportedServer = errors.New("unsupported server")

// ErrForeignLibrary is returned for a server with a library named flowfabric that is not ours.
var ErrForeignLibrary = errors.New("foreign library")

// ErrIncompatibleLibrary is returned when the server's library is newer and no longer serves this program, or follows
// another version of the contract. It may come of any call, since another program may replace the library at any time;
// from then on every call fails with it.
var ErrIncompatibleLibrary = errors.New("incompatible library")

// ErrNoLibrary is returned when a server was to be used with the library that it has, and has none.
var ErrNoLibrary = errors.New("the server has no FlowFabric library")

// ErrContractOnly is returned for an operation that is not part of the contract, on a connection that is bound to it:
// an engine call, or a feature of package runtime, which names the same error ErrNotInContract.
var ErrContractOnly = errors.New("not part of the FlowFabric contract")

// ErrMoved is returned when the data of the engine were moved to another one, or are being moved there: see package
// admin/move. The text of the error names the other engine. A program that is connected during the move gets it within
// a minute, and then from every call.
var ErrMoved = errors.New("moved")

// ErrIncomplete is returned while data are being copied into the engine, by a move or by the restore of a backup, and
// not all of them are there.
var ErrIncomplete = errors.New("incomplete data")

// Class returns the class of the error, by which a caller decides how to react:
//
//   - terminal: sending the call again will not help; so are all codes that this version does not know
//   - retryable: the same call may succeed later
//   - contention: another caller was faster or the state has changed; read it again and decide anew
//   - bug: the caller or the library broke a rule
//   - informational: nothing had to be done
func (e *Error) Class() string {
	switch e.Code {
	case "use_claim_resumed_execution", "not_a_resumed_execution", "execution_not_leaseable", "lease_conflict",
		"invalid_claim_grant", "claim_grant_expired", "no_eligible_execution", "waitpoint_not_found",
		"waitpoint_pending_use_buffer_script", "stale_graph_revision", "rate_limit_exceeded",
		"concurrency_limit_exceeded":
		return "contention"
	case "capability_mismatch", "invalid_offset":
		return "retryable"
	case "active_attempt_exists", "attempt_not_in_created_state":
		return "bug"
	case "no_active_lease", "execution_not_eligible", "execution_not_in_eligible_set", "grant_already_exists",
		"execution_not_reclaimable", "execution_not_suspended", "already_suspended", "waitpoint_closed",
		"waitpoint_not_open", "waitpoint_not_pending", "pending_waitpoint_expired", "waitpoint_already_exists",
		"duplicate_signal", "deps_not_satisfied", "not_blocked_by_deps", "budget_soft_exceeded",
		"ok_already_applied", "attempt_already_terminal", "stream_already_closed":
		return "informational"
	}
	return "terminal"
}
