// Package runs reads runs from the records of their flows and nodes: states, results, events, lists. It cancels runs.
package runs
