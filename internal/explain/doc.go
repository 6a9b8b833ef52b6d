// Package explain says why a node of a run does not run, and whether keepers are late with it, from the record that the
// engine describes the node by, its graph, and how limits, pauses and budgets stand.
package explain
