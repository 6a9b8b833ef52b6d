// Package task runs the function of a leased execution: it composes the input, reads the journal, sets the time
// limits, invokes the function or the child run of the node, and serves the calls that functions make through package
// activity.
//
// [Task] is one leased execution. It embeds an attempt and has the parts that work on it. [Services] contains the
// components that all tasks of a worker run use. They do not depend on the run.
package task
