// Package follow yields what happens as it happens: the events of a run, the frames and the lines of the log of a node,
// and the events of all runs.
package follow
