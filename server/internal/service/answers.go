package service

import (
	"context"
	"fmt"

	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/internal/httpapi"
	"github.com/flowfabric/flowfabric-go/runtime"
)

// answer is a signal to the wait with an id.
type answer struct {
	wait   runtime.WaitName
	id     string
	signal runtime.Signal
}

// answer delivers a signal to a wait that is open, and records it in the audit log before.
func (s *Service) answer(ctx context.Context, name httpapi.RunName, a answer) (*fabrictype.SignalResult, error) {
	_, w, err := s.wait(ctx, httpapi.WaitName{RunName: name, Wait: a.id})
	switch {
	case err != nil:
		return nil, err
	case w.Flow != name.Flow || w.Run != name.Run || w.Node != a.wait.Node || w.Step != a.wait.Step:
		return nil, fmt.Errorf("%w: %q is not of %s", ErrWaitNotFound, a.id, a.wait)
	case w.State == fabrictype.WaitClosed:
		return &fabrictype.SignalResult{Outcome: fabrictype.SignalClosed}, nil
	}
	run := s.client.Run(name.Flow, name.Run)
	return replied(answered(w.Flow, w.Run, w.Node, &a.signal).Send(ctx, s.client.Internal(),
		func() (fabrictype.SignalResult, error) { return run.SignalWait(ctx, a.wait, a.signal) }))
}
