// Package explain says in words why a node of a run does not run, and whether keepers are late with it, from the record
// that the engine describes the node by.
package explain
