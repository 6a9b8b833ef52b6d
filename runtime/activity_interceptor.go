package runtime

import (
	"context"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/internal/activitycontext"
	"github.com/flowfabric/flowfabric-go/internal/activityspec"
)

// ActivityCall is one attempt of a function as interceptors see it.
type ActivityCall struct {
	// Info names the flow, the run, the node, the attempt and, as Kind, the activity.
	Info activity.ExecutionInfo
	// Input is encoded by the codec of the activity. An interceptor may replace it for those behind it.
	Input []byte

	handler activity.Handler
}

// ActivityFunc runs a function and returns its encoded result. The errors are those of the function, of its codec, and
// of ends without a result: see IsActivityFailure.
type ActivityFunc func(ctx context.Context, call *ActivityCall) (result []byte, err error)

// ActivityInterceptor returns what runs around next: it sees the call, its result and its error, may change all of them
// or the context, and may leave next out. WorkerConfig.Interceptors has those of a worker. They run in the goroutine of
// the function, within its time limits; a panic is one of the function. Nodes without a function (waitpoints, maps,
// sub-flows) and tasks that a program holds have none.
type ActivityInterceptor func(next ActivityFunc) ActivityFunc

// IsActivityFailure reports whether err is the failure of a function: false for nil and for the errors by which a
// function gives its slot up or ends its node as cancelled (activity.Await, DelayUntil, CancelNode). An interceptor
// returns those as they are.
func IsActivityFailure(err error) bool {
	return err != nil && !activityspec.IsMark(err) && !activitycontext.IsSuspension(err)
}

// intercepted returns how a worker runs functions; nil if it has no interceptors.
func intercepted(list []ActivityInterceptor) func(context.Context, activity.Handler, []byte) ([]byte, error) {
	if len(list) == 0 {
		return nil
	}
	run := func(ctx context.Context, call *ActivityCall) ([]byte, error) {
		return call.handler.Invoke(ctx, call.Input)
	}
	for i := len(list) - 1; i >= 0; i-- {
		run = list[i](run)
	}
	return func(ctx context.Context, handler activity.Handler, input []byte) ([]byte, error) {
		info, _ := activity.Info(ctx)
		return run(ctx, &ActivityCall{Info: info, Input: input, handler: handler})
	}
}
