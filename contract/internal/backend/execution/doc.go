// Package execution takes the steps of executions: claims, the reports that end a lease, the propagation of ends to
// downstreams, waits, and the service of waitpoint nodes.
//
// These steps lead to each other: the end of an execution can make a waitpoint node eligible, which is claimed and may
// end at once, so that its end is propagated in turn.
package execution
