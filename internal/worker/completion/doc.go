// Package completion reports to the engine how leased executions end.
//
//   - [Outcome] describes how an attempt has ended; [Marked] returns the outcome that an error of a function requests.
//   - [Completer] sends the report of an outcome, and repeats it while the engine is unavailable and the lease lasts.
//   - [Batcher] joins several results into one call.
//   - [Report] is the result of a report. Its [Handoff] has the executions that the engine leases or offers in
//     exchange.
//
// The package knows leases only. It neither logs nor measures: package attempt does.
package completion
