// Command order-processing processes orders of a small shop: it reserves stock for each line of an order, charges a
// card, requests a review of large orders, ships, and sends a confirmation. When a step fails, one node undoes the
// steps before it; when the run is cancelled, the last node does.
//
// flow.go declares the steps and shop.go implements them, on the warehouse, the bank and the ledger of the other files.
// The order chooses its faults: a card that is declined, an item that is out of stock, an address that no carrier
// knows. counter.go places the orders of orders.go, and table.go prints their outcomes.
package main
