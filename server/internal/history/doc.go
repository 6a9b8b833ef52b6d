// Package history keeps what a server has sampled of its engine during the last hour: how much waits and runs in each
// lane, what is spent of budgets, and how far keepers are behind. The samples are in memory, so each server has those
// since it began.
package history
