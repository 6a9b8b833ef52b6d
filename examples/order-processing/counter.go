package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/flow"
	"github.com/flowfabric/flowfabric-go/runtime"
)

// interruptWithin is how long an interrupted program takes to cancel its orders.
const interruptWithin = 10 * time.Second

// place starts the run of an order. A customer has one order at a time; others wait for their turn. The key names the
// shop as well, whose lane it is.
func place(
	ctx context.Context, client *runtime.Client, def *flow.Definition[Order, Shipment], lane string, o Order,
) (*runtime.Run[Shipment], error) {
	run, err := runtime.Start(ctx, client, def, o, runtime.WithTag("shop.order", o.ID),
		runtime.WithKey(o.Customer+"@"+lane, runtime.KeyPolicy{WhenTaken: runtime.QueueRun}))
	if err != nil {
		return nil, fmt.Errorf("order %s: %w", o.ID, err)
	}
	return run, nil
}

// carry reacts to an order's review and waits for its end. It returns why the order was not shipped, empty if it was.
// An interrupted program cancels its orders, so that their last nodes still run.
func carry(ctx context.Context, run *runtime.Run[Shipment], p placement) (why string, err error) {
	err = react(ctx, run, p)
	if err == nil {
		_, err = run.Result(ctx)
	}
	if ctx.Err() != nil {
		late, stop := context.WithTimeout(context.WithoutCancel(ctx), interruptWithin)
		defer stop()
		if err = run.Cancel(late, "the program was interrupted"); err == nil || errors.Is(err, runtime.ErrOver) {
			_, err = run.Result(late)
		}
	}
	return reason(err)
}

// react answers the review of an order, or cancels the order when it waits for that.
func react(ctx context.Context, run *runtime.Run[Shipment], p placement) error {
	if p.then == "" {
		return nil
	}
	if err := awaitReview(ctx, run); err != nil {
		return fmt.Errorf("order %s: %w", p.order.ID, err)
	}
	if p.then == cancels {
		return run.Cancel(ctx, p.order.Customer+" has changed their mind")
	}
	_, err := run.SignalWait(ctx, runtime.WaitName{Node: review}, runtime.Signal{
		Name: string(p.then), Source: "Rita", Payload: Remark{Comment: "checked by phone"}, IdempotencyKey: p.order.ID,
	})
	return err
}

// awaitReview returns when the order waits for its review.
func awaitReview(ctx context.Context, run *runtime.Run[Shipment]) error {
	for e, err := range run.Watch(ctx, "") {
		if err != nil {
			return err
		}
		if e.Node == review && e.Kind == fabrictype.EventSuspended {
			return nil
		}
	}
	return errors.New("it has ended without a review")
}

// reason returns why an order was not shipped. Any error except the run's is returned as it is.
func reason(err error) (why string, other error) {
	var stock *OutOfStock
	run, isRun := errors.AsType[*runtime.RunError](err)
	switch {
	case !isRun:
		return "", err
	case errors.As(err, &stock):
		return fmt.Sprintf("only %d of %s in stock", stock.Left, stock.Item), nil
	case errors.Is(err, ErrDeclined):
		return "card declined", nil
	case errors.Is(err, ErrRejected):
		return "rejected in its review", nil
	case errors.Is(err, ErrUndeliverable):
		return "address unknown", nil
	}
	return run.Reason, nil
}
