// Package history keeps the samples that a server has taken of its engine during the last hour: waiting and running
// executions of each lane, usage of budgets, and lags of keepers. The samples are in memory, so each server has only
// the samples since its own start.
package history
