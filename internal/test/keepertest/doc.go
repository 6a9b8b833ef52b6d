// Package keepertest tests the keeper tasks for records that other programs of the contract create:
// executions and flows outside managed flows, quotas and budgets.
package keepertest
