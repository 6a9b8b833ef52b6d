// Package needs finds the nodes of a graph that never run, since two of their edges need different cases of one
// condition.
package needs
