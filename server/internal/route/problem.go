package route

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/admin"
	"github.com/flowfabric/flowfabric-go/api"
	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/flow"
	"github.com/flowfabric/flowfabric-go/internal/engine"
	"github.com/flowfabric/flowfabric-go/internal/errorcode"
	"github.com/flowfabric/flowfabric-go/internal/runcontrol"
	"github.com/flowfabric/flowfabric-go/internal/serverstore"
	"github.com/flowfabric/flowfabric-go/runtime"
	"github.com/flowfabric/flowfabric-go/server/internal/bounds"
	"github.com/flowfabric/flowfabric-go/server/internal/login"
	"github.com/flowfabric/flowfabric-go/server/internal/push"
	"github.com/flowfabric/flowfabric-go/server/internal/service"
	"github.com/flowfabric/flowfabric-go/server/internal/taskpool"
)

// meaning is how an error is answered.
type meaning struct {
	err       error
	status    int
	code      string
	retryable bool
}

// meanings has the errors of operations; the first that matches counts.
var meanings = []meaning{
	{login.ErrEnded, http.StatusUnauthorized, "unauthorized", false},
	// An error that matches this one gets no other meaning: the call was executed.
	{enginecore.ErrNotReplicated, http.StatusServiceUnavailable, "not_replicated", true},
	{login.ErrForbidden, http.StatusForbidden, "forbidden", false},
	{engine.ErrRunNotFound, http.StatusNotFound, "run_not_found", false},
	{engine.ErrUnknownNode, http.StatusNotFound, "node_not_found", false},
	{enginecore.ErrFlowNotPublished, http.StatusNotFound, "flow_not_published", false},
	{engine.ErrScheduleNotFound, http.StatusNotFound, "schedule_not_found", false},
	{engine.ErrLimitNotFound, http.StatusNotFound, "limit_not_found", false},
	{engine.ErrBudgetNotFound, http.StatusNotFound, "budget_not_found", false},
	{enginecore.ErrWorkerNotFound, http.StatusNotFound, "worker_not_found", false},
	{engine.ErrBulkJobNotFound, http.StatusNotFound, "bulk_job_not_found", false},
	{service.ErrWaitNotFound, http.StatusNotFound, "wait_not_found", false},
	{serverstore.ErrSessionNotFound, http.StatusNotFound, "session_not_found", false},
	{serverstore.ErrTokenNotFound, http.StatusNotFound, "token_not_found", false},
	{admin.ErrUnknownKeeperTask, http.StatusNotFound, "keeper_task_not_found", false},
	{runtime.ErrScheduleFull, http.StatusConflict, "schedule_full", true},
	{runtime.ErrFireSkipped, http.StatusConflict, "fire_skipped", true},
	{engine.ErrNoItems, http.StatusNotFound, "no_items", false},
	{engine.ErrNoTurns, http.StatusNotFound, "no_turns", false},
	{engine.ErrNoValue, http.StatusNotFound, "no_value", false},
	{enginecore.ErrExecutionNotFound, http.StatusNotFound, "execution_not_found", false},
	{runtime.ErrInvalidToken, http.StatusForbidden, "invalid_token", false},
	{enginecore.ErrChangedMeanwhile, http.StatusPreconditionFailed, "changed_meanwhile", false},
	{engine.ErrRunConflict, http.StatusConflict, "run_conflict", false},
	{runtime.ErrRunOpen, http.StatusConflict, "run_open", false},
	{engine.ErrRunOver, http.StatusConflict, "run_over", false},
	{engine.ErrNodeOver, http.StatusConflict, "node_over", false},
	{runcontrol.ErrRunStarted, http.StatusConflict, "run_started", false},
	{runtime.ErrSignalDoesNotCount, http.StatusConflict, "signal_does_not_count", false},
	{engine.ErrWaitOver, http.StatusConflict, "wait_over", false},
	{runtime.ErrNothingToRerun, http.StatusConflict, "nothing_to_rerun", false},
	{runcontrol.ErrNotSleeping, http.StatusConflict, "not_sleeping", false},
	{runtime.ErrNoTimes, http.StatusUnprocessableEntity, "no_times", false},
	{runtime.ErrRerunLimit, http.StatusConflict, "rerun_limit", false},
	{engine.ErrBudgetExists, http.StatusConflict, "budget_exists", false},
	{&fabrictype.KeyTakenError{}, http.StatusConflict, "key_taken", true},
	{&fabrictype.ThrottledError{}, http.StatusTooManyRequests, "throttled", true},
	{runtime.ErrRunQueued, http.StatusConflict, "run_queued", true},
	{runtime.ErrNoResult, http.StatusConflict, "no_result", false},
	{engine.ErrBulkJobConflict, http.StatusConflict, "bulk_job_conflict", false},
	{serverstore.ErrTokenExists, http.StatusConflict, "token_exists", false},
	{serverstore.ErrRequestConflict, http.StatusConflict, "idempotency_key_conflict", false},
	{serverstore.ErrRequestRunning, http.StatusConflict, "request_running", true},
	{serverstore.ErrRequestsFull, http.StatusTooManyRequests, "too_many_idempotency_keys", true},
	{push.ErrNotFound, http.StatusNotFound, "push_worker_not_found", false},
	{push.ErrURL, http.StatusUnprocessableEntity, "push_not_allowed", false},
	{taskpool.ErrUnknown, http.StatusConflict, "lease_lost", false},
	{taskpool.ErrDraining, http.StatusConflict, "worker_draining", false},
	{taskpool.ErrClosing, http.StatusServiceUnavailable, "server_stopping", true},
	{runtime.ErrTaskSettled, http.StatusConflict, "task_settled", false},
	{runtime.ErrLeaseLost, http.StatusConflict, "lease_lost", false},
	{runtime.ErrCancelled, http.StatusConflict, "task_cancelled", false},
	{runtime.ErrDeadline, http.StatusConflict, "task_timed_out", false},
	{runtime.ErrStartToClose, http.StatusConflict, "task_timed_out", false},
	{runtime.ErrHeartbeatTimeout, http.StatusConflict, "task_timed_out", false},
	{runtime.ErrStopping, http.StatusConflict, "lease_lost", false},
	{&fabrictype.EventsLostError{}, http.StatusGone, "events_lost", false},
	{runtime.ErrTooLarge, http.StatusRequestEntityTooLarge, "too_large", false},
	{runtime.ErrNotInContract, http.StatusNotImplemented, "not_in_contract", false},
	{runtime.ErrCursor, http.StatusUnprocessableEntity, "bad_cursor", false},
	{runtime.ErrTooManyWatches, http.StatusTooManyRequests, "too_many_streams", true},
	{runtime.ErrInvalid, http.StatusUnprocessableEntity, "invalid", false},
	{admin.ErrInvalid, http.StatusUnprocessableEntity, "invalid", false},
	{activity.ErrInvalid, http.StatusUnprocessableEntity, "invalid", false},
	{flow.ErrInvalid, http.StatusUnprocessableEntity, "invalid", false},
	{errorcode.InvalidInput, http.StatusUnprocessableEntity, "invalid", false},
	{enginecore.ErrFull, http.StatusInsufficientStorage, "engine_full", true},
	{enginecore.ErrOutcomeUnknown, http.StatusServiceUnavailable, "outcome_unknown", true},
	{enginecore.ErrUnavailable, http.StatusServiceUnavailable, "engine_unavailable", true},
	{enginecore.ErrNotReachable, http.StatusServiceUnavailable, "engine_unavailable", true},
	{enginecore.ErrIncomplete, http.StatusServiceUnavailable, "engine_incomplete", true},
	{enginecore.ErrMoved, http.StatusServiceUnavailable, "engine_moved", false},
	{enginecore.ErrUnauthorized, http.StatusServiceUnavailable, "engine_unauthorized", false},
	{enginecore.ErrIncompatibleLibrary, http.StatusServiceUnavailable, "library_incompatible", false},
	{enginecore.ErrForeignLibrary, http.StatusServiceUnavailable, "library_incompatible", false},
	{enginecore.ErrNoLibrary, http.StatusServiceUnavailable, "library_incompatible", false},
	{enginecore.ErrUnsupportedServer, http.StatusServiceUnavailable, "library_incompatible", false},
	{enginecore.ErrClosed, http.StatusServiceUnavailable, "server_stopping", true},
	{context.DeadlineExceeded, http.StatusGatewayTimeout, "timeout", true},
	{context.Canceled, http.StatusServiceUnavailable, "request_ended", true},
}

// Codes returns the codes of problems with their statuses, for the documentation.
func Codes() map[string]int {
	codes := map[string]int{
		"invalid": http.StatusUnprocessableEntity, "unauthorized": http.StatusUnauthorized,
		"run_purged": http.StatusGone,
	}
	for _, m := range meanings {
		codes[m.code] = m.status
	}
	return codes
}

// problem is a Problem that huma writes.
type problem struct{ api.Problem }

// GetStatus implements huma.StatusError.
func (p *problem) GetStatus() int { return p.Status }

// Error implements error.
func (p *problem) Error() string { return p.Problem.Error() }

// ContentType implements huma.ContentTypeFilter.
func (p *problem) ContentType(string) string { return "application/problem+json" }

// NewProblem returns a problem with a status and a code.
func NewProblem(status int, code, detail string, retryable bool) api.Problem {
	return api.Problem{
		Type: "about:blank", Title: http.StatusText(status), Status: status, Code: code, Detail: detail,
		Retryable: retryable,
	}
}

// ProblemOf returns the reply to an error, and whether the server has to log the error: because it is unknown, so that
// the reply does not contain its text, or because no request can succeed until an operator repairs the engine.
func ProblemOf(err error) (p api.Problem, logged bool) {
	var stated *problem
	if errors.As(err, &stated) {
		return stated.Problem, false
	}
	var full *bounds.Full
	if errors.As(err, &full) {
		return NewProblem(http.StatusTooManyRequests, full.Code, full.Text, true), false
	}
	var faults *fabrictype.ValueError
	if errors.As(err, &faults) {
		p = NewProblem(http.StatusUnprocessableEntity, "invalid", faults.Subject+" is not valid", false)
		for _, f := range faults.Faults {
			p.Errors = append(p.Errors, api.ProblemFault{Pointer: f.Pointer, In: "body", Message: f.Message})
		}
		return p, false
	}
	for _, m := range meanings {
		if errors.Is(err, m.err) {
			return NewProblem(m.status, m.code, err.Error(), m.retryable),
				m.status == http.StatusServiceUnavailable && !m.retryable
		}
	}
	return NewProblem(http.StatusInternalServerError, "internal", "The server failed; its log has the cause.",
		false), true
}

// bodyProblem returns the problem for a body that was not read.
func bodyProblem(err error) api.Problem {
	var large *http.MaxBytesError
	switch {
	case errors.As(err, &large):
		return NewProblem(http.StatusRequestEntityTooLarge, "too_large",
			fmt.Sprintf("the body must have at most %d bytes", large.Limit), false)
	case errors.Is(err, os.ErrDeadlineExceeded):
		return NewProblem(http.StatusRequestTimeout, "timeout", "the body did not arrive in time", true)
	default:
		return NewProblem(http.StatusBadRequest, "invalid", "the body cannot be read", false)
	}
}

// problemOfModel converts the errors of huma itself: requests that do not fit the operation.
func problemOfModel(m *huma.ErrorModel) *api.Problem {
	code := "invalid"
	switch m.Status {
	case http.StatusRequestEntityTooLarge:
		code = "too_large"
	case http.StatusUnsupportedMediaType, http.StatusNotAcceptable:
		code = "media_type"
	case http.StatusRequestTimeout:
		code = "timeout"
	case http.StatusInternalServerError:
		code = "internal"
	}
	p := NewProblem(m.Status, code, m.Detail, m.Status == http.StatusRequestTimeout)
	for _, e := range m.Errors {
		p.Errors = append(p.Errors, faultOf(e))
	}
	return &p
}

// faultOf converts a fault with a location such as body.items[3].tags or query.limit.
func faultOf(e *huma.ErrorDetail) api.ProblemFault {
	fault := api.ProblemFault{Message: e.Message}
	in, rest, _ := strings.Cut(e.Location, ".")
	switch in {
	case "path", "query", "header":
		fault.In, fault.Name = in, rest
	case "body", "":
		fault.In = "body"
		for part := range strings.FieldsFuncSeq(rest, func(r rune) bool { return r == '.' || r == '[' || r == ']' }) {
			fault.Pointer += "/" + strings.NewReplacer("~", "~0", "/", "~1").Replace(part)
		}
	default:
		fault.In, fault.Name = "body", e.Location
	}
	return fault
}
