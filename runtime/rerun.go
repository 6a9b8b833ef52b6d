package runtime

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
	"github.com/flowfabric/flowfabric-go/runtime/internal/engine"
	"github.com/flowfabric/flowfabric-go/runtime/internal/submit"
)

// RerunScope says which nodes of a run are run again: RerunFailed, RerunFrom or RerunAll. Its text is "failed", "from "
// with the node's name, or "all".
type RerunScope string

// RerunFailed runs again what did not succeed: nodes that failed, expired or were cancelled, and what was skipped
// because of them. What succeeded keeps its result, except where it ran because a node had failed (flow.OnFailure,
// flow.Always). Failures that a join has borne stay as they are.
func RerunFailed() RerunScope { return submit.RerunFailed }

// RerunFrom runs a node again and everything that depends on it, whatever became of it. If another upstream of these
// has not succeeded, they are skipped as before.
func RerunFrom(node string) RerunScope { return RerunScope(submit.RerunFrom + node) }

// RerunAll runs every node again.
func RerunAll() RerunScope { return submit.RerunAll }

// nodes returns the scope in the form that selects nodes.
func (s RerunScope) nodes() submit.RerunScope {
	if node, found := strings.CutPrefix(string(s), submit.RerunFrom); found {
		return submit.RerunScope{Mode: string(s), Node: node}
	}
	return submit.RerunScope{Mode: string(s)}
}

// check returns an error unless the scope is one.
func (s RerunScope) check() error {
	scope := s.nodes()
	if scope.Node != "" || s == RerunFailed() || s == RerunAll() {
		return nil
	}
	return invalid("scope %q: must be RerunFailed, RerunAll, or RerunFrom with the name of a node", string(s))
}

// Rerun is how a run was run again the last time.
type Rerun struct {
	At time.Time
	// By is who asked for it, and Scope which nodes.
	By    string
	Scope RerunScope
	// Nodes is how many there were.
	Nodes int
}

// Rerun runs nodes of the run, which must be over, again, under the same run id and with the same input. The run is
// open then, with all of the time that its deadline allows. Until a node has succeeded once more, its former result
// stays what others see. Each node can be run again ten times. Result of a Run waits for the new end then.
//
// The error wraps ErrRunOpen while the run is not over, ErrRunNotFound, ErrUnknownNode for a node that the run does not
// have, ErrInvalid for a text that is no scope, ErrNothingToRerun when the scope has no nodes, ErrRerunLimit, or in
// contract mode ErrNotInContract; nothing has been changed then. A call that was interrupted later is carried out by
// keepers.
func (r *RunRef) Rerun(ctx context.Context, scope RerunScope, opts ...ActionOption) error {
	if err := r.ready(); err != nil {
		return err
	}
	by, err := actionOf(opts)
	if err = errors.Join(err, scope.check()); err == nil {
		err = r.rerun(ctx, scope, by)
	}
	if err != nil {
		return r.errorf("rerun", err)
	}
	return nil
}

func (r *RunRef) rerun(ctx context.Context, scope RerunScope, by action) error {
	if _, err := offered[engine.RunControl](r.client); err != nil {
		return err
	}
	submitter := r.client.submitter
	run, err := submitter.ReadNodes(ctx, r.flow, r.id, r.flowID, r.partition)
	if err != nil {
		return err
	}
	if run.ClosedAt.IsZero() {
		return engine.ErrRunOpen
	}
	nodes, err := run.InScope(scope.nodes())
	if err != nil {
		return err
	}
	// The end that was heard is no longer the one to wait for.
	defer submitter.Completions.Untrack(r.flowID)
	if err := submitter.Completions.BeginRerun(ctx, r.flowID, r.partition); err != nil {
		return err
	}
	call := enginerpc.RerunCall{
		Partition: r.partition, FlowID: r.flowID, RerunID: uuid.NewString(), Mode: string(scope), Actor: by.actor,
	}
	if err := submitter.SendRerun(ctx, call, nodes); err != nil {
		submitter.Completions.AbortRerun(r.flowID)
		return err
	}
	return nil
}
