package main

import (
	"fmt"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/flow"
)

// Cents is an amount of money.
type Cents int64

// String returns the amount with two decimals.
func (c Cents) String() string {
	if c < 0 {
		return "-" + (-c).String()
	}
	return fmt.Sprintf("%d.%02d", c/100, c%100)
}

// Order is the input of the flow. The warehouse and the bank know an order by its ID.
type Order struct {
	ID       string `json:"id"`
	Customer string `json:"customer"`
	Card     string `json:"card"`
	Address  string `json:"address"`
	Lines    []Line `json:"lines"`
}

// Line is an item of an order.
type Line struct {
	Item     string `json:"item"`
	Quantity int    `json:"quantity"`
}

// ReserveInput is one line of an order; Number counts from 1.
type ReserveInput struct {
	Order  string `json:"order"`
	Number int    `json:"number"`
	Line   Line   `json:"line"`
}

// Reserved is a line whose items are held for the order, with its price.
type Reserved struct {
	Line   Line  `json:"line"`
	Amount Cents `json:"amount"`
}

// ChargeInput is an order with all of its items held.
type ChargeInput struct {
	Order    Order      `json:"order"`
	Reserved []Reserved `json:"reserved"`
}

// Charged is an order that is paid.
type Charged struct {
	Order  Order `json:"order"`
	Amount Cents `json:"amount"`
}

// Remark comes with the answer to a review.
type Remark struct {
	Comment string `json:"comment"`
}

// DecideInput is a large order with the answer to its review.
type DecideInput struct {
	Charged Charged                   `json:"charged"`
	Answers []activity.Signal[Remark] `json:"answers"`
}

// Shipment is the result of the flow.
type Shipment struct {
	Order  Order  `json:"order"`
	Amount Cents  `json:"amount"`
	Parcel string `json:"parcel"`
}

// Ending is the input of the nodes that end an order: Failure is the failure of the step that failed first, if one has.
type Ending struct {
	Order   Order        `json:"order"`
	Failure flow.Failure `json:"failure"`
}

// Undone has the undone steps of an order.
type Undone struct {
	// Shipped reports that nothing was undone, because the parcel is on its way.
	Shipped  bool  `json:"shipped"`
	Refunded Cents `json:"refunded"`
}
