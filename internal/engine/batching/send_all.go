package batching

import (
	"context"

	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
)

// CallResult is the reply to one of several calls, or its error.
type CallResult[R any] struct {
	Reply R
	Err   error
}

// Pipeliner sends calls together; *enginerpc.Conn is one.
type Pipeliner interface {
	Pipeline() *enginerpc.Pipeline
}

// SendAll sends independent calls in one pipeline. The results are in the order of the calls, each with its own error;
// the returned error joins these.
func SendAll[R any, C enginerpc.Call[R]](ctx context.Context, p Pipeliner, calls []C) ([]CallResult[R], error) {
	pipeline := p.Pipeline()
	replies := make([]*enginerpc.Result[R], len(calls))
	for i, call := range calls {
		replies[i] = enginerpc.Add[R](pipeline, call)
	}
	err := pipeline.Run(ctx)
	results := make([]CallResult[R], len(calls))
	for i, reply := range replies {
		results[i].Reply, results[i].Err = reply.Get()
	}
	return results, err
}
