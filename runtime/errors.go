package runtime

import (
	"github.com/flowfabric/flowfabric-go/internal/engine"
	"github.com/flowfabric/flowfabric-go/internal/engine/observe"
	"github.com/flowfabric/flowfabric-go/internal/engine/transport"
)

// ErrInvalid matches every error about an argument or a field of a config that cannot be used: an engine URL, a run id,
// a reason or an actor, a query, a schedule, a signal, an activity that a worker cannot register, or an input that
// lacks the value from which a limit, a budget or FairBy takes its key. The text names the argument, its value and the
// rule. Nothing was written, and the same call would fail again.
var ErrInvalid = engine.ErrInvalid

// invalid returns an error that wraps ErrInvalid.
func invalid(format string, args ...any) error { return engine.Invalid(format, args...) }

// Errors of runs and workers, for errors.Is. Package enginecore has the errors of the connection: ErrUnavailable, which
// ErrFull also matches when a server refuses writes for lack of memory or disk; ErrOutcomeUnknown and ErrUnauthorized.
var (
	// ErrNotFound matches every error about something that does not exist: a run, a node of it, the items, turns or
	// live values of a node, a schedule, a limit, a budget or a bulk job. The text names it. Start returns it for a
	// flow with a shared budget that was not created and for which the flow declares no limits.
	ErrNotFound = engine.ErrNotFound
	// ErrConflict matches every error about a name that belongs to something else: Start returns it for the id of a run
	// with another input, or of a graph with another structure (see WithID); BudgetRef.Create for a budget that was
	// created or used before; StartBulkJob for the id of another job. The text names the difference, if the engine
	// knows it.
	ErrConflict = engine.ErrConflict
	// ErrOver matches every error about a run, a node, a wait or a sleep that is over, or the start of a run that has
	// begun, from a call that needs an open one. A node that does not sleep yet is one, too.
	ErrOver = engine.ErrOver
	// ErrRunOpen is returned by Purge and Rerun when the run has not ended.
	ErrRunOpen = engine.ErrRunOpen
	// ErrNothingToRerun is returned by Rerun when the scope selects no node, and when the run was stopped before all of
	// it was submitted.
	ErrNothingToRerun = engine.ErrNothingToRerun
	// ErrRerunLimit is returned by Rerun when a selected node has already been run again ten times.
	ErrRerunLimit = engine.ErrRerunLimit
	// ErrRunFailed matches the *RunError of a failed run.
	ErrRunFailed = engine.ErrRunFailed
	// ErrRunCancelled matches the *RunError of a cancelled run.
	ErrRunCancelled = engine.ErrRunCancelled
	// ErrRunExpired matches the *RunError of a run that exceeded its deadline.
	ErrRunExpired = engine.ErrRunExpired
	// ErrNoResult is returned by Result when the run succeeded, but the node whose result flow.Return selects was
	// skipped, since a condition took another case.
	ErrNoResult = engine.ErrNoResult
	// ErrSignalDoesNotCount is returned for a signal that an open wait does not count: it takes no signal of that name,
	// it needs different sources and has counted this one, or it has enough signals of that name. The text says which,
	// and the names that count. The signal is recorded (RunRef.ReceivedSignals) and changes nothing else.
	ErrSignalDoesNotCount = engine.ErrSignalDoesNotCount
	// ErrTooLarge is returned for an input, a result or a signal that exceeds its limit.
	ErrTooLarge = engine.ErrTooLarge
)

// ErrNotInContract is returned in contract mode by everything that needs more than the contract provides: by Start
// for such a flow, by steps and waits of activities, and by calls of clients. It is the same error as
// enginecore.ErrContractOnly, so errors.Is matches either.
var ErrNotInContract = engine.ErrNotInContract

// Causes that end the context of a running activity, for context.Cause and errors.Is.
var (
	// ErrLeaseLost: the worker no longer holds the lease of the execution; another worker may have taken the execution
	// over.
	ErrLeaseLost = engine.ErrLeaseLost
	// ErrCancelled: the execution was cancelled.
	ErrCancelled = engine.ErrCancelled
	// ErrStopping: the worker stops and releases the execution.
	ErrStopping = engine.ErrStopping
	// ErrHeartbeatTimeout: the activity did not call Heartbeat in time.
	ErrHeartbeatTimeout = engine.ErrHeartbeatTimeout
	// ErrStartToClose: the attempt exceeded its start-to-close timeout.
	ErrStartToClose = engine.ErrStartToClose
	// ErrDeadline: the run exceeded its deadline, or a node with flow.Finally its time.
	ErrDeadline = engine.ErrDeadline
)

// ErrNotReady is wrapped by the errors of Engine.Check, Worker.Check and Keeper.Check; their texts name the missing
// condition.
var ErrNotReady = observe.ErrNotReady

// ErrInvalidToken is returned for a token that is malformed, altered, issued for another waitpoint, or signed with a
// secret that is no longer valid. The error does not distinguish these. Nothing was changed.
var ErrInvalidToken = engine.ErrInvalidToken

// ErrTooManyWatches is yielded by Watch and Stream when OpenConfig.MaxWatches of them are active already.
var ErrTooManyWatches = transport.ErrTooManyWatches
