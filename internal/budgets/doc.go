// Package budgets reads the states of the budgets of flows and runs.
package budgets
