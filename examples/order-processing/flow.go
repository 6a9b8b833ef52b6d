package main

import (
	"time"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/flow"
)

// Names of the flow, of its waitpoint, and of the signals that end the wait.
const (
	flowName = "order-processing"
	review   = "review"
	approve  = "approve"
	reject   = "reject"
)

const (
	// reviewAbove is the largest amount that is shipped without a review.
	reviewAbove Cents = 500_00
	// reviewWithin is how long an order waits for its review before it fails.
	reviewWithin = 24 * time.Hour
	// closeWithin bounds the node that closes an order, retries included.
	closeWithin = 10 * time.Minute
)

// The activities, as far as programs that place orders need to know them. Shop.Handlers gives them their functions.
var (
	plan    = activity.Declare[Order, []ReserveInput]("order.plan", forward...)
	reserve = activity.Declare[ReserveInput, Reserved]("order.reserve", forward...)
	charge  = activity.Declare[ChargeInput, Charged]("order.charge", forward...)
	decide  = activity.Declare[DecideInput, Charged]("order.decide", forward...)
	ship    = activity.Declare[Charged, Shipment]("order.ship", forward...)
	confirm = activity.Declare[Shipment, Shipment]("order.confirm", forward...)
	undo    = activity.Declare[Ending, Undone]("order.undo", backward...)
	closing = activity.Declare[Ending, Entry]("order.close", backward...)

	// forward are the options of steps that may fail: a refusal by the shop is final, any other error is tried again.
	forward = []activity.Option{
		activity.Retry(activity.RetryPolicy{
			First: 100 * time.Millisecond, Max: 5 * time.Second, Attempts: 5, Except: []string{categoryRefused},
		}),
		activity.StartToClose(time.Minute),
	}
	// backward are the options of steps that have to succeed in the end.
	backward = []activity.Option{
		activity.Retry(activity.RetryPolicy{First: 100 * time.Millisecond, Max: time.Minute, Attempts: 100}),
		activity.StartToClose(time.Minute),
	}
)

// OrderFlow declares the flow. All of its activities run in one lane, so that the workers of a shop get the orders of
// that shop only.
func OrderFlow(lane string) (*flow.Definition[Order, Shipment], error) {
	f := flow.New[Order, Shipment](flowName, flow.Describe("Carries out an order, or undoes it."))
	in := activity.Lane(lane)

	lines := flow.Node(f, "plan", plan, f.Input(), in)
	reserved := flow.Map(f, "reserve", reserve, lines, in)
	charged := flow.Node(f, "charge", charge, flow.Struct[ChargeInput](
		flow.Field("order", f.Input()), flow.Field("reserved", reserved)), in)

	large := flow.When(charged, "large", func(c Charged) bool { return c.Amount > reviewAbove })
	direct := flow.Node(f, "ship", ship, charged, in, large.Not())

	answers := flow.WaitpointSignals[Remark](f, review, large,
		activity.Signals(approve, reject), activity.Timeout(reviewWithin, activity.FailOnTimeout),
		activity.Title("Review of a large order"),
		activity.Question("The card has been charged. May the order be shipped?"), activity.Audience("accounts"))
	decided := flow.Node(f, "decide", decide, flow.Struct[DecideInput](
		flow.Field("charged", charged), flow.Field("answers", answers)), in)
	reviewed := flow.Node(f, "ship-reviewed", ship, decided, in)

	// Whichever of the two has run.
	flow.Return(f, flow.Node(f, "confirm", confirm, flow.AnyOf(direct, reviewed), in))

	// A confirmation that cannot be sent undoes nothing: the parcel is on its way.
	steps := []flow.Upstream{lines, reserved, charged, answers, decided, direct, reviewed}
	ending := flow.Struct[Ending](
		flow.Field("order", f.Input()), flow.Field("failure", flow.FailureOf(steps...)))
	flow.Node(f, "undo", undo, ending, in, flow.OnAnyFailure(steps...))
	flow.Node(f, "close", closing, ending, in, flow.Finally(closeWithin))
	return f.Build()
}
