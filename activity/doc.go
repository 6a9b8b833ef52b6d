// Package activity declares what the nodes of a flow run, and is what the functions themselves see.
//
// An activity is an ordinary function with a name:
//
//	func Scan(ctx context.Context, in Source) (Listing, error) { … }
//
//	var scan = activity.New("census.scan", Scan, activity.StartToClose(time.Minute))
//
// A flow wires activities together by package flow, a worker runs them. The function may be called directly, by a unit
// test for example: it needs no worker.
//
// # Names
//
// Names of activities, nodes, flows, steps, signals and dimensions have 1 to 128 characters out of A-Z, a-z, 0-9, '.', '_' and '-'.
//
// # Delivery
//
// An activity runs at least once for each node: a worker may be lost after the work is done and before that is
// recorded. One attempt's result is recorded at most once, and never changes afterwards. Within the function the context
// ends with the attempt's timeout, the run's deadline, a cancel, or the loss of the lease; context.Cause tells which.
//
// # Failure
//
// An error is retried by the activity's policy: by default 5 attempts, 1 s before the second, then twice as long each
// time, up to 1 min. NonRetryable ends the attempts at once, RetryAfter chooses the delay, Category names the failure
// for the record.
//
// # Inside a function
//
// Info tells which attempt this is, Heartbeat and Progress tell the worker that it moves, LeaseHealthy tells whether the
// worker may still speak for the execution. All four also work, and do nothing, where there is no worker.
//
// Await waits for a signal from outside without holding the worker, Step makes a step durable, Emit shows output as it
// comes, ReportUsage and Reserve count what is spent of the run's budgets. A unit test gives a
// function that uses them a context of package activitytest.
package activity
