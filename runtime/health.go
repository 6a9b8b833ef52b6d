package runtime

import (
	"context"
	"fmt"

	"github.com/flowfabric/flowfabric-go/internal/inspect"
)

// Check reports whether the engine is ready: it answers, has the function library that this program needs, accepts work
// and keeps it. Check loads a missing library, as Open does. The error is one of the errors of Open, such as
// enginecore.ErrNotReachable, or matches ErrNotReady: the server evicts keys, refuses writes because its memory or disk
// is full (also matching enginecore.ErrFull), is a replica, or has no append-only file (appendonly no), unless
// OpenConfig.AllowVolatile is set; or the embedded engine cannot write its log, and the error wraps the error of the
// operating system. Inspect reports more.
func (e *Engine) Check(ctx context.Context) error {
	if err := e.ready(ctx); err != nil {
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
