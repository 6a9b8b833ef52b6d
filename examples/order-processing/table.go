package main

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"text/tabwriter"
)

// report is the outcome of an order.
type report struct {
	order Order
	why   string // it was not shipped
}

// printReports writes a line for each order.
func printReports(out io.Writer, shop *Shop, reports []report) error {
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "order\tcustomer\tcharged\trefunded\toutcome")
	for _, r := range reports {
		e, ok := shop.ledger.Entry(r.order.ID)
		if !ok {
			e.Outcome = "open"
		}
		outcome := e.Outcome
		if r.why != "" {
			outcome += ": " + r.why
		}
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\n", r.order.ID, r.order.Customer, e.Charged, e.Refunded, outcome)
	}
	return table.Flush()
}

// printBooks writes the stock and the balances.
func printBooks(out io.Writer, shop *Shop) error {
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "\nitem\ton the shelf\treserved\tshipped")
	for _, s := range shop.warehouse.Stocks() {
		fmt.Fprintf(table, "%s\t%d\t%d\t%d\n", s.Item, s.Shelf, s.Held, s.Sent)
	}
	accounts, income := shop.bank.Balances()
	fmt.Fprintln(table, "\naccount\tbalance")
	for _, card := range slices.Sorted(maps.Keys(accounts)) {
		fmt.Fprintf(table, "%s\t%s\n", card, accounts[card])
	}
	fmt.Fprintf(table, "shop\t%s\n", income)
	return table.Flush()
}
