// Package budget counts the usage of budgets by activities. [Use] is the usage of one attempt; [Batcher] joins the
// entries that the attempts of a worker make in one budget into one call.
package budget
