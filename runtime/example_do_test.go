package runtime_test

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/runtime"
)

// Shop has the dependencies of the worker's functions; programs that start runs have only the declaration.
type Shop struct{ Prices map[string]int }

// Price is the function of the activity.
func (s *Shop) Price(_ context.Context, item string) (int, error) { return s.Prices[item], nil }

// One activity as a run, its function a method of a struct.
func ExampleDo() {
	price := activity.Declare[string, int]("price")
	shop := &Shop{Prices: map[string]int{"cup": 3}}
	ctx := context.Background()
	local, err := runtime.OpenLocal(ctx, runtime.LocalConfig{
		Activities: []activity.Handler{activity.Implement(price, shop.Price)},
		Open:       runtime.OpenConfig{Logger: slog.New(slog.DiscardHandler)},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer local.Close()
	run, err := runtime.Do(ctx, local.Client(), price, "cup", runtime.WithID("A-1"))
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(run.Result(ctx))
	// Output: 3 <nil>
}
