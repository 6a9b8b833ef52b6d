package main

import (
	"fmt"

	"github.com/flowfabric/flowfabric-go/activity"
)

// categoryRefused is the category of failures that another attempt would repeat.
const categoryRefused = "refused"

// Refusals without details. The program that waits for a run finds them in its error.
var (
	// ErrDeclined means that the bank does not charge the card.
	ErrDeclined = activity.SentinelError("shop.card_declined", "the card is declined")
	// ErrRejected means that the review ended with a no.
	ErrRejected = activity.SentinelError("shop.rejected", "the review has rejected the order")
	// ErrUndeliverable means that no carrier knows the address.
	ErrUndeliverable = activity.SentinelError("shop.undeliverable", "no carrier delivers to the address")
	// ErrClosed means that the order was undone before: it comes from an attempt that was thought lost.
	ErrClosed = activity.SentinelError("shop.order_closed", "the order is closed")
	// ErrInvalidOrder means that an order is invalid.
	ErrInvalidOrder = activity.SentinelError("shop.invalid_order", "the order is invalid")
)

// OutOfStock means that the warehouse has too few of an item.
type OutOfStock struct {
	Item   string `json:"item"`
	Wanted int    `json:"wanted"`
	Left   int    `json:"left"`
}

// ErrorName names the type in stored failures.
func (*OutOfStock) ErrorName() string { return "shop.out_of_stock" }

// Error implements error.
func (e *OutOfStock) Error() string {
	return fmt.Sprintf("%s is out of stock: %d wanted, %d left", e.Item, e.Wanted, e.Left)
}

// refused marks an error as final.
func refused(err error) error { return activity.Category(err, categoryRefused) }
