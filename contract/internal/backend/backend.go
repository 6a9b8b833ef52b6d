package backend

import (
	"context"

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
