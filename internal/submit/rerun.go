package submit

import (
	"context"

	"github.com/google/uuid"

	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/internal/engine"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
)

// CheckScope returns an error that wraps [engine.ErrInvalid] unless the scope is one.
func CheckScope(s fabrictype.RerunScope) error {
	if ScopeOf(s).Node != "" || s == fabrictype.RerunFailed || s == fabrictype.RerunAll {
		return nil
	}
	return engine.Invalid("scope %q: must be RerunFailed, RerunAll, or RerunFrom with the name of a node", string(s))
}

// Rerun runs the nodes of a scope of a run that is over again. Unless request is empty, a call that repeats it for the
// same run has no further effect. Its error wraps [engine.ErrRunOpen], [engine.ErrRunNotFound],
// [engine.ErrUnknownNode], [engine.ErrNothingToRerun] or [engine.ErrRerunLimit].
func (s *Submitter) Rerun(ctx context.Context, r engine.Run, scope RerunScope, actor, request string) error {
	call := enginerpc.RerunCall{
		Partition: r.Partition, FlowID: r.FlowID, RerunID: uuid.NewString(), Mode: scope.Mode, Actor: actor,
	}
	if request != "" {
		call.RerunID = uuid.NewSHA1(uuid.NameSpaceOID, []byte("request "+request+" "+string(r.FlowID))).String()
		if begun, err := s.ContinueRerun(ctx, call); begun || err != nil {
			s.Completions.Untrack(r.FlowID)
			return err
		}
	}
	run, err := s.ReadNodes(ctx, r.FlowID, r.Partition)
	if err != nil {
		return err
	}
	if run.ClosedAt.IsZero() {
		return engine.ErrRunOpen
	}
	nodes, err := run.InScope(scope)
	if err != nil {
		return err
	}
	// The end that the client received is no longer the one to wait for.
	defer s.Completions.Untrack(r.FlowID)
	if err := s.Completions.BeginRerun(ctx, r.FlowID, r.Partition); err != nil {
		return err
	}
	if err := s.SendRerun(ctx, call, nodes); err != nil {
		s.Completions.AbortRerun(r.FlowID)
		return err
	}
	return nil
}
