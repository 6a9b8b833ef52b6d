package runtime

import (
	"context"
	"errors"
	"strings"

	"github.com/google/uuid"

	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/interceptor"
	"github.com/flowfabric/flowfabric-go/internal/engine"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
	"github.com/flowfabric/flowfabric-go/internal/submit"
)

// nodesOf returns the scope in the form that selects nodes.
func nodesOf(s fabrictype.RerunScope) submit.RerunScope {
	if node, found := strings.CutPrefix(string(s), submit.RerunFrom); found {
		return submit.RerunScope{Mode: string(s), Node: node}
	}
	return submit.RerunScope{Mode: string(s)}
}

// checkScope returns an error unless the scope is one.
func checkScope(s fabrictype.RerunScope) error {
	scope := nodesOf(s)
	if scope.Node != "" || s == fabrictype.RerunFailed || s == fabrictype.RerunAll {
		return nil
	}
	return invalid("scope %q: must be RerunFailed, RerunAll, or RerunFrom with the name of a node", string(s))
}

// Rerun runs the selected nodes of a run that is over again, with the same run id and input. The run becomes open, with
// the whole time of its deadline. A node keeps its previous result until it succeeds again. Each node can be run again
// ten times. Run.Result waits for the new end.
//
// The error wraps ErrRunOpen while the run is not over, ErrNotFound for the run or the node of the scope,
// ErrInvalid for an invalid scope, ErrNothingToRerun when the scope has no nodes, ErrRerunLimit, or in contract
// mode ErrNotInContract; nothing has been changed then. Keepers complete a call that was interrupted later. With
// WithRequestID it can be repeated.
func (r *RunRef) Rerun(ctx context.Context, scope fabrictype.RerunScope, opts ...ActionOption) error {
	if r.isIntercepted() {
		return r.intercept(ctx, interceptor.Rerun, "", func(ctx context.Context, r *RunRef) error {
			return r.Rerun(ctx, scope, opts...)
		})
	}
	if err := r.ready(ctx); err != nil {
		return err
	}
	by, err := r.client.actionOf(opts)
	if err = errors.Join(err, checkScope(scope)); err == nil {
		err = r.rerun(ctx, scope, by)
	}
	if err != nil {
		return r.errorf("rerun", err)
	}
	return nil
}

func (r *RunRef) rerun(ctx context.Context, scope fabrictype.RerunScope, by action) error {
	if _, err := library(ctx, r.client, "reruns"); err != nil {
		return err
	}
	submitter := r.client.submitter
	call := enginerpc.RerunCall{
		Partition: r.partition, FlowID: r.flowID, RerunID: uuid.NewString(), Mode: string(scope), Actor: by.actor,
	}
	if by.request != "" {
		call.RerunID = uuid.NewSHA1(uuid.NameSpaceOID, []byte("request "+by.request+" "+string(r.flowID))).String()
		if begun, err := submitter.ContinueRerun(ctx, call); begun || err != nil {
			submitter.Completions.Untrack(r.flowID)
			return err
		}
	}
	run, err := submitter.ReadNodes(ctx, r.flowID, r.partition)
	if err != nil {
		return err
	}
	if run.ClosedAt.IsZero() {
		return engine.ErrRunOpen
	}
	nodes, err := run.InScope(nodesOf(scope))
	if err != nil {
		return err
	}
	// The end that the client received is no longer the one to wait for.
	defer submitter.Completions.Untrack(r.flowID)
	if err := submitter.Completions.BeginRerun(ctx, r.flowID, r.partition); err != nil {
		return err
	}
	if err := submitter.SendRerun(ctx, call, nodes); err != nil {
		submitter.Completions.AbortRerun(r.flowID)
		return err
	}
	return nil
}
