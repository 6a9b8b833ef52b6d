// Package attempt implements an attempt at a leased execution: it determines which goroutine reports the end, chooses
// the outcome, reports it, and writes its logs and metrics. It detects functions that do not return after their
// contexts have ended.
//
// [Attempt] is the part of a task that the other packages of the worker use: output, budget, journal, child and
// renewal work on it. [Shared] contains the components that all attempts of a worker run use.
package attempt
