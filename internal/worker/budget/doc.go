// Package budget counts what activities use of budgets. [Use] is the use of budgets by one attempt; [Batcher] joins the
// entries that the attempts of a worker make in one budget into one call.
package budget
