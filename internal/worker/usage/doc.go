// Package usage counts the reports of a worker to budgets in sums: one number for all reports of one
// dimension that share a call. On one server the calls are those with the completions of the worker, in a cluster they
// are calls of their own.
package usage
