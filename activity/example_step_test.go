package activity_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/activity/activitytest"
)

// carrier is a service that is away for the first shipment.
type carrier struct{ calls int }

func (c *carrier) Ship(payment string) error {
	if c.calls++; c.calls == 1 {
		return errors.New("carrier unreachable")
	}
	fmt.Println("shipped, paid by", payment)
	return nil
}

// A step runs once: the next attempt has its recorded result.
func ExampleStep() {
	var parcels carrier
	order := func(ctx context.Context, id string) error {
		payment, err := activity.Step(ctx, "charge", func(context.Context) (string, error) {
			fmt.Println("charging", id)
			return "payment-1", nil
		})
		if err != nil {
			return err
		}
		return parcels.Ship(payment)
	}
	env := activitytest.New()
	fmt.Println(order(env.Context(context.Background()), "order-7")) // the first attempt
	fmt.Println(order(env.Context(context.Background()), "order-7")) // the second
	// Output:
	// charging order-7
	// carrier unreachable
	// shipped, paid by payment-1
	// <nil>
}
