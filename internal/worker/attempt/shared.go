package attempt

import (
	"context"
	"time"

	"github.com/flowfabric/flowfabric-go/internal/engine"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
	"github.com/flowfabric/flowfabric-go/internal/worker/completion"
	"github.com/flowfabric/flowfabric-go/internal/worker/lease"
)

// Shared contains the components that all attempts of a worker run use: the connection to the engine, and the senders
// that join calls of several attempts.
type Shared struct {
	// Session is the worker's connection to the engine.
	Session *engine.Session
	Core    *enginerpc.Conn
	// Base has the values of the context of Worker.Run. It ends when Run returns, so that no call outlives it.
	Base context.Context
	// LeaseTTL is the duration of leases.
	LeaseTTL time.Duration
	// Background runs calls that messages and replies trigger.
	Background Background
	// Completer reports how executions end.
	Completer *completion.Completer
	// Doubt is set by a failed call, after which the engine may have leases that this worker does not know.
	Doubt lease.Uncertainty
	// Overstays counts the functions that do not return after their contexts have ended.
	Overstays *OverstayCounts
}
