// Package dutytest tests duties of keepers that look after what other programs of the contract create: executions and flows
// outside managed flows, quotas and budgets.
package dutytest
