package runtime_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"log/slog"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/flow"
	"github.com/flowfabric/flowfabric-go/runtime"
)

// A budget that the runs of a tenant share: runs beyond it fail, until the budget is raised.
func ExampleBudgetRef_Set() {
	ctx := context.Background()
	type order struct {
		Tenant string `json:"tenant"`
		Pages  int64  `json:"pages"`
	}
	translate := activity.New("translate", func(ctx context.Context, o order) (string, error) {
		return "translated", activity.ReportUsage(ctx, "pages", o.Pages)
	})
	f := flow.New[order, string]("translation", flow.Budget("plan", flow.BudgetConfig{Hard: map[string]int64{"pages": 10}, PerKey: []string{"tenant"}}))
	flow.Return(f, flow.Node(f, "translate", translate, f.Input()))
	def, err := f.Build()
	if err != nil {
		log.Fatal(err)
	}
	local, err := runtime.OpenLocal(ctx, runtime.LocalConfig{
		Activities: def.Handlers(),
		Open:       runtime.OpenConfig{Logger: slog.New(slog.DiscardHandler)},
	})
	if err != nil {
		log.Fatal(err)
	}
	defer local.Close()
	client := local.Client()
	try := func() {
		run, err := runtime.Start(ctx, client, def, order{Tenant: "acme", Pages: 8})
		if err != nil {
			log.Fatal(err)
		}
		out, err := run.Result(ctx)
		var failed *runtime.RunError
		if errors.As(err, &failed) {
			out = failed.Category
		}
		fmt.Println(out)
	}
	try()
	try()
	acme := fabrictype.BudgetName{Name: "plan", Key: "acme"}
	if err := client.Budget(acme).Set(ctx, flow.BudgetConfig{Hard: map[string]int64{"pages": 20}}); err != nil {
		log.Fatal(err)
	}
	try()
	state, err := client.Budget(acme).Describe(ctx)
	fmt.Println(state.Amount("pages").Spent, state.Amount("pages").Remaining(), err)
	// Output:
	// translated
	// budget
	// translated
	// 16 4 <nil>
}
