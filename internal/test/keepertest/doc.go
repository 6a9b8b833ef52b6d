// Package keepertest tests the maintenance tasks of keepers for records that other programs of the contract create:
// executions and flows outside managed flows, quotas and budgets.
package keepertest
