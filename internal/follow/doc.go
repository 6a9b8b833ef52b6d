// Package follow yields events as they happen: the events of a run, the frames and the lines of the log of a node, and
// the events of all runs.
package follow
