package contract

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"github.com/flowfabric/flowfabric-go/admin"
	"github.com/flowfabric/flowfabric-go/api"
	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/internal/activityspec"
	"github.com/flowfabric/flowfabric-go/internal/engine"
	"github.com/flowfabric/flowfabric-go/internal/keyspace"
	"github.com/flowfabric/flowfabric-go/runtime"
	"github.com/flowfabric/flowfabric-go/server/internal/login"
)

// errorBody is the body of a reply with an error.
type errorBody struct {
	Error string `json:"error"`
	// Kind is the kind of a failure of the engine, or of the connection to it.
	Kind string `json:"kind,omitempty"`
	// Retryable is given where the request may have to be sent again.
	Retryable *bool `json:"retryable,omitempty"`
}

// Kinds of failures.
const (
	kindTransport = "transport"
	kindTimeout   = "timeout"
	kindBusy      = "busy_loading"
	kindProtocol  = "protocol"
	kindAuth      = "auth"
	kindScript    = "script_not_loaded"
	kindOther     = "other"
)

// stated is an error with its own reply.
type stated struct {
	status int
	body   any
}

// Error implements error.
func (s *stated) Error() string { return fmt.Sprint(s.body) }

func state(status int, format string, args ...any) error {
	return &stated{status, errorBody{Error: fmt.Sprintf(format, args...)}}
}

// invalid is the error of an input that is not valid.
func invalid(format string, args ...any) error { return state(http.StatusBadRequest, format, args...) }

// missing is the error of something that does not exist.
func missing(format string, args ...any) error { return state(http.StatusNotFound, format, args...) }

// full is the error of a pool whose permits are used up.
func full(pool string, most int) error {
	yes := true
	return &stated{http.StatusTooManyRequests, errorBody{
		Error: fmt.Sprintf("concurrency limit exceeded: %s (max %d)", pool, most), Retryable: &yes,
	}}
}

// refused is the error of a function of the library that refuses a call with a code. If a read before the call has
// found the same fault, it is the error that the function would have returned.
func refused(function string, err error) error {
	var reply *enginecore.Error
	if errors.As(err, &reply) {
		return err
	}
	for _, code := range []enginecore.Code{enginecore.ErrExecutionNotFound, enginecore.ErrFlowNotFound} {
		if errors.Is(err, code) {
			return invalid("%s failed: %s", function, code)
		}
	}
	return err
}

// fail writes the reply to an error.
func (c *call) fail(err error) {
	if errors.Is(context.Cause(c.ctx), login.ErrEnded) {
		err = &stated{http.StatusUnauthorized, errorBody{Error: unauthorized}}
	}
	status, body := c.meaning(err)
	writeJSON(c.w, status, body)
}

func (c *call) meaning(err error) (status int, body any) {
	var own *stated
	var reply *enginecore.Error
	var id *keyspace.IDError
	var unsent *enginecore.CallError
	switch {
	case errors.As(err, &own):
		return own.status, own.body
	case errors.Is(err, login.ErrForbidden):
		return http.StatusForbidden, errorBody{Error: err.Error()}
	case errors.Is(err, enginecore.ErrNotReplicated):
		yes := true
		return http.StatusInternalServerError, errorBody{Error: err.Error(), Kind: kindTimeout, Retryable: &yes}
	case errors.As(err, &reply):
		text := reply.Function + " failed: " + string(reply.Code) + boundOf(reply)
		return http.StatusBadRequest, errorBody{Error: text}
	case errors.Is(err, admin.ErrPartition):
		no := false
		return http.StatusInternalServerError, errorBody{Error: err.Error(), Retryable: &no}
	case errors.Is(err, enginecore.ErrExecutionNotFound), errors.Is(err, enginecore.ErrFlowNotFound),
		errors.Is(err, enginecore.ErrBudgetNotFound), errors.Is(err, engine.ErrBudgetNotFound),
		errors.Is(err, enginecore.ErrNoActiveLease):
		return http.StatusNotFound, errorBody{Error: err.Error()}
	case errors.Is(err, admin.ErrInvalid), errors.Is(err, runtime.ErrInvalid), errors.As(err, &id),
		errors.As(err, &unsent):
		return http.StatusBadRequest, errorBody{Error: err.Error()}
	case errors.Is(err, runtime.ErrTooManyWatches):
		return c.meaning(full("stream_ops", c.config.StreamOps))
	case errors.Is(err, errStopping):
		return http.StatusBadRequest, errorBody{Error: "operation failed: the server stops"}
	}
	return c.failure(err)
}

// boundOf names the bound that a signal to a run exceeds, which the contract does not know; empty for other refusals.
func boundOf(reply *enginecore.Error) string {
	bytes, limit := reply.Detail("bytes"), reply.Detail("limit")
	switch {
	case reply.Code != enginecore.ErrSignalTooLarge || bytes == "":
		return ""
	case limit == strconv.Itoa(activityspec.MaxSignalSum):
		return ": " + activityspec.TooManySignals(bytes)
	}
	return ": the payload has " + bytes + " bytes; at most " + limit + " are allowed"
}

// failure is the reply to a failure of the engine. The full text is only logged, since it may contain addresses.
func (c *call) failure(err error) (status int, body any) {
	if c.ctx.Err() == nil {
		c.config.Logger.ErrorContext(c.ctx, "a route of the contract failed", "event", "server.contract_failed",
			"operation", c.route.Operation, "error", err)
	}
	kind, retryable, text := kindOther, false, "the engine failed; the log of the server has the cause"
	var decode *enginecore.DecodeError
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		kind, retryable, text = kindTimeout, true, "the engine did not answer in time"
	case errors.Is(err, enginecore.ErrUnauthorized):
		kind, text = kindAuth, "the engine refuses the server"
	case errors.Is(err, enginecore.ErrIncompatibleLibrary), errors.Is(err, enginecore.ErrNoLibrary):
		kind, text = kindScript, "the engine has no library that fits"
	case errors.Is(err, enginecore.ErrFull):
		kind, retryable, text = kindBusy, true, "the engine takes nothing in now"
	case errors.Is(err, enginecore.ErrUnavailable), errors.Is(err, enginecore.ErrNotReachable):
		kind, retryable, text = kindTransport, true, "the engine is not available"
	case errors.Is(err, enginecore.ErrOutcomeUnknown):
		kind, retryable, text = kindTransport, true, "the connection broke; the outcome is not known"
	case errors.As(err, &decode):
		kind, text = kindProtocol, decode.Error()
	}
	return http.StatusInternalServerError, errorBody{Error: text, Kind: kind, Retryable: &retryable}
}

// Problems turns problem documents of handlers around the routes, such as logins, into errors of the contract.
func Problems(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p := &problemWriter{ResponseWriter: w}
		next.ServeHTTP(p, r)
		p.finish()
	})
}

// problemWriter keeps a problem document back.
type problemWriter struct {
	http.ResponseWriter
	problem bool
	status  int
	body    bytes.Buffer
}

// WriteHeader implements http.ResponseWriter.
func (w *problemWriter) WriteHeader(status int) {
	if strings.HasPrefix(w.Header().Get("Content-Type"), "application/problem+json") {
		w.problem, w.status = true, status
		return
	}
	w.ResponseWriter.WriteHeader(status)
}

// Write implements http.ResponseWriter.
func (w *problemWriter) Write(p []byte) (int, error) {
	if w.problem {
		return w.body.Write(p)
	}
	return w.ResponseWriter.Write(p)
}

// Unwrap lets http.ResponseController find the writer.
func (w *problemWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

func (w *problemWriter) finish() {
	if !w.problem {
		return
	}
	var problem api.Problem
	if err := json.Unmarshal(w.body.Bytes(), &problem); err != nil {
		problem = api.Problem{Detail: http.StatusText(w.status)}
	}
	body := errorBody{Error: problem.Detail}
	if w.status == http.StatusUnauthorized {
		body.Error = unauthorized
	}
	if problem.Retryable {
		body.Retryable = &problem.Retryable
	}
	writeJSON(w.ResponseWriter, w.status, body)
}
