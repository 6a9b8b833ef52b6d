package engine

import (
	"context"

	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
)

// Timers moves the timers of nodes that sleep.
type Timers interface {
	MoveTimer(context.Context, enginerpc.MoveTimerCall) (enginerpc.MoveTimerReply, error)
}
