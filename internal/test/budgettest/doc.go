// Package budgettest holds the tests of budgets: against a model, and of everything that a crash may leave half done.
package budgettest
