package shell

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/flowfabric/flowfabric-go/admin"
	"github.com/flowfabric/flowfabric-go/admin/archive"
	"github.com/flowfabric/flowfabric-go/api"
	"github.com/flowfabric/flowfabric-go/cmd/flowfabric/internal/connect"
	"github.com/flowfabric/flowfabric-go/cmd/flowfabric/internal/profile"
	"github.com/flowfabric/flowfabric-go/cmd/flowfabric/internal/scaffold"
	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/httpclient"
	"github.com/flowfabric/flowfabric-go/runtime"
	"github.com/flowfabric/flowfabric-go/server"
)

// Exit codes. They are stable.
const (
	ExitDone       = 0
	ExitFailed     = 1
	ExitUsage      = 2
	ExitNotFound   = 3
	ExitRunFailed  = 4
	exitTimeout    = 5
	ExitNotAllowed = 6
	ExitFound      = 7
)

// ExitCodes describes the exit codes for people.
var ExitCodes = []struct {
	Code int
	Text string
}{
	{ExitDone, "done"},
	{ExitFailed, "the command failed"},
	{ExitUsage, "the call is invalid: an unknown command, flag or value"},
	{ExitNotFound, "the object of the command does not exist"},
	{ExitRunFailed, "the awaited run did not succeed, or the signal does not count"},
	{exitTimeout, "the time of --timeout has passed, or a read had no reply"},
	{ExitNotAllowed, "the server or the engine refuses: no login, or a right is missing"},
	{ExitFound, "doctor or flow check found something to do"},
}

var (
	ErrUsage        = errors.New("usage")
	ErrRunFailed    = errors.New("the run did not succeed")
	ErrFound        = errors.New("something needs attention")
	errNotConfirmed = errors.New("not confirmed, nothing was changed")
)

// usageError is an invalid call.
type usageError struct{ error }

// Is reports whether the target is ErrUsage.
func (usageError) Is(target error) bool { return target == ErrUsage }

// Unwrap returns the error without the mark.
func (e usageError) Unwrap() error { return e.error }

func Usage(format string, args ...any) error { return usageError{fmt.Errorf(format, args...)} }

// ExitCode returns the exit code of an error.
func ExitCode(err error) int {
	var problem *api.Problem
	switch {
	case errors.Is(err, ErrRunFailed):
		return ExitRunFailed
	case errors.Is(err, ErrFound):
		return ExitFound
	case errors.Is(err, archive.ErrNotFound):
		return ExitNotFound
	case errors.Is(err, context.DeadlineExceeded):
		return exitTimeout
	case errors.As(err, &problem):
		return exitOfProblem(problem)
	case errors.Is(err, enginecore.ErrUnauthorized):
		return ExitNotAllowed
	}
	for _, invalid := range []error{
		ErrUsage, runtime.ErrInvalid, admin.ErrInvalid, server.ErrInvalid, httpclient.ErrInvalid, connect.ErrInvalid,
		profile.ErrInvalid, scaffold.ErrInvalid,
	} {
		if errors.Is(err, invalid) {
			return ExitUsage
		}
	}
	return ExitFailed
}

func exitOfProblem(p *api.Problem) int {
	switch p.Code {
	case "engine_unauthorized":
		return ExitNotAllowed
	case "signal_does_not_count":
		return ExitRunFailed
	}
	switch p.Status {
	case http.StatusNotFound:
		return ExitNotFound
	case http.StatusUnprocessableEntity:
		return ExitUsage
	case http.StatusUnauthorized, http.StatusForbidden:
		return ExitNotAllowed
	case http.StatusGatewayTimeout:
		return exitTimeout
	default:
		return ExitFailed
	}
}
