// Command order-processing carries out orders of a small shop: it reserves stock for each line of an order, charges a
// card, asks for a review of large orders, ships, and sends a confirmation. When a step fails, one node undoes what the
// others have done; when the run is cancelled, the last node does.
//
// flow.go declares the steps and shop.go implements them, on the warehouse, the bank and the ledger of the other files.
// Faults are chosen by the order: a card that is declined, an item that is out of stock, an address that no carrier
// knows. counter.go places the orders of orders.go, and table.go prints what has become of them.
package main
