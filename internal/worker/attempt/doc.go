// Package attempt has the attempt at a leased execution: it settles who reports the end, chooses the outcome, reports
// it, and writes logs and metrics of it. It detects functions that do not return after their contexts have ended.
//
// [Attempt] is the part of a task that the other rooms of the worker know: output, budget, journal, child and renewal
// work on it. [Shared] is what the attempts of a worker run have in common.
package attempt
