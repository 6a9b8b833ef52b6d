package runtime_test

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/flow"
	"github.com/flowfabric/flowfabric-go/interceptor"
	"github.com/flowfabric/flowfabric-go/runtime"
)

// customerKey is the key of a value of contexts.
type customerKey struct{}

// An interceptor sees each operation of a client, another one each call of a function, which has a value of the context
// of the start.
func ExampleClient_Use() {
	charge := activity.New("charge", func(ctx context.Context, cents int) (string, error) {
		return fmt.Sprint(cents, " of ", ctx.Value(customerKey{})), nil
	})
	f := flow.New[int, string]("order")
	flow.Return(f, flow.Node(f, "charge", charge, f.Input()))
	def, err := f.Build()
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx := context.Background()
	local, err := runtime.OpenLocal(ctx, runtime.LocalConfig{
		Activities: def.Handlers(),
		Open: runtime.OpenConfig{
			Logger:      slog.New(slog.DiscardHandler),
			Propagators: []interceptor.Propagator{interceptor.PropagateValue[string]("customer", customerKey{})},
		},
		Worker: runtime.WorkerConfig{Interceptors: []interceptor.Activity{
			func(next interceptor.ActivityFunc) interceptor.ActivityFunc {
				return func(ctx context.Context, call *interceptor.ActivityCall) ([]byte, error) {
					result, err := next(ctx, call)
					fmt.Println(call.Info.Kind, call.Info.RunID, string(call.Input), string(result), err)
					return result, err
				}
			},
		}},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer local.Close()
	client := local.Client().Use(func(next interceptor.ClientFunc) interceptor.ClientFunc {
		return func(ctx context.Context, call *interceptor.ClientCall) error {
			if call.Operation == interceptor.Start {
				fmt.Println(call.Operation, call.Flow, call.Run, string(call.Input))
			}
			return next(ctx, call)
		}
	})
	run, err := runtime.Start(context.WithValue(ctx, customerKey{}, "Ada"), client, def, 300, runtime.WithID("A-1"))
	if err != nil {
		fmt.Println(err)
		return
	}
	if _, err := run.Result(ctx); err != nil {
		fmt.Println(err)
	}
	// Output:
	// start order A-1 300
	// charge A-1 300 "300 of Ada" <nil>
}
