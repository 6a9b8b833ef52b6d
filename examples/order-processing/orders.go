package main

// goodCard is charged without a fault.
const goodCard = "4000-0001"

// reaction is the program's reaction to an order that waits for its review.
type reaction string

const (
	approves reaction = "approve"
	rejects  reaction = "reject"
	cancels  reaction = "cancel"
)

// placement is an order of the program, with the reaction to its review.
type placement struct {
	order Order
	// then is the reaction to the review; empty for an order without a review.
	then reaction
}

// openShop returns the shop of the program.
func openShop() *Shop {
	return NewShop(
		NewWarehouse(
			map[string]Cents{"bowl": 9_50, "cup": 12_50, "pot": 49_00, "machine": 899_00},
			map[string]int{"bowl": 2, "cup": 40, "pot": 3, "machine": 5}),
		NewBank(map[string]Cents{goodCard: 10_000_00, declinedCard: 10_000_00, silentCard: 1_000_00}))
}

// placements returns the orders of the program.
func placements() []placement {
	return []placement{
		{order: Order{
			ID: "1001", Customer: "Ada", Card: goodCard, Address: "London",
			Lines: []Line{{"cup", 4}, {"pot", 1}},
		}},
		{order: Order{ID: "1002", Customer: "Bob", Card: declinedCard, Address: "Paris", Lines: []Line{{"cup", 2}}}},
		{order: Order{
			ID: "1003", Customer: "Cleo", Card: goodCard, Address: "Cairo", Lines: []Line{{"machine", 1}, {"cup", 6}},
		}, then: approves},
		{order: Order{
			ID: "1004", Customer: "Dan", Card: goodCard, Address: "Oslo", Lines: []Line{{"machine", 2}},
		}, then: cancels},
		{order: Order{
			ID: "1005", Customer: "Eve", Card: goodCard, Address: "Rome", Lines: []Line{{"cup", 1}, {"bowl", 30}},
		}},
		{order: Order{
			ID: "1006", Customer: "Finn", Card: goodCard, Address: "Cork", Lines: []Line{{"machine", 1}},
		}, then: rejects},
		{order: Order{ID: "1007", Customer: "Gus", Card: goodCard, Address: nowhere, Lines: []Line{{"cup", 3}}}},
		{order: Order{ID: "1008", Customer: "Ada", Card: silentCard, Address: "London", Lines: []Line{{"pot", 1}}}},
	}
}
