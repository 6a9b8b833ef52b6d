package engine

import (
	"context"

	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
)

// LiveValues publishes and reads live values of executions.
type LiveValues interface {
	PutLiveValue(context.Context, enginerpc.PutLiveValueCall) (enginerpc.PutLiveValueReply, error)
	ReadLiveValue(context.Context, enginerpc.ReadLiveValueCall) (enginerpc.ReadLiveValueReply, error)
}

var _ LiveValues = nativeBackend{}
