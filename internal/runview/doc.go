// Package runview reads the state of a run: the run and its nodes with their values, attempts and child runs, and the
// reasons for which nodes wait; one node, its live values, the turns of a loop, the items of a map; and the difference
// to another run.
package runview
