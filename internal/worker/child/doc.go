// Package child runs the nodes that have a child run instead of a function: maps and sub-flows, the iterations of
// loops, and the plans of expansions. [Node] starts the child run, or takes its result once it has finished. A node
// suspends its execution between the two, by an error of package completion.
package child
