package engine

import (
	"context"

	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
)

// Continuations lets functions continue as new.
type Continuations interface {
	ContinueAsNew(context.Context, enginerpc.ContinueAsNewCall) (enginerpc.ContinueAsNewReply, error)
}
