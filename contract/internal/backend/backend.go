// Package backend performs the calls of [engine.Backend] with the ff_* functions of the FlowFabric contract, version
// 15, and reads of the contract's keys. Package contract passes it to runtime.Open as an [engine.Guest].
//
// # Operation
//
// This project's library performs each of the calls in one step. This package performs them in several steps, one after
// the other. Each step is idempotent, because all ids derive from namespace, flow, run and node, so that any program
// can complete an operation after a crash:
//
//   - SubmitFlow creates the nodes delayed (held), stages and applies the edges, marks the flow as complete and
//     then releases the nodes.
//   - Claim reads the head of a lane, skips the executions that the worker cannot run, and sends a grant and a claim
//     for each other one.
//   - Complete, Fail and expiries end an execution, then resolve the edges to its downstreams (propagate).
//   - State, outcome and end of a run are computed from its nodes at each query: the contract has no record of
//     them.
//
// A program may stop between two calls, and programs without this package take only some of the steps.
// FollowCompletions propagates ends that were published but not propagated within a short time; the tick of keepers
// performs work that is due by time and, once per reconcile interval, the steps that are still missing.
//
// Messages to workers, keepers and clients are hints: all of them also poll. Data that the contract has no field for is
// stored in tags of flows and executions, see package contractnode.
//
// # Constructs without a counterpart
//
// Package contractcheck names the constructs of flows that the contract lacks; SubmitFlow refuses flows with them. The
// page docs/contract/contract-mode.md lists all operations and describes the differences for users.
//
// Events are composed from records, and deadlines apply to each node. Only the worker enforces start-to-close and
// heartbeat timeouts.
//
// # Rooms
//
// The calls are performed by packages below this one, which import each other in one direction: link is the connection
// to the engine; flows works on whole flows; execution takes the steps of executions; submission, signals and keeper
// use these, and runs reads. This package joins them to one backend.
//
// They import package engine (session, backend interface) and submit (stored policies), and none of worker, keeper,
// schedule, admission and runtime, which call the backend through the interfaces of package engine only.
package backend

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/flowfabric/flowfabric-go/contract/internal/backend/execution"
	"github.com/flowfabric/flowfabric-go/contract/internal/backend/flows"
	"github.com/flowfabric/flowfabric-go/contract/internal/backend/keeper"
	"github.com/flowfabric/flowfabric-go/contract/internal/backend/link"
	"github.com/flowfabric/flowfabric-go/contract/internal/backend/runs"
	"github.com/flowfabric/flowfabric-go/contract/internal/backend/signals"
	"github.com/flowfabric/flowfabric-go/contract/internal/backend/submission"
	"github.com/flowfabric/flowfabric-go/internal/engine"
)

// contract is the backend of contract mode: it implements the calls of engine.Backend with ff_* functions and reads of
// the contract's keys. It publishes the messages to workers, keepers and clients that the composite functions of the
// library would publish; they are hints, and may be lost. It is safe for concurrent use.
//
// Each room is embedded, so that its calls are the calls of the backend.
type contract struct {
	*link.Link
	*submission.Submitter
	*execution.Steps
	*signals.Signals
	*runs.Runs
	*keeper.Keeper
}

var _ engine.Stepwise = (*contract)(nil)

// newContract returns the backend of a session. It reads the server's clock, and fails if that fails.
func newContract(ctx context.Context, e *engine.Session, config *Guest) (*contract, error) {
	l, err := link.New(ctx, e, config.poll)
	if err != nil {
		return nil, err
	}
	f := flows.New(l)
	steps := execution.New(f)
	return &contract{
		l, submission.New(steps), steps, signals.New(steps), runs.New(f), keeper.New(steps, config.reconcile),
	}, nil
}

const (
	defaultPoll      = time.Second
	defaultReconcile = 5 * time.Second
	// minInterval bounds the intervals from below.
	minInterval = 10 * time.Millisecond
)

// Guest makes backends. It implements [engine.Guest].
type Guest struct {
	poll, reconcile time.Duration
}

// New returns a guest. The intervals are the fields of contract.Config; 0 is the default.
func New(poll, reconcile time.Duration) *Guest {
	return &Guest{poll: cmp.Or(poll, defaultPoll), reconcile: cmp.Or(reconcile, defaultReconcile)}
}

// Check implements [engine.Guest].
func (g *Guest) Check() error {
	var faults []error
	if g.poll < minInterval {
		faults = append(faults, fmt.Errorf("contract.Config.PollInterval %s: must be at least %s", g.poll, minInterval))
	}
	if g.reconcile < minInterval {
		faults = append(faults,
			fmt.Errorf("contract.Config.ReconcileInterval %s: must be at least %s", g.reconcile, minInterval))
	}
	return errors.Join(faults...)
}

// Open implements [engine.Guest].
func (g *Guest) Open(ctx context.Context, s *engine.Session) (engine.Backend, error) {
	return newContract(ctx, s, g)
}
