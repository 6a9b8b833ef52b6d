// Package tasktest tests tasks that a program holds itself, grants of executions, and the order in which lanes serve tenants.
package tasktest
