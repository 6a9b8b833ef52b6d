// Package graphtest tests how the nodes of a run depend on each other: joins, conditions, compensation, cleanup, retries and the errors that a run reports.
package graphtest
