package main

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/flow"
)

// Shop has the dependencies of the activities' functions. They may be called more than once for an order, since a
// worker can be lost after it has done its work, so everything that they call tolerates that.
type Shop struct {
	warehouse *Warehouse
	bank      *Bank
	ledger    *Ledger

	mu            sync.Mutex
	confirmations map[string]string // texts by order
}

// NewShop returns a shop with a warehouse and a bank.
func NewShop(w *Warehouse, b *Bank) *Shop {
	return &Shop{warehouse: w, bank: b, ledger: &Ledger{}, confirmations: make(map[string]string)}
}

// Handlers returns the handlers that a worker registers for the flow: its activities, with the methods of the shop as
// their functions, and its conditions.
func (s *Shop) Handlers(def *flow.Definition[Order, Shipment]) []activity.Handler {
	handlers := []activity.Handler{
		activity.Implement(plan, s.Plan), activity.Implement(reserve, s.Reserve), activity.Implement(charge, s.Charge),
		activity.Implement(decide, s.Decide), activity.Implement(ship, s.Ship),
		activity.Implement(confirm, s.Confirm), activity.Implement(undo, s.Undo), activity.Implement(closing, s.Close),
	}
	for _, h := range def.Handlers() {
		if !slices.ContainsFunc(handlers, func(own activity.Handler) bool { return own.Name() == h.Name() }) {
			handlers = append(handlers, h)
		}
	}
	return handlers
}

// Plan checks the order and returns its lines.
func (s *Shop) Plan(_ context.Context, o Order) ([]ReserveInput, error) {
	if o.ID == "" || len(o.Lines) == 0 {
		return nil, refused(fmt.Errorf("order %q with %d lines: must have an id and lines: %w", o.ID, len(o.Lines),
			ErrInvalidOrder))
	}
	var lines []ReserveInput
	for i, line := range o.Lines {
		if line.Quantity < 1 {
			return nil, refused(fmt.Errorf("order %q: line %d: quantity %d: must be at least 1: %w", o.ID, i+1,
				line.Quantity, ErrInvalidOrder))
		}
		lines = append(lines, ReserveInput{Order: o.ID, Number: i + 1, Line: line})
	}
	return lines, nil
}

// Reserve holds the items of one line.
func (s *Shop) Reserve(_ context.Context, in ReserveInput) (Reserved, error) {
	amount, err := s.warehouse.Reserve(in.Order, in.Number, in.Line)
	return Reserved{Line: in.Line, Amount: amount}, err
}

// Charge takes the price of all lines from the customer's card.
func (s *Shop) Charge(_ context.Context, in ChargeInput) (Charged, error) {
	var amount Cents
	for _, r := range in.Reserved {
		amount += r.Amount
	}
	err := s.bank.Charge(in.Order.ID, in.Order.Card, amount)
	return Charged{Order: in.Order, Amount: amount}, err
}

// Decide fails if the review has rejected the order.
func (s *Shop) Decide(_ context.Context, in DecideInput) (Charged, error) {
	for _, answer := range in.Answers {
		if answer.Name == reject {
			return Charged{}, refused(fmt.Errorf("%w: %s: %s", ErrRejected, answer.Source, answer.Payload.Comment))
		}
	}
	return in.Charged, nil
}

// Ship sends the parcel.
func (s *Shop) Ship(_ context.Context, in Charged) (Shipment, error) {
	parcel, err := s.warehouse.Ship(in.Order.ID, in.Order.Address)
	return Shipment{Order: in.Order, Amount: in.Amount, Parcel: parcel}, err
}

// Confirm sends the confirmation to the customer, once.
func (s *Shop) Confirm(_ context.Context, in Shipment) (Shipment, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.confirmations[in.Order.ID] = fmt.Sprintf("Dear %s, %s is on its way to %s.", in.Order.Customer, in.Parcel,
		in.Order.Address)
	return in, nil
}

// Confirmed returns the confirmation of an order, empty if there is none.
func (s *Shop) Confirmed(order string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.confirmations[order]
}

// Undo puts back the items and the money of an order, unless it was shipped.
func (s *Shop) Undo(_ context.Context, in Ending) (Undone, error) {
	if s.warehouse.Release(in.Order.ID) {
		return Undone{Shipped: true}, nil
	}
	return Undone{Refunded: s.bank.Refund(in.Order.ID)}, nil
}

// Close writes the entry of the ledger. It undoes the remaining steps: after a cancel no other node has.
func (s *Shop) Close(ctx context.Context, in Ending) (Entry, error) {
	undone, err := s.Undo(ctx, in)
	if err != nil {
		return Entry{}, err
	}
	e := Entry{
		Order: in.Order.ID, Customer: in.Order.Customer, Outcome: cancelled, Charged: s.bank.Charged(in.Order.ID),
		Refunded: undone.Refunded,
	}
	switch {
	case undone.Shipped:
		e.Outcome = shipped
	case in.Failure.Outcome == fabrictype.OutcomeFailed, in.Failure.Outcome == fabrictype.OutcomeExpired:
		e.Outcome, e.Node = failed, in.Failure.Node
	}
	return s.ledger.Write(e), nil
}
