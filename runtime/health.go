package runtime

import (
	"context"
	"fmt"

	"github.com/flowfabric/flowfabric-go/runtime/internal/inspect"
)

// Check asks the engine whether it answers, has the function library that this program needs, takes work and keeps it.
// It loads the library where it is missing, as Open does. The errors are those of Open, such as
// enginecore.ErrNotReachable, or match ErrNotReady: the server evicts keys, refuses writes because its memory or its
// disk is full (enginecore.ErrFull), is a replica, or has no log on disk (appendonly no), unless
// OpenConfig.AllowVolatile says that this is intended; an engine of this process cannot write its log, and the error
// wraps that of the operating system. Inspect tells more.
func (e *Engine) Check(ctx context.Context) error {
	if err := e.open(); err != nil {
		return err
	}
	if e.session.InProcess != nil {
		if err := inspect.Embedded(e.session.InProcess); err != nil { // which a call would find out by waiting
			return fmt.Errorf("engine: %w", err)
		}
	}
	if err := e.session.Core.Check(ctx); err != nil {
		return fmt.Errorf("engine: %w", err)
	}
	if err := inspect.Ready(ctx, e.session); err != nil {
		return fmt.Errorf("engine: %w", err)
	}
	return nil
}
