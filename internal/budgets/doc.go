// Package budgets changes the settings of budgets and reads their states: of one budget, of all budgets of a namespace,
// and of the budgets of a run. Clients use it.
package budgets
