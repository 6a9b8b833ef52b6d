// Package flowtest tests flows by the real engine in milliseconds.
//
// Run gives a test an engine in memory with a keeper, a worker and a client, all of them unmodified, in a bubble of
// package testing/synctest. Their clock is virtual: it does not advance while any goroutine runs, and jumps to the next
// moment at which something is due when all are blocked. So a retry after an hour and a wait of a day take no time, and
// durations are exact:
//
//	func TestRefund(t *testing.T) {
//		flowtest.Run(t, func(t *flowtest.T) {
//			flowtest.Fake(t, charge, func(context.Context, Order) (Receipt, error) { return Receipt{ID: 1}, nil })
//			run := flowtest.Start(t, refund, Order{ID: 7})
//			run.Node("approve").Waiting().Signal("approve", "ann")
//			run.MustResult()
//			run.Node("charge").Succeeded().Attempts(1)
//			run.Node("undo").Skipped()
//			run.Order("charge", "mail")
//		})
//	}
//
// # Functions
//
// The worker runs the functions of the activities, except those that the test replaces: Fake by a function of the same
// type, T.FakeName by name. A function that does real input or output must be replaced or reach something inside the
// test: while it waits for a network, the virtual clock does not advance.
//
// # Assertions
//
// An assertion waits for its condition: TestRun.MustSucceed and TypedRun.MustResult for the end of the run,
// TestNode.Succeeded for the end of the node, TestNode.Waiting for the wait. Idle time is skipped. A failure ends the
// test and shows the run as a table.
//
// # Beyond single runs
//
// Storm lets workers die and replies be lost at random, and asserts that each effect happens once. Engines runs a test
// on servers as well. Golden and TestRun.Snapshot compare graphs and runs with files.
//
// Import it to test flows in unit tests.
package flowtest
