// Package answers has the rules of signals that come through the server by any route: as whom a caller answers, and
// the entry of the audit log.
package answers

import (
	"cmp"
	"context"
	"fmt"

	"github.com/flowfabric/flowfabric-go/api"
	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/internal/answerlog"
	"github.com/flowfabric/flowfabric-go/internal/auditlink"
	"github.com/flowfabric/flowfabric-go/internal/engine"
	"github.com/flowfabric/flowfabric-go/internal/recordtext"
	"github.com/flowfabric/flowfabric-go/server/internal/login"
)

// Source returns the source of a signal for which the caller names one, or none. A principal who has logged in answers
// under its own name; to answer under another name, as bots do, needs the right to operate, otherwise the error
// matches login.ErrForbidden. So a principal who may only approve cannot answer as two persons.
func Source(ctx context.Context, named string) (string, error) {
	who := login.From(ctx)
	switch {
	case who.Kind == login.None || named == who.Name:
		return named, nil
	case named == "":
		return who.Name, nil
	}
	if err := login.Need(ctx, api.Operate); err != nil {
		return "", fmt.Errorf("answer as %.140q, not as %.140q: %w", named, who.Name, err)
	}
	return named, nil
}

// maxText bounds the names of an answer in its entry of the audit log, in bytes.
const maxText = 256

// Answer describes a signal for the audit log.
type Answer struct {
	// Wait names the wait: FLOW/RUN/NODE, or the id of an execution outside runs.
	Wait string
	// Signal is the name of the signal, Source in whose name it is given.
	Signal, Source string
}

// Send records an answer in the audit log of an engine or a client, and then sends it.
func (a Answer) Send(
	ctx context.Context, h engine.Handle, send func() (fabrictype.SignalResult, error),
) (fabrictype.SignalResult, error) {
	return answerlog.Send(ctx, h, a.entry(ctx), send)
}

func (a Answer) entry(ctx context.Context) auditlink.Entry {
	actor := cmp.Or(login.From(ctx).Name, "client")
	way := ", through the server"
	if login.From(ctx).Kind == login.InProcess {
		way = ", by a client of the engine"
	}
	e := auditlink.Entry{
		Actor: actor, Action: string(auditlink.AnswerWait), Name: a.Wait,
		Detail: recordtext.Line(a.Signal, maxText) + way,
	}
	if source := recordtext.Line(a.Source, maxText); source != "" && source != actor {
		e.Detail += "; in the name of " + source
	}
	return e
}
