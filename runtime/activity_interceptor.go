package runtime

import (
	"context"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/interceptor"
)

// intercepted returns how a worker runs functions; nil if it has no interceptors.
func intercepted(list []interceptor.Activity) func(context.Context, activity.Handler, []byte) ([]byte, error) {
	if len(list) == 0 {
		return nil
	}
	return func(ctx context.Context, handler activity.Handler, input []byte) ([]byte, error) {
		run := func(ctx context.Context, call *interceptor.ActivityCall) ([]byte, error) {
			return handler.Invoke(ctx, call.Input)
		}
		for i := len(list) - 1; i >= 0; i-- {
			run = list[i](run)
		}
		info, _ := activity.Info(ctx)
		return run(ctx, &interceptor.ActivityCall{Info: info, Input: input})
	}
}
