// Package explain finds the reason why a node of a run does not run, and whether keepers are late with it, from the
// engine's record of the node, its graph, and the states of limits, pauses and budgets.
package explain
