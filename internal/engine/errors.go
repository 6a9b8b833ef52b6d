package engine

import (
	"errors"
	"fmt"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/internal/errordetail"
)

// Errors of runs and workers, for errors.Is. Their names are stored with failures, so they must not change. The errors
// of the connection are in package enginecore: ErrUnavailable, and with it ErrFull where a server rejects writes for
// lack of memory or disk space; ErrOutcomeUnknown, ErrUnauthorized.
var (
	// ErrInvalid is matched by all errors about an argument or a field of a config that cannot be used. The text of the
	// error has the thing, the value and the rule.
	ErrInvalid = activity.SentinelError("flowfabric.invalid", "invalid argument")
	// ErrConflict is matched by all errors about an id that belongs to something else.
	ErrConflict = activity.SentinelError("flowfabric.conflict", "conflict")
	// ErrRunConflict is returned by Start when the run id is taken by a run with another graph or another input.
	ErrRunConflict = errordetail.NewSentinelOf(ErrConflict, "flowfabric.run_conflict", "run id is taken by another run")
	// ErrOtherGraph and ErrOtherInput name the difference to that run. Both match ErrRunConflict.
	ErrOtherGraph = fmt.Errorf("%w: it has another graph", ErrRunConflict)
	ErrOtherInput = fmt.Errorf("%w: it has another input", ErrRunConflict)
	// ErrBulkJobConflict is returned for the id of a job with another query, action or options.
	ErrBulkJobConflict = errordetail.NewSentinelOf(ErrConflict, "flowfabric.bulk_job_conflict",
		"bulk job id is taken by another job")
	// ErrBudgetExists is returned when a budget is created that exists.
	ErrBudgetExists = errordetail.NewSentinelOf(ErrConflict, "flowfabric.budget_exists", "budget exists already")
	// ErrNotFound is matched by all errors about something that does not exist.
	ErrNotFound = activity.SentinelError("flowfabric.not_found", "not found")
	// ErrRunNotFound is returned when that flow does not have a run with that id.
	ErrRunNotFound = errordetail.NewSentinelOf(ErrNotFound, "flowfabric.run_not_found", "no such run")
	// ErrBudgetNotFound is returned for a budget that does not exist, also by Start for a shared one that was not
	// created and that the flow gives no limits.
	ErrBudgetNotFound = errordetail.NewSentinelOf(ErrNotFound, "flowfabric.budget_not_found", "no such budget")
	// ErrBulkJobNotFound is returned for a job that does not exist, or is no longer kept.
	ErrBulkJobNotFound = errordetail.NewSentinelOf(ErrNotFound, "flowfabric.bulk_job_not_found", "no such bulk job")
	// ErrLimitNotFound is returned for a limit that no node has used, that was not set, and that no published flow
	// declares.
	ErrLimitNotFound = errordetail.NewSentinelOf(ErrNotFound, "flowfabric.limit_not_found", "limit not found")
	// ErrScheduleNotFound is returned for a schedule that does not exist or is being deleted.
	ErrScheduleNotFound = errordetail.NewSentinelOf(ErrNotFound, "flowfabric.schedule_not_found", "no such schedule")
	// ErrNoItems is returned for a node that is not a map, or a map that has not started.
	ErrNoItems = errordetail.NewSentinelOf(ErrNotFound, "flowfabric.no_items", "node has no items")
	// ErrNoTurns is returned for a node that is not a loop.
	ErrNoTurns = errordetail.NewSentinelOf(ErrNotFound, "flowfabric.no_turns", "node has no turns")
	// ErrNoValue is returned when the node has published no value under the key.
	ErrNoValue = errordetail.NewSentinelOf(ErrNotFound, "flowfabric.no_value", "no live value")
	// ErrRunOpen is returned by Purge and Rerun when the run is not over.
	ErrRunOpen = activity.SentinelError("flowfabric.run_open", "run is not over")
	// ErrNothingToRerun is returned by Rerun when its scope holds no node, and of a run that was stopped before all of
	// it was submitted.
	ErrNothingToRerun = activity.SentinelError("flowfabric.nothing_to_rerun", "nothing to run again")
	// ErrRerunLimit is returned by Rerun when a node has been run again as often as it may.
	ErrRerunLimit = activity.SentinelError("flowfabric.rerun_limit", "run again too often")
	// ErrUnknownNode is returned for a node that the run does not have.
	ErrUnknownNode = errordetail.NewSentinelOf(ErrNotFound, "flowfabric.unknown_node", "no such node")
	// ErrOver is matched by all errors about something that has ended.
	ErrOver = activity.SentinelError("flowfabric.over", "over")
	// ErrNodeOver is returned by CancelNode when the node has ended already.
	ErrNodeOver = errordetail.NewSentinelOf(ErrOver, "flowfabric.node_over", "node is over")
	// ErrRunOver is returned by Cancel when the run has ended already.
	ErrRunOver = errordetail.NewSentinelOf(ErrOver, "flowfabric.run_over", "run is over")
	// ErrSignalDoesNotCount is returned for a signal that an open wait has recorded, and does not count.
	ErrSignalDoesNotCount = activity.SentinelError("flowfabric.signal_does_not_count", "the signal does not count")
	// ErrWaitOver is returned for a wait that has ended.
	ErrWaitOver = errordetail.NewSentinelOf(ErrOver, "flowfabric.wait_over", "wait is over")
	// ErrRunFailed matches the *RunError of a run of which a node failed.
	ErrRunFailed = activity.SentinelError("flowfabric.run_failed", "run failed")
	// ErrRunCancelled matches the *RunError of a run that was cancelled.
	ErrRunCancelled = activity.SentinelError("flowfabric.run_cancelled", "run was cancelled")
	// ErrRunExpired matches the *RunError of a run that exceeded its deadline.
	ErrRunExpired = activity.SentinelError("flowfabric.run_expired", "run exceeded its deadline")
	// ErrNoResult is returned by Result when the run is over without a failure, but the node whose result it returns
	// did not run: only a replay of single nodes with other tools leads there.
	ErrNoResult = activity.SentinelError("flowfabric.no_result", "run has no result, its result node did not succeed")
	// ErrTooLarge marks an input or a result above its limit.
	ErrTooLarge = activity.SentinelError("flowfabric.too_large", "too large")
)

// ErrNotInContract is returned in contract mode by everything that needs more than the contract has: by Start for such
// a flow, by the steps and waits of an activity, and by calls. It is the same error as enginecore.ErrContractOnly, so
// it matches the refusals of both packages.
var ErrNotInContract = enginecore.ErrContractOnly

// ErrCursor marks a cursor that no list, stream or watch gave.
var ErrCursor = errors.New("bad cursor")

// ErrStepPanicked marks the result of a keeper task whose tick panicked.
var ErrStepPanicked = errors.New("keeper panicked")

// Causes of the context of a running activity, for context.Cause and errors.Is.
var (
	// ErrLeaseLost: the worker may no longer speak for the execution, and another one may have taken it over.
	ErrLeaseLost = activity.SentinelError("flowfabric.lease_lost", "lease lost")
	// ErrCancelled: the execution was cancelled.
	ErrCancelled = activity.SentinelError("flowfabric.cancelled", "execution cancelled")
	// ErrTaskSettled: the program has settled the task in another way.
	ErrTaskSettled = errors.New("the task is settled")
	// ErrStopping: the worker stops and gives the execution back.
	ErrStopping = activity.SentinelError("flowfabric.stopping", "worker is stopping")
	// ErrHeartbeatTimeout: the activity did not call Heartbeat in time.
	ErrHeartbeatTimeout = activity.SentinelError("flowfabric.heartbeat_timeout", "no heartbeat in time")
	// ErrStartToClose: the attempt took longer than its start-to-close timeout.
	ErrStartToClose = activity.SentinelError("flowfabric.start_to_close", "start-to-close timeout")
	// ErrDeadline: the run exceeded its deadline, or a node with flow.Finally its time.
	ErrDeadline = activity.SentinelError("flowfabric.deadline", "deadline of the run")
)
