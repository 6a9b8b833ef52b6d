package runtime

import (
	"context"

	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/internal/inspect"
)

// Inspect checks everything around the engine that can lose work, delay it or stop it: the servers' persistence,
// eviction, memory, last writes, replicas and versions, the rights of the user, the function library, keepers and how
// late they are, and the workers of lanes on which work waits. It changes nothing. Checks that the rights of the user
// do not allow are left out, with a finding for each. The error wraps ErrInvalid for an engine that was not made by
// Open, enginecore.ErrClosed, the cause of ctx, or enginecore.ErrNotReachable if no server answers; some that do not
// answer are findings.
func (e *Engine) Inspect(ctx context.Context) (fabrictype.Inspection, error) {
	if err := e.ready(ctx); err != nil {
		return fabrictype.Inspection{}, err
	}
	return inspect.Engine(ctx, e.session)
}
