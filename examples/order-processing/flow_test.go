package main

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/flow"
	"github.com/flowfabric/flowfabric-go/flowtest"
)

// The flow is stored with every run, so a change of it should be meant.
func TestFlow(t *testing.T) {
	t.Parallel()
	flowtest.Golden(t, orderFlow(t))
}

func orderFlow(tb testing.TB) *flow.Definition[Order, Shipment] {
	tb.Helper()
	def, err := OrderFlow("orders")
	require.NoError(tb, err)
	return def
}

// serve gives the activities of the test the functions of a shop.
func serve(t *flowtest.T, s *Shop) {
	flowtest.Fake(t, plan, s.Plan)
	flowtest.Fake(t, reserve, s.Reserve)
	flowtest.Fake(t, charge, s.Charge)
	flowtest.Fake(t, decide, s.Decide)
	flowtest.Fake(t, ship, s.Ship)
	flowtest.Fake(t, confirm, s.Confirm)
	flowtest.Fake(t, undo, s.Undo)
	flowtest.Fake(t, closing, s.Close)
}

// checkBooks checks that a shop has lost and doubled nothing since it was opened: every item is on the shelf or in a
// parcel, all money is on an account, and both agree with the ledger.
func checkBooks(tb testing.TB, shop, opened *Shop) {
	tb.Helper()
	before := opened.warehouse.Stocks()
	for i, s := range shop.warehouse.Stocks() {
		require.Zero(tb, s.Held, s.Item)
		require.Equal(tb, before[i].Shelf, s.Shelf+s.Sent, s.Item)
	}
	accounts, income := shop.bank.Balances()
	paid := -income
	first, _ := opened.bank.Balances()
	for card, balance := range accounts {
		paid += first[card] - balance
	}
	require.Zero(tb, paid, "money that is on no account")
	for _, e := range shop.ledger.Entries() {
		income -= e.Charged - e.Refunded
		require.Equal(tb, e.Outcome == shipped, shop.Confirmed(e.Order) != "", e.Order)
		if e.Outcome != shipped {
			require.Equal(tb, e.Charged, e.Refunded, e.Order)
		}
	}
	require.Zero(tb, income, "income that is not in the ledger")
}

// ordered is an order of the tests, with cups for less than a review needs, or machines for more.
func ordered(item string, quantity int) Order {
	return Order{
		ID: "1", Customer: "Ada", Card: goodCard, Address: "London",
		Lines: []Line{{Item: "cup", Quantity: 1}, {Item: item, Quantity: quantity}},
	}
}

func TestSmallOrder(t *testing.T) {
	t.Parallel()
	flowtest.Engines(t, func(t *flowtest.T) {
		shop := openShop()
		serve(t, shop)
		run := flowtest.Start(t, orderFlow(t), ordered("pot", 2))
		require.Equal(t, "parcel-1", run.MustResult().Parcel)
		run.Node("ship").Succeeded()
		run.Node("ship-reviewed").Skipped()
		run.Node("undo").Skipped()
		run.Node("close").Succeeded()
		run.Order("plan", "reserve", "charge", "ship", "confirm", "close")
		require.Equal(t, []Entry{{Order: "1", Customer: "Ada", Outcome: shipped, Charged: 110_50}}, shop.ledger.Entries())
		checkBooks(t, shop, openShop())
	})
}

// Whatever step refuses the order, the shop is as before, and the program that waits finds the error.
func TestRefusals(t *testing.T) {
	t.Parallel()
	declined, unknown, empty := ordered("pot", 1), ordered("pot", 1), ordered("pot", 1)
	declined.Card, unknown.Address, empty.Lines = declinedCard, nowhere, nil
	for name, c := range map[string]struct {
		order Order
		node  string
		err   error
	}{
		"invalid":       {empty, "plan", ErrInvalidOrder},
		"out of stock":  {ordered("pot", 4), "reserve", nil},
		"declined":      {declined, "charge", ErrDeclined},
		"undeliverable": {unknown, "ship", ErrUndeliverable},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			flowtest.Engines(t, func(t *flowtest.T) {
				shop := openShop()
				serve(t, shop)
				run := flowtest.Start(t, orderFlow(t), c.order)
				failure := run.MustFail()
				require.Equal(t, c.node, failure.Node)
				require.Equal(t, categoryRefused, failure.Category)
				if c.err != nil {
					require.ErrorIs(t, failure, c.err)
				} else {
					var stock *OutOfStock
					require.ErrorAs(t, failure, &stock)
					require.Equal(t, OutOfStock{Item: "pot", Wanted: 4, Left: 3}, *stock)
				}
				if c.node != "reserve" { // its items are tried once, the node waits for them
					run.Node(c.node).Attempts(1)
				}
				run.Node("undo").Succeeded()
				require.Equal(t, openShop().warehouse.Stocks(), shop.warehouse.Stocks())
				checkBooks(t, shop, openShop())
				entry, _ := shop.ledger.Entry("1")
				require.Equal(t, failed, entry.Outcome)
				require.Equal(t, c.node, entry.Node)
			})
		})
	}
}

func TestReview(t *testing.T) {
	t.Parallel()
	for answer, outcome := range map[string]string{approve: shipped, reject: failed} {
		t.Run(answer, func(t *testing.T) {
			t.Parallel()
			flowtest.Engines(t, func(t *flowtest.T) {
				shop := openShop()
				serve(t, shop)
				run := flowtest.Start(t, orderFlow(t), ordered("machine", 1))
				wait := run.Node(review).Waiting()
				require.Equal(t, "Review of a large order", wait.Waitpoint().Title)
				wait.Signal(answer, Remark{Comment: "by phone"})
				if answer == approve {
					require.Equal(t, Cents(911_50), run.MustResult().Amount)
					run.Node("ship").Skipped()
					run.Node("undo").Skipped()
				} else {
					require.ErrorIs(t, run.MustFail(), ErrRejected)
					run.Node("undo").Succeeded()
				}
				checkBooks(t, shop, openShop())
				entry, _ := shop.ledger.Entry("1")
				require.Equal(t, outcome, entry.Outcome)
			})
		})
	}
}

func TestReviewTimesOut(t *testing.T) {
	t.Parallel()
	flowtest.Run(t, func(t *flowtest.T) {
		shop := openShop()
		serve(t, shop)
		run := flowtest.Start(t, orderFlow(t), ordered("machine", 1))
		require.Equal(t, review, run.MustFail().Node)
		require.Equal(t, reviewWithin, run.Elapsed().Truncate(time.Minute))
		run.Node("undo").Succeeded()
		checkBooks(t, shop, openShop())
		entry, _ := shop.ledger.Entry("1")
		require.Equal(t, Entry{
			Order: "1", Customer: "Ada", Outcome: failed, Node: review, Charged: 911_50, Refunded: 911_50,
		}, entry)
	})
}

// A cancelled run starts no compensation, but the node that closes the order.
func TestCancel(t *testing.T) {
	t.Parallel()
	flowtest.Engines(t, func(t *flowtest.T) {
		shop := openShop()
		serve(t, shop)
		run := flowtest.Start(t, orderFlow(t), ordered("machine", 1))
		run.Node(review).Waiting()
		require.NoError(t, run.Cancel(context.Background(), "not wanted any more"))
		run.MustBe(fabrictype.RunCancelled)
		run.Node("undo").Ends(fabrictype.NodeCancelled)
		run.Node("close").Succeeded()
		checkBooks(t, shop, openShop())
		require.Equal(t, []Entry{{
			Order: "1", Customer: "Ada", Outcome: cancelled, Charged: 911_50, Refunded: 911_50,
		}}, shop.ledger.Entries())
	})
}

// Steps happen once, although their workers are lost after they have done their work, or the bank does not answer.
func TestLostWorkers(t *testing.T) {
	t.Parallel()
	for _, item := range []string{"pot", "machine"} {
		t.Run(item, func(t *testing.T) {
			t.Parallel()
			flowtest.Run(t, func(t *flowtest.T) {
				shop := openShop()
				serve(t, shop)
				lost := []flowtest.Target{reserve, charge}
				order := ordered(item, 1)
				if item == "pot" {
					lost = append(lost, ship, confirm, closing)
					order.Card = silentCard
				} else {
					lost = append(lost, undo, closing)
				}
				for _, a := range lost {
					t.Inject(a, flowtest.Attempt(1), flowtest.LoseWorker())
				}
				run := flowtest.Start(t, orderFlow(t), order)
				if item == "pot" {
					run.MustResult()
				} else {
					run.Node(review).Waiting().Signal(reject, Remark{})
					require.ErrorIs(t, run.MustFail(), ErrRejected)
				}
				checkBooks(t, shop, openShop())
				require.Len(t, shop.ledger.Entries(), 1)
			})
		})
	}
}

// Steps that come after the order was closed, from a worker that was thought lost, have no effect.
func TestLateSteps(t *testing.T) {
	t.Parallel()
	shop, o := openShop(), ordered("pot", 1)
	_, err := shop.Close(t.Context(), Ending{Order: o})
	require.NoError(t, err)
	_, err = shop.Reserve(t.Context(), ReserveInput{Order: o.ID, Number: 1, Line: o.Lines[0]})
	require.ErrorIs(t, err, ErrClosed)
	_, err = shop.Charge(t.Context(), ChargeInput{Order: o, Reserved: []Reserved{{Line: o.Lines[0], Amount: 1}}})
	require.ErrorIs(t, err, ErrClosed)
	_, err = shop.Ship(t.Context(), Charged{Order: o})
	require.ErrorIs(t, err, ErrClosed)
	checkBooks(t, shop, openShop())
}

// A confirmation that cannot be sent fails the run, but the parcel is on its way and stays paid.
func TestConfirmationFails(t *testing.T) {
	t.Parallel()
	flowtest.Run(t, func(t *flowtest.T) {
		shop := openShop()
		serve(t, shop)
		t.Inject(confirm, flowtest.EveryAttempt(), flowtest.Error(errors.New("no mail")))
		run := flowtest.Start(t, orderFlow(t), ordered("pot", 1))
		require.Equal(t, "confirm", run.MustFail().Node)
		run.Node("confirm").Attempts(5)
		run.Node("undo").Skipped()
		require.Equal(t, []Entry{{Order: "1", Customer: "Ada", Outcome: shipped, Charged: 61_50}}, shop.ledger.Entries())
	})
}

// An interrupted program cancels its orders and waits until they are closed.
func TestInterrupted(t *testing.T) {
	t.Parallel()
	flowtest.Run(t, func(t *flowtest.T) {
		shop, def, p := openShop(), orderFlow(t), placement{order: ordered("machine", 1)}
		serve(t, shop)
		t.Serve(def)
		ctx, interrupt := context.WithCancel(context.Background())
		run, err := place(ctx, t.Client(), def, "orders", p.order)
		require.NoError(t, err)
		t.Attach(flowName, run.ID()).Node(review).Waiting()
		interrupt()
		why, err := carry(ctx, run, p)
		require.NoError(t, err)
		require.Equal(t, "the program was interrupted", why)
		checkBooks(t, shop, openShop())
		require.Len(t, shop.ledger.Entries(), 1)
	})
}
