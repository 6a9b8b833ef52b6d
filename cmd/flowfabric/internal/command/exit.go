package command

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
	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/httpclient"
	"github.com/flowfabric/flowfabric-go/runtime"
	"github.com/flowfabric/flowfabric-go/server"
)

// Exit codes. They are stable.
const (
	exitDone       = 0
	exitFailed     = 1
	exitUsage      = 2
	exitNotFound   = 3
	exitRunFailed  = 4
	exitTimeout    = 5
	exitNotAllowed = 6
	exitFound      = 7
)

// exitCodes describes the exit codes for people.
var exitCodes = []struct {
	Code int
	Text string
}{
	{exitDone, "done"},
	{exitFailed, "the command failed"},
	{exitUsage, "the call is invalid: an unknown command, flag or value"},
	{exitNotFound, "the object of the command does not exist"},
	{exitRunFailed, "the awaited run did not succeed"},
	{exitTimeout, "the time of --timeout has passed"},
	{exitNotAllowed, "the server or the engine refuses: no login, or a right is missing"},
	{exitFound, "doctor or flow check found something to do"},
}

var (
	errUsage        = errors.New("usage")
	errRunFailed    = errors.New("the run did not succeed")
	errFound        = errors.New("something needs attention")
	errNotConfirmed = errors.New("not confirmed, nothing was changed")
)

// usageError is an invalid call.
type usageError struct{ error }

// Is reports whether the target is errUsage.
func (usageError) Is(target error) bool { return target == errUsage }

// Unwrap returns the error without the mark.
func (e usageError) Unwrap() error { return e.error }

func usage(format string, args ...any) error { return usageError{fmt.Errorf(format, args...)} }

// exitCode returns the exit code of an error.
func exitCode(err error) int {
	var problem *api.Problem
	switch {
	case errors.Is(err, errRunFailed):
		return exitRunFailed
	case errors.Is(err, errFound):
		return exitFound
	case errors.Is(err, archive.ErrNotFound):
		return exitNotFound
	case errors.Is(err, context.DeadlineExceeded):
		return exitTimeout
	case errors.As(err, &problem):
		return exitOfProblem(problem)
	case errors.Is(err, enginecore.ErrUnauthorized):
		return exitNotAllowed
	}
	for _, invalid := range []error{
		errUsage, runtime.ErrInvalid, admin.ErrInvalid, server.ErrInvalid, httpclient.ErrInvalid, connect.ErrInvalid,
		profile.ErrInvalid,
	} {
		if errors.Is(err, invalid) {
			return exitUsage
		}
	}
	return exitFailed
}

func exitOfProblem(p *api.Problem) int {
	if p.Code == "engine_unauthorized" {
		return exitNotAllowed
	}
	switch p.Status {
	case http.StatusNotFound:
		return exitNotFound
	case http.StatusUnprocessableEntity:
		return exitUsage
	case http.StatusUnauthorized, http.StatusForbidden:
		return exitNotAllowed
	case http.StatusGatewayTimeout:
		return exitTimeout
	default:
		return exitFailed
	}
}
