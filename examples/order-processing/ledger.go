package main

import (
	"slices"
	"sync"
)

// Outcomes of orders, in the ledger.
const (
	shipped   = "shipped"
	failed    = "failed"
	cancelled = "cancelled"
)

// Entry is the line of the ledger for an order.
type Entry struct {
	Order    string `json:"order"`
	Customer string `json:"customer"`
	Outcome  string `json:"outcome"`
	// Node is the step that failed, if one has.
	Node     string `json:"node,omitempty"`
	Charged  Cents  `json:"charged"`
	Refunded Cents  `json:"refunded"`
}

// Ledger has one entry for each order that has ended. Its methods may be called by several goroutines.
type Ledger struct {
	mu      sync.Mutex
	entries []Entry
}

// Write adds an entry, unless the order has one, and returns the entry of the order.
func (l *Ledger) Write(e Entry) Entry {
	l.mu.Lock()
	defer l.mu.Unlock()
	if i := l.find(e.Order); i >= 0 {
		return l.entries[i]
	}
	l.entries = append(l.entries, e)
	return e
}

// Entry returns the entry of an order.
func (l *Ledger) Entry(order string) (Entry, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if i := l.find(order); i >= 0 {
		return l.entries[i], true
	}
	return Entry{}, false
}

// Entries returns all entries, the oldest first.
func (l *Ledger) Entries() []Entry {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.entries)
}

func (l *Ledger) find(order string) int {
	return slices.IndexFunc(l.entries, func(e Entry) bool { return e.Order == order })
}
