package main

import (
	"errors"
	"maps"
	"sync"
)

// Cards whose use fails, each in its way.
const (
	// declinedCard is never charged.
	declinedCard = "4000-0002"
	// silentCard is charged, but the first answer of the bank for each order is lost.
	silentCard = "4000-0003"
)

// errNoAnswer leaves open whether the card was charged.
var errNoAnswer = errors.New("the bank does not answer")

// Bank keeps accounts in memory. A repeated call for an order changes nothing more, and an order that was refunded can
// no longer be charged. Its methods may be called by several goroutines.
type Bank struct {
	mu       sync.Mutex
	accounts map[string]Cents // by card
	income   Cents            // of the shop
	charges  map[string]payment
	refunded map[string]Cents // by order; 0 for an order that was never charged
}

// payment is the charge for an order.
type payment struct {
	card   string
	amount Cents
}

// NewBank returns a bank with balances by card.
func NewBank(accounts map[string]Cents) *Bank {
	return &Bank{
		accounts: maps.Clone(accounts), charges: make(map[string]payment), refunded: make(map[string]Cents),
	}
}

// Charge takes the amount of an order from a card.
func (b *Bank) Charge(order, card string, amount Cents) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if _, done := b.refunded[order]; done {
		return refused(ErrClosed)
	}
	if _, done := b.charges[order]; done {
		return nil
	}
	if card == declinedCard || b.accounts[card] < amount {
		return refused(ErrDeclined)
	}
	b.accounts[card] -= amount
	b.income += amount
	b.charges[order] = payment{card, amount}
	if card == silentCard {
		return errNoAnswer
	}
	return nil
}

// Refund closes the order, pays its charge back, and returns that amount.
func (b *Bank) Refund(order string) Cents {
	b.mu.Lock()
	defer b.mu.Unlock()
	if amount, done := b.refunded[order]; done {
		return amount
	}
	p := b.charges[order]
	b.refunded[order] = p.amount
	if p.amount > 0 {
		b.accounts[p.card] += p.amount
		b.income -= p.amount
	}
	return p.amount
}

// Charged returns the charge of an order, refunded or not.
func (b *Bank) Charged(order string) Cents {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.charges[order].amount
}

// Balances returns the balances of all cards, and the income of the shop.
func (b *Bank) Balances() (accounts map[string]Cents, income Cents) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return maps.Clone(b.accounts), b.income
}
