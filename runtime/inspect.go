package runtime

import (
	"context"

	"github.com/flowfabric/flowfabric-go/runtime/inspection"
	"github.com/flowfabric/flowfabric-go/runtime/internal/inspect"
)

// AllowVolatile says that what a server has may be lost with it: one without a log on disk (appendonly no) is neither
// warned of by Open nor a failure of Engine.Check. For tests and development, and for servers that others keep safe.
func AllowVolatile() OpenOption { return func(c *openConfig) { c.volatile = true } }

// Inspect looks at everything around the engine that can lose work, delay it or stop it: the servers' persistence,
// eviction, memory, last writes, replicas and versions, the rights of the user, the function library, keepers and how
// late they are, and the workers of lanes on which work waits. It changes nothing. What the user may not look at is
// left out, and says so. The error tells that the engine cannot be used at all; servers that do not answer are
// findings.
func (e *Engine) Inspect(ctx context.Context) (inspection.Report, error) {
	if err := e.open(); err != nil {
		return inspection.Report{}, err
	}
	return inspect.Engine(ctx, e.session)
}
