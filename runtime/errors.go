package runtime

import (
	"fmt"

	"github.com/flowfabric/flowfabric-go/runtime/internal/admission"
	"github.com/flowfabric/flowfabric-go/runtime/internal/engine"
	"github.com/flowfabric/flowfabric-go/runtime/internal/submit"
)

// ErrInvalid is matched by all errors about an argument, or a field of a config, that cannot be used: an engine URL, a
// run id, a text for the record, a query, a schedule, a signal, an activity that a worker cannot take, an input without
// the value that a limit, a budget or FairBy takes its key from. The text names the thing, the value and the rule.
// Nothing has been written, and the same call fails again.
var ErrInvalid = engine.ErrInvalid

// invalid returns an error that wraps ErrInvalid.
func invalid(format string, args ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{ErrInvalid}, args...)...)
}

// Errors of budgets, for errors.Is. Those of functions are in package activity.
var (
	// ErrBudgetNotFound is returned for a budget that does not exist, also by Start for a shared one that was not
	// created and that the flow gives no limits.
	ErrBudgetNotFound = submit.ErrBudgetNotFound
	// ErrBudgetExists is returned by CreateBudget.
	ErrBudgetExists = submit.ErrBudgetExists
)

// Errors of runs and workers, for errors.Is. Those of the connection are enginecore's: ErrUnavailable, and with it
// ErrFull where a server takes in nothing for want of memory or disk; ErrOutcomeUnknown, ErrUnauthorized.
var (
	// ErrRunConflict is returned by Start when the run id is taken by a run with another graph or another input.
	ErrRunConflict = engine.ErrRunConflict
	// ErrRunNotFound is returned when there is no run of that flow with that id.
	ErrRunNotFound = engine.ErrRunNotFound
	// ErrRunOpen is returned by Purge and Rerun when the run is not over.
	ErrRunOpen = engine.ErrRunOpen
	// ErrNothingToRerun is returned by Rerun when its scope holds no node, and of a run that was stopped before all of
	// it was submitted.
	ErrNothingToRerun = engine.ErrNothingToRerun
	// ErrRerunLimit is returned by Rerun when a node has been run again as often as it may.
	ErrRerunLimit = engine.ErrRerunLimit
	// ErrUnknownNode is returned for a node that the run does not have.
	ErrUnknownNode = engine.ErrUnknownNode
	// ErrNodeOver is returned by CancelNode when the node has ended already.
	ErrNodeOver = engine.ErrNodeOver
	// ErrRunOver is returned by Cancel when the run has ended already.
	ErrRunOver = engine.ErrRunOver
	// ErrRunFailed matches the *RunError of a run of which a node failed.
	ErrRunFailed = engine.ErrRunFailed
	// ErrRunCancelled matches the *RunError of a run that was cancelled.
	ErrRunCancelled = engine.ErrRunCancelled
	// ErrRunExpired matches the *RunError of a run that exceeded its deadline.
	ErrRunExpired = engine.ErrRunExpired
	// ErrNoResult is returned by Result when the run is over without a failure, but the node whose result it returns
	// did not run: only a replay of single nodes with other tools leads there.
	ErrNoResult = engine.ErrNoResult
	// ErrTooLarge marks an input or a result above its limit.
	ErrTooLarge = engine.ErrTooLarge
)

// ErrNotInContract is returned in contract mode by everything that needs more than the contract has: by Start for such
// a flow, by the steps and waits of an activity, and by calls. It is the same error as enginecore.ErrContractOnly, so
// it matches whichever of the two packages refuses.
var (
	ErrNotInContract = engine.ErrNotInContract
)

// Causes of the context of a running activity, for context.Cause and errors.Is.
var (
	// ErrLeaseLost: the worker may no longer speak for the execution, and another one may have taken it over.
	ErrLeaseLost = engine.ErrLeaseLost
	// ErrCancelled: the execution was cancelled.
	ErrCancelled = engine.ErrCancelled
	// ErrStopping: the worker stops and gives the execution back.
	ErrStopping = engine.ErrStopping
	// ErrHeartbeatTimeout: the activity did not call Heartbeat in time.
	ErrHeartbeatTimeout = engine.ErrHeartbeatTimeout
	// ErrStartToClose: the attempt took longer than its start-to-close timeout.
	ErrStartToClose = engine.ErrStartToClose
	// ErrDeadline: the run exceeded its deadline.
	ErrDeadline = engine.ErrDeadline
)

// ErrNoGrant is returned by GrantIssuer.ClaimForWorker when it found nothing that the worker may run.
var (
	ErrNoGrant = admission.ErrNoGrant
)

// ErrNotReady is wrapped by the checks of workers and keepers, and says with them what is missing.
var (
	ErrNotReady = engine.ErrNotReady
)

// ErrInvalidToken is the answer to a token that is malformed, altered, made for another waitpoint or signed with a
// secret that is not valid any more. It does not tell which, and nothing has been changed.
var (
	ErrInvalidToken = engine.ErrInvalidToken
)

// ErrTooManyWatches is yielded by Watch and Stream when as many of them as OpenConfig.MaxWatches allows go on already.
var (
	ErrTooManyWatches = engine.ErrTooManyWatches
)
