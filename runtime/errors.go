package runtime

import (
	"github.com/flowfabric/flowfabric-go/runtime/internal/admission"
	"github.com/flowfabric/flowfabric-go/runtime/internal/engine"
	"github.com/flowfabric/flowfabric-go/runtime/internal/submit"
)

// Errors of budgets, for errors.Is. Those of functions are in package activity.
var (
	// ErrBudgetKey: the input of a run has no value where a budget of its flow takes its key from.
	ErrBudgetKey = submit.ErrBudgetKey
	// ErrBudgetNotFound is returned for a budget that does not exist, also by Start for a shared one that was not created and
	// that the flow gives no limits.
	ErrBudgetNotFound = submit.ErrBudgetNotFound
	// ErrBudgetExists is returned by CreateBudget.
	ErrBudgetExists = submit.ErrBudgetExists
)

// Errors of runs and workers, for errors.Is. Those of the connection are enginecore's: ErrUnavailable, and with it ErrFull where a
// server takes in nothing for want of memory or disk; ErrOutcomeUnknown, ErrUnauthorized.
var (
	// ErrRunID marks a run id that is empty, longer than MaxRunID, not valid UTF-8 or has control characters.
	ErrRunID = engine.ErrRunID
	// ErrRunConflict is returned by Start when the run id is taken by a run with another graph or another input.
	ErrRunConflict = engine.ErrRunConflict
	// ErrRunNotFound is returned when there is no run of that flow with that id.
	ErrRunNotFound = engine.ErrRunNotFound
	// ErrRunOpen is returned by Purge and Rerun when the run is not over.
	ErrRunOpen = engine.ErrRunOpen
	// ErrNothingToRerun is returned by Rerun when its scope holds no node, and of a run that was stopped before all of it was submitted.
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
	// ErrNoResult is returned by Result when the run is over without a failure, but the node whose result it returns did
	// not run: only a replay of single nodes with other tools leads there.
	ErrNoResult = engine.ErrNoResult
	// ErrTooLarge marks an input or a result above its limit.
	ErrTooLarge = engine.ErrTooLarge
	// ErrRegistration marks an activity that a worker cannot take.
	ErrRegistration = engine.ErrRegistration
	// ErrWorkerConfig marks an option of a worker or keeper that makes no sense.
	ErrWorkerConfig = engine.ErrWorkerConfig
)

// ErrNotInContract is returned in contract mode by everything that needs more than the contract has: by Start for such a flow, by
// the steps and waits of an activity, and by calls. It is the same error as enginecore.ErrContractOnly, so it matches whichever
// of the two packages refuses.
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

// ErrNoGrant is returned by GrantIssuer.ClaimForWorker when it found nothing that the worker may run, and ErrGrantRequest for a
// request that is not valid.
var (
	ErrNoGrant      = admission.ErrNoGrant
	ErrGrantRequest = admission.ErrGrantRequest
)

// ErrLimitKey: the input of a run has no value where a limit of one of its nodes takes its key from.
var (
	ErrLimitKey = submit.ErrLimitKey
)

// ErrFairKey: the input of a run has no value where its flow's FairBy takes it from.
var (
	ErrFairKey = submit.ErrFairKey
)

// ErrNotReady is wrapped by the checks of workers and keepers, and says with them what is missing.
var (
	ErrNotReady = engine.ErrNotReady
)

// ErrText marks a text for the record that is longer than its bound, not valid UTF-8, or has control characters.
var (
	ErrText = engine.ErrText
)

// ErrSecret marks a WaitpointSecret that cannot be one.
var (
	ErrSecret = engine.ErrSecret
)

// ErrInvalidToken is the answer to a token that is malformed, altered, made for another waitpoint or signed with a secret
// that is not valid any more. It does not tell which, and nothing has been changed.
var (
	ErrInvalidToken = engine.ErrInvalidToken
)

// ErrTooManyWatches is yielded by Watch and Stream when as many of them as MaxWatches allows go on already.
var (
	ErrTooManyWatches = engine.ErrTooManyWatches
)
