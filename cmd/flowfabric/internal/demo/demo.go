// Package demo has the flows of flowfabric dev --demo: one that fans out, and one that waits for a person.
package demo

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/flow"
	"github.com/flowfabric/flowfabric-go/runtime"
)

// Order is the input of the flow demo-order.
type Order struct {
	Customer string   `json:"customer"`
	Items    []string `json:"items"`
}

// Decision is the answer of the person.
type Decision struct {
	Approve bool   `json:"approve"`
	Comment string `json:"comment,omitempty"`
}

var (
	priceActivity = activity.New("demo.price", func(ctx context.Context, item string) (int, error) {
		activity.Logger(ctx).Info("looking up the price", "item", item)
		return 5 * len(item), activity.Progress(ctx, 100, "found")
	})
	totalActivity = activity.New("demo.total", func(_ context.Context, prices []int) (int, error) {
		total := 0
		for _, price := range prices {
			total += price
		}
		return total, nil
	})
	shipActivity = activity.New("demo.ship", func(_ context.Context, in Shipment) (string, error) {
		if !in.Decision.Approve {
			return "", activity.NonRetryable(errors.New("refused: " + in.Decision.Comment))
		}
		return fmt.Sprintf("sent to %s for %d", in.Order.Customer, in.Total), nil
	})
	helloActivity = activity.New("demo.hello", func(_ context.Context, name string) (string, error) {
		return "Hello, " + strings.TrimSpace(name) + "!", nil
	})
)

// Shipment is an order that is shipped.
type Shipment struct {
	Order    Order    `json:"order"`
	Total    int      `json:"total"`
	Decision Decision `json:"decision"`
}

var itemsActivity = activity.New(
	"demo.items",
	func(_ context.Context, o Order) ([]string, error) { return o.Items, nil },
)

func build() ([]runtime.Publication, []activity.Handler, error) {
	f := flow.New[Order, string]("demo-order",
		flow.Describe("Prices the items of an order, asks a person, and ships."))
	prices := flow.Map(f, "price", priceActivity, flow.Node(f, "items", itemsActivity, f.Input()))
	total := flow.Node(f, "total", totalActivity, prices)
	decision := flow.Waitpoint[Decision](f, "approve", activity.Title("Ship this order?"),
		activity.Audience("shop"), activity.Timeout(24*time.Hour, activity.Escalate), flow.After(total))
	flow.Return(f, flow.Node(f, "ship", shipActivity, flow.Struct[Shipment](
		flow.Field("order", f.Input()), flow.Field("total", total), flow.Field("decision", decision))))
	order, orderErr := f.Build()

	g := flow.New[string, string]("demo-hello", flow.Describe("Greets a person."))
	flow.Return(g, flow.Node(g, "say", helloActivity, g.Input()))
	hello, helloErr := g.Build()
	if err := errors.Join(orderErr, helloErr); err != nil {
		return nil, nil, err
	}
	flows := []runtime.Publication{{Flow: order, By: "demo"}, {Flow: hello, By: "demo"}}
	return flows, append(order.Handlers(), hello.Handlers()...), nil
}

// Publish publishes the flows and starts a run of each.
func Publish(ctx context.Context, engine *runtime.Engine) error {
	flows, _, err := build()
	if err != nil {
		return err
	}
	client, err := runtime.NewClient(engine)
	if err != nil {
		return err
	}
	defer client.Close()
	if err := client.Publish(ctx, flows...); err != nil {
		return err
	}
	order := []byte(`{"customer":"Ada","items":["book","pen"]}`)
	if _, err := client.Flow("demo-order").Start(ctx, order, runtime.WithID("first")); err != nil {
		return err
	}
	_, err = client.Flow("demo-hello").Start(ctx, []byte(`"world"`), runtime.WithID("first"))
	return err
}

// Work runs a worker for the flows until the context ends.
func Work(ctx context.Context, engine *runtime.Engine) error {
	_, handlers, err := build()
	if err != nil {
		return err
	}
	worker, err := runtime.NewWorker(engine, runtime.WorkerConfig{Name: "demo", NoKeeper: true})
	if err != nil {
		return err
	}
	if err := worker.Register(handlers...); err != nil {
		return err
	}
	return worker.Run(ctx)
}
