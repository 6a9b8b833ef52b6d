package main

import (
	"maps"
	"slices"
	"sync"
)

// nowhere is an address that no carrier knows.
const nowhere = "Atlantis"

// Warehouse keeps stock in memory. Each call changes everything or nothing, and a repeated call changes nothing more:
// an attempt whose worker was lost is made again. A closed order gets no stock, so an attempt that comes late cannot
// undo the effect of Release. Its methods may be called by several goroutines.
type Warehouse struct {
	mu     sync.Mutex
	prices map[string]Cents
	shelf  map[string]int          // stock that is not reserved, by item
	held   map[string]map[int]Line // by order and number of the line
	sent   map[string]map[int]Line // the content of parcels, by order
	closed map[string]bool         // orders that were released
}

// NewWarehouse returns a warehouse with prices and stock by item.
func NewWarehouse(prices map[string]Cents, stock map[string]int) *Warehouse {
	return &Warehouse{
		prices: maps.Clone(prices), shelf: maps.Clone(stock), held: make(map[string]map[int]Line),
		sent: make(map[string]map[int]Line), closed: make(map[string]bool),
	}
}

// Reserve holds the items of a line and returns their price.
func (w *Warehouse) Reserve(order string, number int, line Line) (Cents, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	amount := w.prices[line.Item] * Cents(line.Quantity)
	if _, done := w.sent[order][number]; done {
		return amount, nil
	}
	if _, done := w.held[order][number]; done {
		return amount, nil
	}
	switch left := w.shelf[line.Item]; {
	case w.closed[order]:
		return 0, refused(ErrClosed)
	case left < line.Quantity:
		return 0, refused(&OutOfStock{Item: line.Item, Wanted: line.Quantity, Left: left})
	}
	w.shelf[line.Item] -= line.Quantity
	if w.held[order] == nil {
		w.held[order] = make(map[int]Line)
	}
	w.held[order][number] = line
	return amount, nil
}

// Ship sends all that is held for the order and returns the number of the parcel.
func (w *Warehouse) Ship(order, address string) (parcel string, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	parcel = "parcel-" + order
	switch _, done := w.sent[order]; {
	case done:
		return parcel, nil
	case w.closed[order]:
		return "", refused(ErrClosed)
	case address == nowhere:
		return "", refused(ErrUndeliverable)
	}
	w.sent[order] = w.held[order]
	delete(w.held, order)
	return parcel, nil
}

// Release closes the order and puts back all that is held for it. An order that was shipped stays so, which Release
// reports: either Ship or Release has an effect, whichever comes first.
func (w *Warehouse) Release(order string) (shipped bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if _, shipped = w.sent[order]; shipped {
		return true
	}
	for _, line := range w.held[order] {
		w.shelf[line.Item] += line.Quantity
	}
	delete(w.held, order)
	w.closed[order] = true
	return false
}

// Stock is how many of an item are where.
type Stock struct {
	Item              string
	Shelf, Held, Sent int
}

// Stocks returns the stock of all items, in the order of their names.
func (w *Warehouse) Stocks() []Stock {
	w.mu.Lock()
	defer w.mu.Unlock()
	var stocks []Stock
	for _, item := range slices.Sorted(maps.Keys(w.shelf)) {
		stocks = append(stocks, Stock{
			Item: item, Shelf: w.shelf[item], Held: countItem(w.held, item), Sent: countItem(w.sent, item),
		})
	}
	return stocks
}

func countItem(orders map[string]map[int]Line, item string) int {
	n := 0
	for _, lines := range orders {
		for _, line := range lines {
			if line.Item == item {
				n += line.Quantity
			}
		}
	}
	return n
}
