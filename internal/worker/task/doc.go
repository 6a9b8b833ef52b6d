// Package task runs the function of a leased execution: it composes the input, reads the journal, sets the time limits,
// invokes the function or the child run of the node, and serves what functions call through package activity.
//
// [Task] is one leased execution. It embeds an attempt and has the parts that work on it. [Services] is what the tasks
// of a worker run have in common. They do not know the run.
package task
