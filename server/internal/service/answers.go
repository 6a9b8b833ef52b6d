package service

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/flowfabric/flowfabric-go/api"
	"github.com/flowfabric/flowfabric-go/internal/auditlink"
	"github.com/flowfabric/flowfabric-go/internal/recordtext"
	"github.com/flowfabric/flowfabric-go/runtime"
	"github.com/flowfabric/flowfabric-go/runtime/auditlog"
	"github.com/flowfabric/flowfabric-go/server/internal/login"
)

// maxAnswerText bounds the names of an answer in its entry of the audit log, in bytes.
const maxAnswerText = 256

// answer is a signal to the wait with an id.
type answer struct {
	wait   runtime.WaitName
	id     string
	signal runtime.Signal
}

// answer delivers a signal to a wait that is open, and records it in the audit log before: who answers, which wait, by
// which signal. The log has no payloads, so that who may read it need not have the right to read those.
func (s *Service) answer(ctx context.Context, name api.RunName, a answer) (*api.Delivery, error) {
	run, w, err := s.wait(ctx, api.WaitName{RunName: name, Wait: a.id})
	switch {
	case err != nil:
		return nil, err
	case w.Flow != name.Flow || w.Run != name.Run || w.Node != a.wait.Node || w.Step != a.wait.Step:
		return nil, fmt.Errorf("%w: %q is not of %s", ErrWaitNotFound, a.id, a.wait)
	case w.State == runtime.WaitClosed:
		return &api.Delivery{Outcome: string(runtime.SignalClosed)}, nil
	}
	var result runtime.SignalResult
	sent := false
	refused := auditlink.Audited(ctx, s.client, a.entry(ctx, w), func() error {
		sent = true
		result, err = run.SignalWait(ctx, a.wait, a.signal)
		switch {
		case errors.Is(err, runtime.ErrInvalid):
			return errors.New("nothing was recorded: the answer is not valid") // its faults quote it
		case err != nil:
			return err
		case result.Outcome != runtime.SignalAccepted && result.Outcome != runtime.SignalResumed:
			return fmt.Errorf("nothing was recorded: the answer is %s", result.Outcome)
		}
		return nil
	})
	if !sent {
		return nil, refused
	}
	return deliveryOf(result, err)
}

// entry is an answer as the audit log has it.
func (a *answer) entry(ctx context.Context, w runtime.Waitpoint) auditlink.Entry {
	actor := cmp.Or(login.From(ctx).Name, "client")
	way := ", through the server"
	if login.From(ctx).Kind == login.InProcess {
		way = ", by a client of the engine"
	}
	e := auditlink.Entry{
		Actor: actor, Action: string(auditlog.AnswerWait), Name: w.Flow + "/" + w.Run + "/" + w.Node,
		Detail: recordtext.Line(a.signal.Name, maxAnswerText) + way,
	}
	if source := recordtext.Line(a.signal.Source, maxAnswerText); source != "" && source != actor {
		e.Detail += "; in the name of " + source
	}
	return e
}
